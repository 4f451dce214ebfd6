//! A whole memory object is mapped once, for all its regions.

use super::options::MapPolicy;
use super::request::{AllocationRequest, Suballocation};
use super::state::PoolState;
use super::{DevicePools, Pool};
use crate::device::{DeviceError, DeviceMemory, MappedRange, MemoryHandle};
use crate::error::{GpuError, GpuMisuse, Limit, MapRefusal};
use crate::id::{BlockRef, RegionPlace};
use crate::map_count::{Address, Step};
use crate::memory_type::PropertyFlags;
use crate::sync::StateGuard;
use crate::threads;
use core::ptr::NonNull;

impl DevicePools<'_> {
    /// Each call needs an [`unmap`](Self::unmap) of the place's block, even if the region is freed.
    pub(crate) fn map(&self, at: RegionPlace) -> Result<NonNull<u8>, GpuError> {
        let pool = self.pool_at(at.block)?;
        self.map_in(pool, pool.lock(), at)
    }

    /// Mapped memory is mapped once more within the lock.
    fn map_in<'p>(
        &self,
        pool: &'p Pool,
        locked: StateGuard<'p, PoolState>,
        at: RegionPlace,
    ) -> Result<NonNull<u8>, GpuError> {
        let mut tries = 0u32;
        let mut locked = Some(locked);
        loop {
            let (offset, memory, size, step) = {
                let mut state = locked.take().unwrap_or_else(|| pool.lock());
                let offset = state.locate(at)?.offset;
                if !state.config.properties.contains(PropertyFlags::HOST_VISIBLE) {
                    return Err(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible });
                }
                let object = state.object_mut(at.block)?;
                if isize::try_from(object.size).is_err() {
                    return Err(GpuError::MapUnsupported { reason: MapRefusal::AddressSpace });
                }
                (offset, object.memory, object.size, object.map.enter())
            };
            let base = match step {
                Step::Done(base) => base,
                Step::Refused => return Err(Limit::Aliases.into()),
                Step::Wait if threads::pause(&mut tries) => continue,
                Step::Wait => return Err(GpuMisuse::NestedMap.into()),
                Step::Driver => {
                    let _in_call = threads::enter_call();
                    // SAFETY: host-visible and not mapped; this thread has the turn, which keeps the object.
                    let mapped = unsafe { self.device.map(memory, 0, size) };
                    let mut state = pool.lock();
                    state.object_mut(at.block)?.map.entered(mapped.ok());
                    drop(state);
                    Some(mapped?)
                }
            };
            return match base {
                Some(base) => Ok(Address(base).offset(offset).0),
                None => Err(GpuError::Device(DeviceError::MapFailed)),
            };
        }
    }

    #[inline(always)]
    pub(super) fn map_for_life<'p>(
        &self,
        pool: &'p Pool,
        locked: StateGuard<'p, PoolState>,
        request: &AllocationRequest,
        placed: Suballocation,
    ) -> Result<Suballocation, GpuError> {
        if !request.mapped || !placed.properties.contains(PropertyFlags::HOST_VISIBLE) {
            return Ok(placed);
        }
        match self.map_in(pool, locked, placed.at) {
            Ok(first) => Ok(Suballocation {
                at: RegionPlace { block: placed.at.block.mapped(), ..placed.at },
                mapped: Some(Address(first)),
                ..placed
            }),
            Err(error) => {
                let freed = self.free(placed.at);
                debug_assert!(freed.is_ok(), "{freed:?}");
                Err(error)
            }
        }
    }

    pub(crate) fn unmap(&self, place: BlockRef) -> Result<(), GpuMisuse> {
        let pool = self.pool_at(place)?;
        let left = pool.lock().leave(place, self.options.map_policy)?;
        self.finish_unmap(pool, place, left)
    }

    pub(super) fn finish_unmap(
        &self,
        pool: &Pool,
        place: BlockRef,
        (memory, step): (MemoryHandle, Step),
    ) -> Result<(), GpuMisuse> {
        match step {
            Step::Done(_) => {}
            Step::Refused | Step::Wait => return Err(GpuMisuse::NotMapped),
            Step::Driver => {
                let _in_call = threads::enter_call();
                // SAFETY: mapped, and no user is left; this thread has the turn, which keeps the object.
                unsafe { self.device.unmap(memory) };
                pool.lock().object_mut(place)?.map.left();
            }
        }
        // It may have become empty meanwhile, and was not freed then.
        let (leftover, excess) = {
            let mut state = pool.lock();
            (state.detach_leftover(place), state.excess_block())
        };
        if let Some(object) = leftover {
            self.free_object(pool, &object);
        }
        if let Some(block) = excess {
            self.trim_excess(pool, block);
        }
        Ok(())
    }

    pub(crate) fn commitment(&self, at: RegionPlace) -> Result<Option<u64>, GpuMisuse> {
        let pool = self.pool_at(at.block)?;
        let mut tries = 0u32;
        let memory = loop {
            let mut state = pool.lock();
            state.locate(at)?;
            if !state.config.is_lazily_allocated() {
                return Ok(None);
            }
            let object = state.object_mut(at.block)?;
            // Lazily allocated memory is never host-visible: nobody maps it.
            match object.map.enter() {
                Step::Driver => break object.memory,
                _ => drop(state),
            }
            if !threads::pause(&mut tries) {
                return Err(GpuMisuse::NestedMap);
            }
        };
        let in_call = threads::enter_call();
        // SAFETY: lazily allocated and live; this thread has the turn, which keeps the object.
        let bytes = unsafe { self.device.commitment(memory) };
        drop(in_call);
        let leftover = {
            let mut state = pool.lock();
            state.object_mut(at.block)?.map.entered(None);
            state.detach_leftover(at.block)
        };
        if let Some(object) = leftover {
            self.free_object(pool, &object);
        }
        Ok(bytes)
    }

    pub(crate) fn sync(&self, at: RegionPlace, (offset, size): (u64, u64), access: HostAccess) -> Result<(), GpuError> {
        let pool = self.pool_at(at.block)?;
        let range = {
            let mut state = pool.lock();
            let found = state.locate(at)?;
            if offset.checked_add(size).is_none_or(|end| end > found.size) {
                return Err(GpuMisuse::Outside.into());
            }
            let object = state.object_mut(at.block)?;
            if !object.map.is_mapped() {
                return Err(GpuMisuse::NotMapped.into());
            }
            let absolute = found.offset.saturating_add(offset);
            let needless = found.properties.contains(PropertyFlags::HOST_COHERENT);
            let Some((first, bytes)) =
                whole_atoms(absolute, size, self.device_info.atom, object.size).filter(|_| !needless)
            else {
                return Ok(());
            };
            // Keeps the object mapped during the driver call.
            if !matches!(object.map.enter(), Step::Done(_)) {
                return Err(GpuMisuse::NotMapped.into());
            }
            MappedRange { memory: found.memory, offset: first, size: bytes }
        };
        // SAFETY: whole atoms of mapped memory, which stays mapped until this returns.
        let synchronized = unsafe { access.sync(self.device, range) };
        self.unmap(at.block)?;
        synchronized.map_err(Into::into)
    }
}

