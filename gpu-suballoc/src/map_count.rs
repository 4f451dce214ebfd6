//! How often a memory object is mapped, and whose turn it is at the driver.
//!
//! ```text
//!   unmapped --map--> turn --the driver's answer--> mapped 1 .. n --the last unmap--> turn --> unmapped
//! ```
//!
//! Vulkan wants map and unmap of one memory object one after the other: a turn, which is held over the driver's call, while the lock that
//! this lies behind is not. In a turn nobody has it mapped, so that unmapping never waits.

use core::ptr::NonNull;

/// An address in mapped memory: a number as far as this crate goes, never read through.
#[derive(Clone, Copy, Debug)]
struct Address(NonNull<u8>);

// SAFETY: nothing is read through it here; which thread may use the bytes behind it is up to those who map.
unsafe impl Send for Address {}

/// Whether it is mapped, for how many, and whether somebody is at it.
#[derive(Debug, Default)]
pub(crate) struct MapCount {
    /// Its first byte.
    base: Option<Address>,
    /// Mappings that were not undone.
    count: u32,
    /// A thread is in `vkMapMemory` or `vkUnmapMemory` of it: `base` and `count` are nothing meanwhile.
    turn: bool,
}

/// What to do to map or unmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is done.
    Done(Option<NonNull<u8>>),
    /// Ask the driver, without the lock, and say what came of it. Until then it is this thread's turn.
    Driver,
    /// Somebody's turn, perhaps this very thread's, further out.
    Wait,
    /// It is mapped less often, or more often than can be counted.
    Refused,
}

impl MapCount {
    pub(crate) const NONE: Self = Self {
        base: None,
        count: 0,
        turn: false,
    };

    /// Neither mapped for anybody nor about to be: the memory may go.
    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0 && !self.turn
    }

    /// Some mapping of it was not undone.
    pub(crate) fn is_mapped(&self) -> bool {
        self.base.is_some() && self.count > 0 && !self.turn
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// One more wants it mapped.
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

    /// The driver mapped it, or did not: the turn is over.
    pub(crate) fn entered(&mut self, base: Option<NonNull<u8>>) {
        self.turn = false;
        self.base = base.map(Address);
        self.count = self.count.saturating_add(u32::from(base.is_some()));
    }

    /// One less wants it mapped. Where the last one goes and maps are not kept, it is unmapped.
    pub(crate) fn leave(&mut self, keep: bool) -> Step {
        // In a turn as well: nobody has it mapped then.
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

    /// The driver unmapped it: the turn is over.
    pub(crate) fn left(&mut self) {
        self.turn = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h113_maps_are_counted_and_one_thread_at_a_time_is_at_the_driver() {
        let byte = NonNull::<u8>::dangling();
        let mut map = MapCount::default();
        assert_eq!(map.leave(false), Step::Refused, "it is not mapped");
        assert_eq!(map.enter(), Step::Driver);
        assert_eq!(
            (map.enter(), map.leave(false)),
            (Step::Wait, Step::Refused),
            "nobody has it mapped"
        );
        assert!(!map.is_idle());
        map.entered(None);
        assert!(map.is_idle(), "the driver refused: as it was");
        assert_eq!(map.enter(), Step::Driver);
        map.entered(Some(byte));
        assert_eq!(map.enter(), Step::Done(Some(byte)));
        assert_eq!(map.count(), 2);
        assert_eq!(map.leave(false), Step::Done(None));
        assert_eq!(map.leave(false), Step::Driver);
        assert!(map.base.is_none());
        assert!(!map.is_idle(), "until the driver is done");
        assert_eq!((map.enter(), map.leave(false)), (Step::Wait, Step::Refused));
        map.left();
        assert!(map.is_idle());
        // Kept maps cost no second call.
        assert_eq!(map.enter(), Step::Driver);
        map.entered(Some(byte));
        assert_eq!(map.leave(true), Step::Done(None));
        assert!(map.is_idle() && map.base.is_some());
        assert_eq!(map.enter(), Step::Done(Some(byte)));
    }
}
