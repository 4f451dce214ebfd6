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
        "only try_own keeps values with a destructor"
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
        // SAFETY: `T` has no destructor, as just checked.
        unsafe { self.insert(value) }
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
    /// `make` is not called then. If it unwinds, the room stays in use until the arena is rewound.
    pub fn try_alloc_slice_fill_with<T>(
        &self,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], HostError> {
        const { NoDestructor::<T>::CHECK };
        let layout = Layout::array::<T>(len).map_err(|_| HostError::TooLarge)?;
        let first = self.try_alloc_layout(layout)?.cast::<T>();
        for index in 0..len {
            // SAFETY: within the new block's `len` elements.
            let slot = unsafe { first.add(index) };
            // SAFETY: one of the new block's elements, where no value was yet.
            unsafe { slot.write(make(index)) };
        }
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
