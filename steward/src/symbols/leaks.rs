//! Function names for the stacks of a program's leaks.

use vk_accounts::report::Leaks;

use super::Symbols;

impl Symbols {
    /// Names the functions of all frames and sorts the stacks. Returns a copy for a terminal without the language runtime's frames.
    #[must_use]
    pub fn name_leaks(&mut self, leaks: &mut Leaks) -> Leaks {
        leaks.sort();
        let mut shown = leaks.clone();
        for (stack, shown) in leaks.stacks.iter_mut().zip(&mut shown.stacks) {
            let mut functions = Vec::new();
            for frame in &mut stack.frames {
                functions.push(self.name_frame(frame));
            }
            let range = self.shown(&functions, false).frames;
            shown.frames = stack.frames.get(range).unwrap_or_default().to_vec();
        }
        shown
    }
}
