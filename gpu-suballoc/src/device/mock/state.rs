//! Everything a mock device knows, behind its one gate.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::backing::MockBacking;
use super::fault::{CallLog, LoggedCall, MockFaults};
use super::handle_table::HandleTable;
use super::profile::MockConfig;
use super::violation::{Breach, MockCall, Violation, Violations};
use crate::device::{
    BufferInfo, DeviceError, ImageInfo, ImageTiling, MAX_MEMORY_HEAPS, MemoryRequest,
    ResourceRequirements,
};

pub(super) const MEMORY: u8 = 1;
pub(super) const BUFFER: u8 = 2;
pub(super) const IMAGE: u8 = 3;

pub(super) struct MockState<A: HostAllocator> {
    pub(super) config: MockConfig,
    pub(super) memory: HandleTable<MockMemoryState, A>,
    pub(super) buffers: HandleTable<MockResource, A>,
    pub(super) images: HandleTable<MockResource, A>,
    pub(super) heaps: [MockHeap; MAX_MEMORY_HEAPS],
    pub(super) violations: Violations,
    pub(super) log: CallLog,
    pub(super) faults: MockFaults,
    pub(super) refuse_from: u64,
    pub(super) lost: bool,
    pub(super) aliasing: bool,
}

/// What is taken of a heap, and what it is said to hold.
#[derive(Clone, Copy, Default)]
pub(super) struct MockHeap {
    pub(super) live: u64,
    pub(super) peak: u64,
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
    pub(super) bound: Option<ResourceName>,
}

/// A buffer or an image by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceName {
    Buffer(u64),
    Image(u64),
}

impl ResourceName {
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Buffer(number) | Self::Image(number) => number,
        }
    }
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
    pub(super) before: Option<ResourceName>,
    pub(super) after: Option<ResourceName>,
}

impl<A: HostAllocator> MockState<A> {
    pub(super) fn breach(&mut self, breach: Breach, call: MockCall, object: u64) {
        self.violations.note(Violation {
            breach,
            call,
            object,
        });
    }

    /// Logs a call; the answer of one that is to fail.
    pub(super) fn begin(&mut self, logged: LoggedCall) -> Result<(), DeviceError> {
        if alloc_core::held_state_locks() != 0 {
            self.breach(Breach::StateLockHeld, logged.call, logged.object);
        }
        self.log.note(logged);
        if !logged.call.can_fail() {
            return Ok(());
        }
        match self.faults.meet(logged.call) {
            _ if self.lost => Err(DeviceError::DeviceLost),
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn resource(&mut self, name: ResourceName) -> Result<&mut MockResource, Breach> {
        match name {
            ResourceName::Buffer(number) => self.buffers.get_mut(number),
            ResourceName::Image(number) => self.images.get_mut(number),
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
    Resource(ResourceName),
}

impl SyncedObject {
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Memory(number) => number,
            Self::Resource(name) => name.number(),
        }
    }
}
