//! What was never freed, by call stack: the first thing that a page says.

#![forbid(unsafe_code)]

use super::label::grouped;
use vk_accounts::report::{LeakCount, LeakStack, Leaks, one_line};
use vk_accounts::units::bytes;

/// So many stacks are shown; data has all.
const STACKS: usize = 100;
/// So many frames of a stack are shown.
const FRAMES: usize = 40;

/// One call stack.
pub(super) struct LeakCard {
    pub(super) headline: String,
    pub(super) growth: String,
    pub(super) grows: bool,
    pub(super) oldest: String,
    /// Innermost first.
    pub(super) frames: Vec<String>,
}

/// The stacks, and how many were left out.
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

fn card(stack: &LeakStack, leaks: &Leaks) -> LeakCard {
    let command = if stack.command.is_empty() {
        "Outside of commands".to_owned()
    } else {
        one_line(&stack.command)
    };
    let kind = one_line(&stack.kind);
    let mut parts = Vec::new();
    if stack.objects.total > 0 {
        parts.push(format!(
            "{} of {} {kind} alive ({})",
            grouped(stack.objects.live),
            grouped(stack.objects.total),
            bytes(stack.objects.bytes)
        ));
    }
    if stack.blocks.live > 0 || parts.is_empty() {
        parts.push(format!(
            "{} blocks of the driver for {kind} ({})",
            grouped(stack.blocks.live),
            bytes(stack.blocks.bytes)
        ));
    }
    let grown = |name: &str, count: &LeakCount| {
        count.is_growing(leaks.intervals).then(|| {
            format!(
                "{:+} {name} ({:+} bytes), in {} of {} intervals",
                count.growth.count,
                count.growth.bytes,
                grouped(count.growth.grew),
                grouped(leaks.intervals)
            )
        })
    };
    let growth: Vec<_> = [
        grown("objects", &stack.objects),
        grown("blocks", &stack.blocks),
    ]
    .into_iter()
    .flatten()
    .collect();
    let oldest = stack
        .oldest
        .iter()
        .filter(|object| !object.handle.is_empty());
    let oldest = oldest.map(|object| match object.name.as_str() {
        "" => one_line(&object.handle),
        name => format!(
            "{} \u{201c}{}\u{201d}",
            one_line(&object.handle),
            one_line(name)
        ),
    });
    let frames = stack.frames.iter().take(FRAMES).flat_map(|frame| {
        if frame.functions.is_empty() {
            vec![one_line(&format!(
                "{} {} {}",
                frame.address, frame.module, frame.offset
            ))]
        } else {
            frame.functions.iter().map(|name| one_line(name)).collect()
        }
    });
    LeakCard {
        headline: format!("{command}: {}", parts.join(", ")),
        grows: !growth.is_empty(),
        growth: growth.join("; "),
        oldest: oldest.collect::<Vec<_>>().join(", "),
        frames: frames.collect(),
    }
}
