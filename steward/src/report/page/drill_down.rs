#![forbid(unsafe_code)]

use vk_report::report::{CallSites, DrillDown, LeakFrame};

const FRAMES: usize = 24;

/// Percent of the largest one beside it.
pub(super) fn share(part: &DrillDown, siblings: &[DrillDown]) -> String {
    let largest = siblings.first().map_or(0, |part| part.live.bytes);
    let share = part.live.bytes as f64 / largest.max(1) as f64 * 100.0;
    format!("{share:.1}")
}

pub(super) fn frames(part: &DrillDown, sites: &CallSites) -> Vec<String> {
    let frames = sites.frames_of(part.stack).take(FRAMES);
    frames.flat_map(LeakFrame::lines).collect()
}
