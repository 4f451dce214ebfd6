//! All lanes of an allocator, found by the number in a region's id.

use core::ptr::{self, NonNull};

use alloc_core::HostAllocator;

use super::shard_pages::{RequestKind, SHARD_PAGES, SLAB_GROUP, ShardPages, free_memory};
use crate::classes::Table;
use crate::error::{GpuError, GpuMisuse};
use crate::host_block::HostBlock;
use crate::id::{RegionPlace, RegionPlaceKind, RegionSlot};
use crate::pool::{DeviceAndHost, Pools};
use crate::sync::{AtomicPtr, AtomicU32, Ordering, StateMutex};

/// The lanes of all shards. Once made, a lane stays until the allocator goes.
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
        // Acquire: the lane was written before its address.
        let shard_pages = NonNull::new(self.pages.get(number)?.load(Ordering::Acquire))?;
        // SAFETY: a lane stays where it is until `dismantle`, which has `&mut self`; it is shared by reference alone.
        Some(unsafe { shard_pages.as_ref() })
    }

    /// Frees a region of a shard, from any thread. Takes no memory.
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

    /// Whether the region lives, as far as this thread can know: one that it was handed, or freed itself, it knows of.
    pub(crate) fn is_live(&self, at: RegionSlot) -> bool {
        self.pages(u32::from(at.place.pool()))
            .is_some_and(|shard_pages| shard_pages.is_live(at))
    }

    /// A lane that nobody has, for such requests: one that was left, or a new one. `None` where there are as many as ids can tell apart.
    ///
    /// # Errors
    /// What the host allocator refused.
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
            // Others were faster, and used up what this thread had made room for: the shared allocator serves this time.
            return Ok(None);
        };
        let shard_pages = block.into_start().cast::<ShardPages>();
        // SAFETY: a new block of a lane's layout.
        unsafe { shard_pages.write(ShardPages::new(number as u16, kind, granule)) };
        place.store(shard_pages.as_ptr(), Ordering::Release);
        self.count.store(number + 1, Ordering::Release);
        drop(held);
        Ok(self.pages(number))
    }

    /// Gives every empty page and slab back to the pools, of lanes that no shard works in at the moment. Whether there was one.
    pub(crate) fn free_idle(&self, device_and_host: DeviceAndHost<'_>, pools: &Pools) -> bool {
        let mut any = false;
        for number in 0..self.count.load(Ordering::Acquire) {
            if let Some(shard_pages) = self.pages(number) {
                any |= shard_pages.free_idle(device_and_host, pools);
            }
        }
        any
    }

    /// Gives every empty page and slab back to the pools, of lanes without a shard. Those of shards that were forgotten are taken from
    /// them: nobody has one, for this is `&mut self`.
    ///
    /// Answers with how many regions live, and how many regions of the pools they are in.
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

    /// At the end: all host memory goes back.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        for number in 0..self.count.swap(0, Ordering::Relaxed) {
            let shard_pages = self
                .pages
                .get(number)
                .map(|place| place.swap(ptr::null_mut(), Ordering::Relaxed));
            let Some(mut shard_pages) = shard_pages.and_then(NonNull::new) else {
                continue;
            };
            // SAFETY: made by `pages_for`; nobody has a reference, for a shard would borrow what `&mut self` borrows.
            unsafe { shard_pages.as_mut() }.free_all(memory);
            // A lane has nothing else to be dropped.
            // SAFETY: `pages_for` allocated it with this layout; nothing leads to it any more.
            free_memory(memory, unsafe {
                HostBlock::new(shard_pages.cast(), SHARD_PAGES)
            });
        }
        while let Some(block) = self.pages.detach_memory() {
            free_memory(memory, block);
        }
    }

    /// The number of a group as ids have it.
    #[inline]
    pub(crate) const fn place_of(group: u32, slab: bool) -> u32 {
        if slab { SLAB_GROUP | group } else { group }
    }

    /// Whether a group as ids have it is a slab's, or a page's.
    pub(crate) const fn class_of(group: u32) -> RegionPlaceKind {
        if group & SLAB_GROUP == 0 {
            RegionPlaceKind::Transient
        } else {
            RegionPlaceKind::Slab
        }
    }
}
