//! In front of each value with a destructor lies a header, linked newest first.
//!
//! ```text
//!   0          8      16                      the newest header is the arena's
//!   | previous | drop | .. | value |          types without a destructor get none
//! ```

#![expect(clippy::mut_from_ref, reason = "every call makes a new block, which nobody else can reach")]

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
use crate::unwind::run_to_end;

struct NoDestructor<T>(T);

impl<T> NoDestructor<T> {
    const CHECK: () = assert!(!mem::needs_drop::<T>(), "only try_own and its likes keep values with a destructor");
}

impl<A: HostSource> Arena<A> {
    /// Moves `value`, without a destructor, into the arena.
    #[inline]
    pub fn try_alloc<T>(&self, value: T) -> Result<&mut T, Rejected<T, HostError>> {
        const { NoDestructor::<T>::CHECK };
        self.place(value)
    }

    /// As [`try_alloc`](Arena::try_alloc), with the value that `make` returns. `make` may allocate here too. If it
    /// unwinds, the room is free again, unless it has.
    #[inline]
    pub fn try_alloc_with<T>(&self, make: impl FnOnce() -> T) -> Result<&mut T, HostError> {
        self.try_alloc_try_with(|| Ok(make()))
    }

    /// As [`try_alloc_with`](Arena::try_alloc_with), with a `make` that may fail: then, too, the room is free again.
    ///
    /// ```
    /// use alloc_core::{Arena, FromGlobalAlloc, HostError, Scope, Scoped};
    /// let arena = Arena::new_in(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command));
    /// let refused = arena.try_alloc_try_with(|| Err::<[u8; 100], _>(HostError::TooLarge));
    /// assert_eq!((refused, arena.bytes_used()), (Err(HostError::TooLarge), 0));
    /// ```
    #[inline]
    pub fn try_alloc_try_with<T, E: From<HostError>>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&mut T, E> {
        const { NoDestructor::<T>::CHECK };
        let (block, value) = self.room_for(Layout::new::<T>(), |_| make())?;
        // SAFETY: a new block of this layout; `T` has no destructor.
        Ok(unsafe { self.put(block, value) })
    }

    /// A copy of a slice.
    pub fn try_alloc_slice_copy<T: Copy>(&self, source: &[T]) -> Result<&mut [T], HostError> {
        let first = self.try_alloc_layout(Layout::for_value(source))?.cast::<T>();
        // SAFETY: a new block with room for as many elements.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), first.as_ptr(), source.len()) };
        // SAFETY: all elements were written; the block outlives this borrow.
        Ok(unsafe { slice::from_raw_parts_mut(first.as_ptr(), source.len()) })
    }

    /// A slice of `len` elements, which `make` returns by index. `T` has no destructor. If `make` unwinds, the room is
    /// free again, as in [`try_alloc_with`](Arena::try_alloc_with).
    pub fn try_alloc_slice_fill_with<T>(
        &self,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], HostError> {
        const { NoDestructor::<T>::CHECK };
        let layout = Layout::array::<T>(len).map_err(|_| HostError::TooLarge)?;
        let fill = |block: NonNull<u8>| {
            for index in 0..len {
                // SAFETY: within the block's `len` elements.
                let slot = unsafe { block.cast::<T>().add(index) };
                // SAFETY: an element of the block, without a value yet.
                unsafe { slot.write(make(index)) };
            }
            Ok::<_, HostError>(())
        };
        let (block, ()) = self.room_for(layout, fill)?;
        // SAFETY: all elements were written; the block outlives this borrow.
        Ok(unsafe { slice::from_raw_parts_mut(block.cast().as_ptr(), len) })
    }

    /// A copy of `text`.
    pub fn try_alloc_str(&self, text: &str) -> Result<&mut str, HostError> {
        let bytes = self.try_alloc_slice_copy(text.as_bytes())?;
        // SAFETY: a copy of valid UTF-8.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }

    /// Formatted text: `arena.try_alloc_fmt(format_args!("{x}"))`.
    pub fn try_alloc_fmt(&self, args: fmt::Arguments<'_>) -> Result<&mut str, HostError> {
        let mut text = TryString::new_in(self);
        text.try_write_fmt(args)?;
        // The bytes stay in the arena.
        let bytes = text.into_bytes().leak();
        // SAFETY: bytes of a text.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }
}

pub(super) struct Header {
    previous: *mut Header,
    /// # Safety
    /// Called once, with the header it was read from, while the value is in place and unused.
    drop: unsafe fn(*mut Header),
}

const _: () = assert!(size_of::<Header>() == 2 * size_of::<usize>());

#[repr(C)]
struct Dropped<T> {
    header: Header,
    value: T,
}

impl<T> Dropped<T> {
    const LAYOUT: Layout = if mem::needs_drop::<T>() { Layout::new::<Self>() } else { Layout::new::<T>() };

    /// # Safety
    /// As [`Header::drop`], for a header in front of a `T`.
    unsafe fn drop(header: *mut Header) {
        let this = header.cast::<Self>();
        // SAFETY: this function's contract: the header of a live `Dropped<T>`.
        let value = unsafe { &raw mut (*this).value };
        // SAFETY: this function's contract.
        unsafe { ptr::drop_in_place(value) };
    }
}

impl<A: HostSource> Arena<A> {
    /// Moves `value` into the arena, which drops it when it ends or is rewound to before it, newest first. A type with
    /// a destructor costs 16 bytes more than with [`try_alloc`](Arena::try_alloc).
    ///
    /// A destructor that panics keeps no other from running and no chunk from being freed; a second panic meanwhile
    /// aborts, as in a `Vec`. Destructors run without any lock held. They cannot use their own arena.
    ///
    /// `'static`: the arena's type does not say what lies in it. `Send`: the arena may end on another thread.
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
        self.place(value)
    }

    /// As [`try_own`](Arena::try_own), with the value that `make` returns. What `make` puts into the arena itself is
    /// dropped later. If it unwinds, the room is free again, unless it has used the arena.
    #[inline]
    pub fn try_own_with<T: Send + 'static>(&self, make: impl FnOnce() -> T) -> Result<&mut T, HostError> {
        let make = |_| Ok::<_, HostError>(make());
        let (block, value) = self.room_for(Dropped::<T>::LAYOUT, make)?;
        // SAFETY: a new block of this layout; `T` is `Send` and `'static`.
        Ok(unsafe { self.put(block, value) })
    }

