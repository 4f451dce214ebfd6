//! The state file: the numbers of the process in a shared mapping, which outlives the process. `vk_report::state_file`
//! has the layout.
//!
//! All numbers are updated after each of the first 1000 commands, then after every 64th, and after every 64th submit;
//! after other submits those of the kinds that changed since. One thread updates at a time, and others skip the update,
//! as does a thread that would have to wait for a number.

mod changed;
mod mapping;
mod sums;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

use vk_report::state_file::{
    ANSWERS, COMMANDS, HAS_STACKS, HEAP_WORDS, HEAPS, KIND_WORDS, KINDS, LENGTH_WITH_STACKS, MAGIC, MAX_HEAPS,
    MAX_KINDS, NAME_WORDS, PROCESS, REPORTED, REPORTS, ROWS, SEQUENCE, STARTED, stacks, started,
};

use crate::commands::{self, FIRST_ROWS, kind_bit, row};
use crate::file_name::write_named;
use crate::hooks::{self, HookPhase};
use crate::leaks::StackWords;
use crate::os::detach;
use crate::settings::settings;
use crate::turn::Turn;
use changed::ChangedKinds;
use mapping::{MappedState, Words};

pub(crate) use mapping::admit_state_file;
use sums::Sums;

const EVERY_COMMAND_UNTIL: u64 = 1000;
const INTERVAL: u64 = 64;

const _: () = assert!(crate::chain::MAX_HEAPS == MAX_HEAPS && commands::MAX_KINDS == MAX_KINDS);

static STATE: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static IS_OPENED: AtomicBool = AtomicBool::new(false);
static IS_UPDATED: AtomicBool = AtomicBool::new(false);

static CHANGED: ChangedKinds = ChangedKinds::new();

pub(crate) fn open() {
    let Some(pattern) = &settings().state else {
        return;
    };
    if IS_OPENED.swap(true, Ordering::Relaxed) {
        return;
    }
    let create = |name: &str| mapping::create(name, settings().stacks);
    if let Some(state) = write_named("state file", pattern, create) {
        init(state);
    }
}

pub(crate) fn is_open() -> bool {
    !STATE.load(Ordering::Relaxed).is_null()
}

pub(crate) fn stack_words() -> Option<&'static StackWords> {
    let state = NonNull::new(STATE.load(Ordering::Acquire))?;
    if MAPPED.load(Ordering::Relaxed) != LENGTH_WITH_STACKS {
        return None;
    }
    // SAFETY: the mapping has so many words behind the numbers.
    let first = unsafe { state.add(1) }.cast();
    // SAFETY: the words of the mapping, which is never undone.
    Some(unsafe { std::slice::from_raw_parts(first.as_ptr(), stacks::WORDS) })
}

pub(crate) fn after_fork() {
    if let Some(state) = NonNull::new(STATE.load(Ordering::Relaxed)) {
        detach(state.cast(), MAPPED.load(Ordering::Relaxed));
    }
    STATE.store(ptr::null_mut(), Ordering::Relaxed);
    IS_OPENED.store(false, Ordering::Relaxed);
    IS_UPDATED.store(false, Ordering::Relaxed);
    CHANGED.reset();
}

/// A command that never ends is known by this.
pub(crate) fn command_begins(number: u64, index: usize) {
    if let Some(words) = words() {
        put(words, STARTED, started(number, index));
    }
}

pub(crate) fn command_ended(index: usize, number: u64) {
    let Some(words) = words() else { return };
    // First, so that an update that comes too early for this command leaves it to the next one.
    CHANGED.note(kind_bit(index));
    if number <= EVERY_COMMAND_UNTIL || number.is_multiple_of(INTERVAL) {
        update(words, hooks::COMMANDS.get(), u64::MAX);
    }
}

pub(crate) fn submit_ended(number: u64) {
    let Some(words) = words() else { return };
    if number.is_multiple_of(INTERVAL) {
        update(words, hooks::COMMANDS.get(), u64::MAX);
    } else if CHANGED.is_any() {
        update(words, hooks::COMMANDS.get(), 0);
    }
}

/// A report that was not written leaves the state to be read in its place.
pub(crate) fn reported(commands: u64, number: u64, is_written: bool) {
    if let Some(words) = words() {
        put(words, REPORTS, number);
        // Otherwise the numbers are older than the report.
        if update(words, commands, u64::MAX) && is_written {
            put(words, REPORTED, commands);
        }
    }
}

