//! The base of a driver's objects: it stores the level of its allocator and is freed there.
//!
//! ```text
//!  block --> | receipt | name | loader's word | value: T |     scope object, of the object's or device's allocator
//!                          |    ^-- VkDevice, VkBuffer handle
//!                          +--> name bytes                     own block, always of the device's allocator
//! ```
//!
//! Handles that the loader dispatches on begin with a word of the loader. So do all: there is one kind of object.
//!
//! A value and an array of fixed length in one block: one request, one refusal, one free.
//!
//! ```text
//!  | receipt | name | loader's word | length | value: T | items: [E; length] |
//! ```

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{needs_drop, offset_of};
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::{slice, str};

use alloc_core::{HostError, Rejected, Scope};

use super::block::{DriverBlock, ObjectPlace, Stored};
use super::fallback_chain::FallbackChain;
use crate::error::{CallbackError, Level};

/// An object of a driver: a value behind a handle. It owns its memory; [`destroy`](Self::destroy) it with a chain.
///
/// Dropping an `Object` leaks it, as an application does that forgets `vkDestroy*`.
#[must_use = "an object must be destroyed with the chain of a command"]
#[derive(Debug)]
#[doc(alias("vk_object_base"))]
pub struct Object<T> {
    place: NonNull<ObjectLayout<T>>,
    owns: PhantomData<T>,
}

// SAFETY: an `Object` owns its value as a box would.
unsafe impl<T: Send> Send for Object<T> {}
// SAFETY: a shared object returns only shared references.
unsafe impl<T: Sync> Sync for Object<T> {}

/// A shared reference to the object of a handle, of [`Object::borrow_handle`].
#[derive(Debug)]
pub struct ObjectRef<'a, T>(&'a ObjectLayout<T>);

/// `ICD_LOADER_MAGIC`: the first word behind a handle until the loader overwrites it.
pub const LOADER_MAGIC: usize = 0x01CD_C0DE;

#[derive(Debug)]
pub(super) struct ObjectLayout<T> {
    pub(super) memory: Stored,
    pub(super) name: Option<Stored>,
    /// The loader overwrites it through the handle while others read `value`.
    pub(super) word: AtomicUsize,
    pub(super) value: T,
}

impl<T> Object<T> {
    /// Creates `value` in memory of scope object from the most specific allocator of `chain` (V30).
    ///
    /// # Errors
    /// No memory: the value comes back.
    pub fn create(chain: &FallbackChain<'_>, value: T) -> Result<Self, Rejected<T, CallbackError>> {
        Self::create_with_scope(chain, Scope::Object, value)
    }

    /// As [`create`](Self::create), with another scope: cache for a `VkPipelineCache` (V29), device or instance for
    /// these (V31, V32).
    pub fn create_with_scope(
        chain: &FallbackChain<'_>,
        scope: Scope,
        value: T,
    ) -> Result<Self, Rejected<T, CallbackError>> {
        match ObjectPlace::allocate(chain, scope) {
            Ok(place) => Ok(place.fill(value)),
            Err(error) => Err(Rejected::new(value, error)),
        }
    }

    pub(super) const fn at(place: NonNull<ObjectLayout<T>>) -> Self {
        Self { place, owns: PhantomData }
    }

    pub(super) const fn place(&self) -> NonNull<ObjectLayout<T>> {
        self.place
    }

    /// The level of the object's allocator.
    #[must_use]
    pub fn level(&self) -> Level {
        self.object_layout().memory.level()
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.object_layout().value
    }

