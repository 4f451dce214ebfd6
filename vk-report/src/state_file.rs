//! The state file of the layer: the last numbers of a process, which outlive it however it ends.
//!
//! The layer writes it through a shared mapping. Every field is a word of 64 bits in the machine's order:
//!
//! ```text
//! word  0 MAGIC      1 length in bytes: LENGTH, with stacks LENGTH + STACKS_LENGTH   2 SEQUENCE: odd while the numbers are written
//!       3 PROCESS, in its own PID namespace
//!       4 COMMANDS that had begun when the numbers were written, those under way included
//!       5 REPORTED: those that had begun at the last report
//!       6 STARTED: the last command that began, see [`started`]   7 zero
//!       8 ROWS of vk-callbacks' table
//!       9 REPORT_REQUEST, 10 MARK_REQUEST: 1 when another process requests it; the layer's next command takes it and stores 0
//!      11 ANSWERS: requested reports that were written           12 REPORTS: all reports that were written
//!      13 HAS_STACKS: 1 with the setting `stacks`                14 to 31 zero
//!      32 HEAPS: 16 of 8 words   live bytes, live blocks, peak bytes, total bytes, total blocks, refusals, size, 0
//!     160 KINDS: 64 of 16 words  name in 5 words, live bytes, live blocks, peak bytes, total bytes, total blocks,
//!                                objects created, objects ended, commands with callbacks of the program, 0, 0, 0
//! ```
//!
//! With the setting `stacks` the [stacks] follow.
//!
//! Numbers of a kind are sums over all instances and devices; so are peaks, which are exact as long as there is one of
//! each. The size of a heap is the largest of all devices'.

#![forbid(unsafe_code)]

pub mod stacks;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use alloc_core::ByteCount;
use serde::Serialize;
use vk_callbacks::CommandRow;

use crate::files;

/// The first word.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"STEWARD\x02");
/// The number of words.
pub const WORDS: usize = KINDS + MAX_KINDS * KIND_WORDS;
/// The length in bytes, without stacks.
pub const LENGTH: usize = WORDS * 8;
/// The length with stacks.
pub const LENGTH_WITH_STACKS: usize = LENGTH + stacks::LENGTH;

/// Where the sequence number is.
pub const SEQUENCE: usize = 2;
/// Where the process is.
pub const PROCESS: usize = 3;
/// Where the number of commands is.
pub const COMMANDS: usize = 4;
/// Where the number of commands at the last report is.
pub const REPORTED: usize = 5;
/// Where the last command is that began.
pub const STARTED: usize = 6;
/// Where the number of rows is.
pub const ROWS: usize = 8;
/// Where another process requests a report.
pub const REPORT_REQUEST: usize = 9;
/// Where another process requests a mark.
pub const MARK_REQUEST: usize = 10;
/// Where the number of answered requests is.
pub const ANSWERS: usize = 11;
/// Where the number of reports is.
pub const REPORTS: usize = 12;
/// Where the setting `stacks` is.
pub const HAS_STACKS: usize = 13;
/// Where the heaps begin.
pub const HEAPS: usize = 32;
/// Heaps at most, as Vulkan has it.
pub const MAX_HEAPS: usize = 16;
/// The words of a heap.
pub const HEAP_WORDS: usize = 8;
/// Where the kinds begin.
pub const KINDS: usize = HEAPS + MAX_HEAPS * HEAP_WORDS;
/// Kinds at most.
pub const MAX_KINDS: usize = 64;
/// The words of a kind.
pub const KIND_WORDS: usize = 16;
/// The words of its name.
pub const NAME_WORDS: usize = 5;

const ROW_BITS: u32 = 16;

/// The word of [`STARTED`]. It is one word, so that number and row are of one command though several threads begin
/// commands.
#[must_use]
pub const fn started(number: u64, row: usize) -> u64 {
    number << ROW_BITS | (row as u64 + 1)
}

const ATTEMPTS: u32 = 1000;

/// The numbers of a kind of object or of a heap. Bytes and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateUsage {
    /// Bytes that are live.
    pub live_bytes: u64,
    /// Blocks that are live.
    pub live_blocks: u64,
    /// Bytes that were live at once.
    pub peak_bytes: u64,
    /// Bytes of all blocks.
    pub total_bytes: u64,
    /// All blocks.
    pub total_blocks: u64,
}

