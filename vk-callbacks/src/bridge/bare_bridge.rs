//! A bridge over any allocator, without an account: the caller keeps it in its place.

use core::marker::PhantomPinned;
use core::pin::Pin;

use alloc_core::HostAllocator;

use super::cookie_key;
use super::counters::BridgeCounters;
use super::entry::callbacks_of;
use super::state::BridgeState;
use crate::command::OwnerId;
use crate::raw::RawCallbacks;

/// Any [`HostAllocator`] as `VkAllocationCallbacks`, for callers that count live blocks themselves.
///
/// Otherwise use [`Bridge`](crate::Bridge), which knows when it may be closed. Callable from any thread, without locks.
///
/// ```
/// use std::pin::pin;
/// use vk_callbacks::bridge::BareBridge;
/// let bridge = pin!(BareBridge::new(alloc_core::FromGlobalAlloc::SYSTEM));
/// let callbacks = bridge.as_ref().raw(); // to a C API as pAllocator; `bridge` outlives all that is made with it
/// assert!(callbacks.pfn_allocation.is_some());
/// ```
pub struct BareBridge<A> {
    state: BridgeState<A>,
    _pinned: PhantomPinned,
}

impl<A: HostAllocator + Sync> BareBridge<A> {
    /// A bridge over `backing`.
    pub fn new(backing: A) -> Self {
        let key = cookie_key::fresh((&raw const backing).addr());
        Self {
            state: BridgeState::new(backing, key),
            _pinned: PhantomPinned,
        }
    }

    /// The C struct. Its functions may be called while `self` does not move; later calls are undefined.
    #[must_use]
    pub fn raw(self: Pin<&Self>) -> RawCallbacks {
        callbacks_of(&self.get_ref().state, &raw const self.get_ref().state)
    }

    /// The id of this bridge in [`Owners`](crate::Owners) and in the header of its blocks.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        cookie_key::id_of(self.state.cookie_key)
    }

    /// The counters of rare events so far.
    #[must_use]
    pub fn counters(&self) -> BridgeCounters {
        self.state.counters.read()
    }

    /// The backing.
    pub const fn backing(&self) -> &A {
        &self.state.backing
    }
}