    /// The value.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.object_layout_mut().value
    }

    /// The debug name, if one was set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.object_layout().name()
    }

    /// Copies `name` into memory of the device's allocator, and frees the old name. An empty name removes it.
    ///
    /// `vkSetDebugUtilsObjectNameEXT` has no `pAllocator` and creates no object, so the scope is device, not object
    /// (V40).
    ///
    /// # Errors
    /// No memory, or (from the old name) [`CallbackError::LevelMissing`]: the old name stays.
    ///
    /// # Safety
    /// The device, instance and default levels of `chain` are those of the earlier names' chains, or compatible (V42).
    pub unsafe fn set_name(&mut self, chain: &FallbackChain<'_>, name: &str) -> Result<(), CallbackError> {
        let new = if name.is_empty() {
            None
        } else {
            let block =
                DriverBlock::allocate(chain.resolve(Scope::Device), Layout::for_value(name), Scope::Device, false)?;
            // SAFETY: the block holds `name.len()` bytes and was just made.
            unsafe { block.as_ptr().copy_from_nonoverlapping(NonNull::from(name).cast(), name.len()) };
            Some(block)
        };
        if let Some(old) = self.object_layout_mut().name.take() {
            // SAFETY: the name came from the device's level of a compatible chain.
            if let Err(refused) = unsafe { old.free(chain) } {
                self.object_layout_mut().name = Some(refused.value);
                return Err(refused.error);
            }
        }
        self.object_layout_mut().name = new.map(DriverBlock::store);
        Ok(())
    }

    /// Destroys the object: frees its name and its memory at their levels; returns the value.
    ///
    /// # Errors
    /// [`CallbackError::LevelMissing`] with the object, unchanged, if `chain` lacks its level (V42). An allocator that
    /// was passed to destroy and not to create (V43) is not used.
    ///
    /// # Safety
    /// The allocators of `chain` are compatible with those of the creating command's chain, level by level (V42).
    pub unsafe fn destroy(self, chain: &FallbackChain<'_>) -> Result<T, Rejected<Self, CallbackError>> {
        let (place, value) = self.vacate();
        // SAFETY: the levels of `chain` are compatible with the memory's.
        match unsafe { place.free(chain) } {
            Ok(()) => Ok(value),
            Err(refused) => Err(Rejected::new(refused.value.fill(value), refused.error)),
        }
    }

    /// Moves the value out and keeps the memory: for a value that has the callbacks of its own memory.
    pub fn vacate(self) -> (ObjectPlace<T>, T) {
        // SAFETY: `ObjectPlace::fill` wrote it; `self` ends here, so it is read once.
        let ObjectLayout { memory, name, word, value } = unsafe { self.place.read() };
        let place = ObjectPlace { place: self.place, memory, name, word: word.into_inner() };
        (place, value)
    }

    /// The object as a handle (never 0) for the application: the address of a word that the loader may use.
    #[must_use]
    pub fn into_handle(self) -> u64 {
        let address = self.place.as_ptr().expose_provenance();
        address.wrapping_add(Self::HANDLE_OFFSET) as u64
    }

    const HANDLE_OFFSET: usize = offset_of!(ObjectLayout<T>, word);

    /// The object behind a handle; `None` for `VK_NULL_HANDLE`, which every `vkDestroy*` ignores (V44).
    ///
    /// # Safety
    /// `handle` is 0, or is of [`into_handle`](Self::into_handle) of an `Object<T>` and is not used afterwards: nothing
    /// is [borrowed](Self::borrow_handle) from it. `T` is `Send` if this is another thread.
    #[must_use]
    pub unsafe fn from_handle(handle: u64) -> Option<Self> {
        let word = usize::try_from(handle).ok().filter(|word| *word != 0)?;
        let address = word.wrapping_sub(Self::HANDLE_OFFSET);
        NonNull::new(core::ptr::with_exposed_provenance_mut(address)).map(Self::at)
    }

    /// The object behind a handle, for commands that only read it; `None` for `VK_NULL_HANDLE`. Several threads may
    /// call it at once.
    ///
    /// # Safety
    /// - `handle` is 0, or came from [`into_handle`](Self::into_handle) of an `Object<T>`.
    /// - During `'a` the object stays in its handle (no [`from_handle`](Self::from_handle)).
    /// - `T` is `Sync` if several threads use the handle, and `Send` if another than the creating one does.
    #[must_use]
    pub unsafe fn borrow_handle<'a>(handle: u64) -> Option<ObjectRef<'a, T>> {
        // SAFETY: the handle is an object's or 0, and this `Object` ends with this line.
        let place = unsafe { Self::from_handle(handle) }?.place;
        // SAFETY: `create` wrote it; it lives, and is only read, during `'a`.
        Some(ObjectRef(unsafe { place.as_ref() }))
    }

    /// The value behind a handle, for a command with externally synchronised access; `None` for `VK_NULL_HANDLE`.
    ///
    /// # Safety
    /// As [`borrow_handle`](Self::borrow_handle), and during `'a` nothing else uses the object in any way.
    #[must_use]
    pub unsafe fn borrow_handle_mut<'a>(handle: u64) -> Option<&'a mut T> {
        // SAFETY: the handle is an object's or 0, and this `Object` ends with this line.
        let place = unsafe { Self::from_handle(handle) }?.place;
        // SAFETY: the field lies in a live object's place.
        let value = unsafe { &raw mut (*place.as_ptr()).value };
        // SAFETY: `create` wrote it; it lives, and is used exclusively, during `'a`.
        unsafe { value.as_mut() }
    }

    fn object_layout(&self) -> &ObjectLayout<T> {
        // SAFETY: `create` wrote it, and it lives until `destroy` takes `self`.
        unsafe { self.place.as_ref() }
    }

    fn object_layout_mut(&mut self) -> &mut ObjectLayout<T> {
        // SAFETY: `create` wrote it, and it lives until `destroy` takes `self`.
        unsafe { self.place.as_mut() }
    }
}

