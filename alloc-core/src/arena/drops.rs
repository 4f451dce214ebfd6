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

use super::Arena;
use crate::adapters::HostSource;
use crate::error::HostError;
use crate::rejected::Rejected;

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
