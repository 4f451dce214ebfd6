//! A lane: the pages and slabs that one shard has for one kind of request, and what frees from other threads need of them.
//!
//! ```text
//!              the owner: a shard's thread; without one, whoever has the lock
//!                 |
//!   ShardPages { own: pages, slabs | page groups, slab groups | mailbox | lock }
//!                                 |                           |
//!              any other thread: claims a seat,  then posts its group
//! ```
//!
//! The owner alone touches `own`. Others see groups, which are made of atomics, and the mailbox. When the shard goes, the mailbox is
//! marked: from then on whoever frees the last of something takes the lock and does what the owner would have done.
//!
//! An owner of which nothing lives, or that was told to trim, *parks* the lane: it marks the mailbox as well, so that what is empty can be
//! taken from it, and comes back by the lock at its next call. Another shard may take the lane over meanwhile if nothing lives in it; the
//! term says whether one did.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use alloc_core::HostAllocator;
use alloc_core::support::StateLock;

use crate::classes::remote_free::{RemoteFreeBits, RemoteFreeList};
use crate::classes::{
    ClassTotals, FreedSlot, HostShortage, MAX_GROUPS, PageAllocator, SlabAllocator, SlotGroups,
    SpareRange, SubAllocator,
};
use crate::device::MemoryHandle;
use crate::error::{GpuError, GpuMisuse};
use crate::host_block::HostBlock;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};
use crate::memory_type::MemoryPreference;
use crate::pool::{DeviceAndHost, Pools};
use crate::request::ResourceKind;

/// Bytes of a shard's transient pages: less than a pool's, for there is one for each thread and kind of request.
const PAGE: u64 = 1 << 20;
/// Empty slabs of a lane that wait for what comes next, in bytes. Of pages it is one.
const KEPT_SLABS: u64 = 1 << 16;
/// In a group's number: it is a slab's.
pub(crate) const SLAB_GROUP: u32 = MAX_GROUPS;

/// Which requests a lane serves. What lies in it differs in size and alignment alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKind {
    pub(crate) memory_type_bits: u32,
    pub(crate) preference: MemoryPreference,
    pub(crate) kind: ResourceKind,
    pub(crate) within_budget: bool,
}

/// What is known of a page or slab: it is a region of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackingRegion {
    pub(crate) at: RegionSlot,
    pub(crate) memory: MemoryHandle,
    pub(crate) memory_type: u8,
    /// Its first byte, mapped for as long as the page is the lane's.
    pub(crate) mapped: Option<NonNull<u8>>,
    /// From the start of the memory object.
    pub(crate) base: u64,
}

/// What only the owner touches.
pub(crate) struct OwnerState {
    pub(crate) kind: RequestKind,
    pub(crate) pages: PageAllocator<BackingRegion>,
    pub(crate) slabs: SlabAllocator<BackingRegion>,
    /// How often it had another owner.
    term: u64,
    /// The last owner comes back.
    is_parked: bool,
}

/// See the module. It stays where it is until the allocator goes, and changes hands.
pub(crate) struct ShardPages {
    pub(crate) number: u16,
    /// Bytes.
    pub(crate) granule: u64,
    owner_state: UnsafeCell<OwnerState>,
    pub(crate) page_groups: SlotGroups,
    pub(crate) slab_groups: SlotGroups,
    pub(crate) remote_frees: RemoteFreeList,
    lock: StateLock,
}

// SAFETY: `own` is touched by the owner alone: the one shard that took the lane over under the lock, or, while the mailbox says that there
// is none, whoever has the lock. Everything else is made of atomics.
unsafe impl Sync for ShardPages {}
// SAFETY: it holds no thread's things; the pointers within are to mapped memory and to donated blocks.
unsafe impl Send for ShardPages {}

impl OwnerState {
    /// A region of `kind` came back by way of the mailbox.
    fn reclaim(
        &mut self,
        pages: &SlotGroups,
        slabs: &SlotGroups,
        group: u32,
        slot: u32,
    ) -> Option<FreedSlot> {
        if group >= SLAB_GROUP {
            self.slabs.reclaim(slabs, group - SLAB_GROUP, slot)
        } else {
            self.pages.reclaim(pages, group, slot)
        }
    }

