//! The state file: the numbers of the process in a shared mapping, which outlives every end of it. `vk_accounts::state_file` has the layout.
//!
//! It is updated after each of the first 1000 commands, then after every 64th and after each submit. One thread updates at a time, and
//! the others pass by; who would have to wait for a number leaves the update out.

mod mapping;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

use alloc_core::ScopeUsage;
use vk_accounts::state_file::{
    COMMANDS, HEAP_WORDS, HEAPS, KIND_WORDS, KINDS, LENGTH, MAGIC, MAX_HEAPS, MAX_KINDS,
    NAME_WORDS, PROCESS, REPORTED, ROWS, SEQUENCE, STARTED, STARTED_ROW,
};

use crate::accounts::{Accounts, INSTANCES, KindAccount};
use crate::commands::{self, row};
use crate::device_memory::MemoryCount;
use crate::file_name::expand;
use crate::hooks;
use crate::settings::{complain, settings};
use mapping::Words;

/// So many commands are followed one by one.
const EVERY_COMMAND_UNTIL: u64 = 1000;
const INTERVAL: u64 = 64;

const _: () = assert!(crate::chain::MAX_HEAPS == MAX_HEAPS);

static STATE: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());
static IS_OPENED: AtomicBool = AtomicBool::new(false);
static IS_UPDATED: AtomicBool = AtomicBool::new(false);

/// The first row of each kind, by its place in the file; none behind the last kind.
#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
const PLACES: [Option<usize>; MAX_KINDS] = {
    let mut places = [None; MAX_KINDS];
    let (mut index, mut place) = (0, 0);
    while index < commands::ROWS {
        if commands::is_first_of_kind(index) {
            // Fails to compile where there are too many kinds.
            places[place] = Some(index);
            place += 1;
        }
        index += 1;
    }
    places
};

/// The first instance is about to be created: makes the file, if the settings name one.
pub(crate) fn open() {
    let Some(pattern) = &settings().state else {
        return;
    };
    if IS_OPENED.swap(true, Ordering::Relaxed) {
        return;
    }
    let Ok(name) = expand(pattern) else {
        return complain(format_args!("no state file: out of host memory"));
    };
    match mapping::create(&name) {
        Ok(words) => init(words),
        Err(error) => complain(format_args!(
            "{} cannot be written ({error}): name a file in a folder that can be written to",
            name.as_str()
        )),
    }
}

/// Somebody follows the numbers.
pub(crate) fn is_open() -> bool {
    !STATE.load(Ordering::Relaxed).is_null()
}

/// In the child of a fork: the mapping is the parent's.
pub(crate) fn after_fork() {
    STATE.store(ptr::null_mut(), Ordering::Relaxed);
    IS_OPENED.store(false, Ordering::Relaxed);
    IS_UPDATED.store(false, Ordering::Relaxed);
}

/// A command begins, so that a command that never ends is known.
pub(crate) fn command_begins(number: u64, index: usize) {
    if let Some(words) = words() {
        put(words, STARTED_ROW, index as u64 + 1);
        put(words, STARTED, number);
    }
}

/// A command has ended, with this number among those of its thread or of others: updates the numbers when it is time to.
pub(crate) fn command_ended(number: u64) {
    let is_due = number <= EVERY_COMMAND_UNTIL || number.is_multiple_of(INTERVAL);
    if let Some(words) = words().filter(|_| is_due) {
        update(words, hooks::COMMANDS.get());
    }
}

/// A submit has ended: updates the numbers.
pub(crate) fn submit_ended() {
    if let Some(words) = words() {
        update(words, hooks::COMMANDS.get());
    }
}

/// A report was written, after so many commands.
pub(crate) fn reported(commands: u64) {
    if let Some(words) = words() {
        // Else the numbers are those of an earlier command, which the report goes beyond.
        if update(words, commands) {
            put(words, REPORTED, commands);
        }
    }
}

fn words() -> Option<&'static Words> {
    // SAFETY: null, or a mapping that is never undone.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

fn init(mapping: NonNull<Words>) {
    // SAFETY: a mapping of this size that is never undone; zero is a value of every word.
    let words = unsafe { mapping.as_ref() };
    put(words, 1, LENGTH as u64);
    put(words, PROCESS, std::process::id().into());
    put(words, ROWS, commands::ROWS as u64);
    for (place, index) in PLACES.iter().enumerate() {
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
    // Last: without it the file is none.
    put(words, 0, MAGIC);
    STATE.store(mapping.as_ptr(), Ordering::Release);
}

/// Whether the numbers were written.
fn update(words: &Words, number: u64) -> bool {
    let Some(_turn) = UpdateTurn::new(&IS_UPDATED) else {
        return false;
    };
    let sums = Sums::of_all();
    if let Some(sums) = &sums {
        write(words, number, sums);
    }
    sums.is_some()
}

/// One thread at a time updates; the next one may when this goes, by a panic too.
struct UpdateTurn<'u>(&'u AtomicBool);

