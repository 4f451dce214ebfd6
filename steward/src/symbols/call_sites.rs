#![forbid(unsafe_code)]

use vk_report::report::{CallSites, LeakFrame, Report};

use super::{Function, Symbols, number};

/// The linked layer calls the driver. Stacks end at its bracket around the command.
const LAYER: &str = "VkLayer_steward_memory::";

fn outer_end<'f>(frames: impl IntoIterator<Item = &'f LeakFrame>) -> usize {
    let is_driver = |frame: &&LeakFrame| {
        let mut functions = frame.functions.iter();
        !functions.any(|function| function.contains(LAYER))
    };
    frames.into_iter().take_while(is_driver).count()
}

/// At least one frame of this program shows that the stack is whole. The compiler may have inlined the others.
fn end_with_caller(frames: &[LeakFrame]) -> usize {
    let end = outer_end(frames);
    let module = |at: usize| frames.get(at).map(|frame| &frame.module);
    let is_short = end > 0 && module(end - 1) != module(end);
    (end + usize::from(is_short)).min(frames.len())
}

impl Symbols {
    /// Names the functions in the stacks of leaks and sorts these stacks, without the program's own frames.
    pub fn name_leaks_of_run(&mut self, report: &mut Report) {
        let Some(leaks) = &mut report.leaks else {
            return;
        };
        *leaks = self.name_leaks(leaks);
        for stack in &mut leaks.stacks {
            stack.frames.truncate(end_with_caller(&stack.frames));
        }
    }

    /// Names the functions of all call sites.
    pub fn name_call_sites(&mut self, sites: &mut CallSites) {
        let functions: Vec<_> = sites.frames.iter_mut().map(|frame| self.name_frame(frame)).collect();
        for stack in &mut sites.stacks {
            let of_stack: Vec<_> =
                stack.iter().map(|frame| functions.get(*frame).cloned().unwrap_or_default()).collect();
            let range = self.shown(&of_stack, false).frames;
            let frames = stack.get(range).unwrap_or_default();
            let named = frames.iter().filter_map(|frame| sites.frames.get(*frame));
            *stack = frames.get(..outer_end(named)).unwrap_or_default().to_vec();
        }
    }

    pub(super) fn name_frame(&mut self, frame: &mut LeakFrame) -> Vec<Function> {
        frame.is_replaced = self.is_replaced(&frame.module, &frame.build_id);
        if frame.is_replaced {
            return Vec::new();
        }
        // A return address follows the call.
        let before = number(&frame.offset).unwrap_or(0).saturating_sub(1);
        let found = self.functions(&frame.module, before);
        frame.functions = found.iter().map(ToString::to_string).collect();
        found
    }
}