    /// `T` has no destructor, or is `Send` and `'static`: the callers see to it.
    #[inline]
    fn place<T>(&self, value: T) -> Result<&mut T, Rejected<T, HostError>> {
        match self.try_alloc_layout(Dropped::<T>::LAYOUT) {
            // SAFETY: a new block of this layout; `T` has no destructor, or is `Send` and `'static`.
            Ok(block) => Ok(unsafe { self.put(block, value) }),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// # Safety
    /// `block` is a new one of this arena, of `Dropped::<T>::LAYOUT`. If `T` has a destructor, it is `Send` and
    /// `'static`.
    #[inline]
    unsafe fn put<T>(&self, block: NonNull<u8>, value: T) -> &mut T {
        let mut at = block.cast::<T>();
        if mem::needs_drop::<T>() {
            let whole = block.cast::<Dropped<T>>();
            let header = Header { previous: self.owned.get(), drop: Dropped::<T>::drop };
            // SAFETY: this function's contract: the layout of a `Dropped<T>`.
            unsafe { whole.write(Dropped { header, value }) };
            self.owned.set(whole.as_ptr().cast());
            // SAFETY: within the block.
            at = unsafe { whole.byte_add(offset_of!(Dropped<T>, value)) }.cast();
        } else {
            // SAFETY: this function's contract.
            unsafe { at.write(value) };
        }
        // SAFETY: just written and not shared; the block outlives this borrow.
        unsafe { at.as_mut() }
    }
}

/// Each value is forgotten before its destructor runs; one that unwinds does not keep the others.
///
/// # Safety
/// `newest` is null or the newest header of an arena, `oldest` one below it or null. No value above it is in use.
#[inline]
pub(super) unsafe fn drop_down_to(oldest: *mut Header, newest: &Cell<*mut Header>) {
    run_to_end(|| {
        let header = newest.get();
        if header == oldest {
            return false;
        }
        // SAFETY: the oldest is not reached; chunks are freed later.
        let Header { previous, drop } = unsafe { header.read() };
        newest.set(previous);
        // SAFETY: the only call, since the value is forgotten.
        unsafe { drop(header) };
        true
    });
}

// SAFETY: blocks stay until the arena is rewound or dropped; both need it without a borrow, after every copy of this
// reference is gone. A block that `grow` or `shrink` moves was given up by its owner.
unsafe impl<A: HostSource> Allocator for &Arena<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.try_alloc_layout(layout).map_err(|_| AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Returns the newest block's room; any other block's waits for the arena's end.
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.is_newest(block, layout) {
            self.top.set(self.top.get().with_addr(block.addr().get()));
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function's contract.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !self.is_newest(block, old) && block.addr().get().is_multiple_of(new.align()) {
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        // SAFETY: this function's contract.
        unsafe { self.resize(block, old, new) }
    }
}

impl<A: HostSource> HostSource for &Arena<A> {
    /// The reason is that of the chunk that the block would need.
    fn refusal(&self, layout: Layout) -> HostError {
        let chunk = plan::exact(layout).and_then(plan::chunk_layout);
        chunk.map_or(HostError::TooLarge, |chunk| self.base.refusal(chunk))
    }
}

impl<A: HostSource> Arena<A> {
    #[inline]
    fn is_newest(&self, block: NonNull<u8>, layout: Layout) -> bool {
        plan::end(block.addr().get(), layout) == self.top.get().addr()
    }

    /// # Safety
    /// As [`Allocator::grow`] or [`Allocator::shrink`], whichever way the size goes.
    unsafe fn resize(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let (top, start) = (self.top.get(), block.addr().get());
        if self.is_newest(block, old) && plan::place(start, self.chunk.get().end(), new) == Some(start) {
            self.top.set(top.with_addr(plan::end(start, new)));
            let block = NonNull::new(top.with_addr(start)).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        let moved = self.try_alloc_layout(new).map_err(|_| AllocError)?;
        let kept = old.size().min(new.size());
        // SAFETY: `moved` is new, and `kept` bytes fit both.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept) };
        // SAFETY: this function's contract: the caller gives up the old block.
        unsafe { Allocator::deallocate(&self, block, old) };
        Ok(NonNull::slice_from_raw_parts(moved, new.size()))
    }
}