impl<'u> UpdateTurn<'u> {
    /// `None` while another thread updates.
    fn new(is_updated: &'u AtomicBool) -> Option<Self> {
        let is_free = !is_updated.swap(true, Ordering::Acquire);
        is_free.then(|| Self(is_updated))
    }
}

impl Drop for UpdateTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn write(words: &Words, number: u64, sums: &Sums) {
    let sequence = words
        .get(SEQUENCE)
        .map_or(0, |word| word.load(Ordering::Relaxed));
    // Odd, also where an update was given up half done.
    let odd = sequence | 1;
    put(words, SEQUENCE, odd);
    // Whoever reads one of the numbers below has to find an odd or a changed number above.
    fence(Ordering::Release);
    // What nothing is known of is 0 in the file, as it was made.
    for (place, sum) in sums.kinds.iter().enumerate() {
        if let Some(sum) = sum {
            put_all(words, KINDS + place * KIND_WORDS + NAME_WORDS, sum);
        }
    }
    for (heap, sum) in sums.heaps.iter().enumerate() {
        if let Some(sum) = sum {
            put_all(words, HEAPS + heap * HEAP_WORDS, sum);
        }
    }
    put(words, COMMANDS, number);
    if let Some(word) = words.get(SEQUENCE) {
        word.store(odd.wrapping_add(1), Ordering::Release);
    }
}

/// The numbers of all instances and devices together, in the order of the file; none of what nothing is known of.
struct Sums {
    kinds: [Option<[u64; KIND_NUMBERS]>; MAX_KINDS],
    heaps: [Option<[u64; HEAP_NUMBERS]>; MAX_HEAPS],
}

impl Sums {
    const fn new() -> Self {
        Self {
            kinds: [None; MAX_KINDS],
            heaps: [None; MAX_HEAPS],
        }
    }

    /// `None` where a number would have to be waited for: the next update has it.
    fn of_all() -> Option<Self> {
        let mut sums = Self::new();
        for instance in INSTANCES.iter() {
            sums.add(instance)?;
            for device in instance.devices.iter() {
                sums.add(device)?;
            }
        }
        Some(sums)
    }

    fn add(&mut self, accounts: &Accounts) -> Option<()> {
        for (sum, index) in self.kinds.iter_mut().zip(PLACES) {
            let Some(index) = index else { break };
            if let Some(kind) = accounts.kind_of_row(index).filter(|kind| kind.is_used()) {
                add_all(sum.get_or_insert_default(), kind_numbers(kind)?);
            }
        }
        for (sum, count) in self.heaps.iter_mut().zip(&accounts.device_memory.heaps) {
            if get(&count.total_blocks) | get(&count.refusals) != 0 {
                add_all(sum.get_or_insert_default(), heap_numbers(count));
            }
        }
        Some(())
    }
}

/// So many words of a row are numbers.
const KIND_NUMBERS: usize = 8;
const HEAP_NUMBERS: usize = 6;

fn kind_numbers(kind: &KindAccount) -> Option<[u64; KIND_NUMBERS]> {
    let owner = kind.owner();
    let usage = match owner {
        Some(owner) => owner.try_usage()?.total(),
        None => ScopeUsage::default(),
    };
    Some([
        usage.live_bytes,
        usage.live_blocks,
        owner.map_or(0, |owner| owner.peak_bytes()),
        usage.total_bytes,
        usage.total_blocks,
        kind.created.get(),
        kind.ended.get(),
        get(&kind.foreign_commands),
    ])
}

fn heap_numbers(count: &MemoryCount) -> [u64; HEAP_NUMBERS] {
    [
        get(&count.live_bytes),
        get(&count.live_blocks),
        get(&count.peak_bytes),
        get(&count.total_bytes),
        get(&count.total_blocks),
        get(&count.refusals),
    ]
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn add_all<const N: usize>(sum: &mut [u64; N], numbers: [u64; N]) {
    for (sum, number) in sum.iter_mut().zip(numbers) {
        *sum = sum.saturating_add(number);
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

    use super::UpdateTurn;

    #[test]
    fn ly35_an_update_that_panicked_lets_the_next_one_on() {
        let is_updated = AtomicBool::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let turn = UpdateTurn::new(&is_updated);
            assert!(turn.is_some() && UpdateTurn::new(&is_updated).is_none());
            panic!("planted");
        }));
        assert!(panicked.is_err());
        assert!(UpdateTurn::new(&is_updated).is_some());
    }
}
