//! The command being run, as it lies on its thread's stack.

#![forbid(unsafe_code)]

use core::marker::PhantomData;
use core::ptr;

use super::bracket::Bracket;
use super::owner::{BracketCoverage, Owners};

/// A running command, as one line of a log would tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// The command's name.
    pub name: &'static str,
    /// The command's number: from 1, never used twice in a process. Those of one thread count up; a thread takes 64 of them at once, so
    /// those of several threads do not say which command came first. 0 without the feature `std`.
    pub serial: u64,
    /// 1 for the outermost command of a thread, 2 for one called within it, ..
    pub depth: u32,
    /// The thread's number, as [`current_thread`](super::current_thread).
    pub thread: u64,
    /// Whose callbacks it may reach.
    pub owners: Owners,
    /// How much of the program is bracketed.
    pub coverage: BracketCoverage,
    /// The command was called from inside a callback, which V25 forbids.
    pub entered_in_callback: bool,
    /// Where the command's frame lies on its thread's stack: what is called for the command lies below, who called it above. Whoever walks
    /// a callback's stack has the whole command when it is past this.
    pub stack: usize,
}

/// The command being run; lies on the stack of [`Command::run`](super::Command::run) and cannot leave its thread.
#[derive(Debug)]
pub struct CommandFrame {
    bracket: Bracket<'static>,
    depth: u32,
    thread: u64,
    entered_in_callback: bool,
    /// The checker that watches this command, or null.
    checker: *const (),
    this_thread: PhantomData<*const ()>,
}

impl CommandFrame {
    /// A frame of this thread, that the checker at this address watches, or nobody.
    #[inline]
    pub(super) fn new(
        bracket: Bracket<'static>,
        depth: u32,
        thread: u64,
        entered_in_callback: bool,
        checker: *const (),
    ) -> Self {
        Self {
            bracket,
            depth,
            thread,
            entered_in_callback,
            checker,
            this_thread: PhantomData,
        }
    }

    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    /// What is running.
    #[must_use]
    pub fn info(&self) -> CommandInfo {
        CommandInfo {
            name: self.bracket.name,
            serial: self.bracket.serial,
            depth: self.depth,
            thread: self.thread,
            owners: self.bracket.owners,
            coverage: self.bracket.coverage,
            entered_in_callback: self.entered_in_callback,
            stack: ptr::from_ref(self).addr(),
        }
    }

    /// How often NULL was answered to a request of this command so far (what V9 is judged by).
    #[must_use]
    pub const fn null_answers(&self) -> u32 {
        self.bracket.nulls.get()
    }

    /// The command returned this `VkResult`. Not to be called for commands that return nothing.
    pub fn returned(&self, result: i32) {
        self.bracket.result.set(result);
    }

    pub(crate) const fn bracket(&self) -> &Bracket<'static> {
        &self.bracket
    }

    pub(crate) const fn thread(&self) -> u64 {
        self.thread
    }

    pub(crate) const fn entered_in_callback(&self) -> bool {
        self.entered_in_callback
    }

    pub(crate) const fn checker(&self) -> *const () {
        self.checker
    }
}
