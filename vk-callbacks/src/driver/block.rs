//! A block that remembers its allocator.
//!
//! Mesa's `vk_alloc2`/`vk_free2` choose an allocator twice and must choose the same. Here the block stores the first
//! choice.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;

use alloc_core::{Rejected, Scope};

use super::fallback_chain::{DynHost, FallbackChain, ServedBlock};
use super::object::{LOADER_MAGIC, Object, ObjectLayout};
use crate::error::{CallbackError, Level};

/// Memory of a [`FallbackChain`] during a command: dropping it frees it.
///
/// [`store`](Self::store) keeps memory that outlives the command. Not `Send`: a command belongs to its thread (V23).
#[must_use = "dropping a block frees it"]
pub struct DriverBlock<'a> {
    receipt: Receipt,
    allocator: &'a DynHost<'a>,
}

/// The receipt of memory that outlives its command, to store in the object.
///
/// It has no reference to an allocator: a free needs the [`FallbackChain`] of the destroying command, whose
/// `pAllocator` may be another struct (V5, V42). Dropping a receipt leaks the memory.
#[must_use = "a dropped receipt is memory that nothing can free"]
#[derive(Debug)]
pub struct Stored(Receipt);

#[derive(Clone, Copy, Debug)]
struct Receipt {
    memory: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    level: Level,
}

// SAFETY: a receipt is the right to free a block, and blocks may be freed on any thread (V24).
unsafe impl Send for Stored {}
// SAFETY: a shared receipt only shows its numbers.
unsafe impl Sync for Stored {}

impl<'a> DriverBlock<'a> {
    pub(crate) fn allocate(
        served: ServedBlock<'a>,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<Self, CallbackError> {
        let answer = if zeroed {
            served.allocator.allocate_zeroed(layout, scope)
        } else {
            served.allocator.allocate(layout, scope)
        };
        let ServedBlock { allocator, level } = served;
        match answer {
            Ok(memory) => Ok(Self { receipt: Receipt { memory, layout, scope, level }, allocator }),
            Err(_) => Err(allocator.refusal(layout, scope).into()),
        }
    }

    /// The memory: `layout().size()` bytes, undefined unless allocated zeroed. Valid until the block is dropped.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.receipt.memory
    }

    /// The layout of the request.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.receipt.layout
    }

    /// The scope of the request.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.receipt.scope
    }

    /// The level of the allocator.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.receipt.level
    }

    /// Keeps the memory beyond the command.
    pub fn store(self) -> Stored {
        Stored(ManuallyDrop::new(self).receipt)
    }
}

impl Drop for DriverBlock<'_> {
    fn drop(&mut self) {
        let Receipt { memory, layout, scope, .. } = self.receipt;
        // SAFETY: allocated by this allocator with this layout and scope; the block owns it.
        unsafe { self.allocator.deallocate(memory, layout, scope) }
    }
}

impl fmt::Debug for DriverBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DriverBlock").field(&self.receipt).finish()
    }
}

impl Stored {
    /// The memory.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.0.memory
    }

    /// The layout of the request.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.0.layout
    }

    /// The level of the chain that allocated the memory.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.0.level
    }

    /// Returns the memory as a command's block.
    ///
    /// # Errors
    /// The receipt, with [`CallbackError::LevelMissing`], if `chain` has no allocator at the level of the memory (V42).
    /// Nothing was freed.
    ///
    /// # Safety
    /// The allocator of `chain` at [`level`](Self::level) is compatible with the one that allocated the memory (V42,
    /// the VUIDs of each `vkDestroy*`): the same heap, whatever struct and user data. Nothing else uses the memory.
    pub unsafe fn claim<'a>(self, chain: &FallbackChain<'a>) -> Result<DriverBlock<'a>, Rejected<Self, CallbackError>> {
        match chain.at(self.level()) {
            Some(ServedBlock { allocator, .. }) => Ok(DriverBlock { receipt: self.0, allocator }),
            None => {
                let error = CallbackError::LevelMissing(self.level());
                Err(Rejected::new(self, error))
            }
        }
    }

    /// Frees the memory at its level, through the allocator of `chain` there.
    ///
    /// # Safety
    /// As [`claim`](Self::claim).
    pub unsafe fn free(self, chain: &FallbackChain<'_>) -> Result<(), Rejected<Self, CallbackError>> {
        // SAFETY: the allocators are compatible (V42), and nothing else uses the memory.
        unsafe { self.claim(chain) }.map(drop)
    }
}

