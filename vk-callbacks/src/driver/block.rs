//! A block that remembers who gave it.
//!
//! Mesa's `vk_alloc2`/`vk_free2` choose an allocator twice, when allocating and when freeing, and must choose the same. Here
//! the second choice cannot be written down: the block carries the first.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::{Rejected, Scope};

use super::fallback_chain::{FallbackChain, ServedBlock};
use crate::error::CallbackError;
use crate::level::Level;

/// Memory taken through a [`FallbackChain`], for as long as the command lasts: dropping it gives it back to the allocator it came from.
///
/// What outlives the command becomes a [`Stored`]. Not `Send`: it belongs to a command, and a command to its thread (V23).
#[must_use = "dropping a block gives it back"]
pub struct DriverBlock<'a> {
    memory: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    served: ServedBlock<'a>,
}

/// Memory that outlives the command that took it: the receipt to keep beside it, in the object.
///
/// 40 bytes. It holds no reference to an allocator: the `pAllocator` of the destroying command may be another struct with
/// other user data (V5, V42), so giving back takes that command's [`FallbackChain`]. Dropping a receipt leaks the memory.
#[must_use = "a dropped receipt is memory that nobody can give back"]
#[derive(Debug)]
pub struct Stored {
    memory: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    level: Level,
}

// SAFETY: a receipt is the right to give a block back, and blocks may be given back on any thread (V24).
unsafe impl Send for Stored {}
// SAFETY: nothing can be done through a shared receipt but read its numbers.
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
        match answer {
            Ok(memory) => Ok(Self {
                memory,
                layout,
                scope,
                served,
            }),
            Err(_) => Err(CallbackError::Host(served.refusal(layout, scope))),
        }
    }

    /// The memory: `layout().size()` bytes, undefined unless taken zeroed. Valid until the block is dropped or given back.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.memory
    }

    /// What was asked for.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The scope it was asked for.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Which allocator served.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.served.level
    }

    /// Keeps the memory beyond the command.
    pub fn store(self) -> Stored {
        let block = ManuallyDrop::new(self);
        Stored {
            memory: block.memory,
            layout: block.layout,
            scope: block.scope,
            level: block.served.level,
        }
    }
}

impl Drop for DriverBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: taken from this very allocator with this layout and scope; the block owns it.
        unsafe {
            self.served
                .allocator
                .deallocate(self.memory, self.layout, self.scope)
        }
    }
}

impl fmt::Debug for DriverBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverBlock")
            .field("memory", &self.memory)
            .field("layout", &self.layout)
            .field("scope", &self.scope)
            .field("level", &self.served.level)
            .finish()
    }
}

impl Stored {
    /// The memory.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.memory
    }

    /// What was asked for.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Which level of the chain it came from, and goes back to.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Makes it a command's block again, to use or to drop.
    ///
    /// # Errors
    /// The receipt, with [`CallbackError::LevelMissing`], when `chain` has no allocator at the level the memory came from: the object was created with an
    /// allocator and is destroyed without (V42). The application's fault; nothing was freed.
    ///
    /// # Safety
    /// The allocator of `chain` at [`level`](Self::level) is compatible with the one the memory was taken from (V42, the
    /// VUIDs of each `vkDestroy*`): the same heap behind, whatever struct and user data. Nobody else uses the memory.
    pub unsafe fn claim<'a>(
        self,
        chain: &FallbackChain<'a>,
    ) -> Result<DriverBlock<'a>, Rejected<Self, CallbackError>> {
        match chain.at(self.level) {
            Some(served) => Ok(DriverBlock {
                memory: self.memory,
                layout: self.layout,
                scope: self.scope,
                served,
            }),
            None => {
                let error = CallbackError::LevelMissing(self.level);
                Err(Rejected::new(self, error))
            }
        }
    }

    /// Gives the memory back to the level it came from, through the allocator that `chain` has there.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    ///
    /// # Safety
    /// As [`claim`](Self::claim).
    pub unsafe fn free(
        self,
        chain: &FallbackChain<'_>,
    ) -> Result<(), Rejected<Self, CallbackError>> {
        // SAFETY: forwarded.
        unsafe { self.claim(chain) }.map(drop)
    }
}
