#![forbid(unsafe_code)]

use std::fmt;

use super::{one_line, plural};
use crate::report::{Growth, LeakCount, LeakFrame, LeakPeak, LeakStack, Leaks, PeakStack};
use crate::units::bytes;

const MAX_STACKS: usize = 20;
const MAX_PEAK_STACKS: usize = 5;
/// Stacks with a smaller part of the peak than one in so many are not shown.
const MIN_SHARE: u64 = 20;

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stacks.is_empty() {
            writeln!(f, "\nalive at the end: nothing")?;
            return self.peaks.iter().try_for_each(|peak| self.peak(f, peak));
        }
        let sum = |of: fn(&LeakStack) -> u64| {
            let numbers = self.stacks.iter().map(of);
            numbers.fold(0, u64::saturating_add)
        };
        let (objects, blocks) = (sum(|stack| stack.objects.live), sum(|stack| stack.blocks.live));
        let stacks = self.stacks.len() as u64;
        if self.stacks.iter().any(|stack| stack.objects.total > 0) {
            write!(
                f,
                "\nalive at the end: {objects} object{} ({}), ",
                plural(objects),
                bytes(sum(|stack| stack.objects.bytes)),
            )?;
        } else {
            write!(f, "\nnever freed: ")?;
        }
        writeln!(
            f,
            "{blocks} block{} of the driver ({} requested), by {stacks} call stack{}",
            plural(blocks),
            bytes(sum(|stack| stack.blocks.bytes)),
            plural(stacks),
        )?;
        if self.intervals > 0 {
            let counted = format!("growth is counted over {}", self.counted());
            match self.warm_up {
                0 => writeln!(f, "  {counted}")?,
                warm_up => writeln!(f, "  {counted}, after {warm_up} of warm-up")?,
            }
        }
        for (number, stack) in (1_usize..).zip(self.stacks.iter().take(MAX_STACKS)) {
            self.stack(f, number, stack)?;
        }
        let more = self.stacks.len().saturating_sub(MAX_STACKS);
        if more > 0 {
            writeln!(f, "  and {more} more; the JSON lists all")?;
        }
        if self.lost > 0 {
            writeln!(f, "  {} objects or blocks are not listed: no memory for their records", self.lost)?;
        }
        self.peaks.iter().try_for_each(|peak| self.peak(f, peak))
    }
}

impl Leaks {
    fn peak(&self, f: &mut fmt::Formatter<'_>, peak: &LeakPeak) -> fmt::Result {
        let (most, of) = (bytes(peak.bytes), one_line(&peak.of));
        write!(f, "\nat the peak of {of} ({most}, {}", peak.moment())?;
        let stacks = peak.stacks.len() as u64;
        writeln!(f, "): {stacks} call stack{} held it", plural(stacks))?;
        let large = peak.stacks.iter().take_while(|stack| {
            let is_large = stack.bytes >= peak.bytes / MIN_SHARE;
            is_large && stack.bytes > 0
        });
        let shown = large.count().clamp(1, MAX_PEAK_STACKS);
        for (number, stack) in (1_usize..).zip(peak.stacks.iter().take(shown)) {
            writeln!(f, "  {number}. {}", peak.headline(stack))?;
            let mut frames = stack.frames.iter();
            frames.try_for_each(|frame| write!(f, "{frame}"))?;
        }
        let rest = peak.stacks.iter().skip(shown);
        let rest = rest.fold((0_usize, 0_u64), |(number, sum), stack| (number + 1, sum.saturating_add(stack.bytes)));
        if rest.0 > 0 {
            writeln!(f, "  and {} more ({}); the JSON lists all", rest.0, bytes(rest.1))?;
        }
        Ok(())
    }

    fn counted(&self) -> String {
        let (number, s) = (self.intervals, plural(self.intervals));
        match (self.mark.as_str(), self.frames_a_mark) {
            ("request", _) => format!("{number} interval{s} between marks"),
            ("round", _) => format!("{number} round{s}"),
            (command, 1) => format!("{number} frame{s} ({command})"),
            (command, frames) => {
                format!("{number} interval{s} of {frames} frames ({command})")
            }
        }
    }

    fn stack(&self, f: &mut fmt::Formatter<'_>, number: usize, stack: &LeakStack) -> fmt::Result {
        let rules = match stack.rules.as_slice() {
            [] => String::new(),
            rules => format!("{}: ", one_line(&rules.join(", "))),
        };
        writeln!(f, "  {number}. {rules}{}", stack.headline())?;
        if let Some(growth) = self.growth_of(stack) {
            writeln!(f, "     grows: {growth}")?;
        }
        if !stack.oldest.is_empty() {
            writeln!(f, "     oldest: {}", stack.oldest_in_words())?;
        }
        stack.frames.iter().try_for_each(|frame| write!(f, "{frame}"))
    }