impl StateUsage {
    fn line(&self, name: &str, [objects, alive]: [u64; 2]) -> String {
        let Self { live_bytes, peak_bytes, total_bytes, total_blocks, .. } = self;
        format!(
            "  {name:<32}{:>14}{:>14}{:>16} {total_blocks:>9} {objects:>8} {alive:>8}",
            ByteCount(*live_bytes),
            ByteCount(*peak_bytes),
            ByteCount(*total_bytes),
        )
    }
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateKind {
    /// Its name, as Vulkan has it.
    pub kind: String,
    /// Host memory through callbacks.
    #[serde(flatten)]
    pub usage: StateUsage,
    /// Objects that were created.
    pub objects_created: u64,
    /// Objects that are alive.
    pub objects_alive: u64,
    /// Commands that came with callbacks of the program.
    pub foreign_commands: u64,
}

/// A heap of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StateHeap {
    /// Its index.
    pub index: usize,
    /// Device memory.
    #[serde(flatten)]
    pub usage: StateUsage,
    /// Requests that were refused.
    pub refusals: u64,
    /// The heap's size; 0 if the driver does not say it.
    pub size: u64,
}

/// The contents of a state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// The number of the process, in its own PID namespace.
    pub process: u64,
    /// Commands that had begun when the numbers were written: the numbers lack what those under way do.
    pub commands: u64,
    /// Commands that had begun at the last report; 0 where none was written.
    pub reported_commands: u64,
    /// The number of the last command that began.
    pub started_commands: u64,
    /// The last command that began, where both sides have one table of commands.
    pub last_command: Option<&'static str>,
    /// Requested reports that were written.
    #[serde(skip)]
    pub answers: u64,
    /// All reports that were written.
    #[serde(skip)]
    pub reports: u64,
    /// Whether live objects have call stacks.
    #[serde(skip)]
    pub has_stacks: bool,
    /// Whether no update was under way: if one was, some numbers are older than others.
    pub is_whole: bool,
    /// Kinds that were used.
    pub kinds: Vec<StateKind>,
    /// Heaps that were used.
    pub heaps: Vec<StateHeap>,
}

/// Why bytes are no state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another file, or one of another version.
    #[error("it is no state file of this version of the layer")]
    NotState,
    /// Part of one.
    #[error("it has {bytes} bytes instead of {LENGTH}, or with stacks {LENGTH_WITH_STACKS}")]
    WrongLength {
        /// How many bytes there are.
        bytes: usize,
    },
    /// The name of a kind is none.
    #[error("the name of kind {index} is no name of Vulkan")]
    BadName {
        /// Which kind.
        index: usize,
    },
}

/// Why a state file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadStateError {
    /// The operating system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Reads the state of a process, which may be running. Tries again while the numbers change.
///
/// # Errors
/// [`ReadStateError`].
pub fn read(path: &Path) -> Result<State, ReadStateError> {
    read_from(&mut files::open(path)?)
}

fn read_from(mut file: &mut File) -> Result<State, ReadStateError> {
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut attempt = 1;
    loop {
        bytes.clear();
        file.rewind()?;
        (&mut file).take(LENGTH as u64).read_to_end(&mut bytes)?;
        let mut state = State::parse_first(&bytes, length)?;
        let mut again = [0; (SEQUENCE + 1) * 8];
        file.rewind()?;
        file.read_exact(&mut again)?;
        let is_same = word(&again, SEQUENCE) == word(&bytes, SEQUENCE);
        if state.is_whole && is_same || attempt == ATTEMPTS {
            state.is_whole &= is_same;
            return Ok(state);
        }
        attempt += 1;
    }
}

/// The name of a file as text, for `%e` in names: each byte that is not UTF-8 is `%` and two digits, so that different
/// names stay different.
#[derive(Clone, Copy, Debug)]
pub struct EscapedName<'n>(pub &'n [u8]);

impl fmt::Display for EscapedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            for byte in chunk.invalid() {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Requests a report or a mark of the process that writes the state file: [`REPORT_REQUEST`] or [`MARK_REQUEST`].
///
/// # Errors
/// [`ReadStateError`]: it is no state file, or cannot be written to.
pub fn request(path: &Path, word: usize) -> Result<(), ReadStateError> {
    // What is written to is what was read: the name may be another user's, as that in a process's environment.
    let mut file = files::open_to_change(path)?;
    read_from(&mut file)?;
    file.seek(SeekFrom::Start(word as u64 * 8))?;
    // All bytes but one are 0 and stay so: the layer never sees a part of it.
    Ok(file.write_all(&1_u64.to_ne_bytes())?)
}

impl State {
    /// The kind of this name.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&StateKind> {
        self.kinds.iter().find(|kind| kind.kind == name)
    }

    /// The heap of this index.
    #[must_use]
    pub fn heap(&self, index: usize) -> Option<&StateHeap> {
        self.heaps.iter().find(|heap| heap.index == index)
    }

