//! Shard pages: the pages and slabs of one shard for one kind of request, and the state for frees by other threads.
//!
//! ```text
//!              the owner: a shard's thread; without an owner, the thread that holds the lock
//!                 |
//!   ShardPages { owner_state: pages, slabs | page_groups, slab_groups | remote_frees | lock }
//!                                             |                         |
//!              any other thread:        claims a slot,  then pushes its group
//! ```
//!
//! Only the owner accesses `owner_state`. Other threads access the groups, which consist of atomics, and the remote-free list. When the
//! shard is dropped, the list is marked as abandoned: from then on, a thread that frees remotely does the owner's work under the lock.
//!
//! An owner without live regions, or an owner that trims, *parks* the shard pages: it also marks the list as abandoned, so that other
//! threads can free empty pages and slabs, and unparks under the lock at its next call. Meanwhile another shard may adopt the shard pages,
//! if they contain no live region; then the term differs.

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

/// Bytes of a shard's transient page: smaller than a pool's page, because each thread has pages for each kind of request.
const PAGE: u64 = 1 << 20;
/// Bytes of empty slabs that are kept for further requests. Of empty pages, one is kept.
const KEPT_SLABS: u64 = 1 << 16;
/// Group numbers from here up are numbers of slab groups.
pub(crate) const SLAB_GROUP: u32 = MAX_GROUPS;

/// The requests that shard pages serve. Their regions differ only in size and alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKind {
    pub(crate) memory_type_bits: u32,
    pub(crate) preference: MemoryPreference,
    pub(crate) kind: ResourceKind,
    pub(crate) within_budget: bool,
}

/// The pool's region that a page or slab occupies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackingRegion {
    pub(crate) at: RegionSlot,
    pub(crate) memory: MemoryHandle,
    pub(crate) memory_type: u8,
    /// Its first byte; it stays mapped until the page is freed.
    pub(crate) mapped: Option<NonNull<u8>>,
    /// From the start of the memory object.
    pub(crate) base: u64,
}

/// The state that only the owner accesses.
pub(crate) struct OwnerState {
    pub(crate) kind: RequestKind,
    pub(crate) pages: PageAllocator<BackingRegion>,
    pub(crate) slabs: SlabAllocator<BackingRegion>,
    /// Number of adoptions so far.
    term: u64,
    /// The last owner may unpark.
    is_parked: bool,
}

/// See the module. Its address is stable until the allocator is dropped; its owner may change.
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

// SAFETY: only the owner accesses `owner_state`: the one shard that created the shard pages or adopted them under the lock, or, while the
// remote-free list is abandoned, the thread that holds the lock. All other fields are immutable or consist of atomics.
unsafe impl Sync for ShardPages {}
// SAFETY: nothing in it belongs to a thread; its pointers are to mapped memory and to host blocks that it owns.
unsafe impl Send for ShardPages {}

impl OwnerState {
    /// Frees a slot that another thread freed.
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

    /// Removes an empty page or slab that need not be kept; with `all`, none is kept.
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

    /// Whether there is no live region.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.live() | self.slabs.live() == 0
    }

    /// The totals of pages and of slabs.
    pub(crate) fn totals(&self) -> [ClassTotals; 2] {
        [self.pages.totals(), self.slabs.totals()]
    }

    /// The number of live regions, and the number of pages and slabs.
    fn counts(&self) -> (u64, u64) {
        let [pages, slabs] = self.totals();
        (
            u64::from(pages.live) + u64::from(slabs.live),
            u64::from(pages.ranges) + u64::from(slabs.ranges),
        )
    }
}

impl ShardPages {
    /// Empty; the caller is the owner.
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

