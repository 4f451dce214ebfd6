//! An object's memory without its value: for values that have the callbacks of their own memory.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{Rejected, Scope};

use super::block::Stored;
use super::fallback_chain::FallbackChain;
use super::object::{Object, ObjectLayout};
use crate::error::CallbackError;

/// Memory for an [`Object<T>`], before the `T` moved in or after it moved out.
///
/// A driver's instance and device keep their callbacks in their own block. To create one, a chain that borrows the callbacks
/// allocates the place, then the callbacks move in ([`fill`](Self::fill)). To destroy one, the value moves out ([`Object::vacate`]),
/// and a chain of its callbacks, or of the destroying command's, frees the place.
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
    place: NonNull<ObjectLayout<T>>,
    memory: Stored,
    name: Option<(Stored, usize)>,
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
        Self::allocate_layout(chain, scope, Layout::new::<ObjectLayout<T>>())
    }

    /// As [`allocate`](Self::allocate), with bytes behind the object: `layout` begins with that of `ObjectLayout<T>`.
    pub(super) fn allocate_layout(
        chain: &FallbackChain<'_>,
        scope: Scope,
        layout: Layout,
    ) -> Result<Self, CallbackError> {
        let block = chain.allocate(layout, scope)?;
        Ok(Self {
            place: block.as_ptr().cast(),
            memory: block.store(),
            name: None,
        })
    }

    /// The object, with `value` in it.
    pub fn fill(self, value: T) -> Object<T> {
        let object = ObjectLayout {
            memory: self.memory,
            name: self.name,
            value,
        };
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
    pub unsafe fn free(
        self,
        chain: &FallbackChain<'_>,
    ) -> Result<(), Rejected<Self, CallbackError>> {
        let name = self.name.as_ref().map(|(name, _)| name.level());
        let levels = [Some(self.memory.level()), name];
        let mut levels = levels.into_iter().flatten();
        if let Some(level) = levels.find(|level| chain.at(*level).is_none()) {
            return Err(Rejected::new(self, CallbackError::LevelMissing(level)));
        }
        let parts = [self.name.map(|(name, _)| name), Some(self.memory)];
        for part in parts.into_iter().flatten() {
            // SAFETY: forwarded. It cannot be refused: `chain` has both levels.
            let _ = unsafe { part.free(chain) };
        }
        Ok(())
    }

    /// The parts of an object that `vacate` read from `place`.
    pub(super) fn of_vacated(
        place: NonNull<ObjectLayout<T>>,
        memory: Stored,
        name: Option<(Stored, usize)>,
    ) -> Self {
        Self {
            place,
            memory,
            name,
        }
    }
}
