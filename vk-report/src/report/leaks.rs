#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use vk_callbacks::check::FindingKind;

use super::FindingRow;

/// What was alive at the end, or when the report was written, by the call stack of the program that created it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaks {
    /// What marks are: `vkQueueSubmit`, `vkQueuePresentKHR`, `request`, `round`, or `none`.
    pub mark: String,
    /// Calls of that command from one mark to the next.
    pub frames_a_mark: u64,
    /// Times from one mark to the next in which growth was counted.
    pub intervals: u64,
    /// Marks that passed before.
    pub warm_up: u64,
    /// Objects and blocks that are listed nowhere, because the layer had no memory for their records.
    pub lost: u64,
    /// The stacks that something is alive of.
    pub stacks: Vec<LeakStack>,
    /// When the program had most device memory, and most host memory of the driver; empty of other sources.
    #[serde(default)]
    pub peaks: Vec<LeakPeak>,
}

/// The highest moment of something, and the call stacks that held it then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakPeak {
    /// `device memory`, or `host memory of the driver`.
    pub of: String,
    /// The most bytes that were live at once, as they were requested.
    pub bytes: u64,
    /// When that was: nanoseconds after the first instance.
    pub nanoseconds: u64,
    /// What marks were then, as in [`Leaks::mark`].
    pub mark: String,
    /// The frames, or requested marks, until then.
    pub frame: u64,
    /// The stacks that held it, those with most bytes first.
    pub stacks: Vec<PeakStack>,
}

/// What one call stack held at a peak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakStack {
    /// As [`LeakStack::command`].
    pub command: String,
    /// As [`LeakStack::kind`].
    pub kind: String,
    /// Memory objects, or blocks.
    pub live: u64,
    /// Their bytes.
    pub bytes: u64,
    /// As [`LeakStack::frames`].
    pub frames: Vec<LeakFrame>,
}

/// One call stack of the program, in one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakStack {
    /// The command; empty for what the driver allocated outside of hooked commands.
    pub command: String,
    /// The kind of object that the command creates, or of the blocks' callbacks.
    pub kind: String,
    /// The objects; bytes are those that create infos of buffers and device memory say.
    pub objects: LeakCount,
    /// Blocks of host memory that the driver allocated meanwhile.
    pub blocks: LeakCount,
    /// The rules that live blocks break here, such as `V41`; empty if they were not checked.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The oldest of the objects; where `objects` is empty, of the blocks: their bytes, and the object that their
    /// command created.
    pub oldest: Vec<LeakObject>,
    /// Where calls return to, innermost first: without the frames of the layer and the loader.
    pub frames: Vec<LeakFrame>,
}

/// How many there are of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakCount {
    /// Alive.
    pub live: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ever created.
    pub total: u64,
    /// Since the warm-up.
    pub growth: Growth,
}

/// How a count changed from the first mark that counts to the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// More, or less, of them.
    pub count: i64,
    /// More, or fewer, bytes.
    pub bytes: i64,
    /// Intervals at whose end there were more than at their beginning.
    pub grew: u64,
    /// Intervals at whose end there were fewer.
    pub shrank: u64,
}

/// An object that is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakObject {
    /// Its handle, in hexadecimal digits behind `0x`.
    pub handle: String,
    /// The size in its create info; 0 if that has none.
    pub bytes: u64,
    /// Its debug name; empty where it has none.
    pub name: String,
}

/// One frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeakFrame {
    /// The address that the call returns to, in hexadecimal digits behind `0x`.
    pub address: String,
    /// The file that it lies in; empty where none is known.
    pub module: String,
    /// What the file's own tables call the address.
    pub offset: String,
    /// The build id of the file when the frame was seen first, in hexadecimal digits; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build_id: String,
    /// The file has another build id now: it was replaced, and its functions are not named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_replaced: bool,
    /// The functions there, with file and line where they are known: of inlined ones the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

impl LeakCount {
    /// Whether it seems to grow without end: it grew in two of five intervals or more, and hardly ever shrank. A
    /// program that submits twice a frame grows in about half of them.
    #[must_use]
    pub const fn is_growing(&self, intervals: u64) -> bool {
        let Growth { grew, shrank, .. } = self.growth;
        grew > 0 && grew.saturating_mul(5) >= intervals.saturating_mul(2) && shrank.saturating_mul(20) <= grew
    }
}

impl LeakCount {
    fn add(&mut self, other: &Self, intervals: u64) {
        self.live = self.live.saturating_add(other.live);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.total = self.total.saturating_add(other.total);
        let (growth, more) = (&mut self.growth, &other.growth);
        growth.count = growth.count.saturating_add(more.count);
        growth.bytes = growth.bytes.saturating_add(more.bytes);
        growth.grew = growth.grew.saturating_add(more.grew).min(intervals);
        growth.shrank = growth.shrank.saturating_add(more.shrank).min(intervals);
    }
}

type StackPlace = (String, String, Vec<(String, String, String)>);

