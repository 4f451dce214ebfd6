//! The part of a state file that has the call stacks of what is alive, with the setting `stacks`.
//!
//! Every field is a word of 64 bits in the machine's order:
//!
//! ```text
//! word  0 USED: words that are used, these included; records are complete before they are counted
//!       1 UNSTORED stacks, for which there was no room   2 LOST objects and blocks without a record
//!       3 MARK: what marks are, see [`MARKS`]   4 MARK_COUNT   5 FRAMES from one mark to the next   6 WARM_UP: marks   7 zero
//!       8 PEAKS: 2 of 8 words, see [`PEAK_NAMES`]: live bytes, the most of them, NUMBER of that peak, nanoseconds after the first
//!         instance, what marks were then, their count, 0, 0
//!      24 records, one behind the other; the first word: MODULE or STACK, and the words of the record << 8
//!
//! MODULE  | first | bias | bytes of the build id, bytes of the path << 32 | build id: 4 words | path |
//! STACK   | first | bytes of the command, bytes of the kind << 16, frames << 32 | objects: 12 words | blocks: 12 words
//!         | frames, innermost first: address, word of its MODULE or 0 | command, kind |
//! objects, blocks: live, bytes, total, live and bytes at the first mark that counts, live and bytes at the last mark, grew, shrank,
//!         number of the last peak before the last change, live and bytes then
//! ```
//!
//! What a stack held at a peak is what is live, unless its number is the peak's: then it is what the last two words
//! say.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::{LENGTH as STATE_LENGTH, ReadStateError, check_length, word};
use crate::report::{Growth, LeakCount, LeakFrame, LeakObject, LeakPeak, LeakStack, Leaks, PeakStack};

/// The length in bytes: room for some 18 000 stacks.
pub const LENGTH: usize = 8 << 20;
/// The number of words.
pub const WORDS: usize = LENGTH / 8;
/// The words before the records.
pub const HEAD_WORDS: usize = 24;
/// The words of a peak.
pub const PEAK_WORDS: usize = 8;
/// The words of a count.
pub const COUNT_WORDS: usize = 12;
/// The first word of a module's record, without its length.
pub const MODULE: u64 = 1;
/// The first word of a stack's record, without its length.
pub const STACK: u64 = 2;
/// The words of a module before its path.
pub const MODULE_WORDS: usize = 7;
/// The words of a stack before its frames.
pub const STACK_WORDS: usize = 2 + 2 * COUNT_WORDS;
/// The most bytes of a build id.
pub const MAX_BUILD_ID: usize = 32;
/// The names of marks, by number.
pub const MARKS: [&str; 4] = ["none", "vkQueueSubmit", "vkQueuePresentKHR", "request"];
/// The names of the peaks: of the objects of this kind, and of the blocks.
pub const PEAK_NAMES: [&str; 2] = [LeakPeak::DEVICE_MEMORY, LeakPeak::BLOCKS];
/// The kind of object that device memory is.
pub const DEVICE_MEMORY_KIND: &str = "VkDeviceMemory";

const PEAKS: usize = 8;
const MAX_TEXT: u64 = 1 << 16;

/// The stacks in a state file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredStacks {
    /// What is alive, and was at the peaks. The oldest objects are not stored.
    pub leaks: Leaks,
    /// Stacks that are not among them, since there was no room.
    pub unstored: u64,
    /// Whether a record could not be read: it and those behind it are left out.
    pub is_damaged: bool,
}

/// Reads the stacks of a process, which may be running. `None` where the file has none.
///
/// # Errors
/// [`ReadStateError`].
pub fn read(path: &Path) -> Result<Option<StoredStacks>, ReadStateError> {
    let mut file = crate::files::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    (&mut file).take(STATE_LENGTH as u64).read_to_end(&mut bytes)?;
    check_length(&bytes, length)?;
    if length == STATE_LENGTH as u64 {
        return Ok(None);
    }
    let mut used = [0; 8];
    file.read_exact(&mut used)?;
    file.seek(SeekFrom::Start(STATE_LENGTH as u64))?;
    let used = u64::from_ne_bytes(used).saturating_mul(8);
    bytes.clear();
    file.take(used.min(LENGTH as u64)).read_to_end(&mut bytes)?;
    Ok(StoredStacks::parse(&bytes))
}

