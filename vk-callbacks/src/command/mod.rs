//! Brackets: the running Vulkan command of a thread during callbacks.
//!
//! Vulkan specification, *Host Memory*: callbacks come only during a command and on its thread. A bracket around the call assigns
//! each callback to its command (rows V22, V23, V28 to V34).

mod bracket;
pub(crate) mod thread;

use core::ptr;

use crate::commands::CommandRow;
use thread::{ThreadState, with_state};

pub(crate) use bracket::{Bracket, Creation};
pub use bracket::{BracketCoverage, CommandFrame, CommandInfo, OwnerId, Owners};

/// A Vulkan command to be called: its name, the owners of its callbacks, and how much of the program is bracketed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use vk_callbacks::{Command, Owners};
/// use vk_callbacks::command::BracketCoverage;
/// let answer = Command::new("vkCreateBuffer", Owners::default(), BracketCoverage::Partial).run(|frame| {
///     assert_eq!(vk_callbacks::command::current_command().map(|c| c.serial), Some(frame.info().serial));
///     42 // the driver's function would be called here
/// });
/// assert_eq!(answer, 42);
/// assert!(vk_callbacks::command::current_command().is_none());
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Command {
    name: &'static str,
    row: Option<&'static CommandRow>,
    owners: Owners,
    coverage: BracketCoverage,
}

impl Command {
    /// `name` is the specification's (`vkCreateBuffer`). A checker applies the rules of the longest known beginning of an unknown
    /// name ([`CommandRow::of`](crate::CommandRow::of)), or allows every scope.
    ///
    /// `coverage` describes the program, not this command. A [`Checker`](crate::Checker) also has it in
    /// [`CheckOptions`](crate::CheckOptions), since it may need it before the first command. A callback outside of a bracket is a
    /// violation only if all declare [`Complete`](BracketCoverage::Complete); after one weaker declaration it is a suspect.
    #[must_use]
    pub const fn new(name: &'static str, owners: Owners, coverage: BracketCoverage) -> Self {
        Self {
            name,
            row: None,
            owners,
            coverage,
        }
    }

    /// As [`Command::new`], with a known row: callbacks look up nothing. `name` is the real name if the row is for all commands of
    /// one beginning (`vkCmd*`).
    #[must_use]
    pub const fn of(
        row: &'static CommandRow,
        name: &'static str,
        owners: Owners,
        coverage: BracketCoverage,
    ) -> Self {
        Self {
            row: Some(row),
            ..Self::new(name, owners, coverage)
        }
    }

    /// Runs `body` as this command. Brackets nest (a layer calls the driver); nothing is allocated.
    ///
    /// A closure instead of a guard: a forgotten guard would leave a dangling frame on the thread. Without the feature `std` the body
    /// runs unbracketed.
    pub fn run<R>(self, body: impl FnOnce(&CommandFrame) -> R) -> R {
        with_state(|thread| self.run_on(thread, ptr::null(), body))
    }

    /// As [`Command::run`], on this thread, with the address of the checker, or null.
    #[inline]
    pub(crate) fn run_on<R>(
        self,
        thread: &ThreadState,
        checker: *const (),
        body: impl FnOnce(&CommandFrame) -> R,
    ) -> R {
        let above = thread.top();
        // SAFETY: a non-null top is the frame of a `run` further up this thread's stack, which ends after this one.
        let depth = unsafe { above.as_ref() }.map_or(1, |frame| frame.depth().saturating_add(1));
        let bracket = Bracket::new(
            self.name,
            thread.next_serial(),
            self.owners,
            self.coverage,
            self.row,
        );
        let frame = CommandFrame::new(
            bracket,
            depth,
            thread.number(),
            thread.in_callback(),
            checker,
        );
        let _leave = RestoreFrame {
            thread,
            above: thread.enter_command(&raw const frame),
        };
        body(&frame)
    }
}

/// The innermost running command of this thread.
#[must_use]
pub fn current_command() -> Option<CommandInfo> {
    // SAFETY: a non-null top is the frame of a `run` on this thread's own stack that has not ended; it is only read.
    unsafe { thread::top().as_ref() }.map(CommandFrame::info)
}

/// Whether this thread is inside a function of a bridge, a checker or a tap (V25: no Vulkan command may be called then).
///
/// If the allocator behind calls other callbacks, false again after the inner call returned.
#[must_use]
pub fn in_callback() -> bool {
    thread::in_callback()
}

/// This thread's number, from 1 in the order of first use; never reused. 0 without the feature `std`.
#[must_use]
pub fn current_thread() -> u64 {
    thread::thread_number()
}

/// Counts a NULL of a bridge in the innermost frame.
#[cold]
pub(crate) fn note_null_answer() {
    // SAFETY: a non-null top is the frame of a `run` on this thread's own stack, which ends after the current call; the count is a `Cell`
    // that only this thread reaches.
    if let Some(frame) = unsafe { thread::top().as_ref() } {
        frame.bracket().null_answered();
    }
}

/// Removes the frame from the thread, when the body returns or unwinds.
struct RestoreFrame<'a> {
    thread: &'a ThreadState,
    above: *const CommandFrame,
}

impl Drop for RestoreFrame<'_> {
    fn drop(&mut self) {
        self.thread.set_top(self.above);
    }
}
