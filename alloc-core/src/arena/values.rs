//! Typed blocks.
//!
//! Values with a destructor: a header in front of each, linked newest first.
//!
//! ```text
//!   0          8      16                      the newest header is the arena's
//!   | previous | drop | .. | value |          types without a destructor get none
//! ```

#![expect(
    clippy::mut_from_ref,
    reason = "every call makes a new block, which nobody else can reach"
)]

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::{self, offset_of};
use core::ptr::{self, NonNull};
use core::{fmt, slice, str};

use allocator_api2::alloc::{AllocError, Allocator};

use super::{Arena, plan};
use crate::adapters::HostSource;
use crate::collections::TryString;
use crate::error::HostError;
use crate::rejected::Rejected;

/// Refuses types with a destructor when the caller is compiled.
struct NoDestructor<T>(T);

impl<T> NoDestructor<T> {
    const CHECK: () = assert!(
        !mem::needs_drop::<T>(),
        "only try_own and try_own_with keep values with a destructor"
    );
}

impl<A: HostSource> Arena<A> {
    /// Moves `value` into the arena. `T` has no destructor.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout), with the value.
    #[inline]
    pub fn try_alloc<T>(&self, value: T) -> Result<&mut T, Rejected<T, HostError>> {
        const { NoDestructor::<T>::CHECK };
        match self.try_alloc_layout(Layout::new::<T>()) {
            Ok(block) => {
                let mut block = block.cast::<T>();
                // SAFETY: a new block of this size and alignment.
                unsafe { block.write(value) };
                // SAFETY: just written; new, so nobody else refers to it; it stays until `&mut` or the end of the arena.
                Ok(unsafe { block.as_mut() })
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`try_alloc`](Arena::try_alloc), with the value that `make` gives once there is room. It may allocate too. If it unwinds, the room is
    /// free again, unless it has allocated in this arena.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout); `make` is not called then.
    #[inline]
    pub fn try_alloc_with<T>(&self, make: impl FnOnce() -> T) -> Result<&mut T, HostError> {
        self.try_alloc_try_with(|| Ok(make()))
    }

    /// As [`try_alloc_with`](Arena::try_alloc_with), with a `make` that may fail. Then, too, the room is free again, unless `make` has allocated
    /// in this arena.
    ///
    /// ```
    /// use alloc_core::{Arena, FromGlobalAlloc, HostError, Scope, Scoped};
    /// let arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
    /// let refused = arena.try_alloc_try_with(|| Err::<[u8; 100], _>(HostError::TooLarge));
    /// assert_eq!((refused, arena.bytes_used()), (Err(HostError::TooLarge), 0));
    /// ```
    ///
    /// # Errors
    /// That of `make`. As [`try_alloc_layout`](Arena::try_alloc_layout); `make` is not called then.
    #[inline]
    pub fn try_alloc_try_with<T, E: From<HostError>>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&mut T, E> {
        const { NoDestructor::<T>::CHECK };
        let place = self.place(Layout::new::<T>())?;
        let value = make()?;
        let mut block = place.keep().cast::<T>();
        // SAFETY: a new block of this size and alignment.
        unsafe { block.write(value) };
        // SAFETY: just written; new, so nobody else refers to it; it stays until `&mut` or the end of the arena.
        Ok(unsafe { block.as_mut() })
    }

    /// A copy of a slice.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout).
    pub fn try_alloc_slice_copy<T: Copy>(&self, source: &[T]) -> Result<&mut [T], HostError> {
        let first = self
            .try_alloc_layout(Layout::for_value(source))?
            .cast::<T>();
        // SAFETY: a new block, hence apart from the source, with room for as many elements.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), first.as_ptr(), source.len()) };
        // SAFETY: all elements were written; the block is new, and stays until `&mut` or the end of the arena.
        Ok(unsafe { slice::from_raw_parts_mut(first.as_ptr(), source.len()) })
    }

    /// A slice of `len` elements; `make` gives the one at each index. `T` has no destructor.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when `len` elements exceed `isize::MAX` bytes; as [`try_alloc_layout`](Arena::try_alloc_layout).
    /// `make` is not called then. If it unwinds, the room is free again as with [`try_alloc_with`](Arena::try_alloc_with).
    pub fn try_alloc_slice_fill_with<T>(
        &self,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], HostError> {
        const { NoDestructor::<T>::CHECK };
        let layout = Layout::array::<T>(len).map_err(|_| HostError::TooLarge)?;
        let place = self.place(layout)?;
        let first = place.block.cast::<T>();
        for index in 0..len {
            // SAFETY: within the new block's `len` elements.
            let slot = unsafe { first.add(index) };
            // SAFETY: one of the new block's elements, where no value was yet.
            unsafe { slot.write(make(index)) };
        }
        let _kept = place.keep();
        // SAFETY: all elements were written; the block is new, and stays until `&mut` or the end of the arena.
        Ok(unsafe { slice::from_raw_parts_mut(first.as_ptr(), len) })
    }

    /// A copy of a text.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout).
    pub fn try_alloc_str(&self, text: &str) -> Result<&mut str, HostError> {
        let bytes = self.try_alloc_slice_copy(text.as_bytes())?;
        // SAFETY: a copy of valid UTF-8.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }

    /// Formatted text: `arena.try_alloc_fmt(format_args!("{x}"))`.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout).
    pub fn try_alloc_fmt(&self, args: fmt::Arguments<'_>) -> Result<&mut str, HostError> {
        let mut text = TryString::new_in(self);
        text.try_write_fmt(args)?;
        text.try_shrink_to_fit()?;
        // Not dropped: the bytes stay the arena's.
        let (first, len, ..) = text.into_bytes().into_raw_parts_with_allocator();
        // SAFETY: the text's bytes, which live as long as the borrow of the arena and belong to nobody else now.
        let bytes = unsafe { slice::from_raw_parts_mut(first.as_ptr(), len) };
        // SAFETY: bytes of a text.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }
}

/// In front of a value.
pub(super) struct Header {
    /// The next older one, or null.
    previous: *mut Header,
    /// Drops the value behind this header.
    ///
    /// # Safety
    /// To be called once, with the header it was read from, while the value is in place and nobody uses it.
    drop: unsafe fn(*mut Header),
}

const _: () = assert!(size_of::<Header>() == 2 * size_of::<usize>());

/// A header and its value, as they lie in the arena.
#[repr(C)]
struct Dropped<T> {
    header: Header,
    value: T,
}

impl<T> Dropped<T> {
    /// What a value takes.
    const LAYOUT: Layout = if mem::needs_drop::<T>() {
        Layout::new::<Self>()
    } else {
        Layout::new::<T>()
    };

    /// # Safety
    /// As [`Header::drop`], for a header in front of a `T`.
    unsafe fn drop(header: *mut Header) {
        let this = header.cast::<Self>();
        // SAFETY: the header of a live `Dropped<T>`.
        let value = unsafe { &raw mut (*this).value };
        // SAFETY: this function's contract.
        unsafe { ptr::drop_in_place(value) };
    }
}

impl<A: HostSource> Arena<A> {
    /// Moves `value` into the arena, which drops it when it ends or goes back to a place before it: of all that are dropped
    /// then, the newest first. A type without a destructor costs nothing more than with [`try_alloc`](Arena::try_alloc), others
    /// 16 bytes.
    ///
    /// A destructor that panics keeps none of the others from running, nor any chunk from going back; a second panic meanwhile
    /// aborts, as it does for a `Vec`. Destructors are called without any lock held. They cannot use their own arena: it is being
    /// changed then, and what a value may borrow is older than every arena.
    ///
    /// `'static`, because the arena's type does not say what lies in it, so nothing else could keep what the value borrows alive
    /// until the arena ends; `Send`, because the arena may end on another thread.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout), with the value.
    ///
    /// ```
    /// use alloc_core::{Arena, FromGlobalAlloc, Scope, Scoped, TryVec};
    /// # use std::alloc::System;
    /// static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
    /// let mut arena = Arena::new_in(Scoped::new(SYSTEM, Scope::Command));
    /// let list = arena.try_own(TryVec::<u32, _>::new_in(Scoped::new(SYSTEM, Scope::Object)))?;
    /// list.try_push(7)?;
    /// arena.reset(); // the list gave its memory back
    /// # Ok::<(), alloc_core::HostError>(())
    /// ```
    /// A value that uses its own arena does not compile:
    /// ```compile_fail,E0597
    /// # use alloc_core::{Arena, FromGlobalAlloc, Scope, Scoped, TryVec};
    /// # use std::alloc::System;
    /// # let arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
    /// arena.try_own(TryVec::<u32, _>::new_in(&arena)).unwrap();
    /// ```
    /// Nor does one that must stay on its thread:
    /// ```compile_fail,E0277
    /// # use alloc_core::{Arena, FromGlobalAlloc, Scope, Scoped};
    /// # use std::alloc::System;
    /// # let arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
    /// arena.try_own(std::rc::Rc::new(7)).unwrap();
    /// ```
    #[inline]
    pub fn try_own<T: Send + 'static>(&self, value: T) -> Result<&mut T, Rejected<T, HostError>> {
        match self.try_alloc_layout(Dropped::<T>::LAYOUT) {
            // SAFETY: a new block of this layout.
            Ok(block) => Ok(unsafe { self.put(block, value) }),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`try_own`](Arena::try_own), with the value that `make` gives once there is room. It may use the arena too: what it
    /// puts there is older, and dropped later, than the value. If it unwinds, the room is free again, unless it has used the arena.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](Arena::try_alloc_layout); `make` is not called then.
    #[inline]
    pub fn try_own_with<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T,
    ) -> Result<&mut T, HostError> {
        self.try_own_try_with(|| Ok(make()))
    }

    /// As [`try_own_with`](Arena::try_own_with), with a `make` that may fail. Then, too, the room is free again, unless `make` has used the arena.
    ///
    /// # Errors
    /// That of `make`. As [`try_alloc_layout`](Arena::try_alloc_layout); `make` is not called then.
    #[inline]
    pub fn try_own_try_with<T: Send + 'static, E: From<HostError>>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&mut T, E> {
        let place = self.place(Dropped::<T>::LAYOUT)?;
        let value = make()?;
        // SAFETY: a new block of this layout.
        Ok(unsafe { self.put(place.keep(), value) })
    }

    /// # Safety
    /// `block` is a new one of this arena, of `Dropped::<T>::LAYOUT`. `T` may be dropped whenever the arena ends: `Send`,
    /// `'static`.
    #[inline]
    unsafe fn put<T>(&self, block: NonNull<u8>, value: T) -> &mut T {
        let mut at = block.cast::<T>();
        if mem::needs_drop::<T>() {
            let whole = block.cast::<Dropped<T>>();
            let header = Header {
                previous: self.owned.get(),
                drop: Dropped::<T>::drop,
            };
            // SAFETY: this function's contract: the block has the layout of a `Dropped<T>`.
            unsafe { whole.write(Dropped { header, value }) };
            self.owned.set(whole.as_ptr().cast());
            // SAFETY: within the block.
            at = unsafe { whole.byte_add(offset_of!(Dropped<T>, value)) }.cast();
        } else {
            // SAFETY: this function's contract.
            unsafe { at.write(value) };
        }
        // SAFETY: just written; new, so nobody else refers to it; it stays until `&mut` or the end of the arena.
        unsafe { at.as_mut() }
    }
}

/// Drops the values whose headers came after `oldest`, newest first. Each is forgotten before its destructor runs, and one that
/// unwinds does not keep the others.
///
/// # Safety
/// `newest` is null or the newest header of an arena, and `oldest` one of those below it, or null. No value above it is in use.
#[inline]
pub(super) unsafe fn drop_down_to(oldest: *mut Header, newest: &Cell<*mut Header>) {
    if newest.get() != oldest {
        // What a panic leaves goes when this guard does.
        Above { oldest, newest }.drop_all();
    }
}

/// The values above `oldest`, as `drop_down_to` was promised.
struct Above<'a> {
    oldest: *mut Header,
    newest: &'a Cell<*mut Header>,
}

impl Above<'_> {
    fn drop_all(&self) {
        while self.newest.get() != self.oldest {
            let header = self.newest.get();
            // SAFETY: not null, since it is not the oldest yet; headers stay in place until their chunks go, which is later.
            let Header { previous, drop } = unsafe { header.read() };
            self.newest.set(previous);
            // SAFETY: forgotten by the arena just now, so this is the only call; nobody uses the value.
            unsafe { drop(header) };
        }
    }
}

