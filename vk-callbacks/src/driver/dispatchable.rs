//! Dispatchable objects: instance, physical device, device, queue, command buffer.
//!
//! ```text
//!  block     --> | receipt | name | loader's word | value: T |
//!  VkDevice handle ---------------^
//! ```

use core::cell::UnsafeCell;
use core::mem::offset_of;

use alloc_core::{Rejected, Scope};

use super::block::ObjectPlace;
use super::fallback_chain::FallbackChain;
use super::object::{Object, ObjectLayout};
use crate::error::{CallbackError, Level};

/// `ICD_LOADER_MAGIC`: the first word of a dispatchable object until the loader overwrites it.
pub const LOADER_MAGIC: usize = 0x01CD_C0DE;

/// An [`Object`] whose handle begins with a word of the loader. The driver writes it once and never reads it.
///
/// Dropping it leaks it, as of [`Object`].
#[must_use = "an object must be destroyed with the chain of a command"]
#[derive(Debug)]
pub struct DispatchableObject<T>(Object<Dispatched<T>>);

/// Memory for a [`DispatchableObject`], as [`ObjectPlace`] is for an [`Object`].
#[must_use = "a dropped place is memory that nobody can free"]
#[derive(Debug)]
pub struct DispatchablePlace<T>(ObjectPlace<Dispatched<T>>);

#[repr(C)]
#[derive(Debug)]
struct Dispatched<T> {
    /// The loader overwrites it through the handle while others read `value`.
    word: UnsafeCell<usize>,
    value: T,
}

// SAFETY: the driver writes the word once, before there is a handle, and never reads it: only the value is shared.
unsafe impl<T: Sync> Sync for Dispatched<T> {}

impl<T> DispatchableObject<T> {
    /// As [`Object::create_with_scope`].
    ///
    /// # Errors
    /// No memory, with the value.
    pub fn create_with_scope(
        chain: &FallbackChain<'_>,
        scope: Scope,
        value: T,
    ) -> Result<Self, Rejected<T, CallbackError>> {
        match DispatchablePlace::allocate(chain, scope) {
            Ok(place) => Ok(place.fill(value)),
            Err(error) => Err(Rejected::new(value, error)),
        }
    }

    /// The level of the object's allocator.
    #[must_use]
    pub fn level(&self) -> Level {
        self.0.level()
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.0.get().value
    }

    /// The value.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0.get_mut().value
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
        match unsafe { self.0.destroy(chain) } {
            Ok(dispatched) => Ok(dispatched.value),
            Err(refused) => Err(Rejected::new(Self(refused.value), refused.error)),
        }
    }

    /// As [`Object::vacate`].
    #[must_use = "a dropped place is memory that nobody can free"]
    pub fn vacate(self) -> (DispatchablePlace<T>, T) {
        let (place, dispatched) = self.0.vacate();
        (DispatchablePlace(place), dispatched.value)
    }

    /// The object as a dispatchable handle for the loader: the address of its word.
    #[must_use]
    pub fn into_handle(self) -> u64 {
        self.0.into_handle().wrapping_add(Self::OFFSET)
    }

    /// The object behind a handle; `None` for NULL.
    ///
    /// # Safety
    /// As [`Object::from_handle`], of a handle of [`into_handle`](Self::into_handle).
    #[must_use]
    pub unsafe fn from_handle(handle: u64) -> Option<Self> {
        // SAFETY: `inner` subtracts what `into_handle` added; else forwarded.
        unsafe { Object::from_handle(inner(handle, Self::OFFSET)) }.map(Self)
    }

    /// The value behind a handle; `None` for NULL.
    ///
    /// # Safety
    /// As [`Object::borrow_handle`], of a handle of [`into_handle`](Self::into_handle).
    #[must_use]
    pub unsafe fn borrow_handle<'a>(handle: u64) -> Option<&'a T> {
        // SAFETY: as in `from_handle`.
        let object =
            unsafe { Object::<Dispatched<T>>::borrow_handle(inner(handle, Self::OFFSET)) }?;
        Some(&object.get().value)
    }

    /// The value behind a handle, mutable; `None` for NULL.
    ///
    /// # Safety
    /// As [`Object::borrow_handle_mut`], of a handle of [`into_handle`](Self::into_handle). The loader may use its word meanwhile.
    #[must_use]
    pub unsafe fn borrow_handle_mut<'a>(handle: u64) -> Option<&'a mut T> {
        // SAFETY: as in `from_handle`; the `Object` is gone again with this line.
        let place =
            unsafe { Object::<Dispatched<T>>::from_handle(inner(handle, Self::OFFSET)) }?.place();
        // SAFETY: a live object's place: the field lies in it. The word beside it is not touched.
        let value = unsafe { &raw mut (*place.as_ptr()).value.value };
        // SAFETY: nothing else uses the value during 'a, as the caller promises.
        unsafe { value.as_mut() }
    }

    /// Bytes from the block to the loader's word.
    const OFFSET: u64 = offset_of!(ObjectLayout<Dispatched<T>>, value) as u64;
}

/// The handle of the inner object; 0 stays 0.
const fn inner(handle: u64, offset: u64) -> u64 {
    if handle == 0 {
        0
    } else {
        handle.wrapping_sub(offset)
    }
}

impl<T> DispatchablePlace<T> {
    /// As [`ObjectPlace::allocate`].
    ///
    /// # Errors
    /// No memory.
    pub fn allocate(chain: &FallbackChain<'_>, scope: Scope) -> Result<Self, CallbackError> {
        ObjectPlace::allocate(chain, scope).map(Self)
    }

    /// As [`ObjectPlace::fill`]; the first word holds [`LOADER_MAGIC`].
    pub fn fill(self, value: T) -> DispatchableObject<T> {
        let word = UnsafeCell::new(LOADER_MAGIC);
        DispatchableObject(self.0.fill(Dispatched { word, value }))
    }

    /// As [`ObjectPlace::free`].
    ///
    /// # Errors
    /// As [`ObjectPlace::free`].
    ///
    /// # Safety
    /// As [`ObjectPlace::free`].
    pub unsafe fn free(
        self,
        chain: &FallbackChain<'_>,
    ) -> Result<(), Rejected<Self, CallbackError>> {
        // SAFETY: forwarded.
        unsafe { self.0.free(chain) }
            .map_err(|refused| Rejected::new(Self(refused.value), refused.error))
    }
}

/// The handle points to the loader's word.
const _: () = assert!(offset_of!(Dispatched<u8>, word) == 0);
