//! Mapping, flushing, invalidating: a whole memory object is mapped once, for all its regions.

use core::ptr::NonNull;

use super::Pools;
use super::ask::Where;
use super::atoms::whole_atoms;
use super::env::Env;
use super::object::Step;
use super::options::MapPolicy;
use crate::device::{DeviceError, MappedRange};
use crate::error::{GpuError, Limit, MapRefusal, Misuse};
use crate::id::Place;
use crate::property_flags::PropertyFlags;
use crate::threads;

impl Pools {
    /// Where a region's first byte is in the process's memory. Counted: each call wants an [`unmap`](Pools::unmap).
    ///
    /// # Errors
    /// [`GpuError::MapUnsupported`], [`Misuse::Stale`], or what the driver said.
    pub(crate) fn map(&self, env: Env<'_>, at: Where) -> Result<NonNull<u8>, GpuError> {
        let pool = self.pool(at.place.pool).ok_or(Misuse::Stale)?;
        let mut tries = 0u32;
        loop {
            let (home, offset, memory, size, step) = {
                let mut state = pool.lock();
                let (home, offset) = state.home_of(at)?;
                if !state.facts.properties.contains(PropertyFlags::HOST_VISIBLE) {
                    return Err(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible });
                }
                let object = state.object_mut(home)?;
                if isize::try_from(object.size).is_err() {
                    return Err(GpuError::MapUnsupported { reason: MapRefusal::AddressSpace });
                }
                (home, offset, object.memory, object.size, object.map.enter())
            };
            let base = match step {
                Step::Done(base) => base,
                Step::Refused => return Err(Limit::Shares.into()),
                Step::Wait => {
                    tries = tries.wrapping_add(1);
                    threads::relax(tries);
                    continue;
                }
                Step::Driver => {
                    // SAFETY: host-visible, not mapped, all of it; it is this thread's turn, and until that is over it is not freed.
                    let mapped = unsafe { env.device.map(memory, 0, size) };
                    let mut state = pool.lock();
                    state.object_mut(home)?.map.entered(mapped.ok());
                    drop(state);
                    Some(mapped?)
                }
            };
            let offset = usize::try_from(offset).map_err(|_| GpuError::MapUnsupported { reason: MapRefusal::AddressSpace })?;
            let first = base.and_then(|base| NonNull::new(base.as_ptr().wrapping_add(offset)));
            return first.ok_or(GpuError::Device(DeviceError::MapFailed));
        }
    }

    /// Undoes one [`map`](Pools::map).
    ///
    /// # Errors
    /// [`Misuse::Stale`], [`Misuse::NotMapped`].
    pub(crate) fn unmap(&self, env: Env<'_>, at: Where) -> Result<(), Misuse> {
        let home = self.pool(at.place.pool).ok_or(Misuse::Stale)?.lock().home_of(at)?.0;
        self.unmap_object(env, home)
    }

    fn unmap_object(&self, env: Env<'_>, home: Place) -> Result<(), Misuse> {
        let pool = self.pool(home.pool).ok_or(Misuse::Stale)?;
        let keep = self.options.maps == MapPolicy::Persistent;
        let mut tries = 0u32;
        loop {
            let (memory, step) = {
                let mut state = pool.lock();
                let object = state.object_mut(home)?;
                (object.memory, object.map.leave(keep))
            };
            match step {
                Step::Done(_) => return Ok(()),
                Step::Refused => return Err(Misuse::NotMapped),
                Step::Wait => {
                    tries = tries.wrapping_add(1);
                    threads::relax(tries);
                }
                Step::Driver => {
                    // SAFETY: mapped, by nobody any more; it is this thread's turn, and until that is over it is not freed.
                    unsafe { env.device.unmap(memory) };
                    pool.lock().object_mut(home)?.map.left();
                    return Ok(());
                }
            }
        }
    }

    /// Makes what the host wrote to `offset .. offset + size` of a mapped region available to the device.
    ///
    /// # Errors
    /// [`Misuse::Outside`], [`Misuse::NotMapped`], [`Misuse::Stale`], or what the driver said.
    pub(crate) fn flush(&self, env: Env<'_>, at: Where, offset: u64, size: u64) -> Result<(), GpuError> {
        // SAFETY: `with_range` calls this with whole atoms of mapped memory, which stays mapped until it returns.
        self.with_range(env, at, offset, size, |range| unsafe { env.device.flush(&[range]) })
    }

    /// Makes what the device wrote to `offset .. offset + size` of a mapped region visible to the host.
    ///
    /// # Errors
    /// As [`flush`](Pools::flush).
    pub(crate) fn invalidate(&self, env: Env<'_>, at: Where, offset: u64, size: u64) -> Result<(), GpuError> {
        // SAFETY: as for `flush`.
        self.with_range(env, at, offset, size, |range| unsafe { env.device.invalidate(&[range]) })
    }

    fn with_range(
        &self,
        env: Env<'_>,
        at: Where,
        offset: u64,
        size: u64,
        ask: impl FnOnce(MappedRange) -> Result<(), DeviceError>,
    ) -> Result<(), GpuError> {
        let pool = self.pool(at.place.pool).ok_or(Misuse::Stale)?;
        let (home, range) = {
            let mut state = pool.lock();
            let found = state.found(at)?;
            if offset.checked_add(size).is_none_or(|end| end > found.size) {
                return Err(Misuse::Outside.into());
            }
            let (home, _) = state.home_of(at)?;
            let object = state.object_mut(home)?;
            if !object.map.is_mapped() {
                return Err(Misuse::NotMapped.into());
            }
            let absolute = found.offset.saturating_add(offset);
            let needless = found.properties.contains(PropertyFlags::HOST_COHERENT);
            let Some((first, bytes)) = whole_atoms(absolute, size, self.device.atom, found.memory_size).filter(|_| !needless)
            else {
                return Ok(());
            };
            // It stays mapped meanwhile, whatever others do.
            if !matches!(object.map.enter(), Step::Done(_)) {
                return Err(Misuse::NotMapped.into());
            }
            (home, MappedRange { memory: found.memory, offset: first, size: bytes })
        };
        let asked = ask(range);
        self.unmap_object(env, home)?;
        asked.map_err(Into::into)
    }
}