impl StoredStacks {
    /// Reads the bytes behind the numbers of a state file. Any bytes may be passed. `None` where nothing was stored
    /// yet.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::parse_with(bytes, &mut |_| Vec::new())
    }

    /// As [`parse`](Self::parse). `oldest` are the oldest objects of the stack whose record begins at this word.
    #[must_use]
    pub fn parse_with(bytes: &[u8], oldest: &mut dyn FnMut(u64) -> Vec<LeakObject>) -> Option<Self> {
        let used = usize::try_from(word(bytes, 0)).ok()?;
        let bytes = bytes.get(..used.checked_mul(8)?.min(bytes.len()))?;
        if bytes.len() < HEAD_WORDS * 8 {
            return None;
        }
        let mark = mark(word(bytes, 3));
        let warm_up = word(bytes, 6);
        let mut stored = Self {
            leaks: Leaks {
                mark,
                frames_a_mark: word(bytes, 5),
                intervals: word(bytes, 4).saturating_sub(warm_up.saturating_add(1)),
                warm_up,
                lost: word(bytes, 2),
                stacks: Vec::new(),
                peaks: (0..PEAK_NAMES.len()).map(|place| peak(bytes, place)).collect(),
            },
            unstored: word(bytes, 1),
            is_damaged: false,
        };
        let mut at = HEAD_WORDS;
        while at * 8 < bytes.len() {
            let first = word(bytes, at);
            let words = usize::try_from(first >> 8).unwrap_or(usize::MAX);
            let record = at
                .checked_add(words)
                .and_then(|end| bytes.get(at * 8..end.checked_mul(8)?))
                .filter(|record| !record.is_empty());
            let is_read = match (record, first & 0xff) {
                (Some(record), MODULE) => module(record).is_some(),
                (Some(record), STACK) => stored.add_stack(bytes, record, || oldest(at as u64)).is_some(),
                _ => false,
            };
            if !is_read {
                stored.is_damaged = true;
                break;
            }
            at += words;
        }
        for peak in &mut stored.leaks.peaks {
            peak.sort();
        }
        stored.leaks.peaks.retain(|peak| peak.bytes > 0);
        Some(stored)
    }

    fn add_stack(&mut self, bytes: &[u8], record: &[u8], oldest: impl FnOnce() -> Vec<LeakObject>) -> Option<()> {
        let lengths = word(record, 1);
        let (command, kind) = (lengths & 0xffff, lengths >> 16 & 0xffff);
        let count = usize::try_from(lengths >> 32).ok()?;
        let texts = STACK_WORDS.checked_add(count.checked_mul(2)?)?;
        let command = text(record, texts * 8, command)?;
        let kind = text(record, texts * 8 + command.len(), kind)?;
        let frames = (0..count).map(|number| frame(bytes, record, STACK_WORDS + 2 * number));
        let frames = frames.collect::<Option<Vec<_>>>()?;
        let (objects, blocks) = (2, 2 + COUNT_WORDS);
        let stack = LeakStack {
            command,
            kind,
            objects: leak_count(record, objects),
            blocks: leak_count(record, blocks),
            frames,
            ..LeakStack::default()
        };
        let is_memory = stack.kind == DEVICE_MEMORY_KIND;
        for (place, (peak, at)) in self.leaks.peaks.iter_mut().zip([objects, blocks]).enumerate() {
            let number = word(bytes, PEAKS + place * PEAK_WORDS + 2);
            let (live, held) = at_peak(record, at, number);
            if live > 0 && (at == blocks || is_memory) {
                peak.stacks.push(PeakStack {
                    command: stack.command.clone(),
                    kind: stack.kind.clone(),
                    live,
                    bytes: held,
                    frames: stack.frames.clone(),
                });
            }
        }
        if stack.objects.live > 0 || stack.blocks.live > 0 {
            let oldest = oldest();
            self.leaks.stacks.push(LeakStack { oldest, ..stack });
        }
        Some(())
    }
}

fn mark(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| MARKS.get(number));
    (*name.unwrap_or(&"none")).to_owned()
}

fn peak(bytes: &[u8], place: usize) -> LeakPeak {
    let at = PEAKS + place * PEAK_WORDS;
    LeakPeak {
        of: PEAK_NAMES.get(place).copied().unwrap_or_default().to_owned(),
        bytes: word(bytes, at + 1),
        nanoseconds: word(bytes, at + 3),
        mark: mark(word(bytes, at + 4)),
        frame: word(bytes, at + 5).saturating_mul(word(bytes, 5)),
        stacks: Vec::new(),
    }
}

fn at_peak(record: &[u8], at: usize, number: u64) -> (u64, u64) {
    let at = if word(record, at + 9) == number { at + 10 } else { at };
    (word(record, at), word(record, at + 1))
}

fn leak_count(record: &[u8], at: usize) -> LeakCount {
    let number = |word_at: usize| word(record, at + word_at);
    let grown = |last: usize, first: usize| number(last).wrapping_sub(number(first)).cast_signed();
    LeakCount {
        live: number(0),
        bytes: number(1),
        total: number(2),
        growth: Growth { count: grown(5, 3), bytes: grown(6, 4), grew: number(7), shrank: number(8) },
    }
}

fn frame(bytes: &[u8], record: &[u8], at: usize) -> Option<LeakFrame> {
    let (address, place) = (word(record, at), word(record, at + 1));
    let mut frame = LeakFrame { address: format!("{address:#x}"), ..LeakFrame::default() };
    if place != 0 {
        let place = usize::try_from(place).ok()?;
        let record = bytes.get(place.checked_mul(8)?..)?;
        let (path, build_id) = module(record)?;
        frame.module = path;
        frame.build_id = build_id;
        frame.offset = format!("{:#x}", address.wrapping_sub(word(record, 1)));
    }
    Some(frame)
}

