//! A value and an array of fixed length in one block: one request, one refusal, one free.
//!
//! ```text
//!  VkShaderModule handle --> | receipt | name | length | value: T | items: [E; length] |
//! ```

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr::NonNull;
use core::slice;

use alloc_core::{HostError, Rejected, Scope};

use super::fallback_chain::FallbackChain;
use super::object::{Object, ObjectLayout};
use super::place::ObjectPlace;
use crate::error::CallbackError;

/// An [`Object`] with a trailing array. Items need no `Drop`: they end with the block.
///
/// Dropping it leaks it, as of [`Object`].
#[must_use = "an object must be destroyed with the chain of a command"]
#[derive(Debug)]
pub struct ArrayObject<T, E> {
    object: Object<WithLength<T>>,
    items: PhantomData<E>,
}

#[derive(Debug)]
struct WithLength<T> {
    length: usize,
    value: T,
}

// SAFETY: it owns value and items as a box would.
unsafe impl<T: Send, E: Send> Send for ArrayObject<T, E> {}
// SAFETY: a shared one returns only shared references.
unsafe impl<T: Sync, E: Sync> Sync for ArrayObject<T, E> {}

impl<T, E> ArrayObject<T, E> {
    /// Creates `value` and `length` items in one block of `scope`; `item` is called once for each index, in order.
    ///
    /// # Errors
    /// No memory, or [`HostError::TooLarge`]: with the value; `item` was not called.
    pub fn create(
        chain: &FallbackChain<'_>,
        scope: Scope,
        value: T,
        length: usize,
        mut item: impl FnMut(usize) -> E,
    ) -> Result<Self, Rejected<T, CallbackError>> {
        const { assert!(!needs_drop::<E>(), "items go with the block") };
        let place = Self::layout(length)
            .and_then(|(layout, _)| ObjectPlace::allocate_layout(chain, scope, layout));
        let place = match place {
            Ok(place) => place,
            Err(error) => return Err(Rejected::new(value, error)),
        };
        let object = Self {
            object: place.fill(WithLength { length, value }),
            items: PhantomData,
        };
        let first = Self::first_item(object.object.place());
        for index in 0..length {
            // SAFETY: `layout` has room for `length` items behind the object.
            let at = unsafe { first.add(index) };
            // SAFETY: in the block, aligned by `layout`, and nothing lies there.
            unsafe { at.write(item(index)) };
        }
        Ok(object)
    }

    /// The object's layout with `length` items, and their offset.
    fn layout(length: usize) -> Result<(Layout, usize), CallbackError> {
        Layout::array::<E>(length)
            .and_then(|items| Layout::new::<ObjectLayout<WithLength<T>>>().extend(items))
            .map_err(|_| CallbackError::Host(HostError::TooLarge))
    }

    /// Bytes from the block to the first item.
    const OFFSET: usize =
        size_of::<ObjectLayout<WithLength<T>>>().next_multiple_of(align_of::<E>());

    fn first_item(place: NonNull<ObjectLayout<WithLength<T>>>) -> NonNull<E> {
        // SAFETY: the block was allocated with `layout`, which has the items at this offset; without items it is at most the block's
        // end.
        unsafe { place.cast::<u8>().add(Self::OFFSET) }.cast()
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.object.get().value
    }

    /// The items.
    #[must_use]
    pub fn items(&self) -> &[E] {
        let first = Self::first_item(self.object.place());
        // SAFETY: `create` wrote `length` items there; shared as `self` is.
        unsafe { slice::from_raw_parts(first.as_ptr(), self.object.get().length) }
    }

    /// As [`Object::destroy`].
    ///
    /// # Errors
    /// As [`Object::destroy`].
    ///
    /// # Safety
    /// As [`Object::destroy`].
    pub unsafe fn destroy(
        self,
        chain: &FallbackChain<'_>,
    ) -> Result<T, Rejected<Self, CallbackError>> {
        // SAFETY: forwarded.
        match unsafe { self.object.destroy(chain) } {
            Ok(with_length) => Ok(with_length.value),
            Err(refused) => Err(Rejected::new(
                Self {
                    object: refused.value,
                    items: PhantomData,
                },
                refused.error,
            )),
        }
    }

    /// As [`Object::into_handle`].
    #[must_use]
    pub fn into_handle(self) -> u64 {
        self.object.into_handle()
    }

    /// As [`Object::from_handle`].
    ///
    /// # Safety
    /// As [`Object::from_handle`], of an `ArrayObject<T, E>`.
    #[must_use]
    pub unsafe fn from_handle(handle: u64) -> Option<Self> {
        // SAFETY: forwarded.
        let object = unsafe { Object::from_handle(handle) }?;
        Some(Self {
            object,
            items: PhantomData,
        })
    }

    /// Value and items behind a handle; `None` for `VK_NULL_HANDLE`.
    ///
    /// # Safety
    /// As [`Object::borrow_handle`], of an `ArrayObject<T, E>`.
    #[must_use]
    pub unsafe fn borrow_handle<'a>(handle: u64) -> Option<(&'a T, &'a [E])> {
        // SAFETY: forwarded; this `Object` ends with this line.
        let place = unsafe { Object::<WithLength<T>>::from_handle(handle) }?.place();
        // SAFETY: `create` wrote it; it lives, and is only looked at, during 'a.
        let value = unsafe { &place.as_ref().value };
        let first = Self::first_item(place);
        // SAFETY: as for the value; so many items were written.
        let items = unsafe { slice::from_raw_parts(first.as_ptr(), value.length) };
        Some((&value.value, items))
    }

    /// As [`borrow_handle`](Self::borrow_handle), to change.
    ///
    /// # Safety
    /// As [`Object::borrow_handle_mut`], of an `ArrayObject<T, E>`.
    #[must_use]
    pub unsafe fn borrow_handle_mut<'a>(handle: u64) -> Option<(&'a mut T, &'a mut [E])> {
        // SAFETY: forwarded; this `Object` ends with this line.
        let mut place = unsafe { Object::<WithLength<T>>::from_handle(handle) }?.place();
        let first = Self::first_item(place);
        // SAFETY: `create` wrote it, and nothing else uses it during 'a.
        let value = unsafe { &mut place.as_mut().value };
        // SAFETY: as for the value; the items lie behind it.
        let items = unsafe { slice::from_raw_parts_mut(first.as_ptr(), value.length) };
        Some((&mut value.value, items))
    }
}
