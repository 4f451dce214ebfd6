//! Repeated frees of NULL (V18). Some drivers free NULL in nearly every command: the first of a command is a row of findings, each
//! further one a count at the owner.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::engine::{CallbackCall, Engine};
use super::kind::FindingKind;

/// The maximum of counted commands of an owner; frees in other commands are rows each time.
const COMMANDS: usize = 4;

/// The counts of one owner.
pub(crate) struct NullFrees([CommandCount; COMMANDS]);

/// A command by the address of its name, which lives as long as the owner.
struct CommandCount {
    /// 0 for none, [`CLAIMED`] while the length is being written.
    address: AtomicUsize,
    length: AtomicUsize,
    count: AtomicU64,
}

/// No name has this address.
const CLAIMED: usize = 1;

impl NullFrees {
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                CommandCount {
                    address: AtomicUsize::new(0),
                    length: AtomicUsize::new(0),
                    count: AtomicU64::new(0),
                }
            }; COMMANDS],
        )
    }

    /// Counts a free in a command that has a row. False if the command is unknown.
    #[inline]
    pub(crate) fn count_again(&self, command: &str) -> bool {
        let known = self.0.iter().find(|known| known.is(command));
        if let Some(known) = known {
            known.count.fetch_add(1, Ordering::Relaxed);
        }
        known.is_some()
    }

    /// Counts the frees of a command from now on, if there is a place left. The command has a row with the same name address.
    pub(crate) fn remember(&self, command: &str) {
        if command.is_empty() {
            return;
        }
        for place in &self.0 {
            let claimed =
                place
                    .address
                    .compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Acquire);
            if claimed.is_ok() {
                place.length.store(command.len(), Ordering::Relaxed);
                place
                    .address
                    .store(command.as_ptr().addr(), Ordering::Release);
                return;
            }
            if place.is(command) {
                return;
            }
        }
    }

    /// The frees that are in no row.
    pub(crate) fn counted(&self, command: &str) -> u64 {
        // Two threads may have claimed a place each for one command.
        let known = self.0.iter().filter(|known| known.is(command));
        known.map(|known| known.count.load(Ordering::Relaxed)).sum()
    }
}

impl CommandCount {
    #[inline]
    fn is(&self, command: &str) -> bool {
        self.address.load(Ordering::Acquire) == command.as_ptr().addr()
            && self.length.load(Ordering::Relaxed) == command.len()
    }
}

impl<'t> Engine<'_, 't> {
    /// A free of NULL: legal (V18).
    #[inline]
    pub(crate) fn freed_null(&self, call: &CallbackCall<'_, 't>) {
        if !call.owner.null_frees.count_again(call.caller.command()) {
            self.first_freed_null(call);
        }
    }

    /// A free of NULL in a command that the owner does not count yet.
    #[cold]
    #[inline(never)]
    fn first_freed_null(&self, call: &CallbackCall<'_, 't>) {
        let finding = call.finding(FindingKind::NullFree, None);
        self.report(finding);
        // If there was no room for the row, each free is lost.
        if self.has_row_of_name(finding) {
            call.owner.null_frees.remember(finding.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, NullFrees};

    #[test]
    fn commands_are_told_apart_by_name_and_beyond_the_places_nothing_is_counted() {
        let frees = NullFrees::new();
        let names = "vkDestroyBufferView";
        // One begins as the other does.
        let (long, short) = (names, &names[..15]);
        assert!(!frees.count_again(long));
        frees.remember(long);
        assert!(frees.count_again(long) && !frees.count_again(short));
        frees.remember(short);
        frees.remember(long);
        assert!(frees.count_again(short) && frees.count_again(short));
        assert_eq!((frees.counted(long), frees.counted(short)), (1, 2));
        frees.remember("");
        assert!(!frees.count_again(""));
        let others = ["vk0", "vk1", "vk2", "vk3"];
        others.iter().for_each(|name| frees.remember(name));
        let counted = others.iter().filter(|name| frees.count_again(name));
        assert_eq!((others.len(), counted.count()), (COMMANDS, COMMANDS - 2));
        assert_eq!((frees.counted(long), frees.counted(short)), (1, 2));
    }
}