fn place(command: &str, kind: &str, frames: &[LeakFrame]) -> StackPlace {
    let frames = frames.iter().map(|frame| {
        let address = if frame.module.is_empty() { &frame.address } else { &frame.offset };
        (frame.module.clone(), frame.build_id.clone(), address.clone())
    });
    (command.to_owned(), kind.to_owned(), frames.collect())
}

/// Adds those of one place to the first of them.
fn merge<T>(stacks: &mut Vec<T>, key: impl Fn(&T) -> StackPlace, add: impl Fn(&mut T, T)) {
    let mut places = HashMap::new();
    let mut merged: Vec<T> = Vec::new();
    for stack in std::mem::take(stacks) {
        let at = *places.entry(key(&stack)).or_insert(merged.len());
        match merged.get_mut(at) {
            None => merged.push(stack),
            Some(first) => add(first, stack),
        }
    }
    *stacks = merged;
}

impl LeakPeak {
    /// The name of the memory that `vkAllocateMemory` allocates.
    pub const DEVICE_MEMORY: &str = "device memory";
    /// The name of the driver's blocks.
    pub const BLOCKS: &str = "host memory of the driver";

    fn merge(&mut self) {
        let key = |stack: &PeakStack| place(&stack.command, &stack.kind, &stack.frames);
        merge(&mut self.stacks, key, |first, stack| {
            first.live = first.live.saturating_add(stack.live);
            first.bytes = first.bytes.saturating_add(stack.bytes);
        });
        self.sort();
    }

    /// Those with most bytes come first.
    pub fn sort(&mut self) {
        self.stacks.sort_by_key(|stack| std::cmp::Reverse((stack.bytes, stack.live)));
    }
}

const MAX_OLDEST: usize = 4;

impl LeakStack {
    /// Whether its objects or its blocks seem to grow without end. What grows comes first in lists, and is marked as
    /// such.
    #[must_use]
    pub const fn is_growing(&self, intervals: u64) -> bool {
        intervals > 0 && (self.objects.is_growing(intervals) || self.blocks.is_growing(intervals))
    }

    fn add(&mut self, other: Self, intervals: u64) {
        self.objects.add(&other.objects, intervals);
        self.blocks.add(&other.blocks, intervals);
        self.oldest.extend(other.oldest);
        self.oldest.truncate(MAX_OLDEST);
    }

    /// Bytes of its objects and blocks.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.objects.bytes.saturating_add(self.blocks.bytes)
    }
}

impl Leaks {
    /// Sets the rules that each stack's blocks break, from the findings.
    pub fn name_rules(&mut self, findings: &[FindingRow]) {
        for stack in &mut self.stacks {
            let broken = findings.iter().filter(|row| {
                row.kind == FindingKind::LiveAfterDestroy.name()
                    && (&row.owner, &row.command) == (&stack.kind, &stack.command)
            });
            stack.rules = broken.map(|row| row.rule.clone()).collect();
            stack.rules.dedup();
        }
    }

    /// Adds up stacks of one command, kind and place: a library that is loaded a second time has other addresses.
    pub fn merge(&mut self) {
        let intervals = self.intervals;
        let key = |stack: &LeakStack| place(&stack.command, &stack.kind, &stack.frames);
        merge(&mut self.stacks, key, |first, stack| first.add(stack, intervals));
        for peak in &mut self.peaks {
            peak.merge();
        }
    }

    /// What grows comes first, and then the most bytes; of equal ones the most objects.
    pub fn sort(&mut self) {
        let intervals = self.intervals;
        self.stacks.sort_by_key(|stack| {
            let grows = stack.is_growing(intervals);
            std::cmp::Reverse((grows, stack.bytes(), stack.objects.live))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_comes_before_what_is_large() {
        let stack = |command: &str, bytes, grew, shrank| LeakStack {
            command: command.to_owned(),
            blocks: LeakCount { bytes, growth: Growth { grew, shrank, ..Growth::default() }, ..LeakCount::default() },
            ..LeakStack::default()
        };
        let mut leaks = Leaks {
            intervals: 10,
            stacks: vec![
                stack("small", 1, 0, 0),
                stack("large", 900, 0, 0),
                stack("shrinks", 800, 9, 1),
                stack("seldom", 700, 3, 0),
                stack("grows", 2, 6, 0),
            ],
            ..Leaks::default()
        };
        leaks.sort();
        let commands: Vec<_> = leaks.stacks.iter().map(|stack| &*stack.command).collect();
        assert_eq!(commands, ["grows", "large", "shrinks", "seldom", "small"]);
    }

    #[test]
    fn a_leak_in_each_second_interval_grows_whichever_half_it_falls_into() {
        let grows = |grew, shrank, intervals| {
            let growth = Growth { grew, shrank, ..Growth::default() };
            let count = LeakCount { growth, ..LeakCount::default() };
            count.is_growing(intervals)
        };
        for grew in [94, 95, 188, 189] {
            assert!(grows(grew, 0, 189), "{grew}");
        }
        assert!(grows(1, 0, 1) && grows(2, 0, 3) && grows(94, 4, 189));
        assert!(!grows(1, 0, 3) && !grows(60, 0, 189) && !grows(94, 40, 189) && !grows(0, 0, 0));
    }
}