    /// The growth of a stack in each interval, such as `+1 block (112 B) a round, in 3 of 3`; `None` without growth.
    #[must_use]
    pub fn growth_of(&self, stack: &LeakStack) -> Option<String> {
        let interval = match (self.mark.as_str(), self.frames_a_mark) {
            ("request", _) => "mark".to_owned(),
            ("round", _) => "round".to_owned(),
            (_, 1) => "frame".to_owned(),
            (_, frames) => format!("{frames} frames"),
        };
        let rows: [(&str, &LeakCount); 2] = [(&stack.kind, &stack.objects), ("blocks", &stack.blocks)];
        let growing = rows.into_iter().filter(|(_, count)| self.intervals > 0 && count.growth.count > 0);
        let each = growing.map(|(kind, count)| {
            let Growth { count: more, bytes: more_bytes, grew, .. } = count.growth;
            let size = u64::try_from(more_bytes).ok().filter(|size| *size > 0);
            let size = size.map_or(String::new(), |size| format!(" ({})", bytes(size / self.intervals)));
            let more = quotient(more.unsigned_abs(), self.intervals);
            let kind = match kind {
                "blocks" if more == "1" => "block".into(),
                kind => one_line(kind),
            };
            format!("+{more} {kind}{size} a {interval}, in {grew} of {}", self.intervals)
        });
        let each: Vec<_> = each.collect();
        (!each.is_empty()).then(|| each.join("; "))
    }
}

/// The answer has two digits behind the point where it is no whole number.
fn quotient(number: u64, by: u64) -> String {
    let hundredths = u128::from(number) * 100 / u128::from(by.max(1));
    let (whole, part) = (hundredths / 100, hundredths % 100);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:02}") }
}

fn command_in_words(command: &str) -> String {
    match command {
        "" => "outside of any command".to_owned(),
        command => one_line(command),
    }
}

impl LeakStack {
    /// `vkCreateBuffer: 1000 of 1000 VkBuffer alive (3.90 MiB), 1000 blocks of VkBuffer (109 KiB)`.
    #[must_use]
    pub fn headline(&self) -> String {
        let (objects, blocks) = (&self.objects, &self.blocks);
        let kind = one_line(&self.kind);
        let mut parts = Vec::new();
        if objects.total > 0 {
            let size = match objects.bytes {
                0 => String::new(),
                size => format!(" ({})", bytes(size)),
            };
            parts.push(format!("{} of {} {kind} alive{size}", objects.live, objects.total));
        }
        if blocks.live > 0 {
            let (live, s, size) = (blocks.live, plural(blocks.live), bytes(blocks.bytes));
            parts.push(format!("{live} block{s} of {kind} ({size})"));
        }
        let command = command_in_words(&self.command);
        match parts.is_empty() {
            true => command,
            false => format!("{command}: {}", parts.join(", ")),
        }
    }

    /// Its oldest objects: handles with names. Without objects its oldest blocks: sizes, with the name or the object of
    /// each.
    #[must_use]
    pub fn oldest_in_words(&self) -> String {
        let oldest = self.oldest.iter().map(|object| {
            let [name, handle] = [&object.name, &object.handle].map(|text| one_line(text));
            match (self.objects.total, &*name, &*handle) {
                (0, "", "") => format!("{} bytes", object.bytes),
                (0, _, "") => format!("{} bytes in {name}", object.bytes),
                (0, ..) => format!("{} bytes for {handle}", object.bytes),
                (_, "", _) => handle,
                _ => format!("{handle} \"{name}\""),
            }
        });
        oldest.collect::<Vec<_>>().join(", ")
    }
}

impl LeakPeak {
    /// What a stack held: `vkAllocateMemory: 39 VkDeviceMemory (39.9 MiB)`.
    #[must_use]
    pub fn headline(&self, stack: &PeakStack) -> String {
        let (command, kind) = (command_in_words(&stack.command), one_line(&stack.kind));
        let (live, held) = (stack.live, bytes(stack.bytes));
        if self.of == Self::DEVICE_MEMORY {
            format!("{command}: {live} {kind} ({held})")
        } else {
            let s = plural(live);
            format!("{command}: {live} block{s} of {kind} ({held})")
        }
    }

