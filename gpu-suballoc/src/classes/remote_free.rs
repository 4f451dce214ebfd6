//! Frees of regions by other threads: one bit a slot, and a list of the groups with bits set.
//!
//! ```text
//!   RemoteFreeList.head --> group 7 --next--> group 2 --next--> end          each of them with bits in `RemoteFreeBits`
//!          \---- the highest bit: the owner is gone, and the thread that adds an entry must empty the list
//! ```
//!
//! A thread [claims](super::slot::SlotState::claim) the slot before it frees the region, so each bit is set once. The thread that sets a
//! group's first bit puts the group on the list. No memory is needed: bit and link were allocated with the region. The owner detaches the
//! whole list at once, and each group's bits at once; a group may be on the list again before the owner has reached the next one.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// In the head: the list has no owner. The other bits are a group's number plus 1, or 0 at the end of the list.
const ABANDONED: u32 = 1 << 31;

/// A group's bits and its link in the list.
pub(crate) struct RemoteFreeBits {
    bits: AtomicU64,
    next: AtomicU32,
}

/// The list of groups with slots that other threads freed.
pub(crate) struct RemoteFreeList {
    head: AtomicU32,
}

impl RemoteFreeBits {
    pub(crate) const fn new() -> Self {
        Self {
            bits: AtomicU64::new(0),
            next: AtomicU32::new(0),
        }
    }
}

impl RemoteFreeList {
    /// Empty, with an owner.
    pub(crate) const fn new() -> Self {
        Self {
            head: AtomicU32::new(0),
        }
    }

    /// Whether there is nothing to collect. A relaxed load: a concurrent free may be seen later.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) & !ABANDONED == 0
    }

    /// Whether the list has no owner. Final only under the lock that [`adopt`](RemoteFreeList::adopt) and [`abandon`](RemoteFreeList::abandon)
    /// require: then all writes of the last owner are visible.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Acquire: an owner that parks without the lock releases here.
        self.head.load(Ordering::Acquire) & ABANDONED != 0
    }

    /// Any thread adds a slot that it has claimed. True if the list has no owner: then the caller must call
    /// [`collect_abandoned`](RemoteFreeList::collect_abandoned).
    #[must_use]
    pub(crate) fn push(&self, group: u32, returned: &RemoteFreeBits, slot: u32) -> bool {
        // Release: publishes the last use of the region. Acquire: if these are the first bits since the owner collected, the owner has read
        // `next` before it is overwritten here.
        if returned.bits.fetch_or(1 << (slot & 63), Ordering::AcqRel) != 0 {
            return false;
        }
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            returned.next.store(head & !ABANDONED, Ordering::Relaxed);
            let listed = head & ABANDONED | (group + 1);
            match self
                .head
                .compare_exchange(head, listed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return head & ABANDONED != 0,
                Err(now) => head = now,
            }
        }
    }

    /// The owner collects freed slots: calls `each(group, slot)` for every slot.
    pub(crate) fn collect<'g>(
        &self,
        find: impl Fn(u32) -> Option<&'g RemoteFreeBits>,
        each: impl FnMut(u32, u32),
    ) {
        walk(self.head.swap(0, Ordering::AcqRel), find, each);
    }

    /// The owner leaves, and collects the slots freed before. From then on [`push`](Self::push) returns true.
    pub(crate) fn abandon<'g>(
        &self,
        find: impl Fn(u32) -> Option<&'g RemoteFreeBits>,
        each: impl FnMut(u32, u32),
    ) {
        walk(self.head.swap(ABANDONED, Ordering::AcqRel), find, each);
    }

    /// As [`abandon`](RemoteFreeList::abandon) without a lock, if there is nothing to collect. False if there is: the caller is still the owner.
    #[must_use]
    pub(crate) fn try_abandon(&self) -> bool {
        // Release: publishes all writes of the owner.
        self.head
            .compare_exchange(0, ABANDONED, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Under the lock of [`adopt`](RemoteFreeList::adopt): collects if there is no owner. False if there is one, which collects later.
    pub(crate) fn collect_abandoned<'g>(
        &self,
        find: impl Fn(u32) -> Option<&'g RemoteFreeBits>,
        each: impl FnMut(u32, u32),
    ) -> bool {
        if self.head.load(Ordering::Relaxed) & ABANDONED == 0 {
            return false;
        }
        walk(self.head.fetch_and(ABANDONED, Ordering::AcqRel), find, each);
        true
    }

    /// Under a lock: the caller becomes the owner. False if there is one.
    #[must_use]
    pub(crate) fn adopt(&self) -> bool {
        self.head.fetch_and(!ABANDONED, Ordering::AcqRel) & ABANDONED != 0
    }
}

fn walk<'g>(
    mut head: u32,
    find: impl Fn(u32) -> Option<&'g RemoteFreeBits>,
    mut each: impl FnMut(u32, u32),
) {
    while let Some(group) = (head & !ABANDONED).checked_sub(1) {
        let Some(returned) = find(group) else {
            return;
        };
        head = returned.next.load(Ordering::Relaxed);
        // Acquire: the last uses of the regions are visible. Release: `next` has been read, and may be overwritten.
        let mut bits = returned.bits.swap(0, Ordering::AcqRel);
        while bits != 0 {
            each(group, bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
}