impl<'a, T> ObjectRef<'a, T> {
    /// The value.
    #[must_use]
    pub const fn get(&self) -> &'a T {
        &self.0.value
    }

    /// The debug name, if one was set.
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        self.0.name()
    }

    /// The level of the object's allocator.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.0.memory.level()
    }
}

impl<T> Clone for ObjectRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ObjectRef<'_, T> {}

impl<T> ObjectLayout<T> {
    fn name(&self) -> Option<&str> {
        let memory = self.name.as_ref()?;
        let (bytes, len) = (memory.as_ptr().as_ptr(), memory.layout().size());
        // SAFETY: `set_name` wrote `len` bytes of a `str` there, which live until the name is replaced.
        let bytes = unsafe { slice::from_raw_parts(bytes, len) };
        str::from_utf8(bytes).ok()
    }
}

/// An [`Object`] with a trailing array. Items need no `Drop`: they end with the block.
///
/// Dropping it leaks it.
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
        let block = Self::layout(length).and_then(|(layout, _)| chain.allocate(layout, scope));
        let block = match block {
            Ok(block) => block,
            Err(error) => return Err(Rejected::new(value, error)),
        };
        let first = Self::first_item(block.as_ptr().cast());
        // If one unwinds, the block is freed, and the value dropped.
        for index in 0..length {
            // SAFETY: `layout` has room for `length` items behind the object.
            let at = unsafe { first.add(index) };
            // SAFETY: in the block, aligned by `layout`, and nothing lies there.
            unsafe { at.write(item(index)) };
        }
        Ok(Self { object: ObjectPlace::in_block(block).fill(WithLength { length, value }), items: PhantomData })
    }

    fn layout(length: usize) -> Result<(Layout, usize), CallbackError> {
        Layout::array::<E>(length)
            .and_then(|items| Layout::new::<ObjectLayout<WithLength<T>>>().extend(items))
            .map_err(|_| CallbackError::Host(HostError::TooLarge))
    }

    const OFFSET: usize = size_of::<ObjectLayout<WithLength<T>>>().next_multiple_of(align_of::<E>());

    fn first_item(place: NonNull<ObjectLayout<WithLength<T>>>) -> NonNull<E> {
        // SAFETY: the block was allocated with `layout`, which has the items at this offset, or ends there.
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
    /// # Safety
    /// As [`Object::destroy`].
    pub unsafe fn destroy(self, chain: &FallbackChain<'_>) -> Result<T, Rejected<Self, CallbackError>> {
        // SAFETY: the levels of `chain` are compatible, as of `Object::destroy`.
        match unsafe { self.object.destroy(chain) } {
            Ok(with_length) => Ok(with_length.value),
            Err(refused) => Err(Rejected::new(Self { object: refused.value, items: PhantomData }, refused.error)),
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
        // SAFETY: 0, or the handle of such an object, which is not used afterwards.
        let object = unsafe { Object::from_handle(handle) }?;
        Some(Self { object, items: PhantomData })
    }

    /// Value and items behind a handle; `None` for `VK_NULL_HANDLE`.
    ///
    /// # Safety
    /// As [`Object::borrow_handle`], of an `ArrayObject<T, E>`.
    #[must_use]
    pub unsafe fn borrow_handle<'a>(handle: u64) -> Option<(&'a T, &'a [E])> {
        // SAFETY: 0, or the handle of such an object; this `Object` ends with this line.
        let place = unsafe { Object::<WithLength<T>>::from_handle(handle) }?.place();
        // SAFETY: `create` wrote it; it lives, and is only read, during 'a.
        let value = unsafe { &place.as_ref().value };
        let first = Self::first_item(place);
        // SAFETY: `create` wrote so many items; they live, and are only read, during 'a.
        let items = unsafe { slice::from_raw_parts(first.as_ptr(), value.length) };
        Some((&value.value, items))
    }

    /// As [`borrow_handle`](Self::borrow_handle), to change.
    ///
    /// # Safety
    /// As [`Object::borrow_handle_mut`], of an `ArrayObject<T, E>`.
    #[must_use]
    pub unsafe fn borrow_handle_mut<'a>(handle: u64) -> Option<(&'a mut T, &'a mut [E])> {
        // SAFETY: 0, or the handle of such an object; this `Object` ends with this line.
        let mut place = unsafe { Object::<WithLength<T>>::from_handle(handle) }?.place();
        let first = Self::first_item(place);
        // SAFETY: `create` wrote it, and nothing else uses it during 'a.
        let value = unsafe { &mut place.as_mut().value };
        // SAFETY: `create` wrote so many items; nothing else uses them during 'a.
        let items = unsafe { slice::from_raw_parts_mut(first.as_ptr(), value.length) };
        Some((&mut value.value, items))
    }
}
