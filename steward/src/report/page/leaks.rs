//! Leaks by call stack, at the top of a page.

#![forbid(unsafe_code)]

use crate::symbols::program_frames;
use vk_report::report::LeakFrame;

/// The most frames of a stack that are shown.
const FRAMES: usize = 40;

/// The functions of a stack, innermost first.
pub(super) fn frames(frames: &[LeakFrame]) -> Vec<String> {
    let frames = program_frames(frames).iter().take(FRAMES);
    frames.flat_map(LeakFrame::lines).collect()
}
