//! The counts of all origins lie in the state file, where the process's death leaves them readable. What has no room
//! there is in memory, and a report has it behind. `vk_report::state_file::stacks` has the layout, and reads both.

use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{HostError, TryVec};
use vk_report::state_file::stacks::{
    HEAD_WORDS, MAX_BUILD_ID, MODULE, MODULE_WORDS, PEAK_NAMES, PEAK_WORDS, STACK, STACK_WORDS,
};

use super::counts::LiveCount;
use super::marks::Marks;
use super::modules::StackModule;
use super::origins::StackFrame;
use crate::count::get;
use crate::os::coarse_nanoseconds;
use crate::record::{Own, new_static, own};
use crate::record_list::RecordList;

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
    /// The state file's, or the head's alone.
    words: &'static StackWords,
    more: RecordList<&'static StackWords>,
    /// Of all records: where the next one begins.
    end: AtomicU64,
    began: u64,
}

fn new_words(number: usize) -> Option<&'static StackWords> {
    let mut words: TryVec<AtomicU64, Own> = TryVec::try_with_capacity_in(number, own()).ok()?;
    for _ in 0..number {
        words.try_push(AtomicU64::new(0)).ok()?;
    }
    new_static(words).map(|words| &**words)
}

impl HighestMoment {
    pub(super) fn number(&self) -> u64 {
        get(&self.number)
    }

    pub(super) fn add(&self, bytes: u64) -> bool {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed);
        let live = live.wrapping_add(bytes);
        let is_highest = live > get(&self.highest) && self.highest.fetch_max(live, Ordering::Relaxed) < live;
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
        let words = words.map_or_else(|| new_words(HEAD_WORDS), Some)?;
        let first = words.get(..HEAD_WORDS)?;
        // SAFETY: so many words, which stay; any bits are a value of each.
        let head = unsafe { &*first.as_ptr().cast::<StackHead>() };
        let _ = head.used.compare_exchange(0, HEAD_WORDS as u64, Ordering::Release, Ordering::Relaxed);
        Some(Self {
            head,
            words,
            more: RecordList::new(),
            end: AtomicU64::new(get(&head.used)),
            began: coarse_nanoseconds(),
        })
    }

    /// All words, for `StoredStacks`.
    pub(super) fn copy(&self) -> Result<TryVec<u8, Own>, HostError> {
        // From the first record in memory on, those in the file are as many as before.
        let has_more = !self.more.is_empty();
        let used = self.head.used.load(Ordering::Acquire);
        let stored = usize::try_from(used).ok();
        let stored = stored.and_then(|used| self.words.get(..used));
        let more = self.more.iter().filter(|_| has_more);
        let mut bytes = TryVec::new_in(own());
        for word in stored.into_iter().chain(more.copied()).flatten() {
            bytes.try_extend_from_slice(&get(word).to_ne_bytes())?;
        }
        let words = (bytes.len() / 8) as u64;
        if let Some(first) = bytes.first_chunk_mut() {
            *first = words.to_ne_bytes();
        }
        Ok(bytes)
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
        for (word, value) in
            [(&peak.nanoseconds, now), (&peak.mark, get(&self.head.mark)), (&peak.marks, get(&self.head.marks))]
        {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the place of the record's first word; 0 without memory. One thread at a time stores.
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
        record.end().unwrap_or(0)
    }

    /// Also returns the place of the record's first word. `None` without memory. One thread at a time stores.
    pub(super) fn add_origin(
        &self,
        (command, kind): (&str, &str),
        frames: &[StackFrame],
    ) -> Option<(&'static OriginCounts, u64)> {
        let texts = (command.len() + kind.len()).div_ceil(8);
        let mut record = self.record(STACK, STACK_WORDS + 2 * frames.len() + texts)?;
        let lengths = [command.len(), kind.len() << 16, frames.len() << 32];
        record.push(lengths.iter().fold(0, |word, length| word | *length as u64));
        let counts = record.skip(STACK_WORDS - 2)?;
        for frame in frames {
            record.push(frame.address as u64);
            record.push(frame.module.map_or(0, StackModule::stored_at));
        }
        record.push_bytes_of(command.bytes().chain(kind.bytes()));
        let place = record.end()?;
        if place >= get(&self.head.used) {
            self.head.unstored.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: so many words, which stay; any bits are a value of each.
        Some((unsafe { &*counts.as_ptr().cast::<OriginCounts>() }, place))
    }

    fn record(&self, kind: u64, words: usize) -> Option<RecordWriter<'_>> {
        let start = usize::try_from(get(&self.end)).ok()?;
        let stored = self.words.get(start..start.checked_add(words)?);
        let mut record = RecordWriter {
            words: stored.map_or_else(|| new_words(words), Some)?,
            at: 0,
            start: start as u64,
            store: self,
        };
        record.push(kind | (words as u64) << 8);
        Some(record)
    }
}

struct RecordWriter<'s> {
    words: &'static StackWords,
    at: usize,
    start: u64,
    store: &'s StackStore,
}

impl RecordWriter<'_> {
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

    fn end(self) -> Option<u64> {
        let store = self.store;
        let end = self.start.saturating_add(self.words.len() as u64);
        if end <= store.words.len() as u64 {
            store.head.used.store(end, Ordering::Release);
        } else {
            store.more.push(self.words)?;
        }
        store.end.store(end, Ordering::Relaxed);
        Some(self.start)
    }
}

