//! Brackets: the running Vulkan command of a thread during callbacks.
//!
//! Vulkan specification, *Host Memory*: callbacks come only during a command and on its thread. A bracket around the
//! call assigns each callback to its command.

mod bracket;
pub(crate) mod thread;

use core::ptr;

use crate::commands::CommandRow;
use thread::{ThreadState, with_state};

pub(crate) use bracket::{Bracket, Creation};
pub use bracket::{BracketCoverage, CommandFrame, CommandInfo, OwnerId, Owners};

/// A Vulkan command to be called.
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
    /// `name` is the specification's (`vkCreateBuffer`); [`CommandRow::of`](crate::CommandRow::of) says which rules
    /// apply to an unknown one.
    ///
    /// `coverage` describes the program, not this command; the weakest declaration counts, that of
    /// [`CheckOptions`](crate::CheckOptions) included. A callback outside of a bracket is a violation with
    /// [`Complete`](BracketCoverage::Complete), else a suspect.
    #[must_use]
    pub const fn new(name: &'static str, owners: Owners, coverage: BracketCoverage) -> Self {
        Self { name, row: None, owners, coverage }
    }

    /// As [`Command::new`], with a known row: callbacks look up nothing. `name` is the real name if the row is that of
    /// a beginning (`vkCmd*`).
    #[must_use]
    pub const fn of(row: &'static CommandRow, name: &'static str, owners: Owners, coverage: BracketCoverage) -> Self {
        Self { row: Some(row), ..Self::new(name, owners, coverage) }
    }

    /// Runs `body` as this command. Brackets nest (a layer calls the driver); nothing is allocated.
    ///
    /// A closure instead of a guard: a forgotten guard would leave a dangling frame on the thread. Without the feature
    /// `std` the body runs unbracketed.
    pub fn run<R>(self, body: impl FnOnce(&CommandFrame) -> R) -> R {
        with_state(|thread| self.run_on(thread, ptr::null(), body))
    }

    #[inline]
    pub(crate) fn run_on<R>(
        self,
        thread: &ThreadState,
        checker: *const (),
        body: impl FnOnce(&CommandFrame) -> R,
    ) -> R {
        let bracket = Bracket::new(self.name, thread.next_serial(), self.owners, self.coverage, self.row);
        let frame = CommandFrame::new(bracket, thread.number(), thread.in_callback(), checker);
        let _leave = RestoreFrame { thread, above: thread.enter_command(&raw const frame) };
        body(&frame)
    }
}

/// The innermost running command of this thread.
#[must_use]
pub fn current_command() -> Option<CommandInfo> {
    // SAFETY: null or the frame of a `run` on this thread's stack, which is only read.
    unsafe { thread::top().as_ref() }.map(CommandFrame::info)
}

/// Whether this thread is inside a function of a bridge, a checker or a tap: no Vulkan command may be called then
/// (V25). If the allocator behind calls other callbacks, it is false again after the inner call returned.
#[must_use]
pub fn in_callback() -> bool {
    thread::in_callback()
}

/// This thread's number, from 1 in the order of first use; never reused. 0 without the feature `std`.
#[must_use]
pub fn current_thread() -> u64 {
    thread::thread_number()
}

#[cold]
pub(crate) fn note_null_answer() {
    // SAFETY: null or the frame of a `run` on this thread's stack.
    if let Some(frame) = unsafe { thread::top().as_ref() } {
        frame.bracket().null_answered();
    }
}

struct RestoreFrame<'a> {
    thread: &'a ThreadState,
    above: *const CommandFrame,
}

impl Drop for RestoreFrame<'_> {
    fn drop(&mut self) {
        self.thread.set_top(self.above);
    }
}