    /// Reads the bytes of a state file. Any bytes may be passed.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, StateError> {
        Self::parse_first(bytes, bytes.len() as u64)
    }

    /// `bytes` are the first of a file of this length.
    fn parse_first(bytes: &[u8], length: u64) -> Result<Self, StateError> {
        check_length(bytes, length)?;
        let kinds = (0..MAX_KINDS).map(|index| kind(bytes, index));
        let kinds = kinds.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let heaps = (0..MAX_HEAPS).filter_map(|index| heap(bytes, index));
        Ok(Self {
            process: word(bytes, PROCESS),
            commands: word(bytes, COMMANDS),
            reported_commands: word(bytes, REPORTED),
            started_commands: word(bytes, STARTED) >> ROW_BITS,
            last_command: last_command(bytes),
            answers: word(bytes, ANSWERS),
            reports: word(bytes, REPORTS),
            has_stacks: word(bytes, HAS_STACKS) != 0,
            is_whole: word(bytes, SEQUENCE).is_multiple_of(2),
            kinds,
            heaps: heaps.collect(),
        })
    }
}

fn check_length(bytes: &[u8], length: u64) -> Result<(), StateError> {
    if word(bytes, 0) != MAGIC {
        return Err(StateError::NotState);
    }
    let lengths = [LENGTH as u64, LENGTH_WITH_STACKS as u64];
    let is_known = lengths.contains(&length) && word(bytes, 1) == length;
    if is_known && bytes.len() >= LENGTH {
        return Ok(());
    }
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    Err(StateError::WrongLength { bytes })
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let word = bytes.get(index * 8..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

fn usage(bytes: &[u8], at: usize) -> StateUsage {
    StateUsage {
        live_bytes: word(bytes, at),
        live_blocks: word(bytes, at + 1),
        peak_bytes: word(bytes, at + 2),
        total_bytes: word(bytes, at + 3),
        total_blocks: word(bytes, at + 4),
    }
}

fn kind(bytes: &[u8], index: usize) -> Result<Option<StateKind>, StateError> {
    let at = KINDS + index * KIND_WORDS;
    let name = bytes.get(at * 8..(at + NAME_WORDS) * 8).unwrap_or_default();
    let length = name.iter().position(|byte| *byte == 0);
    let name = name.get(..length.unwrap_or(name.len())).unwrap_or_default();
    let at = at + NAME_WORDS;
    let usage = usage(bytes, at);
    let created = word(bytes, at + 5);
    let foreign_commands = word(bytes, at + 7);
    if usage.total_blocks == 0 && created == 0 {
        return Ok(None);
    }
    if name.is_empty() || !name.iter().all(u8::is_ascii_alphanumeric) {
        return Err(StateError::BadName { index });
    }
    Ok(Some(StateKind {
        kind: String::from_utf8_lossy(name).into_owned(),
        usage,
        objects_created: created,
        objects_alive: created.saturating_sub(word(bytes, at + 6)),
        foreign_commands,
    }))
}

fn heap(bytes: &[u8], index: usize) -> Option<StateHeap> {
    let at = HEAPS + index * HEAP_WORDS;
    let (usage, refusals) = (usage(bytes, at), word(bytes, at + 5));
    (usage.total_blocks != 0 || refusals != 0).then_some(StateHeap {
        index,
        usage,
        refusals,
        size: word(bytes, at + 6),
    })
}

fn last_command(bytes: &[u8]) -> Option<&'static str> {
    let rows = CommandRow::all();
    let is_same_table = word(bytes, ROWS) == rows.len() as u64;
    let row = word(bytes, STARTED) & ((1 << ROW_BITS) - 1);
    let row = row.checked_sub(1)?;
    let row = rows.get(usize::try_from(row).ok()?)?;
    is_same_table.then_some(row.name)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<34}{:>14}{:>14}{:>16}{:>10}{:>9}{:>9}",
            "", "live", "peak", "total", "blocks", "objects", "alive"
        )?;
        for row in &self.kinds {
            let objects = [row.objects_created, row.objects_alive];
            writeln!(f, "{}", row.usage.line(&row.kind, objects))?;
        }
        for row in &self.heaps {
            let name = format!("device memory, heap {}", row.index);
            let objects = [row.usage.total_blocks, row.usage.live_blocks];
            write!(f, "{}", row.usage.line(&name, objects))?;
            if row.refusals != 0 {
                write!(f, "  ({} refused)", row.refusals)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_row_never_run_together() {
        let most = StateUsage {
            live_bytes: u64::MAX,
            live_blocks: u64::MAX,
            peak_bytes: u64::MAX,
            total_bytes: u64::MAX,
            total_blocks: u64::MAX,
        };
        let line = most.line("VkBuffer", [u64::MAX; 2]);
        assert_eq!(line.split_whitespace().count(), 1 + 3 * 2 + 3, "{line}");
    }

    fn put(bytes: &mut [u8], index: usize, value: u64) {
        bytes[index * 8..][..8].copy_from_slice(&value.to_ne_bytes());
    }

    fn empty() -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 1, LENGTH as u64);
        bytes
    }

    fn name(bytes: &mut [u8], index: usize, name: &[u8]) {
        bytes[(KINDS + index * KIND_WORDS) * 8..][..name.len()].copy_from_slice(name);
    }

    #[test]
    fn names_that_are_no_text_stay_different() {
        for (name, text) in
            [(&b"game"[..], "game"), (b"g\xffa", "g%FFa"), (b"g\xfea", "g%FEa"), ("g\u{e9}".as_bytes(), "g\u{e9}")]
        {
            assert_eq!(EscapedName(name).to_string(), text);
        }
    }

    #[test]
    fn hostile_bytes_are_an_error_or_a_state_and_never_a_panic() {
        assert_eq!(State::parse(&[]), Err(StateError::NotState));
        let whole = empty();
        for length in (0..LENGTH).step_by(7) {
            State::parse(&whole[..length]).expect_err("it is cut off");
        }
        let long = [whole.as_slice(), &[0]].concat();
        let wrong = StateError::WrongLength { bytes: LENGTH + 1 };
        assert_eq!(State::parse(&long), Err(wrong));
        for index in 2..WORDS {
            let mut bytes = whole.clone();
            put(&mut bytes, index, u64::MAX);
            let is_odd = index == SEQUENCE;
            match State::parse(&bytes) {
                Ok(state) => assert_eq!(state.is_whole, !is_odd),
                Err(error) => assert!(matches!(error, StateError::BadName { .. }), "{error}"),
            }
        }
        let mut bytes = whole;
        for index in 0..MAX_KINDS {
            put(&mut bytes, KINDS + index * KIND_WORDS + NAME_WORDS + 4, 1);
            for bad in [&b"Vk\xff"[..], b"\x1b[2J", b"\"", b""] {
                let mut bytes = bytes.clone();
                name(&mut bytes, index, bad);
                assert_eq!(State::parse(&bytes), Err(StateError::BadName { index }));
            }
            name(&mut bytes, index, &[b'V'; NAME_WORDS * 8]);
        }
        let state = State::parse(&bytes).expect("a state");
        assert_eq!(state.kinds.len(), MAX_KINDS);
        assert_eq!(state.kinds[0].kind.len(), NAME_WORDS * 8);
    }

    #[test]
    fn a_state_is_what_the_words_say() {
        let mut bytes = empty();
        let row = CommandRow::all().iter().position(|row| row.name == "vkCreateBuffer");
        let row = row.expect("a row");
        for (index, value) in [
            (SEQUENCE, 3),
            (PROCESS, 77),
            (COMMANDS, 10),
            (REPORTED, 9),
            (STARTED, started(12, row)),
            (ROWS, CommandRow::all().len() as u64),
            (ANSWERS, 2),
            (REPORTS, 5),
            (HAS_STACKS, 1),
        ] {
            put(&mut bytes, index, value);
        }
        for word in 0..8 {
            put(&mut bytes, KINDS + KIND_WORDS + NAME_WORDS + word, 100 + word as u64);
            put(&mut bytes, HEAPS + HEAP_WORDS + word, 200 + word as u64);
        }
        name(&mut bytes, 1, b"VkBuffer");
        let state = State::parse(&bytes).expect("a state");
        let usage = |first| StateUsage {
            live_bytes: first,
            live_blocks: first + 1,
            peak_bytes: first + 2,
            total_bytes: first + 3,
            total_blocks: first + 4,
        };
        let expected = State {
            process: 77,
            commands: 10,
            reported_commands: 9,
            started_commands: 12,
            last_command: Some("vkCreateBuffer"),
            answers: 2,
            reports: 5,
            has_stacks: true,
            is_whole: false,
            kinds: vec![StateKind {
                kind: "VkBuffer".to_owned(),
                usage: usage(100),
                objects_created: 105,
                // More were ended than created, as a torn update may have it.
                objects_alive: 0,
                foreign_commands: 107,
            }],
            heaps: vec![StateHeap { index: 1, usage: usage(200), refusals: 205, size: 206 }],
        };
        assert_eq!(state, expected);
        // Another table of commands has other rows.
        put(&mut bytes, ROWS, 1);
        let state = State::parse(&bytes).expect("a state");
        assert_eq!(state.last_command, None);
        let text = state.to_string();
        assert!(text.contains("VkBuffer") && text.contains("heap 1"), "{text}");
    }
}
