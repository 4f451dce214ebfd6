//! What is found while a block changes hands is told when that is done and counted: a report may unwind, and the books must be right then.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, Scope};

use super::state::Core;
use crate::block::{Fault, Mark};

/// So many are kept; one block's own mistakes are six at most, and thirteen others leave quarantine for it.
const MOST: usize = 19;

/// What is to be told.
pub(super) struct Later {
    /// Made with the first.
    noted: Option<Noted>,
}

struct Noted {
    list: [Option<(Fault, Whose)>; MOST],
    /// For which there was no room.
    lost: u64,
}

/// About whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The block that changes hands.
    Own,
    /// One that was freed before.
    Other,
}

impl Later {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { noted: None }
    }

    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.noted.is_none()
    }

    /// Where there is no room for one more it is counted as lost.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, fault: Fault, whose: Whose) {
        let noted = self.noted.get_or_insert(Noted { list: [None; MOST], lost: 0 });
        match noted.list.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((fault, whose)),
            None => noted.lost = noted.lost.saturating_add(1),
        }
    }

    /// Tells all of it, in its order. May unwind.
    pub(super) fn tell(self, core: &Core, mut tell: impl FnMut(Fault, Whose)) {
        if let Some(Noted { list, lost }) = self.noted {
            core.counters.lost.fetch_add(lost, Relaxed);
            list.into_iter().flatten().for_each(|(fault, whose)| tell(fault, whose));
        }
    }
}

/// A block that was taken and that nobody has yet: dropped while a report unwinds, it goes back without a word.
pub(super) struct Unreturned<'a, M: HostAllocator> {
    pub(super) core: &'a Core,
    pub(super) memory: &'a M,
    pub(super) block: NonNull<u8>,
    pub(super) layout: Layout,
    pub(super) scope: Scope,
}

impl<M: HostAllocator> Drop for Unreturned<'_, M> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: taken from this core over this memory with this layout and scope, and given to nobody.
        unsafe {
            self.core.give_quietly(self.memory, self.block, (self.layout, self.scope), Mark::default(), None, &mut Later::new());
        }
    }
}