    /// An empty page or slab that is not kept; with `all` none is.
    fn remove_spare(
        &mut self,
        pages: &SlotGroups,
        slabs: &SlotGroups,
        all: bool,
    ) -> Option<SpareRange<BackingRegion>> {
        let (keep_pages, keep_slabs) = if all { (0, 0) } else { (PAGE, KEPT_SLABS) };
        self.pages
            .remove_spare(pages, keep_pages)
            .or_else(|| self.slabs.remove_spare(slabs, keep_slabs))
    }

    /// Whether nothing lives in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.live() | self.slabs.live() == 0
    }

    /// What is in it: in pages, and in slabs.
    pub(crate) fn totals(&self) -> [ClassTotals; 2] {
        [self.pages.totals(), self.slabs.totals()]
    }

    /// Regions that live, and the pages and slabs that there are.
    fn counts(&self) -> (u64, u64) {
        let [pages, slabs] = self.totals();
        (
            u64::from(pages.live) + u64::from(slabs.live),
            u64::from(pages.ranges) + u64::from(slabs.ranges),
        )
    }
}

impl ShardPages {
    /// With an owner, who made it.
    pub(crate) fn new(number: u16, kind: RequestKind, granule: u64) -> Self {
        let owner = OwnerState {
            kind,
            pages: PageAllocator::new(granule, PAGE.max(granule * 64)),
            slabs: SlabAllocator::new(granule),
            term: 0,
            is_parked: false,
        };
        let (page_groups, slab_groups) = (SlotGroups::new(), SlotGroups::new());
        let (owner, remote_frees, lock) = (
            UnsafeCell::new(owner),
            RemoteFreeList::new(),
            StateLock::new(),
        );
        Self {
            number,
            granule,
            owner_state: owner,
            page_groups,
            slab_groups,
            remote_frees,
            lock,
        }
    }

