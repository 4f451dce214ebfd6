//! Many regions at once.

use super::Pools;
use super::device_and_host::DeviceAndHost;
use super::request::{AllocationRequest, Suballocation};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionSlot};

impl Pools {
    /// Places all requests, or none. `out`, which must be as long as `requests`, gets a region for each, or `None` everywhere.
    ///
    /// # Errors
    /// The error of the first request that could not be placed.
    pub(crate) fn place_batch(
        &self,
        device_and_host: DeviceAndHost<'_>,
        requests: &[AllocationRequest],
        out: &mut [Option<Suballocation>],
    ) -> Result<(), GpuError> {
        for (index, request) in requests.iter().enumerate() {
            let placed = self.place(device_and_host, request);
            match (placed, out.get_mut(index)) {
                (Ok(placed), Some(out)) => *out = Some(placed),
                (placed, _) => {
                    let late = placed.as_ref().ok().copied();
                    for (placed, request) in out
                        .iter_mut()
                        .take(index)
                        .filter_map(Option::take)
                        .chain(late)
                        .zip(requests)
                    {
                        let _ = self.free_recorded(device_and_host, placed.at, request.user_data);
                    }
                    return placed.map(|_| ()).and(Err(GpuMisuse::Outside.into()));
                }
            }
        }
        Ok(())
    }

    /// Frees regions without records; consecutive ones of one pool under one lock. Calls `refused` for each region that was not freed, in
    /// order, without a lock.
    pub(crate) fn free_batch(
        &self,
        device_and_host: DeviceAndHost<'_>,
        regions: &[RegionSlot],
        refused: &mut dyn FnMut(usize, GpuMisuse),
    ) {
        let mut next = 0usize;
        while let Some(first) = regions.get(next) {
            let Some(pool) = self.pool(first.place.pool()) else {
                refused(next, GpuMisuse::Stale);
                next += 1;
                continue;
            };
            // Until a deferred free or an error, which need the lock released.
            let mut stopped = Ok(());
            let deferred = {
                let mut state = pool.lock();
                while let Some(at) = regions
                    .get(next)
                    .filter(|at| at.place.pool() == first.place.pool())
                {
                    let (count, more) = state.free_run(regions.get(next..).unwrap_or_default());
                    if count > 0 {
                        next += count;
                        if more {
                            break;
                        }
                        continue;
                    }
                    next += 1;
                    stopped = match state.free(*at, NO_RECORD) {
                        Ok((_, false)) => continue,
                        Ok((_, true)) => Ok(()),
                        Err(misuse) => Err(misuse),
                    };
                    break;
                }
                state.deferred_free()
            };
            self.finish_free(device_and_host, pool, deferred);
            if let Err(misuse) = stopped {
                refused(next - 1, misuse);
            }
        }
    }
}
