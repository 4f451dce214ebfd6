//! The shard pages of an allocator, found by the number in a region's id.

use core::ptr::{self, NonNull};

use alloc_core::HostAllocator;

use super::shard_pages::{RequestKind, SHARD_PAGES, SLAB_GROUP, ShardPages, free_memory};
use crate::classes::Table;
use crate::error::{GpuError, GpuMisuse};
use crate::host_block::HostBlock;
use crate::id::{RegionPlace, RegionPlaceKind, RegionSlot};
use crate::pool::{DeviceAndHost, Pools};
use crate::sync::{AtomicPtr, AtomicU32, Ordering, StateMutex};

/// The pages of all shards. A [`ShardPages`] stays until the allocator is dropped.
pub(crate) struct Shards {
    pages: Table<AtomicPtr<ShardPages>>,
    count: AtomicU32,
    creation: StateMutex<()>,
}

impl Shards {
    pub(crate) const fn new() -> Self {
        Self {
            pages: Table::new(),
            count: AtomicU32::new(0),
            creation: StateMutex::new(()),
        }
    }

    #[inline]
    pub(crate) fn pages(&self, number: u32) -> Option<&ShardPages> {
        // Acquire: the value was written before its address.
        let shard_pages = NonNull::new(self.pages.get(number)?.load(Ordering::Acquire))?;
        // SAFETY: it stays in place until `free_all`, which has `&mut self`; it is shared by reference only.
        Some(unsafe { shard_pages.as_ref() })
    }

    /// Frees a region of a shard, from any thread. Allocates nothing.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`].
    pub(crate) fn free(
        &self,
        device_and_host: DeviceAndHost<'_>,
        pools: &Pools,
        at: RegionSlot,
    ) -> Result<(), GpuMisuse> {
        let shard_pages = self
            .pages(u32::from(at.place.pool()))
            .ok_or(GpuMisuse::Stale)?;
        shard_pages.free_remotely(device_and_host, pools, at)
    }

    /// Whether the region lives. Exact for regions that this thread has received or freed.
    pub(crate) fn is_live(&self, at: RegionSlot) -> bool {
        self.pages(u32::from(at.place.pool()))
            .is_some_and(|shard_pages| shard_pages.is_live(at))
    }

    /// Adopts abandoned pages that serve such requests, or creates new ones. `None` if ids can name no more.
    ///
    /// # Errors
    /// The host allocator's error.
    pub(crate) fn pages_for(
        &self,
        device_and_host: DeviceAndHost<'_>,
        kind: RequestKind,
        granule: u64,
    ) -> Result<Option<&ShardPages>, GpuError> {
        let count = self.count.load(Ordering::Acquire);
        if let Some(shard_pages) = (0..count)
            .filter_map(|number| self.pages(number))
            .find(|shard_pages| shard_pages.adopt(kind))
        {
            return Ok(Some(shard_pages));
        }
        let block = HostBlock::allocate(device_and_host.memory, SHARD_PAGES)?;
        loop {
            let count = self.count.load(Ordering::Acquire);
            if count >= RegionPlace::POOLS {
                device_and_host.free(block);
                return Ok(None);
            }
            let Some(layout) = self.pages.missing_capacity(count) else {
                break;
            };
            let grown = device_and_host.grow(layout, |segment| {
                let _held = self.creation.lock();
                self.pages
                    .grow_with(segment, || AtomicPtr::new(ptr::null_mut()))
            });
            if let Err(error) = grown {
                device_and_host.free(block);
                return Err(error);
            }
        }
        let held = self.creation.lock();
        let number = self.count.load(Ordering::Relaxed);
        let Some(place) = self
            .pages
            .get(number)
            .filter(|_| number < RegionPlace::POOLS)
        else {
            drop(held);
            device_and_host.free(block);
            // Other threads used up the capacity that this thread had added: the shared allocator serves the request.
            return Ok(None);
        };
        let shard_pages = block.into_start().cast::<ShardPages>();
        // SAFETY: a new block of this layout.
        unsafe { shard_pages.write(ShardPages::new(number as u16, kind, granule)) };
        place.store(shard_pages.as_ptr(), Ordering::Release);
        self.count.store(number + 1, Ordering::Release);
        drop(held);
        Ok(self.pages(number))
    }

    /// Returns the empty pages and slabs of abandoned and parked shards to the pools. Returns whether there was one.
    pub(crate) fn free_idle(&self, device_and_host: DeviceAndHost<'_>, pools: &Pools) -> bool {
        let mut any = false;
        for number in 0..self.count.load(Ordering::Acquire) {
            if let Some(shard_pages) = self.pages(number) {
                any |= shard_pages.free_idle(device_and_host, pools);
            }
        }
        any
    }

    /// Abandons all shard pages, those of forgotten shards too (`&mut self` excludes live ones), and returns empty pages and slabs to the pools.
    ///
    /// Returns the number of live regions, and of the pages and slabs that they lie in.
    pub(crate) fn trim_abandoned(
        &mut self,
        device_and_host: DeviceAndHost<'_>,
        pools: &Pools,
    ) -> (u64, u64) {
        let (mut live, mut ranges) = (0, 0);
        for number in 0..self.count.load(Ordering::Relaxed) {
            if let Some(shard_pages) = self.pages(number) {
                shard_pages.abandon(device_and_host, pools);
                let counts = shard_pages.counts();
                live += counts.0;
                ranges += counts.1;
            }
        }
        (live, ranges)
    }

    /// Frees all host memory.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        for number in 0..self.count.swap(0, Ordering::Relaxed) {
            let shard_pages = self
                .pages
                .get(number)
                .map(|place| place.swap(ptr::null_mut(), Ordering::Relaxed));
            let Some(mut shard_pages) = shard_pages.and_then(NonNull::new) else {
                continue;
            };
            // SAFETY: created by `pages_for`; there is no other reference, because a shard would borrow what `&mut self` borrows.
            unsafe { shard_pages.as_mut() }.free_all(memory);
            // It has nothing else to drop.
            // SAFETY: `pages_for` allocated it with this layout; no pointer to it is left.
            free_memory(memory, unsafe {
                HostBlock::new(shard_pages.cast(), SHARD_PAGES)
            });
        }
        while let Some(block) = self.pages.detach_memory() {
            free_memory(memory, block);
        }
    }

    /// The number of a group, as in ids.
    #[inline]
    pub(crate) const fn place_of(group: u32, slab: bool) -> u32 {
        if slab { SLAB_GROUP | group } else { group }
    }

    /// Whether a group, numbered as in ids, is a slab's or a page's.
    pub(crate) const fn class_of(group: u32) -> RegionPlaceKind {
        if group & SLAB_GROUP == 0 {
            RegionPlaceKind::Transient
        } else {
            RegionPlaceKind::Slab
        }
    }
}
