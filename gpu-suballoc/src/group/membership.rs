//! A device's place in a group, kept with the device: two numbers, and never a pointer to anything that may be gone.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Which group: a number that no other group of the process has, or ever will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(NonZeroU64);

impl GroupId {
    pub(super) fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // 2^64 groups take longer than any process lives; 0 is for nobody.
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

/// Which device of which group. A copy of it outlives the group harmlessly: no other group answers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The group.
    pub group: GroupId,
    /// The device's number in it, 0 to 63.
    pub index: usize,
}

/// Where a device notes which group it is in. Each device has one, and shows it through [`GroupDevice::membership_cell`](super::GroupDevice::membership_cell).
///
/// A group takes the seat when the device is added and frees it when the group ends, so a device that is in a living group is refused
/// by every other, and one whose group is gone knows of none.
#[derive(Debug, Default)]
pub struct MembershipCell {
    /// 0: in none.
    group: AtomicU64,
    index: AtomicU32,
}

impl MembershipCell {
    /// Of a device that is in no group.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            group: AtomicU64::new(0),
            index: AtomicU32::new(0),
        }
    }

    /// The group it is in, and as what; `None` in no group, and while one is being made.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        let group = NonZeroU64::new(self.group.load(Acquire))?;
        // Acquire, so that the group is not read before: it is the one that this number was written for.
        let index = self.index.load(Acquire).checked_sub(1)?;
        // It may have been given up and taken again in between.
        let still = self.group.load(Acquire) == group.get();
        still.then_some(Membership {
            group: GroupId(group),
            index: index as usize,
        })
    }

    /// Takes it for a group that is being made; refused with the group that has it.
    pub(super) fn reserve(&self, group: GroupId) -> Result<(), GroupId> {
        match self.group.compare_exchange(0, group.get(), AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(NonZeroU64::new(other).map_or(group, GroupId)),
        }
    }

    /// The group is made: from now on the device knows its number.
    pub(super) fn set_index(&self, index: usize) {
        self.index.store((index as u32).saturating_add(1), Release);
    }

    pub(super) fn clear(&self) {
        self.index.store(0, Relaxed);
        self.group.store(0, Release);
    }
}
