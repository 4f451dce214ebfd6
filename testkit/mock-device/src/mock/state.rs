//! Everything a mock device knows, behind its one gate.

#![forbid(unsafe_code)]

use core::time::Duration;

use super::backing::MockBacking;
use super::fault::MockFaults;
use super::handle_table::HandleTable;
use super::profile::MockConfig;
use super::violation::{Breach, MockCall, Violation, Violations};
use crate::device::{
    BufferInfo, DeviceError, ImageInfo, ImageTiling, MAX_MEMORY_HEAPS, MemoryRequest, ResourceHandle,
    ResourceRequirements,
};

pub(super) const MEMORY: u8 = 1;
pub(super) const BUFFER: u8 = 2;
pub(super) const IMAGE: u8 = 3;

pub(super) struct MockState {
    pub(super) config: MockConfig,
    pub(super) memory: HandleTable<MockMemoryState>,
    pub(super) buffers: HandleTable<MockResource>,
    pub(super) images: HandleTable<MockResource>,
    pub(super) heaps: [MockHeap; MAX_MEMORY_HEAPS],
    pub(super) violations: Violations,
    /// Calls of each entry point.
    pub(super) counts: [u64; MockCall::ALL.len()],
    pub(super) faults: MockFaults,
    pub(super) refuse_from: u64,
    pub(super) lost: bool,
    pub(super) oversubscribed: bool,
    pub(super) clock: Option<Duration>,
}

/// What is taken of a heap, and what it is said to hold.
#[derive(Clone, Copy, Default)]
pub(super) struct MockHeap {
    pub(super) live: u64,
    pub(super) elsewhere: u64,
    pub(super) budget: Option<u64>,
}

pub(super) struct MockMemoryState {
    pub(super) request: MemoryRequest,
    pub(super) heap: usize,
    pub(super) visible: bool,
    pub(super) mapped: Option<(u64, u64)>,
    pub(super) backing: MockBacking,
    pub(super) users: u32,
    /// The resource bound last; each knows its neighbours in the list.
    pub(super) bound: Option<ResourceHandle>,
}

#[derive(Clone, Copy)]
pub(super) struct MockResource {
    pub(super) info: ResourceInfo,
    pub(super) needs: ResourceRequirements,
    pub(super) bound: Option<MockBinding>,
    pub(super) users: u32,
}

#[derive(Clone, Copy)]
pub(super) enum ResourceInfo {
    Buffer(BufferInfo),
    Image(ImageInfo),
}

impl ResourceInfo {
    /// In the device's own order: apart from linear ones by `bufferImageGranularity`.
    pub(super) fn is_optimal(&self) -> bool {
        matches!(self, Self::Image(info) if info.tiling == ImageTiling::Optimal)
    }

    pub(super) const fn external(&self) -> u32 {
        match self {
            Self::Buffer(info) => info.external.as_raw(),
            Self::Image(info) => info.external.as_raw(),
        }
    }
}

/// Where a resource lies, and its neighbours in the list of its memory.
#[derive(Clone, Copy)]
pub(super) struct MockBinding {
    pub(super) memory: u64,
    pub(super) offset: u64,
    pub(super) before: Option<ResourceHandle>,
    pub(super) after: Option<ResourceHandle>,
}

impl MockState {
    pub(super) fn breach(&mut self, breach: Breach, call: MockCall, object: u64) {
        self.violations.note(Violation { breach, call, object });
    }

    /// Counts a call. An error if the call is to fail.
    pub(super) fn begin(&mut self, call: MockCall, object: u64) -> Result<(), DeviceError> {
        if alloc_core::held_state_locks() != 0 {
            self.breach(Breach::StateLockHeld, call, object);
        }
        if let Some(count) = self.counts.get_mut(call as usize) {
            *count += 1;
        }
        if !call.can_fail() {
            return Ok(());
        }
        match self.faults.meet(call) {
            _ if self.lost => Err(DeviceError::DeviceLost),
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn resource(&mut self, name: ResourceHandle) -> Result<&mut MockResource, Breach> {
        match name {
            ResourceHandle::Buffer(buffer) => self.buffers.get_mut(buffer.as_raw()),
            ResourceHandle::Image(image) => self.images.get_mut(image.as_raw()),
        }
    }

    /// How many threads are in a call on this object that Vulkan wants to be alone.
    pub(super) fn users(&mut self, object: SyncedObject) -> Result<&mut u32, Breach> {
        match object {
            SyncedObject::Memory(number) => Ok(&mut self.memory.get_mut(number)?.users),
            SyncedObject::Resource(name) => Ok(&mut self.resource(name)?.users),
        }
    }
}

/// What Vulkan wants externally synchronised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncedObject {
    Memory(u64),
    Resource(ResourceHandle),
}

impl SyncedObject {
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Memory(number) => number,
            Self::Resource(name) => super::raw(name),
        }
    }
}