#[cfg(test)]
impl StackStore {
    pub(super) fn new_static(words: Option<&'static StackWords>) -> &'static Self {
        Self::new(words).and_then(new_static).expect("memory")
    }

    pub(super) fn stored(&self) -> vk_report::state_file::stacks::StoredStacks {
        let bytes = self.copy().expect("memory");
        vk_report::state_file::stacks::StoredStacks::parse(&bytes).expect("stacks")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use debug_guard::StackDepot;
    use vk_report::report::{Growth, LeakCount};
    use vk_report::state_file::stacks::{StoredStacks, WORDS};

    use super::super::origins::OriginTable;
    use super::StackStore;
    use crate::count::get;
    use crate::record::SYSTEM;

    fn words(number: usize) -> &'static [AtomicU64] {
        Box::leak((0..number).map(|_| AtomicU64::new(0)).collect())
    }

    fn parse(words: &[AtomicU64]) -> StoredStacks {
        let bytes: Vec<u8> = words.iter().flat_map(|word| get(word).to_ne_bytes()).collect();
        StoredStacks::parse(&bytes).expect("stacks")
    }

    #[test]
    fn ly44_what_is_counted_is_read_from_the_file_and_so_in_a_report() {
        let words = words(WORDS);
        let store = StackStore::new_static(Some(words));
        let origins = OriginTable::new(store);
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
        assert_eq!(store.stored(), stored);
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
        // The test's own file is the layer's here, and frames of the layer at the inner end are left out; what is
        // behind them is known.
        let libraries = ["libc.so", "kernel32", "ntdll"];
        let is_known = |frame: &vk_report::report::LeakFrame| libraries.iter().any(|name| frame.module.contains(name));
        assert!(cfg!(miri) || of_memory.frames.iter().any(is_known), "{of_memory:?}");
        // Without a file the same is in memory alone.
        let store = StackStore::new_static(None);
        let origins = OriginTable::new(store);
        let of_block = origins.get_or_insert(Some(stack), frames, ("vkAllocateMemory", "VkDevice"));
        of_block.expect("memory").add_block(64);
        let stored = store.stored();
        assert!(!stored.is_damaged);
        assert_eq!(&stored.leaks.stacks[..], std::slice::from_ref(of_device));
        assert_eq!(stored.leaks.peaks[0].stacks, blocks.stacks);
    }

    #[test]
    fn ly44_without_room_in_the_file_origins_count_in_memory_and_are_known_to_be_missing() {
        let words = words(60);
        let store = StackStore::new_static(Some(words));
        let origins = OriginTable::new(store);
        let origin = |kind| {
            let origin = origins.get_or_insert(None, || &[], ("", kind));
            origin.expect("memory")
        };
        let kinds = ["VkBuffer", "VkImage", "VkFence"];
        for kind in kinds {
            origin(kind).add_block(7);
        }
        let stored = parse(words);
        assert_eq!((stored.unstored, stored.is_damaged), (2, false));
        assert_eq!(stored.leaks.stacks.len(), 1);
        origin("VkFence").remove_block(7);
        let all = store.stored();
        assert!(!all.is_damaged);
        let alive = all.leaks.stacks.iter();
        let alive = alive.map(|stack| (&*stack.kind, stack.blocks.bytes));
        assert!(alive.eq([(kinds[0], 7), (kinds[1], 7)]));
        let at_peak = all.leaks.peaks[0].stacks.iter();
        assert!(at_peak.map(|stack| &*stack.kind).eq(kinds));
    }

    #[test]
    fn ly36_at_the_peak_each_count_is_what_it_was_then() {
        let store = StackStore::new_static(None);
        let origins = OriginTable::new(store);
        let kinds = ["VkBuffer", "VkImage"];
        let (mut live, mut highest, mut expected) = ([0_u64; 2], 0, [0; 2]);
        let mut seed = 7_u64;
        for _ in 0..if cfg!(miri) { 50 } else { 5000 } {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (place, bytes) = ((seed >> 40) as usize % 2, 1 + (seed >> 50));
            let origin = origins.get_or_insert(None, || &[], ("", kinds[place]));
            let origin = origin.expect("memory");
            if (seed >> 33).is_multiple_of(3) && live[place] >= bytes {
                live[place] -= bytes;
                origin.remove_block(bytes);
            } else if (seed >> 33) % 5 < 3 || live[place] < bytes {
                live[place] += bytes;
                origin.add_block(bytes);
            }
            let sum: u64 = live.iter().sum();
            if sum > highest {
                (highest, expected) = (sum, live);
            }
            let stored = store.stored().leaks;
            let Some(peak) = stored.peaks.first() else {
                assert_eq!(highest, 0);
                continue;
            };
            assert_eq!(peak.bytes, highest);
            let held = kinds.map(|kind| {
                let mut stacks = peak.stacks.iter();
                stacks.find(|stack| stack.kind == kind).map_or(0, |stack| stack.bytes)
            });
            assert_eq!(held, expected);
        }
        assert!(live.iter().sum::<u64>() < highest);
    }

    #[test]
    fn growth_is_counted_from_the_first_mark_to_the_last() {
        let store = StackStore::new_static(None);
        let origins = OriginTable::new(store);
        let origin = origins.get_or_insert(None, || &[], ("", "VkBuffer"));
        let origin = origin.expect("memory");
        let count = || store.stored().leaks.stacks[0].blocks;
        origin.add_block(100);
        origin.blocks().mark(true);
        for _ in 0..3 {
            origin.add_block(10);
            origin.add_block(10);
            origin.blocks().mark(false);
        }
        origin.remove_block(10);
        origin.blocks().mark(false);
        origin.blocks().mark(false);
        origin.add_block(10);
        let expected =
            LeakCount { live: 7, bytes: 160, total: 8, growth: Growth { count: 5, bytes: 50, grew: 3, shrank: 1 } };
        assert_eq!(count(), expected, "what came after the last mark is not growth yet");
        origin.blocks().mark(true);
        assert_eq!(count().growth, Growth::default());
    }
}