#[inline]
pub(crate) fn is_requested(word: usize) -> bool {
    let word = words().and_then(|words| words.get(word));
    word.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
}

pub(crate) fn is_due(word: usize) -> bool {
    let is_removed = || {
        let word = words().and_then(|words| words.get(word));
        word.is_some_and(|word| word.swap(0, Ordering::Relaxed) != 0)
    };
    is_requested(word) && is_removed()
}

pub(crate) fn answered() {
    if let Some(word) = words().and_then(|words| words.get(ANSWERS)) {
        word.fetch_add(1, Ordering::Release);
    }
}

#[inline]
fn words() -> Option<&'static Words> {
    // SAFETY: null, or a mapping that is never undone.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

fn init(state: MappedState) {
    // SAFETY: a mapping of this size that is never undone.
    let words = unsafe { state.words.as_ref() };
    MAPPED.store(state.length, Ordering::Relaxed);
    put(words, 1, state.length as u64);
    put(words, PROCESS, std::process::id().into());
    put(words, ROWS, commands::ROWS as u64);
    put(words, HAS_STACKS, settings().stacks.into());
    for (place, index) in FIRST_ROWS.iter().enumerate() {
        let name = index.map_or("", |index| row(index).object).as_bytes();
        let at = KINDS + place * KIND_WORDS;
        for (word, chunk) in (at..at + NAME_WORDS).zip(name.chunks(8)) {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(chunk) {
                *to = *from;
            }
            put(words, word, u64::from_ne_bytes(bytes));
        }
    }
    // Last: a file without it is not valid.
    put(words, 0, MAGIC);
    STATE.store(state.words.as_ptr(), Ordering::Release);
}

/// Updates the kinds that have changed, and those with these bits. Returns whether they were written.
fn update(words: &Words, number: u64, kinds: u64) -> bool {
    let Some(_turn) = Turn::begin(&IS_UPDATED) else {
        return false;
    };
    CHANGED.update(kinds, |kinds| Sums::of(kinds).map(|sums| write(words, number, &sums)))
}

fn write(words: &Words, number: u64, sums: &Sums) {
    let sequence = words.get(SEQUENCE).map_or(0, |word| word.load(Ordering::Relaxed));
    // Odd also after an update that panicked.
    let odd = sequence | 1;
    put(words, SEQUENCE, odd);
    // A reader of one of the numbers below must see an odd or another sequence number.
    fence(Ordering::Release);
    for (place, numbers) in sums.kinds.iter().enumerate() {
        let Some(numbers) = numbers else { continue };
        put_all(words, KINDS + place * KIND_WORDS + NAME_WORDS, numbers);
        if let Some(Some(index)) = FIRST_ROWS.get(place) {
            hooks::strike(*index, HookPhase::State);
        }
    }
    for (heap, numbers) in sums.heaps.iter().enumerate() {
        if let Some(numbers) = numbers {
            put_all(words, HEAPS + heap * HEAP_WORDS, numbers);
        }
    }
    put(words, COMMANDS, number);
    if let Some(word) = words.get(SEQUENCE) {
        word.store(odd.wrapping_add(1), Ordering::Release);
    }
}

fn put_all(words: &Words, at: usize, values: &[u64]) {
    for (word, value) in words.iter().skip(at).zip(values) {
        word.store(*value, Ordering::Relaxed);
    }
}

fn put(words: &Words, index: usize, value: u64) {
    put_all(words, index, &[value]);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::Turn;
    use super::changed::ChangedKinds;

    #[test]
    fn ly35_kinds_of_an_update_that_was_refused_are_those_of_the_next_one() {
        let changed = ChangedKinds::new();
        changed.note(0b101);
        let is_done = changed.update(0b1000, |kinds| {
            assert_eq!(kinds, 0b1101);
            changed.note(0b10);
            None
        });
        assert!(!is_done && changed.update(0, |kinds| (kinds == 0b111).then_some(())));
        assert!(!changed.is_any());
    }

    #[test]
    fn ly35_an_update_that_panicked_lets_the_next_one_on() {
        let is_updated = AtomicBool::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let turn = Turn::begin(&is_updated);
            assert!(turn.is_some() && Turn::begin(&is_updated).is_none());
            panic!("planted");
        }));
        assert!(panicked.is_err());
        assert!(Turn::begin(&is_updated).is_some());
    }
}
