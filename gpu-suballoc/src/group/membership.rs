//! A device's membership in a group, stored with the device: two numbers, and no pointer.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// The number of a group, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(NonZeroU64);

impl GroupId {
    pub(super) fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // It cannot overflow: 2^64 groups take longer than any process lives.
        Self(NonZeroU64::new(NEXT.fetch_add(1, Relaxed)).unwrap_or(NonZeroU64::MAX))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}", self.0)
    }
}

/// A device of a group. It means nothing to other groups, so a copy may outlive the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The group.
    pub group: GroupId,
    /// The device's number in it, 0 to 63.
    pub index: usize,
}

/// A device's membership. Each device has one, see [`GroupDevice::membership_cell`](super::GroupDevice::membership_cell).
///
/// A group reserves it first of all while it is built, and clears it at its end. So a device of a live group is refused
/// by every other group.
#[derive(Debug, Default)]
pub struct MembershipCell {
    /// 0: in no group.
    group: AtomicU64,
    index: AtomicU32,
}

impl MembershipCell {
    /// The cell of a device in no group.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            group: AtomicU64::new(0),
            index: AtomicU32::new(0),
        }
    }

    /// The membership; `None` in no group, and while the group is being built.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        let group = NonZeroU64::new(self.group.load(Acquire))?;
        // Acquire, so that the group is read after it: the number belongs to that group.
        let index = self.index.load(Acquire).checked_sub(1)?;
        // It may have been cleared and reserved again in between.
        let still = self.group.load(Acquire) == group.get();
        still.then_some(Membership {
            group: GroupId(group),
            index: index as usize,
        })
    }

    /// Reserves it for a group that is being built. An error is the group that has it.
    pub(super) fn reserve(&self, group: GroupId) -> Result<(), GroupId> {
        match self.group.compare_exchange(0, group.get(), AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(NonZeroU64::new(other).map_or(group, GroupId)),
        }
    }

    /// Sets the device's number in the group.
    pub(super) fn set_index(&self, index: usize) {
        self.index.store((index as u32).saturating_add(1), Release);
    }

    pub(super) fn clear(&self) {
        self.index.store(0, Relaxed);
        self.group.store(0, Release);
    }
}