impl Drop for Above<'_> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

// SAFETY: blocks stay where they are until the arena is rewound or dropped; both need it without a borrow, that is after every
// copy of this reference is gone. A block that is moved by `grow` or `shrink` was given up by its owner.
unsafe impl<A: HostSource> Allocator for &Arena<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.try_alloc_layout(layout).map_err(|_| AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Gives the newest block's room back; any other block's waits for the arena's end.
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.is_newest(block, layout) {
            self.top.set(
                self.top
                    .get()
                    .with_addr(plan::end(block.addr().get(), layout)),
            );
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function's contract: a live block of this arena.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if !self.is_newest(block, old) && block.addr().get().is_multiple_of(new.align()) {
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        // SAFETY: this function's contract: a live block of this arena.
        unsafe { self.resize(block, old, new) }
    }
}

impl<A: HostSource> HostSource for &Arena<A> {
    /// As of the chunk that the block would need.
    fn refusal(&self, layout: Layout) -> HostError {
        let chunk = plan::exact(layout).and_then(plan::chunk_layout);
        chunk.map_or(HostError::TooLarge, |chunk| self.base.refusal(chunk))
    }
}

impl<A: HostSource> Arena<A> {
    /// True for the block that the next one comes to lie below. One of size 0 has no place of its own.
    #[inline]
    fn is_newest(&self, block: NonNull<u8>, layout: Layout) -> bool {
        layout.size() != 0 && block.as_ptr().addr() == self.top.get().addr()
    }

    /// # Safety
    /// As [`Allocator::grow`] or [`Allocator::shrink`], whichever way the size goes.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let kept = old.size().min(new.size());
        if self.is_newest(block, old) {
            let top = self.top.get();
            // The end stays, the start moves: old and new place overlap.
            if let Some(start) =
                plan::place(plan::end(top.addr(), old), self.chunk.get().addr(), new)
            {
                let moved = top.with_addr(start);
                // SAFETY: both places lie in the current chunk's room, which `top` reaches; `kept` bytes fit both.
                unsafe { ptr::copy(top, moved, kept) };
                self.top.set(moved);
                let moved = NonNull::new(moved).ok_or(AllocError)?;
                return Ok(NonNull::slice_from_raw_parts(moved, new.size()));
            }
        }
        let moved = self.try_alloc_layout(new).map_err(|_| AllocError)?;
        // SAFETY: `moved` is a new block, hence apart from the old one, and `kept` bytes fit both.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept) };
        // Its room comes back where the new block got a chunk of its own.
        // SAFETY: the old block is the caller's to give up.
        unsafe { Allocator::deallocate(&self, block, old) };
        Ok(NonNull::slice_from_raw_parts(moved, new.size()))
    }
}
