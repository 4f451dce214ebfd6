//! Leaks by call stack, at the top of a page.

#![forbid(unsafe_code)]

use super::findings::duties;
use super::label::grouped;
use crate::symbols::program_frames;
use vk_report::report::{LeakFrame, LeakPeak, LeakStack, Leaks, PeakStack, one_line};
use vk_report::units::bytes;

/// The most stacks that are shown; data has all.
const STACKS: usize = 100;
/// The most frames of a stack that are shown.
const FRAMES: usize = 40;

/// One call stack.
pub(super) struct LeakCard {
    /// The rules that these blocks break; empty for none.
    pub(super) rules: String,
    /// The text of these rules.
    pub(super) duties: Vec<String>,
    pub(super) headline: String,
    /// The growth after each interval; empty for none.
    pub(super) growth: String,
    /// [`LeakStack::is_growing`].
    pub(super) grows: bool,
    pub(super) oldest: String,
    /// Innermost first.
    pub(super) frames: Vec<String>,
}

/// The stacks, and how many were omitted.
pub(super) fn leaks(leaks: Option<&Leaks>) -> (Vec<LeakCard>, usize) {
    let Some(leaks) = leaks else {
        return (Vec::new(), 0);
    };
    let cards = leaks
        .stacks
        .iter()
        .take(STACKS)
        .map(|stack| card(stack, leaks));
    (cards.collect(), leaks.stacks.len().saturating_sub(STACKS))
}

/// The highest moment of something.
pub(super) struct PeakCard {
    pub(super) headline: String,
    /// When it was, and how much is left out.
    pub(super) moment: String,
    pub(super) stacks: Vec<LeakCard>,
}

/// The most stacks of a peak that are shown; data has all.
const PEAK_STACKS: usize = 20;

/// The peaks that the report has.
pub(super) fn peaks(leaks: Option<&Leaks>) -> Vec<PeakCard> {
    let peaks = leaks.map_or(&[][..], |leaks| &leaks.peaks);
    peaks.iter().map(peak).collect()
}

fn peak(peak: &LeakPeak) -> PeakCard {
    let more = match peak.stacks.len().saturating_sub(PEAK_STACKS) {
        0 => String::new(),
        more => format!("; {more} more call stacks are left out here, --json has them"),
    };
    PeakCard {
        headline: format!(
            "At the peak of {}: {}",
            one_line(&peak.of),
            bytes(peak.bytes)
        ),
        moment: format!("{}: these call stacks held it{more}.", peak.moment()),
        stacks: peak.stacks.iter().take(PEAK_STACKS).map(held).collect(),
    }
}

fn held(stack: &PeakStack) -> LeakCard {
    let what = if stack.command.is_empty() {
        "Outside of commands".to_owned()
    } else {
        one_line(&stack.command)
    };
    let (live, kind) = (grouped(stack.live), one_line(&stack.kind));
    LeakCard {
        rules: String::new(),
        duties: Vec::new(),
        headline: format!("{what}: {live} for {kind} ({})", bytes(stack.bytes)),
        growth: String::new(),
        grows: false,
        oldest: String::new(),
        frames: card_frames(&stack.frames),
    }
}

fn card_frames(frames: &[LeakFrame]) -> Vec<String> {
    let frames = program_frames(frames).iter().take(FRAMES);
    frames.flat_map(frame_lines).collect()
}

fn card(stack: &LeakStack, leaks: &Leaks) -> LeakCard {
    let command = if stack.command.is_empty() {
        "Outside of commands".to_owned()
    } else {
        one_line(&stack.command)
    };
    let kind = one_line(&stack.kind);
    let mut parts = Vec::new();
    if stack.objects.total > 0 {
        let size = match stack.objects.bytes {
            0 => String::new(),
            size => format!(" ({})", bytes(size)),
        };
        parts.push(format!(
            "{} of {} {kind} alive{size}",
            grouped(stack.objects.live),
            grouped(stack.objects.total),
        ));
    }
    if stack.blocks.live > 0 {
        parts.push(format!(
            "{} block{} of the driver for {kind} ({})",
            grouped(stack.blocks.live),
            if stack.blocks.live == 1 { "" } else { "s" },
            bytes(stack.blocks.bytes)
        ));
    }
    let oldest = stack.oldest.iter().map(|object| {
        let handle = one_line(&object.handle);
        match (stack.objects.total, &*object.name, &*handle) {
            (0, "", "") => format!("{} bytes", grouped(object.bytes)),
            (0, name, "") => format!("{} bytes in {}", grouped(object.bytes), one_line(name)),
            (0, _, handle) => format!("{} bytes for {handle}", grouped(object.bytes)),
            (_, "", _) => handle,
            (_, name, _) => format!("{handle} \u{201c}{}\u{201d}", one_line(name)),
        }
    });
    LeakCard {
        rules: one_line(&stack.rules.join(", ")),
        duties: stack.rules.iter().flat_map(|rule| duties(rule)).collect(),
        headline: match parts.join(", ") {
            parts if parts.is_empty() => command,
            parts => format!("{command}: {parts}"),
        },
        grows: stack.is_growing(leaks.intervals),
        growth: leaks.growth_of(stack).unwrap_or_default(),
        oldest: oldest.collect::<Vec<_>>().join(", "),
        frames: card_frames(&stack.frames),
    }
}

/// The functions of a frame, or else its place in its file, or its address.
pub(super) fn frame_lines(frame: &LeakFrame) -> Vec<String> {
    if !frame.functions.is_empty() {
        return frame.functions.iter().map(|name| one_line(name)).collect();
    }
    vec![one_line(&match frame.module.as_str() {
        "" => frame.address.clone(),
        file if frame.is_replaced => {
            format!("{file}+{} (another file has this name now)", frame.offset)
        }
        file => format!("{file}+{}", frame.offset),
    })]
}
