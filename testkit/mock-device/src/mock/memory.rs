//! `vkAllocateMemory` and its kin: the rules that a caller can break, and what happens when it does not.

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::backing::MockBacking;
use super::state::{MockMemoryState, MockState};
use super::violation::{Breach, MockCall};
use crate::device::{DeviceError, MappedRange, MemoryRequest};
use crate::memory_type::MemoryType;
use crate::property_flags::PropertyFlags;

/// What a driver might answer where the specification says nothing: `VK_ERROR_UNKNOWN`.
pub(super) const UNKNOWN: DeviceError = DeviceError::Other(-13);

const AMD: PropertyFlags =
    super::profile::all([PropertyFlags::DEVICE_COHERENT_AMD, PropertyFlags::DEVICE_UNCACHED_AMD]);

impl MockState {
    pub(super) fn allocate(&mut self, request: &MemoryRequest) -> Result<u64, DeviceError> {
        let kind = match self.check(request) {
            Ok(kind) => kind,
            Err((breach, error)) => {
                self.breach(breach, MockCall::Allocate, 0);
                return Err(error);
            }
        };
        let index = kind.heap_index as usize;
        let capacity = self.config.properties().heaps.get(index).map_or(0, |heap| heap.size);
        let heap = self.heaps.get_mut(index).ok_or(UNKNOWN)?;
        let taken = heap.live.saturating_add(heap.elsewhere).saturating_add(request.size);
        if request.size >= self.refuse_from || taken > capacity && !self.oversubscribed {
            return Err(DeviceError::OutOfDeviceMemory);
        }
        let properties = kind.properties;
        let memory = MockMemoryState {
            request: *request,
            heap: index,
            visible: properties.contains(PropertyFlags::HOST_VISIBLE),
            mapped: None,
            backing: MockBacking::new(
                request.size,
                properties.contains(PropertyFlags::HOST_COHERENT) || !properties.contains(PropertyFlags::HOST_VISIBLE),
            ),
            users: 0,
            bound: None,
        };
        let number = self.memory.insert(memory).ok_or(DeviceError::OutOfHostMemory)?;
        heap.live += request.size;
        Ok(number)
    }

    fn check(&mut self, request: &MemoryRequest) -> Result<MemoryType, (Breach, DeviceError)> {
        let device = self.config.properties();
        let full = DeviceError::OutOfDeviceMemory;
        if request.size == 0 {
            return Err((Breach::SizeZero, UNKNOWN));
        }
        let Some(kind) = device.types.get(request.memory_type as usize).copied() else {
            return Err((Breach::NoSuchMemoryType, UNKNOWN));
        };
        if device.heaps.get(kind.heap_index as usize).is_some_and(|heap| request.size > heap.size) {
            return Err((Breach::OverHeap, full));
        }
        if self.memory.live() >= u64::from(device.limits.max_memory_allocation_count) {
            return Err((Breach::OverMaxAllocationCount, DeviceError::TooManyObjects));
        }
        let has = device.features;
        let lacks = request.priority.is_some() && !has.memory_priority
            || request.dedicated.is_some() && !has.dedicated_allocation
            || request.device_address && !has.buffer_device_address
            || !request.export.is_empty() && !has.external_memory
            || !(kind.properties & AMD).is_empty() && !has.device_coherent_memory;
        if lacks {
            return Err((Breach::FeatureNotEnabled, UNKNOWN));
        }
        if request.priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            return Err((Breach::PriorityOutOfRange, UNKNOWN));
        }
        if let Some(dedicated) = request.dedicated {
            match self.resource(dedicated) {
                Ok(resource) if resource.bound.is_none() && resource.needs.size == request.size => {}
                Ok(_) => return Err((Breach::DedicatedMismatch, UNKNOWN)),
                Err(breach) => return Err((breach, UNKNOWN)),
            }
        }
        Ok(kind)
    }

    pub(super) fn free(&mut self, number: u64) {
        match self.memory.remove(number) {
            Ok(mut freed) => {
                freed.backing.free();
                if let Some(heap) = self.heaps.get_mut(freed.heap) {
                    heap.live = heap.live.saturating_sub(freed.request.size);
                }
                if freed.bound.is_some() {
                    self.breach(Breach::FreedUnderResource, MockCall::Free, number);
                }
            }
            Err(breach) => self.breach(breach, MockCall::Free, number),
        }
    }

    /// Nothing before a command or the host touches it, then all.
    pub(super) fn commitment(&self, number: u64) -> Result<u64, Breach> {
        let object = self.memory.get(number)?;
        let kind = self.config.properties().types.get(object.request.memory_type as usize);
        if kind.is_some_and(|kind| kind.properties.contains(PropertyFlags::LAZILY_ALLOCATED)) {
            Ok(object.backing.bytes())
        } else {
            Err(Breach::NotLazilyAllocated)
        }
    }

    pub(super) fn map(&mut self, number: u64, offset: u64, size: u64) -> Result<NonNull<u8>, DeviceError> {
        let judged = match self.memory.get_mut(number) {
            Err(breach) => Err(breach),
            Ok(object) if !object.visible => Err(Breach::NotHostVisible),
            Ok(object) if object.mapped.is_some() => Err(Breach::AlreadyMapped),
            Ok(object) if size == 0 || offset.checked_add(size).is_none_or(|end| end > object.request.size) => {
                Err(Breach::MapOutOfRange)
            }
            Ok(object) => Ok(object),
        };
        match judged {
            Ok(object) => {
                let first = object.backing.host_at(offset, size).ok_or(DeviceError::OutOfHostMemory)?;
                object.mapped = Some((offset, size));
                Ok(first)
            }
            Err(breach) => {
                self.breach(breach, MockCall::Map, number);
                Err(DeviceError::MapFailed)
            }
        }
    }

    pub(super) fn unmap(&mut self, number: u64) {
        let judged = self.memory.get_mut(number).and_then(|object| object.mapped.take().ok_or(Breach::NotMapped));
        if let Err(breach) = judged {
            self.breach(breach, MockCall::Unmap, number);
        }
    }

    pub(super) fn carry(&mut self, call: MockCall, range: &MappedRange) -> Result<(), DeviceError> {
        let number = range.memory.as_raw();
        let atom = self.config.limits.non_coherent_atom_size;
        let judged = match self.memory.get_mut(number) {
            Err(breach) => Err(breach),
            Ok(object) => object.mapped.ok_or(Breach::NotMapped).and_then(|(from, size)| {
                let (end, mapped_end) = (range.offset.checked_add(range.size), from.saturating_add(size));
                let Some(end) = end.filter(|end| range.size > 0 && range.offset >= from && *end <= mapped_end) else {
                    return Err(Breach::RangeOutsideMapping);
                };
                let whole_atoms = range.size.is_multiple_of(atom) || end == object.request.size;
                if range.offset.is_multiple_of(atom) && whole_atoms { Ok(object) } else { Err(Breach::RangeMisaligned) }
            }),
        };
        let done = match judged {
            Ok(object) if call == MockCall::Flush => object.backing.flush(range.offset, range.size),
            Ok(object) => object.backing.invalidate(range.offset, range.size),
            Err(breach) => {
                self.breach(breach, call, number);
                return Err(UNKNOWN);
            }
        };
        if done { Ok(()) } else { Err(DeviceError::OutOfHostMemory) }
    }
}
