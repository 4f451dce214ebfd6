//! All lanes of an allocator, found by the number in a region's id.

use core::ptr::{self, NonNull};

use alloc_core::{HostAllocator, Scope};

use super::lane::{Kind, LANE, Lane, SLAB, give_back};
use crate::classes::Table;
use crate::error::{GpuError, Misuse};
use crate::id::{Place, RegionId};
use crate::pool::{Env, Pools};
use crate::range::Memory;
use crate::sync::{AtomicPtr, AtomicU32, Guarded, Ordering};

/// The lanes of all shards. Once made, a lane stays until the allocator goes.
pub(crate) struct Shards {
    lanes: Table<AtomicPtr<Lane>>,
    made: AtomicU32,
    making: Guarded<()>,
}

impl Shards {
    pub(crate) const fn new() -> Self {
        Self { lanes: Table::new(), made: AtomicU32::new(0), making: Guarded::new(()) }
    }

    #[inline]
    fn lane(&self, number: u32) -> Option<&Lane> {
        // Acquire: the lane was written before its address.
        let lane = NonNull::new(self.lanes.get(number)?.load(Ordering::Acquire))?;
        // SAFETY: a lane stays where it is until `dismantle`, which has `&mut self`; it is shared by reference alone.
        Some(unsafe { lane.as_ref() })
    }

    /// Frees a region of a shard, from any thread. Takes no memory.
    ///
    /// # Errors
    /// [`Misuse::Stale`].
    pub(crate) fn give(&self, env: Env<'_>, pools: &Pools, id: RegionId) -> Result<(), Misuse> {
        let place = id.place();
        let lane = self.lane(u32::from(place.pool)).ok_or(Misuse::Stale)?;
        lane.give_from_elsewhere(env, pools, place.block, id.slot(), id.generation())
    }

    /// Whether the region lives, as far as this thread can know: one that it was handed, or freed itself, it knows of.
    pub(crate) fn is_live(&self, id: RegionId) -> bool {
        let place = id.place();
        self.lane(u32::from(place.pool)).is_some_and(|lane| lane.is_live(place.block, id.slot(), id.generation()))
    }

    /// A lane that nobody has, for such requests: one that was left, or a new one. `None` where there are as many as ids can tell apart.
    ///
    /// # Errors
    /// What the host allocator refused.
    pub(super) fn lane_for(&self, env: Env<'_>, kind: Kind, granule: u64) -> Result<Option<&Lane>, GpuError> {
        let made = self.made.load(Ordering::Acquire);
        if let Some(lane) = (0..made).filter_map(|number| self.lane(number)).find(|lane| lane.adopt(kind)) {
            return Ok(Some(lane));
        }
        let take = |layout| {
            let refused = |_| GpuError::Host(env.memory.refusal(layout, Scope::Object));
            env.memory.allocate(layout, Scope::Object).map_err(refused)
        };
        let block = take(LANE)?;
        loop {
            let made = self.made.load(Ordering::Acquire);
            if made >= Place::POOLS {
                give_back(env.memory, Memory { block, layout: LANE });
                return Ok(None);
            }
            let Some(layout) = self.lanes.lacks(made) else { break };
            match take(layout) {
                Ok(segment) => {
                    let held = self.making.lock();
                    // SAFETY: a new block of that layout, the table's until it gives it back.
                    let donation = unsafe { crate::classes::Donation::new(segment, layout) };
                    let back = self.lanes.supply(donation, || AtomicPtr::new(ptr::null_mut()));
                    drop(held);
                    if let Some(memory) = back {
                        give_back(env.memory, memory);
                    }
                }
                Err(error) => {
                    give_back(env.memory, Memory { block, layout: LANE });
                    return Err(error);
                }
            }
        }
        let held = self.making.lock();
        let number = self.made.load(Ordering::Relaxed);
        let Some(place) = self.lanes.get(number).filter(|_| number < Place::POOLS) else {
            drop(held);
            give_back(env.memory, Memory { block, layout: LANE });
            // Others were faster, and used up what this thread had made room for: the shared allocator serves this time.
            return Ok(None);
        };
        let lane = block.cast::<Lane>();
        // SAFETY: a new block of a lane's layout.
        unsafe { lane.write(Lane::new(number as u16, kind, granule)) };
        place.store(lane.as_ptr(), Ordering::Release);
        self.made.store(number + 1, Ordering::Release);
        drop(held);
        Ok(self.lane(number))
    }

    /// Gives every empty page and slab back to the pools, of lanes without a shard. Those of shards that were forgotten are taken from
    /// them: nobody has one, for this is `&mut self`.
    ///
    /// Answers with how many regions live, and how many regions of the pools they are in.
    pub(crate) fn settle(&mut self, env: Env<'_>, pools: &Pools) -> (u64, u64) {
        let (mut live, mut homes) = (0, 0);
        for number in 0..self.made.load(Ordering::Relaxed) {
            if let Some(lane) = self.lane(number) {
                lane.leave(env, pools);
                let counts = lane.counts();
                live += counts.0;
                homes += counts.1;
            }
        }
        (live, homes)
    }

    /// At the end: all host memory goes back.
    pub(crate) fn dismantle(&mut self, memory: &dyn HostAllocator) {
        for number in 0..self.made.swap(0, Ordering::Relaxed) {
            let lane = self.lanes.get(number).map(|place| place.swap(ptr::null_mut(), Ordering::Relaxed));
            let Some(mut lane) = lane.and_then(NonNull::new) else { continue };
            // SAFETY: made by `lane_for`; nobody has a reference, for a shard would borrow what `&mut self` borrows.
            unsafe { lane.as_mut() }.dismantle(memory);
            // A lane has nothing else to be dropped.
            give_back(memory, Memory { block: lane.cast(), layout: LANE });
        }
        while let Some(block) = self.lanes.withdraw() {
            give_back(memory, block);
        }
    }

    /// The number of a group as ids have it.
    #[inline]
    pub(super) const fn place_of(group: u32, slab: bool) -> u32 {
        if slab { SLAB | group } else { group }
    }
}