fn module(record: &[u8]) -> Option<(String, String)> {
    if word(record, 0) & 0xff != MODULE {
        return None;
    }
    let lengths = word(record, 2);
    let length = usize::try_from(lengths & 0xffff_ffff).ok()?;
    let id = record.get(3 * 8..)?.get(..length.min(MAX_BUILD_ID))?;
    let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Some((text(record, MODULE_WORDS * 8, lengths >> 32)?, id))
}

fn text(record: &[u8], at: usize, length: u64) -> Option<String> {
    let length = usize::try_from(length.min(MAX_TEXT)).ok()?;
    let bytes = record.get(at..at.checked_add(length)?)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<u64> {
        let mut words = vec![0; HEAD_WORDS];
        words[1..7].copy_from_slice(&[5, 6, 1, 30, 2, 10]);
        words[8..14].copy_from_slice(&[0, 900, 4, 1_500_000_000, 2, 7]);
        words[16..22].copy_from_slice(&[96, 96, 2, 1_000_000_000, 1, 3]);
        let text = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let module = HEAD_WORDS as u64;
        words.extend([MODULE | 8 << 8, 0x7000, 3 | 8 << 32, text(b"\x0a\xf1\x02\0\0\0\0\0"), 0, 0, 0]);
        words.push(text(b"/lib/a.s"));
        words.extend([STACK | (STACK_WORDS as u64 + 2 + 2) << 8, 8 | 8 << 16 | 1 << 32]);
        words.extend([3, 4096, 9, 1, 10, 2, 20, 8, 1, 0, 0, 0]);
        words.extend([1, 96, 2, 0, 0, 0, 0, 0, 0, 1, 7, 700]);
        words.extend([0x7010, module, text(b"vkCreate"), text(b"VkBuffer")]);
        words.extend([STACK | (STACK_WORDS as u64 + 3) << 8, 8 | 14 << 16]);
        words.extend([0, 0, 2, 0, 0, 0, 0, 0, 0, 4, 2, 900]);
        words.extend([0; COUNT_WORDS]);
        words.extend([text(b"vkAlloca"), text(b"VkDevice"), text(b"Memory\0\0")]);
        words[0] = words.len() as u64;
        words
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn stored_stacks_are_what_the_words_say() {
        let stored = StoredStacks::parse(&bytes(&words())).expect("stacks");
        assert_eq!((stored.unstored, stored.is_damaged), (5, false));
        let leaks = stored.leaks;
        let of_marks = (&*leaks.mark, leaks.frames_a_mark, leaks.intervals, leaks.warm_up);
        assert_eq!(of_marks, ("vkQueueSubmit", 2, 19, 10));
        assert_eq!(leaks.lost, 6);
        let [buffers] = &*leaks.stacks else {
            panic!("the memory is gone: {:?}", leaks.stacks);
        };
        assert_eq!((&*buffers.command, &*buffers.kind), ("vkCreate", "VkBuffer"));
        let growth = Growth { count: 1, bytes: 10, grew: 8, shrank: 1 };
        let count = LeakCount { live: 3, bytes: 4096, total: 9, growth };
        assert_eq!(buffers.objects, count);
        let frame = LeakFrame {
            address: "0x7010".to_owned(),
            module: "/lib/a.s".to_owned(),
            offset: "0x10".to_owned(),
            build_id: "0af102".to_owned(),
            ..LeakFrame::default()
        };
        assert_eq!(buffers.frames, [frame]);
        let [memory, blocks] = &*leaks.peaks else {
            panic!("{:?}", leaks.peaks);
        };
        let moment = (memory.bytes, memory.nanoseconds, &*memory.mark, memory.frame);
        assert_eq!(moment, (900, 1_500_000_000, "vkQueuePresentKHR", 14));
        assert_eq!((memory.stacks[0].live, memory.stacks[0].bytes), (2, 900));
        assert_eq!((memory.stacks.len(), blocks.stacks.len()), (1, 1));
        assert_eq!((blocks.stacks[0].live, blocks.stacks[0].bytes), (1, 96));
    }

    #[test]
    fn hostile_bytes_are_damaged_stacks_or_none_and_never_a_panic() {
        let whole = words();
        assert_eq!(StoredStacks::parse(&[]), None);
        for length in 0..whole.len() * 8 {
            if let Some(stored) = StoredStacks::parse(&bytes(&whole)[..length]) {
                let is_at_end_of_record = [24, 32, 62].contains(&(length / 8)) && length % 8 == 0;
                assert!(stored.is_damaged || is_at_end_of_record, "{length}");
            }
        }
        for index in 0..whole.len() {
            for value in [0, 1, 2, 0xff, 1 << 8, 1 << 16, 1 << 32, u64::MAX, u64::MAX - 7, 1 << 63] {
                let mut words = whole.clone();
                words[index] = value;
                if let Some(stored) = StoredStacks::parse(&bytes(&words)) {
                    let _ = stored.leaks.to_string();
                }
            }
        }
        // A record of no words would be read for ever.
        let mut words = whole;
        words[HEAD_WORDS] = MODULE;
        assert!(StoredStacks::parse(&bytes(&words)).is_some_and(|stored| stored.is_damaged));
    }
}
