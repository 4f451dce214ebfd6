//! The commands, size classes and call stacks of each context, nested and folded.

#![forbid(unsafe_code)]

use super::label::grouped;
use super::leaks::frame_lines;
use vk_report::report::{CallSites, DrillDown, one_line};
use vk_report::units::bytes;

/// The most children that are shown, the largest first; data has all.
const PARTS: usize = 40;
/// The most frames of a stack that are shown.
const FRAMES: usize = 24;

/// A context, a command, a size class or a call stack.
pub(super) struct DrillPart {
    pub(super) label: String,
    /// Live bytes, or a remark that there are none.
    pub(super) live: String,
    /// The number of blocks, and all that was ever allocated.
    pub(super) detail: String,
    /// Percent of its largest sibling.
    pub(super) share: String,
    pub(super) parts: Vec<DrillPart>,
    /// Children that were omitted.
    pub(super) more: usize,
    /// A stack's functions, innermost first.
    pub(super) frames: Vec<String>,
}

/// The contexts with data, the largest first.
pub(super) fn drill_down(sites: Option<&CallSites>) -> Vec<DrillPart> {
    let Some(sites) = sites else {
        return Vec::new();
    };
    views(&sites.drill_down(), sites).0
}

/// The shown children, and how many are omitted.
fn views(parts: &[DrillDown], sites: &CallSites) -> (Vec<DrillPart>, usize) {
    let largest = parts.first().map_or(0, |part| part.live.bytes);
    let shown = parts.iter().take(PARTS);
    let views = shown.map(|part| view(part, largest, sites)).collect();
    (views, parts.len().saturating_sub(PARTS))
}

fn view(part: &DrillDown, largest: u64, sites: &CallSites) -> DrillPart {
    let (parts, more) = views(&part.parts, sites);
    let blocks = |number: u64| {
        let s = if number == 1 { "" } else { "s" };
        format!("{} block{s}", grouped(number))
    };
    let stack = part.stack.and_then(|stack| sites.stacks.get(stack));
    let frames = stack
        .into_iter()
        .flatten()
        .filter_map(|frame| sites.frames.get(*frame));
    let share = part.live.bytes as f64 / largest.max(1) as f64 * 100.0;
    DrillPart {
        label: one_line(&part.label),
        live: match part.live.bytes {
            0 => "nothing live".to_owned(),
            live => bytes(live),
        },
        detail: format!(
            "{}; {} in {} ever allocated",
            blocks(part.live.blocks),
            bytes(part.total.bytes),
            blocks(part.total.blocks)
        ),
        share: format!("{share:.1}"),
        parts,
        more,
        frames: frames.take(FRAMES).flat_map(frame_lines).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_report::report::{BlockSum, CallSite, LeakFrame};

    #[test]
    fn the_largest_parts_are_shown_and_the_others_counted() {
        let site = |number: u64| CallSite {
            context: "VkDevice".to_owned(),
            command: format!("command {number}"),
            size_class: 64,
            stack: Some(0),
            live: BlockSum {
                blocks: 1,
                bytes: number,
            },
            ..CallSite::default()
        };
        let frame = LeakFrame {
            functions: vec!["inner".to_owned(), "outer".to_owned()],
            ..LeakFrame::default()
        };
        let sites = CallSites {
            frames: vec![frame],
            stacks: vec![vec![0]],
            sites: (1..=PARTS as u64 + 3).map(site).collect(),
            ..CallSites::default()
        };
        let [device] = &drill_down(Some(&sites))[..] else {
            panic!("one context");
        };
        assert_eq!((device.parts.len(), device.more), (PARTS, 3));
        let first = &device.parts[0];
        assert_eq!(
            (&*first.label, &*first.live, &*first.share),
            ("command 43", "43 B", "100.0")
        );
        let stack = &first.parts[0].parts[0];
        assert_eq!(stack.frames, ["inner", "outer"]);
        assert!(drill_down(None).is_empty());
    }
}
