//! The signal handler's part: reports a stopped access.

use super::block_info::Stack;
use super::deliver::deliver;
use super::detected_at::DetectedAt;
use super::registry::{ReportingGuard, query};
use super::report_context::ReportContext;
use crate::block::GuardFinding;
use crate::call_sites::walk_from;
use crate::modules;
use crate::os::{Handled, Trap};

/// Maximum frames of the stack of an access.
const FRAMES: usize = 64;

/// Handles a stopped access: for [`os::install_fault_handler`](crate::os::install_fault_handler). Async-signal-safe.
pub(crate) fn on_trap(trap: &Trap) -> Handled {
    query(|guard| guard.covers(trap.address).then(|| stopped(guard, trap))).unwrap_or(Handled::No)
}

fn stopped(guard: &dyn ReportingGuard, trap: &Trap) -> Handled {
    let accused = guard.accused(trap.address);
    let mut frames = [0; FRAMES];
    let mark = guard.command().map_or(0, |command| command.stack);
    let (len, whole) = walk_from(trap.pc, trap.frame, trap.stack, mark, &mut frames);
    let finding = GuardFinding::new(accused.kind, accused.block, trap.address);
    let frames = frames.get(..len).unwrap_or_default();
    let stack = Stack {
        frames,
        whole,
        modules: modules::note(frames),
    };
    deliver(
        guard,
        &ReportContext {
            access: trap.access,
            other: accused.other,
            stack,
            ..ReportContext::new(finding, DetectedAt::Instruction)
        },
    );
    // The report returned, so the program continues.
    if guard.land(trap.address) {
        Handled::Resume
    } else {
        Handled::No
    }
}
