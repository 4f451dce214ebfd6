//! Typed blocks.
#![expect(
    clippy::mut_from_ref,
    reason = "every call makes a new block, which nobody else can reach"
)]

use core::alloc::Layout;
use core::fmt;
use core::mem;
use core::{ptr, slice, str};

use super::Arena;
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