/// Memory for an [`Object<T>`], before the `T` moved in or after it moved out.
///
/// A driver's instance and device keep their callbacks in their own block: a chain that borrows the callbacks allocates
/// the place, then they move in ([`fill`](Self::fill)). Later they move out ([`Object::vacate`]), and a chain of them,
/// or of the destroying command's, frees the place.
///
/// Dropping a place leaks it, as dropping an [`Object`] does.
///
/// ```
/// # use alloc_core::{FromGlobalAlloc, Scope};
/// # use vk_callbacks::driver::{InstanceDomain, ObjectPlace};
/// # static DRIVERS_OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// // SAFETY: no callbacks were given.
/// let domain = unsafe { InstanceDomain::new(std::ptr::null(), &DRIVERS_OWN) }?;
/// let place = ObjectPlace::allocate(&domain.chain(None), Scope::Instance)?;
/// let instance = place.fill(domain);
///
/// let (place, domain) = instance.vacate();
/// // SAFETY: the chain of the domain that the place was allocated with.
/// unsafe { place.free(&domain.chain(None)) }?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped place is memory that nobody can free"]
#[derive(Debug)]
pub struct ObjectPlace<T> {
    pub(super) place: NonNull<ObjectLayout<T>>,
    pub(super) memory: Stored,
    pub(super) name: Option<Stored>,
    /// Of the object that was there last, if the loader has a word in it.
    pub(super) word: usize,
}

// SAFETY: a place is the right to its memory, and memory may be used and freed on any thread; there is no `T` in it.
unsafe impl<T> Send for ObjectPlace<T> {}
// SAFETY: nothing can be done through a shared place.
unsafe impl<T> Sync for ObjectPlace<T> {}

impl<T> ObjectPlace<T> {
    /// Memory of `scope` from the most specific allocator of `chain`.
    ///
    /// # Errors
    /// No memory.
    pub fn allocate(chain: &FallbackChain<'_>, scope: Scope) -> Result<Self, CallbackError> {
        let block = chain.allocate(Layout::new::<ObjectLayout<T>>(), scope)?;
        Ok(Self::in_block(block))
    }

    /// The block's layout begins with that of `ObjectLayout<T>`.
    pub(super) fn in_block(block: DriverBlock<'_>) -> Self {
        Self { place: block.as_ptr().cast(), memory: block.store(), name: None, word: LOADER_MAGIC }
    }

    /// The object, with `value` in it.
    pub fn fill(self, value: T) -> Object<T> {
        let object = ObjectLayout { memory: self.memory, name: self.name, word: AtomicUsize::new(self.word), value };
        // SAFETY: the block was allocated for an `ObjectLayout<T>`, and holds none.
        unsafe { self.place.write(object) };
        Object::at(self.place)
    }

    /// Frees the memory, and that of the object's name, at their levels.
    ///
    /// # Errors
    /// [`CallbackError::LevelMissing`] with the place, untouched, as of [`Object::destroy`].
    ///
    /// # Safety
    /// As [`Object::destroy`].
    pub unsafe fn free(self, chain: &FallbackChain<'_>) -> Result<(), Rejected<Self, CallbackError>> {
        let name = self.name.as_ref().map(Stored::level);
        let levels = [Some(self.memory.level()), name];
        let mut levels = levels.into_iter().flatten();
        if let Some(level) = levels.find(|level| chain.at(*level).is_none()) {
            return Err(Rejected::new(self, CallbackError::LevelMissing(level)));
        }
        for part in self.name.into_iter().chain([self.memory]) {
            // SAFETY: the levels of `chain` are compatible with that of the part (V42). `chain` has both.
            let _ = unsafe { part.free(chain) };
        }
        Ok(())
    }
}
