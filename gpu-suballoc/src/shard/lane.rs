//! A lane: the pages and slabs that one shard has for one kind of request, and what frees from other threads need of them.
//!
//! ```text
//!              the owner: a shard's thread; without one, whoever has the lock
//!                 |
//!   Lane { own: pages, slabs | page groups, slab groups | mailbox | lock }
//!                                 |                           |
//!              any other thread: claims a seat,  then posts its group
//! ```
//!
//! The owner alone touches `own`. Others see groups, which are made of atomics, and the mailbox. When the shard goes, the mailbox is
//! marked: from then on whoever frees the last of something takes the lock and does what the owner would have done.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope, StateLock};

use crate::classes::returns::{Mailbox, Returned};
use crate::classes::{Donation, GROUPS, Given, Groups, Need, Pages, Placing, Slabs, Spare};
use crate::device::MemoryHandle;
use crate::error::{GpuError, Misuse};
use crate::memory_type::Wish;
use crate::pool::{Env, Pools, Where};
use crate::range::Memory;
use crate::records::NIL;
use crate::request::ResourceKind;

/// Bytes of a shard's transient pages: less than a pool's, for there is one for each thread and kind of request.
const PAGE: u64 = 1 << 20;
/// Empty slabs of a lane that wait for what comes next, in bytes. Of pages it is one.
const KEPT_SLABS: u64 = 1 << 16;
/// In a group's number: it is a slab's.
pub(super) const SLAB: u32 = GROUPS;

/// Which requests a lane serves. What lies in it differs in size and alignment alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) memory_type_bits: u32,
    pub(super) wish: Wish,
    pub(super) kind: ResourceKind,
    pub(super) within_budget: bool,
}

/// What is known of a page or slab: it is a region of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub(super) at: Where,
    pub(super) memory: MemoryHandle,
    pub(super) memory_type: u8,
    /// Its first byte, mapped for as long as the page is the lane's.
    pub(super) mapped: Option<NonNull<u8>>,
    /// From the start of the memory object.
    pub(super) base: u64,
}

/// What only the owner touches.
pub(super) struct Own {
    pub(super) kind: Kind,
    pub(super) pages: Pages<Home>,
    pub(super) slabs: Slabs<Home>,
}

/// See the module. It stays where it is until the allocator goes, and changes hands.
pub(crate) struct Lane {
    pub(super) number: u16,
    own: UnsafeCell<Own>,
    pub(super) page_groups: Groups,
    pub(super) slab_groups: Groups,
    pub(super) mailbox: Mailbox,
    lock: StateLock,
}

// SAFETY: `own` is touched by the owner alone: the one shard that took the lane over under the lock, or, while the mailbox says that there
// is none, whoever has the lock. Everything else is made of atomics.
unsafe impl Sync for Lane {}
// SAFETY: it holds no thread's things; the pointers within are to mapped memory and to donated blocks.
unsafe impl Send for Lane {}

impl Own {
    /// A region of `kind` came back by way of the mailbox.
    fn settle(&mut self, pages: &Groups, slabs: &Groups, group: u32, slot: u32) -> Option<Given> {
        if group >= SLAB { self.slabs.settle(slabs, group - SLAB, slot) } else { self.pages.settle(pages, group, slot) }
    }

    /// An empty page or slab that is not kept; with `all` none is.
    fn spare(&mut self, pages: &Groups, slabs: &Groups, all: bool) -> Option<Spare<Home>> {
        let (keep_pages, keep_slabs) = if all { (0, 0) } else { (PAGE, KEPT_SLABS) };
        self.pages.spare(pages, keep_pages).or_else(|| self.slabs.spare(slabs, keep_slabs))
    }

    /// Regions that live, and the pages and slabs that there are.
    fn counts(&self) -> (u64, u64) {
        let (pages, slabs) = (self.pages.totals(), self.slabs.totals());
        (u64::from(pages.live) + u64::from(slabs.live), u64::from(pages.ranges) + u64::from(slabs.ranges))
    }
}

impl Lane {
    /// With an owner, who made it.
    pub(super) fn new(number: u16, kind: Kind, granule: u64) -> Self {
        let own = Own { kind, pages: Pages::new(granule, PAGE.max(granule * 64)), slabs: Slabs::new(granule) };
        let (page_groups, slab_groups) = (Groups::new(), Groups::new());
        Self { number, own: UnsafeCell::new(own), page_groups, slab_groups, mailbox: Mailbox::new(), lock: StateLock::new() }
    }

