use vk_report::report::{LeakFrame, Leaks};

use super::Symbols;

impl Symbols {
    /// Names the functions of all frames and sorts the stacks. Returns a copy for a terminal without the language
    /// runtime's frames.
    #[must_use]
    pub fn name_leaks(&mut self, leaks: &mut Leaks) -> Leaks {
        leaks.sort();
        let mut shown = leaks.clone();
        for (stack, shown) in leaks.stacks.iter_mut().zip(&mut shown.stacks) {
            shown.frames = self.name_stack(&mut stack.frames);
        }
        for (peak, shown) in leaks.peaks.iter_mut().zip(&mut shown.peaks) {
            for (stack, shown) in peak.stacks.iter_mut().zip(&mut shown.stacks) {
                shown.frames = self.name_stack(&mut stack.frames);
            }
        }
        shown
    }

    fn name_stack(&mut self, frames: &mut [LeakFrame]) -> Vec<LeakFrame> {
        let functions = frames.iter_mut().map(|frame| self.name_frame(frame));
        let functions: Vec<_> = functions.collect();
        let range = self.shown(&functions, false).frames;
        frames.get(range).unwrap_or_default().to_vec()
    }
}