    /// What only the owner touches.
    ///
    /// # Safety
    /// The caller is the owner, and has no other reference to it.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the owner is one, and says so")]
    pub(crate) unsafe fn owner_state(&self) -> &mut OwnerState {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.owner_state.get() }
    }

    /// A region of the lane: its group as ids have it, its slot in it.
    #[inline(always)]
    pub(crate) fn region_slot(&self, group: u32, slot: u32, generation: u32) -> RegionSlot {
        RegionSlot {
            place: RegionPlace::new(RegionPlaceKind::Shard, self.number, group),
            slot,
            generation,
        }
    }

    /// The groups that an id's group is one of, and its number among them.
    pub(crate) const fn groups_of(&self, group: u32) -> (&SlotGroups, u32) {
        if group >= SLAB_GROUP {
            (&self.slab_groups, group - SLAB_GROUP)
        } else {
            (&self.page_groups, group)
        }
    }

    /// Any thread asks whether a region lives.
    pub(crate) fn is_live(&self, at: RegionSlot) -> bool {
        let (groups, number) = self.groups_of(at.place.block());
        groups.is_live(number, at.slot, at.generation)
    }

    fn remote_free(&self, group: u32) -> Option<&RemoteFreeBits> {
        let (groups, number) = self.groups_of(group);
        groups.remote_free(number)
    }

    /// Any thread frees a region.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] where there is no such live region.
    pub(crate) fn free_remotely(
        &self,
        device_and_host: DeviceAndHost<'_>,
        pools: &Pools,
        at: RegionSlot,
    ) -> Result<(), GpuMisuse> {
        let group = at.place.block();
        let (groups, number) = self.groups_of(group);
        groups
            .claim(number, at.slot, at.generation, NO_RECORD)
            .map_err(|_| GpuMisuse::Stale)?;
        let remote_free = groups.remote_free(number).ok_or(GpuMisuse::Stale)?;
        if self.remote_frees.push(group, remote_free, at.slot) {
            self.free_idle(device_and_host, pools);
        }
        Ok(())
    }

    /// The owner takes back what other threads freed.
    pub(crate) fn collect(&self, owner: &mut OwnerState) {
        self.remote_frees.collect(
            |group| self.remote_free(group),
            |group, slot| {
                owner.reclaim(&self.page_groups, &self.slab_groups, group, slot);
            },
        );
    }

    /// The owner gives back pages and slabs that are empty and not kept.
    pub(crate) fn trim(
        &self,
        owner: &mut OwnerState,
        device_and_host: DeviceAndHost<'_>,
        pools: &Pools,
    ) {
        while let Some(spare) = owner.remove_spare(&self.page_groups, &self.slab_groups, false) {
            free_region(device_and_host, pools, &spare.range_ref);
        }
    }

    /// The owner goes. What lives stays valid, and is freed through the allocator; what is empty goes back to the pools.
    pub(crate) fn abandon(&self, device_and_host: DeviceAndHost<'_>, pools: &Pools) {
        self.leave(false);
        self.free_idle(device_and_host, pools);
    }

    /// The owner pauses, as if it went, and comes back by the term: [`unpark`](ShardPages::unpark). What is empty is left to
    /// [`free_idle`](ShardPages::free_idle).
    pub(crate) fn park(&self) -> u64 {
        self.leave(true)
    }

    /// The owner leaves, and says whether it comes back. Its term.
    fn leave(&self, parks: bool) -> u64 {
        let _held = self.lock.lock();
        // SAFETY: the owner is still this thread, until the mailbox says otherwise, and then whoever has the lock.
        let owner = unsafe { self.owner_state() };
        owner.is_parked = parks;
        self.remote_frees.abandon(
            |group| self.remote_free(group),
            |group, slot| {
                owner.reclaim(&self.page_groups, &self.slab_groups, group, slot);
            },
        );
        owner.term
    }

    /// The owner pauses, without a lock, and keeps what is empty until somebody wants it. `None` where something came from another thread
    /// just now: the caller is the owner still.
    ///
    /// # Safety
    /// The caller is the owner, and uses no reference to what only the owner touches until it has the lane again.
    pub(crate) unsafe fn park_empty(&self) -> Option<u64> {
        // SAFETY: the caller's promise.
        let owner = unsafe { self.owner_state() };
        owner.is_parked = true;
        let term = owner.term;
        if self.remote_frees.try_abandon() {
            return Some(term);
        }
        // SAFETY: the mailbox has its owner still.
        unsafe { self.owner_state() }.is_parked = false;
        None
    }

    /// Who parked the lane in that term has it again. False where another shard has taken it over.
    pub(crate) fn unpark(&self, term: u64) -> bool {
        let _held = self.lock.lock();
        self.parked(term)
            .map(|owner| owner.is_parked = false)
            .is_some_and(|()| self.remote_frees.adopt())
    }

    /// Who parked the lane in that term does not come back.
    pub(crate) fn abandon_parked(
        &self,
        term: u64,
        device_and_host: DeviceAndHost<'_>,
        pools: &Pools,
    ) {
        {
            let _held = self.lock.lock();
            if let Some(owner) = self.parked(term) {
                owner.is_parked = false;
            }
        }
        self.free_idle(device_and_host, pools);
    }

    /// What is in a lane that was parked in that term.
    pub(crate) fn parked_totals(&self, term: u64) -> Option<[ClassTotals; 2]> {
        let _held = self.lock.lock();
        self.parked(term).map(|owner| owner.totals())
    }

    /// Under the lock: what the owner has, where it parked in that term.
    #[expect(clippy::mut_from_ref, reason = "whoever has the lock is the owner")]
    fn parked(&self, term: u64) -> Option<&mut OwnerState> {
        if !self.remote_frees.is_abandoned() {
            return None;
        }
        // SAFETY: nobody owns the lane, and this thread has the lock.
        let owner = unsafe { self.owner_state() };
        (owner.term == term).then_some(owner)
    }

    /// Does the owner's work where there is none: pages and slabs that are empty go back to the pools, outside of the lock, one at a time.
    /// No more of them than there are in the beginning: who calls back from each of them and leaves another one does not keep this for
    /// ever. Whether there was one.
    #[cold]
    pub(crate) fn free_idle(&self, device_and_host: DeviceAndHost<'_>, pools: &Pools) -> bool {
        let mut left = None;
        let mut any = false;
        while left != Some(0) {
            let held = self.lock.lock();
            let mut removed = None;
            let abandoned = self.remote_frees.collect_abandoned(
                |group| self.remote_free(group),
                |group, slot| {
                    // SAFETY: the mailbox has no owner, and gets none while this thread has the lock.
                    let owner = unsafe { self.owner_state() };
                    owner.reclaim(&self.page_groups, &self.slab_groups, group, slot);
                },
            );
            if abandoned {
                // SAFETY: as above.
                let owner = unsafe { self.owner_state() };
                left = Some(left.unwrap_or_else(|| owner.counts().1).saturating_sub(1));
                removed = owner.remove_spare(&self.page_groups, &self.slab_groups, true);
            }
            drop(held);
            let Some(spare) = removed else { break };
            free_region(device_and_host, pools, &spare.range_ref);
            any = true;
        }
        any
    }

    /// A shard takes the lane over, if nobody has it, and if it serves such requests or can be made to.
    pub(crate) fn adopt(&self, kind: RequestKind) -> bool {
        if !self.remote_frees.is_abandoned() {
            return false;
        }
        let _held = self.lock.lock();
        if !self.remote_frees.is_abandoned() {
            return false;
        }
        // SAFETY: nobody owns the lane, and this thread has the lock.
        let owner = unsafe { self.owner_state() };
        let (live, ranges) = owner.counts();
        if owner.kind != kind && ranges > 0 || owner.is_parked && live > 0 {
            return false;
        }
        owner.kind = kind;
        owner.term += 1;
        owner.is_parked = false;
        self.remote_frees.adopt()
    }

    /// The owner hands in host memory that is lacking.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn grow_with(
        &self,
        owner: &mut OwnerState,
        slab: bool,
        need: HostShortage,
        device_and_host: DeviceAndHost<'_>,
    ) -> Result<(), GpuError> {
        device_and_host.grow(need.layout, |block| {
            if slab {
                owner.slabs.grow_with(&self.slab_groups, need, block)
            } else {
                owner.pages.grow_with(&self.page_groups, need, block)
            }
        })
    }

    /// Regions that live, and the pages and slabs that there are, where there is no owner; nothing where there is.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let _held = self.lock.lock();
        if !self.remote_frees.is_abandoned() {
            return (0, 0);
        }
        // SAFETY: nobody owns the lane, and this thread has the lock.
        unsafe { self.owner_state() }.counts()
    }

    /// At the end: its host memory, live regions or not. The pools have its pages.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        let owner = self.owner_state.get_mut();
        let class = || {
            owner
                .pages
                .detach_memory()
                .or_else(|| owner.slabs.detach_memory())
        };
        let mut blocks = core::iter::from_fn(class);
        while let Some(block) = blocks
            .next()
            .or_else(|| self.page_groups.detach_memory())
            .or_else(|| self.slab_groups.detach_memory())
        {
            free_memory(memory, block);
        }
    }
}

/// A page or slab goes back to the pool it came from.
pub(crate) fn free_region(
    device_and_host: DeviceAndHost<'_>,
    pools: &Pools,
    backing: &BackingRegion,
) {
    if backing.mapped.is_some() {
        let unmapped = pools.unmap_shard_page(device_and_host, backing.at);
        debug_assert!(unmapped.is_ok(), "mapped when it was taken: {unmapped:?}");
    }
    let freed = pools.free_shard_page(device_and_host, backing.at);
    debug_assert!(
        freed.is_ok(),
        "a range of the shard_pages's owner: {freed:?}"
    );
}

pub(crate) fn free_memory(memory: &dyn HostAllocator, block: HostBlock) {
    // SAFETY: it was supplied from this allocator, with that layout, and nobody uses it any more.
    unsafe { block.free(memory) };
}

/// The layout of a lane's block.
pub(crate) const SHARD_PAGES: Layout = Layout::new::<ShardPages>();