    /// When it was: `after 1.20 s, frame 7 (vkQueueSubmit)`.
    #[must_use]
    pub fn moment(&self) -> String {
        let seconds = self.nanoseconds / 1_000_000_000;
        let hundredths = self.nanoseconds / 10_000_000 % 100;
        let mark = match self.mark.as_str() {
            "none" | "" => String::new(),
            "request" => format!(", mark {}", self.frame),
            command => format!(", frame {} ({})", self.frame, one_line(command)),
        };
        format!("after {seconds}.{hundredths:02} s{mark}")
    }
}

impl LeakFrame {
    /// Its functions, or else its place in its file, or its address.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        if !self.functions.is_empty() {
            return self.functions.clone();
        }
        let replaced = match self.is_replaced {
            true => " (another file has this name now)",
            false => "",
        };
        vec![match self.module.as_str() {
            "" => self.address.clone(),
            file => format!("{file}+{}{replaced}", self.offset),
        }]
    }
}

impl fmt::Display for LeakFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let mut lines = lines.iter();
        lines.try_for_each(|line| writeln!(f, "       {}", one_line(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LeakObject;

    fn count(live: u64, bytes: u64, total: u64, grown: i64) -> LeakCount {
        LeakCount { live, bytes, total, growth: Growth { count: grown, bytes: grown * 4096, grew: 990, shrank: 0 } }
    }

    #[test]
    fn a_stack_says_what_is_alive_and_how_it_grows() {
        let frame = |functions: &[&str]| LeakFrame {
            address: "0x10".to_owned(),
            module: "/usr/bin/program".to_owned(),
            offset: "0x10".to_owned(),
            build_id: String::new(),
            is_replaced: false,
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut leaks = Leaks {
            mark: "vkQueueSubmit".to_owned(),
            frames_a_mark: 1,
            intervals: 990,
            warm_up: 10,
            lost: 0,
            stacks: vec![LeakStack {
                command: "vkCreateBuffer".to_owned(),
                kind: "VkBuffer".to_owned(),
                objects: count(1000, 4_096_000, 1000, 990),
                blocks: count(1000, 96_000, 1000, 495),
                rules: Vec::new(),
                oldest: vec![LeakObject {
                    handle: "0x2a".to_owned(),
                    bytes: 4096,
                    name: "vertices\nof frame 0".to_owned(),
                }],
                frames: vec![frame(&["upload, src/main.rs:7", "draw"]), frame(&[])],
            }],
            peaks: vec![peak(&frame(&["load"]))],
        };
        let text = leaks.to_string();
        let expected = "
alive at the end: 1000 objects (3.90 MiB), 1000 blocks of the driver (93.7 KiB requested), by 1 call stack
  growth is counted over 990 frames (vkQueueSubmit), after 10 of warm-up
  1. vkCreateBuffer: 1000 of 1000 VkBuffer alive (3.90 MiB), 1000 blocks of VkBuffer (93.7 KiB)
     grows: +1 VkBuffer (4.00 KiB) a frame, in 990 of 990; +0.50 blocks (2.00 KiB) a frame, in 990 of 990
     oldest: 0x2a \"vertices of frame 0\"
       upload, src/main.rs:7
       draw
       /usr/bin/program+0x10

at the peak of device memory (40.0 MiB, after 12.30 s, frame 7 (vkQueueSubmit)): 2 call stacks held it
  1. vkAllocateMemory: 39 VkDeviceMemory (39.9 MiB)
       load
  and 1 more (1.00 KiB); the JSON lists all
";
        assert_eq!(text, expected);
        leaks.intervals = 0;
        assert!(!leaks.to_string().contains("grows"));
        leaks.stacks.clear();
        leaks.peaks.clear();
        assert_eq!(leaks.to_string(), "\nalive at the end: nothing\n");
    }

    fn peak(frame: &LeakFrame) -> LeakPeak {
        let stack = |live, bytes| PeakStack {
            command: "vkAllocateMemory".to_owned(),
            kind: "VkDeviceMemory".to_owned(),
            live,
            bytes,
            frames: vec![frame.clone()],
        };
        LeakPeak {
            of: LeakPeak::DEVICE_MEMORY.to_owned(),
            bytes: 40 << 20,
            nanoseconds: 12_300_000_000,
            mark: "vkQueueSubmit".to_owned(),
            frame: 7,
            stacks: vec![stack(39, (40 << 20) - 1024), stack(1, 1024)],
        }
    }
}
