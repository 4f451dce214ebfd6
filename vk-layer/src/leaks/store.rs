//! The counts of all origins lie in the state file, where the process's death leaves them readable, or in memory.
//! `vk_report::state_file::stacks` has the layout.

use std::sync::atomic::{AtomicU64, Ordering};

use vk_report::state_file::stacks::{
    HEAD_WORDS, MAX_BUILD_ID, MODULE, MODULE_WORDS, PEAK_NAMES, PEAK_WORDS, STACK, STACK_WORDS,
};

use super::counts::LiveCount;
use super::marks::Marks;
use super::modules::StackModule;
use super::origins::StackFrame;
use crate::count::get;
use crate::os::coarse_nanoseconds;
use crate::record::new_static;

pub(crate) type StackWords = [AtomicU64];

#[derive(Default)]
#[repr(C)]
pub(crate) struct StackHead {
    used: AtomicU64,
    unstored: AtomicU64,
    pub(crate) lost: AtomicU64,
    mark: AtomicU64,
    marks: AtomicU64,
    frames_a_mark: AtomicU64,
    warm_up: AtomicU64,
    unused: AtomicU64,
    pub(crate) peaks: [HighestMoment; PEAK_NAMES.len()],
}

#[derive(Default)]
#[repr(C)]
pub(crate) struct HighestMoment {
    live: AtomicU64,
    highest: AtomicU64,
    number: AtomicU64,
    nanoseconds: AtomicU64,
    mark: AtomicU64,
    marks: AtomicU64,
    unused: [AtomicU64; 2],
}

#[derive(Default)]
#[repr(C)]
pub(crate) struct OriginCounts {
    pub(crate) objects: LiveCount,
    pub(crate) blocks: LiveCount,
}

const _: () = assert!(size_of::<StackHead>() == HEAD_WORDS * 8);
const _: () = assert!(size_of::<HighestMoment>() == PEAK_WORDS * 8);
const _: () = assert!(size_of::<OriginCounts>() == (STACK_WORDS - 2) * 8);

pub(super) struct StackStore {
    pub(super) head: &'static StackHead,
    words: &'static StackWords,
    began: u64,
}

impl HighestMoment {
    pub(crate) fn number(&self) -> u64 {
        get(&self.number)
    }

    pub(crate) fn highest(&self) -> u64 {
        get(&self.highest)
    }

    pub(crate) fn nanoseconds(&self) -> u64 {
        get(&self.nanoseconds)
    }

    pub(crate) fn mark(&self) -> (u64, u64) {
        (get(&self.mark), get(&self.marks))
    }