    /// What only the owner touches.
    ///
    /// # Safety
    /// The caller is the owner, and has no other reference to it.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the owner is one, and says so")]
    pub(super) unsafe fn own(&self) -> &mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.own.get() }
    }

    /// The groups that an id's group is one of, and its number among them.
    const fn groups_of(&self, group: u32) -> (&Groups, u32) {
        if group >= SLAB { (&self.slab_groups, group - SLAB) } else { (&self.page_groups, group) }
    }

    /// Any thread asks whether a region lives: id's group, slot and generation.
    pub(super) fn is_live(&self, group: u32, slot: u32, generation: u32) -> bool {
        let (groups, number) = self.groups_of(group);
        groups.is_live(number, slot, generation)
    }

    fn returned(&self, group: u32) -> Option<&Returned> {
        let (groups, number) = self.groups_of(group);
        groups.returned(number)
    }

    /// Any thread frees a region: id's group, slot and generation.
    ///
    /// # Errors
    /// [`Misuse::Stale`] where there is no such live region.
    pub(super) fn give_from_elsewhere(
        &self,
        env: Env<'_>,
        pools: &Pools,
        group: u32,
        slot: u32,
        generation: u32,
    ) -> Result<(), Misuse> {
        let (groups, number) = self.groups_of(group);
        groups.claim(number, slot, generation, NIL).map_err(|_| Misuse::Stale)?;
        let returned = groups.returned(number).ok_or(Misuse::Stale)?;
        if self.mailbox.post(group, returned, slot) {
            self.clear_abandoned(env, pools);
        }
        Ok(())
    }

    /// The owner takes back what other threads freed.
    pub(super) fn collect(&self, own: &mut Own) {
        self.mailbox.collect(
            |group| self.returned(group),
            |group, slot| {
                own.settle(&self.page_groups, &self.slab_groups, group, slot);
            },
        );
    }

    /// The owner gives back pages and slabs that are empty and not kept.
    pub(super) fn tidy(&self, own: &mut Own, env: Env<'_>, pools: &Pools) {
        while let Some(spare) = own.spare(&self.page_groups, &self.slab_groups, false) {
            give_home(env, pools, &spare.home);
        }
    }

    /// The owner goes. What lives stays valid, and is freed through the allocator; what is empty goes back to the pools.
    pub(super) fn leave(&self, env: Env<'_>, pools: &Pools) {
        {
            let _held = self.lock.lock();
            // SAFETY: the owner is still this thread, until the mailbox says otherwise, and then whoever has the lock.
            let own = unsafe { self.own() };
            self.mailbox.leave(
                |group| self.returned(group),
                |group, slot| {
                    own.settle(&self.page_groups, &self.slab_groups, group, slot);
                },
            );
        }
        self.clear_abandoned(env, pools);
    }

    /// Does the owner's work where there is none. Pages and slabs are given back outside of the lock, one at a time.
    #[cold]
    fn clear_abandoned(&self, env: Env<'_>, pools: &Pools) {
        loop {
            let held = self.lock.lock();
            let mut came = None;
            let abandoned = self.mailbox.collect_abandoned(
                |group| self.returned(group),
                |group, slot| {
                    // SAFETY: the mailbox has no owner, and gets none while this thread has the lock.
                    let own = unsafe { self.own() };
                    own.settle(&self.page_groups, &self.slab_groups, group, slot);
                },
            );
            if abandoned {
                // SAFETY: as above.
                came = unsafe { self.own() }.spare(&self.page_groups, &self.slab_groups, true);
            }
            drop(held);
            let Some(spare) = came else { return };
            give_home(env, pools, &spare.home);
        }
    }

    /// A shard takes the lane over, if nobody has it, and if it serves such requests or can be made to.
    pub(super) fn adopt(&self, kind: Kind) -> bool {
        if !self.mailbox.is_abandoned() {
            return false;
        }
        let _held = self.lock.lock();
        if !self.mailbox.is_abandoned() {
            return false;
        }
        // SAFETY: nobody owns the lane, and this thread has the lock.
        let own = unsafe { self.own() };
        if own.kind != kind && own.counts().1 > 0 {
            return false;
        }
        own.kind = kind;
        self.mailbox.adopt()
    }

    /// The owner hands in host memory that is lacking.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn supply(&self, own: &mut Own, slab: bool, need: Need, env: Env<'_>) -> Result<(), GpuError> {
        let layout = need.layout;
        let Ok(block) = env.memory.allocate(layout, Scope::Object) else {
            return Err(GpuError::Host(env.memory.refusal(layout, Scope::Object)));
        };
        // SAFETY: a new block of that layout, the lane's until it gives it back.
        let donation = unsafe { Donation::new(block, layout) };
        let back = if slab {
            own.slabs.supply(&self.slab_groups, need, donation)
        } else {
            own.pages.supply(&self.page_groups, need, donation)
        };
        if let Some(memory) = back {
            give_back(env.memory, memory);
        }
        Ok(())
    }

    /// The owner gives back everything that is empty.
    pub(super) fn clear(&self, own: &mut Own, env: Env<'_>, pools: &Pools) {
        while let Some(spare) = own.spare(&self.page_groups, &self.slab_groups, true) {
            give_home(env, pools, &spare.home);
        }
    }

    /// Regions that live, and the pages and slabs that there are, where there is no owner; nothing where there is.
    pub(super) fn counts(&self) -> (u64, u64) {
        let _held = self.lock.lock();
        if !self.mailbox.is_abandoned() {
            return (0, 0);
        }
        // SAFETY: nobody owns the lane, and this thread has the lock.
        unsafe { self.own() }.counts()
    }

    /// At the end: its host memory, live regions or not. The pools have its pages.
    pub(super) fn dismantle(&mut self, memory: &dyn HostAllocator) {
        let own = self.own.get_mut();
        let class = || own.pages.withdraw().or_else(|| own.slabs.withdraw());
        let mut blocks = core::iter::from_fn(class);
        while let Some(block) = blocks.next().or_else(|| self.page_groups.withdraw()).or_else(|| self.slab_groups.withdraw()) {
            give_back(memory, block);
        }
    }
}

/// A page or slab goes back to the pool it came from.
pub(super) fn give_home(env: Env<'_>, pools: &Pools, home: &Home) {
    if home.mapped.is_some() {
        let unmapped = pools.unmap(env, home.at);
        debug_assert!(unmapped.is_ok(), "mapped when it was taken: {unmapped:?}");
    }
    let given = pools.give(env, home.at);
    debug_assert!(given.is_ok(), "a region of the lane's own: {given:?}");
}

pub(super) fn give_back(memory: &dyn HostAllocator, Memory { block, layout }: Memory) {
    // SAFETY: it was supplied from this allocator, with that layout, and nobody uses it any more.
    unsafe { memory.deallocate(block, layout, Scope::Object) };
}

/// The layout of a lane's block.
pub(super) const LANE: Layout = Layout::new::<Lane>();
