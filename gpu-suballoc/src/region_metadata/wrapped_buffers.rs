use super::detail::RegionDetail;
use super::record::{RecordKind, RegionRecord, WrappedBuffer};
use super::{MetadataState, RegionMetadata};
use crate::device::{DeviceMemory, MemoryHandle};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::lock_filled;
use crate::id::RegionKey;
use crate::map_count::{MapCount, Step};
use crate::memory_type::PropertyFlags;
use crate::on_drop::OnDrop;
use crate::request::RegionOptions;
use crate::threads;
use alloc_core::HostAllocator;
use core::ptr::NonNull;

pub(super) struct ForeignMemory {
    memory: MemoryHandle,
    size: u64,
    users: u32,
    map: MapCount,
}

impl RegionMetadata {
    pub(crate) fn insert_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
    ) -> Result<RegionKey, GpuError> {
        let mut detail = RegionDetail::new(memory, options)?;
        self.state.lock().change_wrap_limit(1);
        // A refused buffer leaves no reserve that other calls would fill.
        let refused = OnDrop(|| self.state.lock().change_wrap_limit(-1));
        let filled = lock_filled(&self.state, memory).map_err(GpuError::Host);
        let key = filled.and_then(|mut state| state.insert_wrap(wrap, &mut detail));
        if key.is_ok() {
            core::mem::forget(refused);
        }
        RegionDetail::free(detail, memory);
        key
    }

    /// The caller's mapping is counted, so the memory stays mapped.
    pub(crate) fn map_foreign(&self, number: u32, device: &dyn DeviceMemory) -> Result<NonNull<u8>, GpuError> {
        let mut tries = 0u32;
        loop {
            let (memory, size, step) = {
                let mut state = self.state.lock();
                let foreign = state.foreign.get_mut(number).ok_or(GpuMisuse::Stale)?;
                (foreign.memory, foreign.size, foreign.map.enter())
            };
            match step {
                Step::Done(Some(start)) => return Ok(start),
                Step::Done(None) | Step::Refused => return Err(Limit::Aliases.into()),
                Step::Wait if threads::pause(&mut tries) => {}
                Step::Wait => return Err(GpuMisuse::NestedMap.into()),
                Step::Driver => {
                    let _in_call = threads::enter_call();
                    // SAFETY: the application promised that the memory lives and is not mapped; the turn is ours.
                    let mapped = unsafe { device.map(memory, 0, size) };
                    if let Some(foreign) = self.state.lock().foreign.get_mut(number) {
                        foreign.map.entered(mapped.ok());
                    }
                    return Ok(mapped?);
                }
            }
        }
    }

    pub(crate) fn unmap_foreign(&self, number: u32, device: &dyn DeviceMemory) {
        let left = |foreign: &mut ForeignMemory| (foreign.map.leave(false), foreign.memory);
        let left = self.state.lock().foreign.get_mut(number).map(left);
        let Some((Step::Driver, memory)) = left else {
            return;
        };
        let _in_call = threads::enter_call();
        // SAFETY: mapped by `map_foreign`; the last mapping ended, and the turn is ours.
        unsafe { device.unmap(memory) };
        if let Some(foreign) = self.state.lock().foreign.get_mut(number) {
            foreign.map.left();
        }
    }

    pub(super) fn free_all_wraps(&mut self, device: Option<&dyn DeviceMemory>, memory: &dyn HostAllocator) {
        let state = self.state.get_mut();
        let mut number = 0;
        while let Some(record) = state.table.get_mut(number) {
            RegionDetail::free(record.detail.take(), memory);
            number += 1;
        }
        for number in 0..state.foreign.len() {
            if let Some(foreign) = state.foreign.get_mut(number)
                && core::mem::take(&mut foreign.map).is_mapped()
                && let Some(device) = device
            {
                // SAFETY: mapped by `map_foreign`, and nobody uses it any more.
                unsafe { device.unmap(foreign.memory) };
            }
        }
    }
}

impl MetadataState {
    /// Wrapped buffers that live and those that calls insert now find a reserve; others do not.
    const fn change_wrap_limit(&mut self, by: i32) {
        self.wraps.change_limit(by);
        self.foreign.change_limit(by);
    }

    /// `detail` stays if the buffer is refused.
    fn insert_wrap(
        &mut self,
        mut wrap: WrappedBuffer,
        detail: &mut Option<RegionDetail>,
    ) -> Result<RegionKey, GpuError> {
        let (size, before) = (wrap.size, self.counts.wrapped_bytes);
        let short_by = size.wrapping_add(before).wrapping_add(1);
        let bytes = before.checked_add(size);
        let bytes = bytes.ok_or(Limit::WrappedBytes { short_by })?;
        let slot = self.table.reserve().ok_or(Limit::Records)?;
        wrap.foreign = self.share_foreign(&wrap);
        let buffer = self.wraps.reserve().unwrap_or(u32::MAX);
        self.wraps.fill(buffer, wrap);
        self.counts.wrapped_bytes = bytes;
        self.counts.wrapped += 1;
        let record =
            RegionRecord { kind: RecordKind::Wrapped, link: buffer, detail: detail.take(), ..RegionRecord::NEW };
        let filled = self.table.fill(slot, record);
        filled.ok_or_else(|| GpuMisuse::Stale.into())
    }

    fn share_foreign(&mut self, wrap: &WrappedBuffer) -> Option<u32> {
        let backing = wrap
            .backing
            .filter(|backing| backing.mapped.is_none() && backing.properties.contains(PropertyFlags::HOST_VISIBLE))?;
        let is_it = |(number, one): (u32, &ForeignMemory)| (one.memory == backing.memory).then_some(number);
        let there = self.foreign.each().find_map(is_it);
        if let Some(number) = there {
            self.foreign.get_mut(number)?.users += 1;
            return Some(number);
        }
        let number = self.foreign.reserve()?;
        self.foreign.fill(
            number,
            ForeignMemory { memory: backing.memory, size: backing.memory_size, users: 1, map: MapCount::NONE },
        );
        Some(number)
    }

    pub(super) fn remove_wrapped(&mut self, buffer: u32) {
        let Some(buffer) = self.wraps.remove_if(buffer, |_| true) else {
            return;
        };
        self.change_wrap_limit(-1);
        self.counts.wrapped -= 1;
        self.counts.wrapped_bytes -= buffer.size;
        let is_last = |foreign: &mut ForeignMemory| {
            foreign.users -= 1;
            foreign.users == 0
        };
        if let Some(foreign) = buffer.foreign {
            self.foreign.remove_if(foreign, is_last);
        }
    }
}
