//! Brackets: which Vulkan command a thread is executing while callbacks arrive.
//!
//! Vulkan specification, *Host Memory*: callbacks come only during a command and on the thread that called it, so a bracket
//! around the call says whose request a callback is (rows V22, V23, V28 to V34 are judged by it).

mod bracket;
mod frame;
mod owner;
pub(crate) mod thread;

use core::ptr;

use crate::commands::CommandRow;
use thread::{ThreadState, with_state};

pub(crate) use bracket::{Bracket, Making};
pub use frame::{CommandFrame, CommandInfo};
pub use owner::{BracketCoverage, OwnerId, Owners};

/// A Vulkan command about to be called: its name, whose callbacks it may reach, and how much of the program is bracketed.
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
    /// `name` is the specification's (`vkCreateBuffer`). One that is unknown, or misspelt, is taken as it is: a checker judges what
    /// the beginning of the name tells ([`CommandRow::of`](crate::CommandRow::of)), and where that tells nothing allows every scope.
    ///
    /// `coverage` speaks for the program, not for this command. A [`Checker`](crate::Checker) is told it once more, in
    /// [`CheckOptions`](crate::CheckOptions), since it may have to judge before the first command. Only if all say
    /// [`Complete`](BracketCoverage::Complete) is a callback outside of a bracket a violation; one that says less
    /// makes it a suspect, for good.
    #[must_use]
    pub const fn new(name: &'static str, owners: Owners, coverage: BracketCoverage) -> Self {
        Self {
            name,
            row: None,
            owners,
            coverage,
        }
    }

    /// As [`Command::new`], of a command whose row is known: nothing is looked up when callbacks come. `name` is the real one where the
    /// row is that of all commands that begin alike (`vkCmd*`).
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
    /// A closure and no guard: the frame lies on this function's stack, and a guard could be forgotten and leave the thread
    /// pointing at a frame that is gone. Without the feature `std` the body runs unbracketed.
    pub fn run<R>(self, body: impl FnOnce(&CommandFrame) -> R) -> R {
        with_state(|thread| self.run_on(thread, ptr::null(), body))
    }

    /// As [`Command::run`], on this thread, with the address of the checker that watches, or null.
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

/// The innermost command this thread runs.
#[must_use]
pub fn current_command() -> Option<CommandInfo> {
    // SAFETY: a non-null top is the frame of a `run` on this thread's own stack that has not ended; it is only read.
    unsafe { thread::top().as_ref() }.map(CommandFrame::info)
}

/// True while this thread is inside a function of a bridge, a checker or a tap (V25: no Vulkan command may be called then).
///
/// Where the allocator behind calls another one, or the same, false again from the inner one's return on.
#[must_use]
pub fn in_callback() -> bool {
    thread::in_callback()
}

/// This thread's number, counted up from 1 in the order of first asking; never used again. 0 without the feature `std`.
#[must_use]
pub fn current_thread() -> u64 {
    thread::thread_number()
}

/// A bridge answered NULL; counted in the innermost frame.
#[cold]
pub(crate) fn note_null_answer() {
    // SAFETY: as in `current_command`; `null_answers` is a `Cell` that only this thread reaches.
    if let Some(frame) = unsafe { thread::top().as_ref() } {
        frame.bracket().null_answered();
    }
}

/// Takes the frame off the thread, when the body returns and when it unwinds.
struct RestoreFrame<'a> {
    thread: &'a ThreadState,
    above: *const CommandFrame,
}

impl Drop for RestoreFrame<'_> {
    fn drop(&mut self) {
        self.thread.set_top(self.above);
    }
}
