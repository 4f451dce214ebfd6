//! Functions for the stacks of what a program left alive.

use vk_accounts::report::Leaks;

use super::{Symbols, number};

impl Symbols {
    /// Names the functions of all frames, and sorts the stacks. Returns a copy for a terminal, without the frames of the language's
    /// runtime.
    #[must_use]
    pub fn name_leaks(&mut self, leaks: &mut Leaks) -> Leaks {
        leaks.sort();
        let mut shown = leaks.clone();
        for (stack, shown) in leaks.stacks.iter_mut().zip(&mut shown.stacks) {
            let mut functions = Vec::new();
            for frame in &mut stack.frames {
                // A call returns behind its instruction.
                let before = number(&frame.offset).unwrap_or(0).saturating_sub(1);
                let found = self.functions(&frame.module, before);
                frame.functions = found.iter().map(ToString::to_string).collect();
                functions.push(found);
            }
            let range = self.shown(&functions, false).frames;
            shown.frames = stack.frames.get(range).unwrap_or_default().to_vec();
        }
        shown
    }
}
