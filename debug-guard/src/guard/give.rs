//! What becomes of a block that comes back, or is to change its size.
//!
//! ```text
//!   whose is the address? -> Slots | Cookies | nobody's: the allocator's behind, where blocks pass untouched
//! ```
//! Whoever is asked answers with what is wrong, no lock held; it is told here. A block is freed only where it is certain which it is.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::later::{Later, Unreturned, Whose};
use super::serial;
use super::state::{Core, Way};
use super::tally::Count;
use super::telling::Doing;
use crate::block::{Fault, Freed, Mark};
use crate::mode::{Mode, Stacks};
use crate::os;
use crate::report::Moment;
use crate::sites::Who;

/// What a grown block has behind its old bytes.
const GROWN: u8 = 0xFD;

impl Core {
    /// Takes a block back.
    ///
    /// # Safety
    /// Where blocks pass, [`HostAllocator::deallocate`]'s. Elsewhere the guard finds out.
    #[inline]
    pub(super) unsafe fn give<M: HostAllocator>(&self, memory: &M, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // Most blocks of these guards pass, and who gives them back need not be known.
        if self.way == Way::Passing || self.way == Way::Sampling && self.slots_at(block.as_ptr().addr()).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { self.pass_back(memory, block, layout, scope) };
        }
        // SAFETY: the caller's promise.
        if self.way == Way::Plain && unsafe { self.give_plainly(block, layout, scope) } {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.give_guarded(memory, block, layout, scope) };
    }

    /// As [`give`](Self::give), for a block that waits now, where that is all there is to it; false where nothing was done.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(never)]
    unsafe fn give_plainly(&self, block: NonNull<u8>, layout: Layout, scope: Scope) -> bool {
        let Some(cookies) = &self.cookies else { return false };
        let Some(site) = self.nobody(Stacks::Off, scope) else { return false };
        let mark = Mark { site, thread: os::thread_id(), serial: serial::reached() };
        // SAFETY: the caller's promise.
        let given = unsafe { cookies.give_plainly(block.as_ptr().expose_provenance(), layout, scope, mark) };
        if given {
            self.tally.add(Count::CookieGiven, Count::CookieGivenBytes, layout.size());
        }
        given
    }

    /// As [`give`](Self::give), for a block that did not pass. Apart, so that little stands in the way of those that do.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(never)]
    unsafe fn give_guarded<M: HostAllocator>(&self, memory: &M, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if let Some(site) = self.nobody(self.options.stacks, scope) {
            let mark = Mark { site, thread: os::thread_id(), serial: serial::reached() };
            // By value: a mark that is pointed to would be written to memory, and read back at once in larger pieces than it was written in.
            let tell = move |fault| self.with_who(scope, |who| Doing::giving(self, Moment::Free, who, mark, layout).tell(fault));
            // SAFETY: the caller's promise.
            return unsafe { self.give_as(memory, block, (layout, scope), mark, None, tell) };
        }
        self.with_who(scope, |who| {
            // SAFETY: the caller's promise.
            unsafe { self.give_for(memory, block, layout, who, Moment::Free, None) };
        });
    }

    /// # Safety
    /// As [`give`](Self::give).
    unsafe fn give_for<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        who: &Who<'_>,
        moment: Moment,
        moved_to: Option<usize>,
    ) {
        let mark = self.mark_of_free(who);
        // SAFETY: the caller's promise.
        unsafe {
            self.give_as(memory, block, (layout, who.scope), mark, moved_to, |fault| {
                Doing::giving(self, moment, who, mark, layout).tell(fault);
            });
        }
    }

    /// `tell` hears what is wrong with the block.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(always)]
    unsafe fn give_as<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        (layout, scope): (Layout, Scope),
        mark: Mark,
        moved_to: Option<usize>,
        tell: impl Fn(Fault),
    ) {
        let mut later = Later::new();
        // SAFETY: the caller's promise.
        unsafe { self.give_quietly(memory, block, (layout, scope), mark, moved_to, &mut later) };
        if !later.is_empty() {
            later.tell(self, |fault, whose| match whose {
                Whose::Own => tell(fault),
                Whose::Other => Doing::of_others(self).tell(fault),
            });
        }
    }

    /// As [`give_as`](Self::give_as); what is wrong is noted, for when all is done.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(always)]
    pub(super) unsafe fn give_quietly<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        (layout, scope): (Layout, Scope),
        mark: Mark,
        moved_to: Option<usize>,
        later: &mut Later,
    ) {
        let address = block.as_ptr().expose_provenance();
        let slots = self.slots_at(address);
        // Looked up for profiles alone: who frees has no need of it.
        let taken = if self.options.profile { self.known(address).and_then(Result::ok).map(|known| known.taken) } else { None };
        let freed = match (slots, &self.cookies) {
            (Some(slots), _) => {
                slots.give(address, Some(layout), Some(scope), mark, moved_to, &mut |fault| later.note(fault, Whose::Own))
            }
            (None, Some(cookies)) => {
                let late = &mut |fault| later.note(fault, Whose::Other);
                // SAFETY: all of this guard's cookies are over `memory`.
                let given = unsafe { cookies.give(memory, address, Some(layout), Some(scope), mark, moved_to, late) };
                if let Some(fault) = given.fault {
                    later.note(fault, Whose::Own);
                }
                given.freed
            }
            (None, None) => None,
        };
        let Some(Freed { size, mode }) = freed else { return };
        let (blocks, bytes) = match (slots, mode) {
            (Some(_), _) => (Count::FencedGiven, Count::FencedGivenBytes),
            (None, Mode::Off) => (Count::OffGiven, Count::OffGivenBytes),
            (None, _) => (Count::CookieGiven, Count::CookieGivenBytes),
        };
        self.tally.add(blocks, bytes, size);
        if mode == Mode::Sampled {
            self.counters.sampled.fetch_sub(1, Relaxed);
        }
        if let (Some(sites), Some(taken)) = (&self.sites, taken) {
            sites.freed(taken.site, size, taken.serial, mark.serial);
        }
    }

    /// # Safety
    /// As [`HostAllocator::deallocate`].
    #[inline]
    unsafe fn pass_back<M: HostAllocator>(&self, memory: &M, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: the caller's promise.
        unsafe { memory.deallocate(block, layout, scope) };
        self.tally.add(Count::OffGiven, Count::OffGivenBytes, layout.size());
    }

    /// Takes, copies, gives back: a stale pointer to the old place is then a freed block's.
    ///
    /// # Safety
    /// As [`give`](Self::give); where blocks pass, [`HostAllocator::grow`]'s or [`HostAllocator::shrink`]'s.
    pub(super) unsafe fn resize<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let address = block.as_ptr().expose_provenance();
        if self.cookies.is_none() && self.slots_at(address).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { self.pass_resized(memory, block, old, new, scope) };
        }
        self.with_who(scope, |who| {
            let known = match self.known(address).ok_or(AllocError)? {
                Ok(known) => known,
                Err(fault) => {
                    Doing::giving(self, Moment::Reallocation, who, self.mark_of_free(who), old).tell(fault);
                    return Err(AllocError);
                }
            };
            let moved = self.take_for(memory, new, false, who)?;
            let kept = known.size.min(new.size());
            // SAFETY: both are live blocks of ours with at least `kept` bytes, hence disjoint.
            unsafe { moved.copy_from_nonoverlapping(block, kept) };
            // SAFETY: `kept` is at most the new block's size.
            let tail = unsafe { moved.add(kept) };
            // SAFETY: what is left of the new block.
            unsafe { tail.write_bytes(GROWN, new.size().saturating_sub(kept)) };
            let to = moved.as_ptr().expose_provenance();
            let unreturned = Unreturned { core: self, memory, block: moved, layout: new, scope };
            // SAFETY: the caller's promise.
            unsafe { self.give_for(memory, block, old, who, Moment::Reallocation, Some(to)) };
            core::mem::forget(unreturned);
            Ok(moved)
        })
    }

    /// # Safety
    /// As [`HostAllocator::grow`] or [`HostAllocator::shrink`].
    unsafe fn pass_resized<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let moved = if new.size() >= old.size() {
            // SAFETY: the caller's promise.
            unsafe { memory.grow(block, old, new, scope) }
        } else {
            // SAFETY: as above.
            unsafe { memory.shrink(block, old, new, scope) }
        }?;
        self.tally.add(Count::OffGiven, Count::OffGivenBytes, old.size());
        self.tally.add(Count::OffTaken, Count::OffTakenBytes, new.size());
        Ok(moved)
    }

    /// What is written down of a free: takes no memory.
    #[inline]
    pub(super) fn mark_of_free(&self, who: &Who<'_>) -> Mark {
        // As in `mark`.
        let thread = os::thread_id();
        let site = self.sites.as_ref().map(|sites| sites.note_free(who, self.options.stacks)).unwrap_or_default();
        Mark { site, thread, serial: serial::reached() }
    }
}
