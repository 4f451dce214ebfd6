//! ```text
//!   unmapped --map--> turn --the driver's answer--> mapped 1 .. n --the last unmap--> turn --> unmapped
//! ```
//!
//! Vulkan requires map and unmap of one memory object one after the other. A thread has the turn during the driver's
//! call, without the lock of this value. There are no mappings during a turn, so unmapping never waits.

use core::ptr::NonNull;

/// This crate does not dereference it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) NonNull<u8>);

// SAFETY: it is not dereferenced here.
unsafe impl Send for Address {}
// SAFETY: it is not dereferenced here.
unsafe impl Sync for Address {}

impl Address {
    pub(crate) fn offset(self, bytes: u64) -> Self {
        let there = self.0.as_ptr().wrapping_add(bytes as usize);
        Self(NonNull::new(there).unwrap_or(self.0))
    }
}

#[derive(Debug, Default)]
pub(crate) struct MapCount {
    base: Option<Address>,
    count: u32,
    /// A thread is in `vkMapMemory` or `vkUnmapMemory`: `base` and `count` are 0.
    turn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done(Option<NonNull<u8>>),
    /// Call the driver without the lock, and report the result.
    Driver,
    /// Wait for the end of a turn, perhaps one of this thread in an outer call.
    Wait,
    /// It is not mapped, or mapped too often.
    Refused,
}

impl MapCount {
    pub(crate) const NONE: Self = Self { base: None, count: 0, turn: false };

    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0 && !self.turn
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.base.is_some() && self.count > 0 && !self.turn
    }

    pub(crate) fn base(&self) -> Option<Address> {
        self.base
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn enter(&mut self) -> Step {
        if self.turn {
            return Step::Wait;
        }
        let Some(more) = self.count.checked_add(1) else {
            return Step::Refused;
        };
        match self.base {
            Some(Address(base)) => {
                self.count = more;
                Step::Done(Some(base))
            }
            None => {
                self.turn = true;
                Step::Driver
            }
        }
    }

    pub(crate) fn entered(&mut self, base: Option<NonNull<u8>>) {
        self.turn = false;
        self.base = base.map(Address);
        self.count += u32::from(base.is_some());
    }

    /// The last mapping is unmapped, unless `keep`.
    pub(crate) fn leave(&mut self, keep: bool) -> Step {
        // Also during a turn: there are no mappings then.
        let Some(less) = self.count.checked_sub(1) else {
            return Step::Refused;
        };
        self.count = less;
        if less > 0 || keep {
            return Step::Done(None);
        }
        self.base = None;
        self.turn = true;
        Step::Driver
    }

    pub(crate) fn left(&mut self) {
        self.turn = false;
    }
}
