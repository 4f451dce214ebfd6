#![forbid(unsafe_code)]

use crate::symbols::program_frames;
use vk_report::report::LeakFrame;

const FRAMES: usize = 40;

pub(super) fn frames(frames: &[LeakFrame]) -> Vec<String> {
    let frames = program_frames(frames).iter().take(FRAMES);
    frames.flat_map(LeakFrame::lines).collect()
}