impl PoolState {
    pub(super) fn leave(&mut self, place: BlockRef, policy: MapPolicy) -> Result<(MemoryHandle, Step), GpuMisuse> {
        let object = self.object_mut(place)?;
        let step = object.map.leave(policy == MapPolicy::Persistent);
        Ok((object.memory, step))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostAccess {
    /// It wrote: flush.
    Wrote,
    /// It will read: invalidate.
    Reads,
}

impl HostAccess {
    /// # Safety
    /// `range` is mapped memory of the device, in whole atoms or to its end.
    pub(crate) unsafe fn sync(self, device: &dyn DeviceMemory, range: MappedRange) -> Result<(), DeviceError> {
        match self {
            // SAFETY: mapped memory of this device, in whole atoms (`sync`).
            Self::Wrote => unsafe { device.flush(&[range]) },
            // SAFETY: mapped memory of this device, in whole atoms (`sync`).
            Self::Reads => unsafe { device.invalidate(&[range]) },
        }
    }
}

/// Regions of our own blocks are whole atoms; of wrapped memory the first and last atom may be shared.
pub(crate) fn whole_atoms(offset: u64, size: u64, atom: u64, memory_size: u64) -> Option<(u64, u64)> {
    let end = offset.checked_add(size)?;
    if size == 0 || end > memory_size {
        return None;
    }
    let first = offset - offset.checked_rem(atom)?;
    let last = end.checked_next_multiple_of(atom).unwrap_or(memory_size).min(memory_size);
    Some((first, last - first))
}

#[cfg(test)]
mod atoms_tests {
    use super::*;

    #[test]
    fn h109_every_small_range_is_covered_and_nothing_beyond_its_atoms_is() {
        assert_eq!(whole_atoms(5, 0, 64, 1000), None);
        assert_eq!(whole_atoms(990, 11, 64, 1000), None);
        assert_eq!(whole_atoms(u64::MAX, 2, 64, u64::MAX), None);
        let last = Some((u64::MAX - 255, 255));
        assert_eq!(whole_atoms(u64::MAX - 2, 2, 256, u64::MAX), last);
        for atom in [1u64, 2, 3, 4, 12, 16] {
            for memory in 1..40u64 {
                for offset in 0..memory {
                    for size in 1..=memory - offset {
                        let (first, bytes) = whole_atoms(offset, size, atom, memory).unwrap();
                        assert!(first <= offset && first + bytes >= offset + size && first + bytes <= memory);
                        assert_eq!(first % atom, 0);
                        assert!(bytes % atom == 0 || first + bytes == memory);
                        assert!(offset - first < atom && first + bytes - (offset + size) < atom);
                    }
                }
            }
        }
    }
}
