//! The interface of a mock device to its test.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;
use core::time::Duration;

use super::fault::MockFault;
use super::state::{MockMemoryState, ResourceInfo};
use super::violation::{MockCall, Violations};
use super::{MockConfig, MockDevice, MockHook, locked};
use crate::device::{BufferHandle, BufferInfo, ImageHandle, MemoryHandle, MemoryRequest, ResourceHandle};

/// Counts of live objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MockLiveCounts {
    /// `VkDeviceMemory`.
    pub memory: u64,
    /// `VkBuffer`.
    pub buffers: u64,
    /// `VkImage`.
    pub images: u64,
    /// Bytes of all memory objects.
    pub bytes: u64,
}

/// One memory object.
#[derive(Clone, Copy, Debug)]
pub struct MockMemory {
    /// Its request.
    pub request: MemoryRequest,
    /// Offset and bytes of its mapping.
    pub mapped: Option<(u64, u64)>,
}

impl MockDevice {
    /// The violations so far.
    #[must_use]
    pub fn violations(&self) -> Violations {
        locked(&self.state).violations
    }

    /// Nothing was wrong, and all memory was freed.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn assert_ended(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{violations}");
        assert_eq!(self.live_counts().memory, 0);
    }

    /// The violations so far, which are cleared.
    pub fn drain_violations(&self) -> Violations {
        core::mem::replace(&mut locked(&self.state).violations, Violations::NONE)
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &MockConfig {
        &self.config
    }

    /// Counts of live objects; all 0 if everything was freed.
    #[must_use]
    pub fn live_counts(&self) -> MockLiveCounts {
        let state = locked(&self.state);
        let bytes = state.heaps.iter().map(|heap| heap.live).sum();
        MockLiveCounts {
            memory: state.memory.live(),
            buffers: state.buffers.live(),
            images: state.images.live(),
            bytes,
        }
    }

    /// Live bytes of a heap.
    #[must_use]
    pub fn heap(&self, index: usize) -> u64 {
        let state = locked(&self.state);
        state.heaps.get(index).map_or(0, |heap| heap.live)
    }

    /// A live memory object.
    #[must_use]
    pub fn memory(&self, memory: MemoryHandle) -> Option<MockMemory> {
        let state = locked(&self.state);
        Some(state.memory.get(memory.as_raw()).ok()?.view())
    }

    /// Every live memory object. `see` must not call this device.
    pub fn for_each_memory(&self, see: &mut dyn FnMut(MemoryHandle, MockMemory)) {
        for (number, object) in locked(&self.state).memory.iter() {
            if let Some(memory) = MemoryHandle::from_raw(number) {
                see(memory, object.view());
            }
        }
    }

    /// The info of a live buffer.
    #[must_use]
    pub fn buffer(&self, buffer: BufferHandle) -> Option<BufferInfo> {
        match locked(&self.state).buffers.get(buffer.as_raw()).ok()?.info {
            ResourceInfo::Buffer(info) => Some(info),
            ResourceInfo::Image(_) => None,
        }
    }

    /// Where a live buffer is bound.
    #[must_use]
    pub fn buffer_bound(&self, buffer: BufferHandle) -> Option<(MemoryHandle, u64)> {
        self.bound(ResourceHandle::Buffer(buffer))
    }

    /// Where a live image is bound.
    #[must_use]
    pub fn image_bound(&self, image: ImageHandle) -> Option<(MemoryHandle, u64)> {
        self.bound(ResourceHandle::Image(image))
    }

    fn bound(&self, name: ResourceHandle) -> Option<(MemoryHandle, u64)> {
        let bound = locked(&self.state).resource(name).ok()?.bound?;
        Some((MemoryHandle::from_raw(bound.memory)?, bound.offset))
    }

    /// The number of calls of an entry point.
    #[must_use]
    pub fn calls(&self, call: MockCall) -> u64 {
        let state = locked(&self.state);
        state.counts.get(call as usize).copied().unwrap_or(0)
    }

    /// The number of calls of all entry points.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        locked(&self.state).counts.iter().sum()
    }

    /// The number of calls that can fail, for sweeps.
    #[must_use]
    pub fn calls_that_can_fail(&self) -> u64 {
        let that_can_fail = MockCall::ALL.iter().filter(|call| call.can_fail());
        that_can_fail.map(|call| self.calls(*call)).sum()
    }

    /// Plants a failure; false if four are planted already.
    pub fn plant(&self, fault: MockFault) -> bool {
        locked(&self.state).faults.plant(fault)
    }

    /// Removes all planted failures.
    pub fn clear_faults(&self) {
        locked(&self.state).faults = super::MockFaults::NONE;
    }

    /// Refuses memory objects of at least `bytes` with `OutOfDeviceMemory`.
    pub fn refuse_from(&self, bytes: u64) {
        locked(&self.state).refuse_from = bytes;
    }

    /// Sets the bytes of a heap that others use, which reduces free bytes and budget.
    pub fn use_elsewhere(&self, heap: usize, bytes: u64) {
        if let Some(heap) = locked(&self.state).heaps.get_mut(heap) {
            heap.elsewhere = bytes;
        }
    }

    /// Sets the reported budget of a heap; `None`: what others leave of it.
    pub fn set_budget(&self, heap: usize, budget: Option<u64>) {
        if let Some(heap) = locked(&self.state).heaps.get_mut(heap) {
            heap.budget = budget;
        }
    }

    /// Sets the clock, which stands still at 0 until then; `None`: std's.
    pub fn set_clock(&self, now: Option<Duration>) {
        locked(&self.state).clock = now;
    }

    /// Loses the device: every call that can fail returns `DeviceLost`; freeing and destroying still work.
    pub fn lose_device(&self) {
        locked(&self.state).lost = true;
    }

    /// Whether more than a heap's size can live in it, as in drivers that page. One memory object is never larger than
    /// its heap.
    pub fn oversubscribe(&self, allowed: bool) {
        locked(&self.state).oversubscribed = allowed;
    }

    /// Sets a function that every call begins with, nested calls included, like a driver that calls its caller back.
    pub fn set_hook(&self, hook: Option<MockHook>) {
        *locked(&self.hook) = hook;
    }

    /// From now on a buffer has the handle of the one that was destroyed last.
    pub fn give_buffer_handles_again(&self) {
        locked(&self.state).buffers.repeats = true;
    }

    /// From now on a buffer is said to need `bytes` more than what it is bound with.
    pub fn require_more(&self, bytes: u64) {
        self.more.store(bytes, Ordering::Relaxed);
    }

    /// Makes calls on an externally synchronised object longer by `turns` of a spinning loop, so that threads meet
    /// there.
    pub fn set_linger(&self, turns: u32) {
        self.linger.store(turns, Ordering::Relaxed);
    }

    /// `vkCmdCopyBuffer`, at once, with the bytes that the *device* sees. False after a breach, or if host memory is
    /// short.
    ///
    /// No other thread may write the bytes meanwhile.
    pub fn copy_buffer(
        &self,
        source: BufferHandle,
        source_offset: u64,
        target: BufferHandle,
        target_offset: u64,
        size: u64,
    ) -> bool {
        let (from, to) = ((source.as_raw(), source_offset), (target.as_raw(), target_offset));
        self.queue(source).is_some_and(|mut state| state.copy(from, to, size))
    }

    /// `vkCmdFillBuffer`, of bytes; as [`copy_buffer`](MockDevice::copy_buffer).
    pub fn fill_buffer(&self, buffer: BufferHandle, offset: u64, size: u64, byte: u8) -> bool {
        self.queue(buffer).is_some_and(|mut state| state.fill(buffer.as_raw(), offset, size, byte))
    }

    /// Reads what the device sees of a buffer that can be copied from; as [`copy_buffer`](MockDevice::copy_buffer).
    pub fn read_buffer(&self, buffer: BufferHandle, offset: u64, into: &mut [u8]) -> bool {
        self.queue(buffer).is_some_and(|mut state| state.read(buffer.as_raw(), offset, into))
    }

    fn queue(&self, buffer: BufferHandle) -> Option<std::sync::MutexGuard<'_, super::MockState>> {
        self.begin(MockCall::Queue, buffer.as_raw()).ok()
    }
}

impl MockMemoryState {
    const fn view(&self) -> MockMemory {
        MockMemory { request: self.request, mapped: self.mapped }
    }
}