    pub(super) fn add(&self, bytes: u64) -> bool {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed);
        let live = live.wrapping_add(bytes);
        let is_highest =
            live > self.highest() && self.highest.fetch_max(live, Ordering::Relaxed) < live;
        if is_highest {
            self.number.fetch_add(1, Ordering::Relaxed);
        }
        is_highest
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl StackStore {
    pub(super) fn new(words: Option<&'static StackWords>) -> Option<Self> {
        let words = words.unwrap_or_default();
        let head = if words.len() < HEAD_WORDS {
            new_static(StackHead::default())?
        } else {
            // SAFETY: so many words, which stay; any bits are a value of each.
            unsafe { &*words.as_ptr().cast::<StackHead>() }
        };
        let _ =
            head.used
                .compare_exchange(0, HEAD_WORDS as u64, Ordering::Release, Ordering::Relaxed);
        Some(Self {
            head,
            words,
            began: coarse_nanoseconds(),
        })
    }

    pub(super) fn set_marks(&self, marks: &Marks) {
        let kind = marks.kind();
        for (word, value) in [
            (&self.head.mark, kind as u64),
            (&self.head.marks, marks.count()),
            (&self.head.frames_a_mark, marks.frames_a_mark()),
            (&self.head.warm_up, kind.warm_up()),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn note_moment(&self, peak: &HighestMoment) {
        let now = coarse_nanoseconds().saturating_sub(self.began);
        for (word, value) in [
            (&peak.nanoseconds, now),
            (&peak.mark, get(&self.head.mark)),
            (&peak.marks, get(&self.head.marks)),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the record's first word; 0 without room. One thread at a time stores.
    pub(super) fn add_module(&self, module: &StackModule) -> u64 {
        let path = module.path().as_bytes();
        let id = module.build_id();
        let Some(mut record) = self.record(MODULE, MODULE_WORDS + path.len().div_ceil(8)) else {
            return 0;
        };
        record.push(module.bias() as u64);
        record.push(id.len() as u64 | (path.len() as u64) << 32);
        let mut padded = [0; MAX_BUILD_ID];
        for (to, from) in padded.iter_mut().zip(id) {
            *to = *from;
        }
        record.push_bytes(&padded);
        record.push_bytes(path);
        record.end()
    }

    /// The counts are in memory where there is no room in the file. `None` without memory. One thread at a time stores.
    pub(super) fn add_origin(
        &self,
        (command, kind): (&str, &str),
        frames: &[StackFrame],
    ) -> Option<&'static OriginCounts> {
        let texts = (command.len() + kind.len()).div_ceil(8);
        let Some(mut record) = self.record(STACK, STACK_WORDS + 2 * frames.len() + texts) else {
            self.head.unstored.fetch_add(1, Ordering::Relaxed);
            return new_static(OriginCounts::default());
        };
        let lengths = [command.len(), kind.len() << 16, frames.len() << 32];
        record.push(lengths.iter().fold(0, |word, length| word | *length as u64));
        let counts = record.skip(STACK_WORDS - 2)?;
        for frame in frames {
            record.push(frame.address as u64);
            record.push(frame.module.map_or(0, StackModule::stored_at));
        }
        record.push_bytes_of(command.bytes().chain(kind.bytes()));
        record.end();
        // SAFETY: so many words, which stay; any bits are a value of each.
        Some(unsafe { &*counts.as_ptr().cast::<OriginCounts>() })
    }

    fn record(&self, kind: u64, words: usize) -> Option<RecordWriter> {
        let used = usize::try_from(get(&self.head.used)).ok()?;
        let end = used.checked_add(words)?;
        let mut record = RecordWriter {
            words: self.words.get(used..end)?,
            at: 0,
            start: used as u64,
            head: self.head,
        };
        record.push(kind | (words as u64) << 8);
        Some(record)
    }
}

struct RecordWriter {
    words: &'static StackWords,
    at: usize,
    start: u64,
    head: &'static StackHead,
}

impl RecordWriter {
    fn push(&mut self, value: u64) {
        if let Some(word) = self.words.get(self.at) {
            word.store(value, Ordering::Relaxed);
        }
        self.at = self.at.saturating_add(1);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.push_bytes_of(bytes.iter().copied());
    }

    fn push_bytes_of(&mut self, mut bytes: impl Iterator<Item = u8>) {
        while let Some(first) = bytes.next() {
            let mut word = [first, 0, 0, 0, 0, 0, 0, 0];
            for (to, from) in word.iter_mut().skip(1).zip(bytes.by_ref()) {
                *to = from;
            }
            self.push(u64::from_ne_bytes(word));
        }
    }

    fn skip(&mut self, words: usize) -> Option<&'static StackWords> {
        let end = self.at.checked_add(words)?;
        let skipped = self.words.get(self.at..end);
        self.at = end;
        skipped
    }

    fn end(self) -> u64 {
        let end = self.start.saturating_add(self.words.len() as u64);
        self.head.used.store(end, Ordering::Release);
        self.start
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use debug_guard::StackDepot;
    use vk_report::state_file::stacks::{StoredStacks, WORDS};

    use super::super::origins::OriginTable;
    use super::{HighestMoment, LiveCount, StackStore};
    use crate::count::get;
    use crate::record::{SYSTEM, new_static};

    fn words(number: usize) -> &'static [AtomicU64] {
        Box::leak((0..number).map(|_| AtomicU64::new(0)).collect())
    }

    fn parse(words: &[AtomicU64]) -> StoredStacks {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| get(word).to_ne_bytes())
            .collect();
        StoredStacks::parse(&bytes).expect("stacks")
    }

    #[test]
    fn ly44_what_is_counted_is_read_from_the_file() {
        let words = words(WORDS);
        let store = StackStore::new(Some(words)).and_then(new_static);
        let origins = OriginTable::new(store.expect("memory"));
        let depot = StackDepot::new(&SYSTEM).expect("memory");
        let stack = depot.capture("vkAllocateMemory").expect("memory");
        let frames = || depot.get(stack).expect("stored").1.frames;
        let origin = |kind| {
            let origin = origins.get_or_insert(Some(stack), frames, ("vkAllocateMemory", kind));
            origin.expect("memory")
        };
        let (memory, device) = (origin("VkDeviceMemory"), origin("VkDevice"));
        for bytes in [10, 30] {
            memory.add_object();
            memory.set_object_size(bytes);
        }
        memory.remove_object(10);
        device.add_block(64);
        let stored = parse(words);
        assert_eq!((stored.unstored, stored.is_damaged), (0, false));
        let [of_memory, of_device] = &*stored.leaks.stacks else {
            panic!("{:?}", stored.leaks);
        };
        assert_eq!((of_memory.objects.live, of_memory.objects.bytes), (1, 30));
        assert_eq!((of_device.blocks.live, &*of_device.kind), (1, "VkDevice"));
        let [peak, blocks] = &*stored.leaks.peaks else {
            panic!("{:?}", stored.leaks.peaks);
        };
        assert_eq!((peak.bytes, peak.stacks[0].live), (40, 2));
        assert_eq!((blocks.bytes, blocks.stacks[0].live), (64, 1));
        // The test's own file is the layer's here, and frames of the layer at the inner end are left out; what is behind them is known.
        let libraries = ["libc.so", "kernel32", "ntdll"];
        let is_known = |frame: &vk_report::report::LeakFrame| {
            libraries.iter().any(|name| frame.module.contains(name))
        };
        assert!(
            cfg!(miri) || of_memory.frames.iter().any(is_known),
            "{of_memory:?}"
        );
    }

    #[test]
    fn ly44_without_room_in_the_file_origins_count_in_memory_and_are_known_to_be_missing() {
        let words = words(60);
        let store = StackStore::new(Some(words)).and_then(new_static);
        let origins = OriginTable::new(store.expect("memory"));
        let origin = |kind| {
            let origin = origins.get_or_insert(None, || &[], ("", kind));
            origin.expect("memory")
        };
        for kind in ["VkBuffer", "VkImage", "VkFence"] {
            origin(kind).add_block(7);
        }
        let stored = parse(words);
        assert_eq!((stored.unstored, stored.is_damaged), (2, false));
        assert_eq!(stored.leaks.stacks.len(), 1);
        assert_eq!(origin("VkFence").blocks().live(), 1);
        let sum: u64 = origins.iter().map(|origin| origin.blocks().bytes()).sum();
        assert_eq!(sum, 21);
    }

    #[test]
    fn ly36_at_the_peak_each_count_is_what_it_was_then() {
        let (peak, counts) = (
            HighestMoment::default(),
            [LiveCount::default(), LiveCount::default()],
        );
        let (mut live, mut highest, mut expected) = ([0_u64; 2], 0, [0; 2]);
        let mut seed = 7_u64;
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (place, bytes) = ((seed >> 40) as usize % 2, 1 + (seed >> 50));
            let count = &counts[place];
            count.keep_peak(peak.number());
            if (seed >> 33).is_multiple_of(3) && live[place] >= bytes {
                live[place] -= bytes;
                count.remove(bytes);
                peak.subtract(bytes);
            } else if (seed >> 33) % 5 < 3 || live[place] < bytes {
                live[place] += bytes;
                count.add(bytes);
                peak.add(bytes);
            }
            let sum: u64 = live.iter().sum();
            if sum > highest {
                (highest, expected) = (sum, live);
            }
            assert_eq!(peak.highest(), highest);
            let held = [0, 1].map(|place: usize| counts[place].at_peak(peak.number()).1);
            assert_eq!(held, expected);
        }
        assert!(live.iter().sum::<u64>() < highest);
    }
}