    /// The owner's state.
    ///
    /// # Safety
    /// The caller is the owner, and has no other reference to it.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the owner is one, and says so")]
    pub(crate) unsafe fn owner_state(&self) -> &mut OwnerState {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.owner_state.get() }
    }

    /// The place of a region; `group` is its number in ids: see [`SLAB_GROUP`].
    #[inline(always)]
    pub(crate) fn region_slot(&self, group: u32, slot: u32, generation: u32) -> RegionSlot {
        RegionSlot {
            place: RegionPlace::new(RegionPlaceKind::Shard, self.number, group),
            slot,
            generation,
        }
    }

    /// The page or slab groups that contain an id's group, and the group's number in them.
    pub(crate) const fn groups_of(&self, group: u32) -> (&SlotGroups, u32) {
        if group >= SLAB_GROUP {
            (&self.slab_groups, group - SLAB_GROUP)
        } else {
            (&self.page_groups, group)
        }
    }

    /// Whether a region is live. Any thread may call this.
    pub(crate) fn is_live(&self, at: RegionSlot) -> bool {
        let (groups, number) = self.groups_of(at.place.block());
        groups.is_live(number, at.slot, at.generation)
    }

    fn remote_free(&self, group: u32) -> Option<&RemoteFreeBits> {
        let (groups, number) = self.groups_of(group);
        groups.remote_free(number)
    }

    /// Frees a region. Any thread may call this.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if the region is not live.
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

    /// The owner collects the slots that other threads freed.
    pub(crate) fn collect(&self, owner: &mut OwnerState) {
        self.remote_frees.collect(
            |group| self.remote_free(group),
            |group, slot| {
                owner.reclaim(&self.page_groups, &self.slab_groups, group, slot);
            },
        );
    }

    /// The owner frees empty pages and slabs that need not be kept.
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

    /// The owner leaves for good. Live regions stay valid and are freed through the allocator; empty pages and slabs are freed to the
    /// pools.
    pub(crate) fn abandon(&self, device_and_host: DeviceAndHost<'_>, pools: &Pools) {
        self.leave(false);
        self.free_idle(device_and_host, pools);
    }

    /// The owner parks. Returns the term for [`unpark`](ShardPages::unpark). [`free_idle`](ShardPages::free_idle) may free empty pages and
    /// slabs.
    pub(crate) fn park(&self) -> u64 {
        self.leave(true)
    }

    /// The owner leaves; `parks` if it may unpark. Returns its term.
    fn leave(&self, parks: bool) -> u64 {
        let _held = self.lock.lock();
        // SAFETY: this thread is the owner until the list is abandoned; from then on, the thread that holds the lock is, which is this
        // thread.
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

    /// The owner parks without a lock; empty pages and slabs stay until another thread frees them. Returns `None` if the remote-free list
    /// is not empty: then the caller is still the owner.
    ///
    /// # Safety
    /// The caller is the owner, and uses no reference to the owner's state until it has unparked or adopted the shard pages.
    pub(crate) unsafe fn park_empty(&self) -> Option<u64> {
        // SAFETY: the caller's promise.
        let owner = unsafe { self.owner_state() };
        owner.is_parked = true;
        let term = owner.term;
        if self.remote_frees.try_abandon() {
            return Some(term);
        }
        // SAFETY: the list was not abandoned, so the caller is still the owner.
        unsafe { self.owner_state() }.is_parked = false;
        None
    }

    /// The shard that parked in `term` becomes the owner again. Returns false if another shard has adopted the shard pages.
    pub(crate) fn unpark(&self, term: u64) -> bool {
        let _held = self.lock.lock();
        self.parked(term)
            .map(|owner| owner.is_parked = false)
            .is_some_and(|()| self.remote_frees.adopt())
    }

    /// The shard that parked in `term` will not unpark.
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

    /// The totals of shard pages that were parked in `term`.
    pub(crate) fn parked_totals(&self, term: u64) -> Option<[ClassTotals; 2]> {
        let _held = self.lock.lock();
        self.parked(term).map(|owner| owner.totals())
    }

    /// Under the lock: the owner's state, if there is no owner and the last owner parked in `term`.
    #[expect(clippy::mut_from_ref, reason = "whoever has the lock is the owner")]
    fn parked(&self, term: u64) -> Option<&mut OwnerState> {
        if !self.remote_frees.is_abandoned() {
            return None;
        }
        // SAFETY: there is no owner, and this thread holds the lock.
        let owner = unsafe { self.owner_state() };
        (owner.term == term).then_some(owner)
    }

    /// Does the owner's work if there is no owner: frees empty pages and slabs to the pools, outside of the lock, one at a time. Frees at
    /// most as many as exist at the start, so that callbacks that leave new empty pages cannot prolong the loop forever. Returns whether
    /// any was freed.
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
                    // SAFETY: there is no owner, and no thread becomes the owner while this thread holds the lock.
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

    /// The calling shard becomes the owner, if there is no owner and the shard pages serve these requests or have no page or slab. Parked
    /// shard pages with live regions are not adopted.
    pub(crate) fn adopt(&self, kind: RequestKind) -> bool {
        if !self.remote_frees.is_abandoned() {
            return false;
        }
        let _held = self.lock.lock();
        if !self.remote_frees.is_abandoned() {
            return false;
        }
        // SAFETY: there is no owner, and this thread holds the lock.
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

    /// The owner adds the missing host memory.
    ///
    /// # Errors
    /// The host allocator's error.
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

    /// The number of live regions, and the number of pages and slabs, if there is no owner; otherwise zeros.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let _held = self.lock.lock();
        if !self.remote_frees.is_abandoned() {
            return (0, 0);
        }
        // SAFETY: there is no owner, and this thread holds the lock.
        unsafe { self.owner_state() }.counts()
    }

    /// Frees the host memory, even with live regions, when the allocator is dropped. The pools free the pages.
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

/// Frees a page or slab to its pool.
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
    // SAFETY: the block was allocated from this allocator with this layout, and is no longer used.
    unsafe { block.free(memory) };
}

/// The layout of a [`ShardPages`].
pub(crate) const SHARD_PAGES: Layout = Layout::new::<ShardPages>();
