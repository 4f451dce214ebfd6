//! The frame of a running command on its thread's stack.

#![forbid(unsafe_code)]

use core::marker::PhantomData;
use core::ptr;

use super::bracket::Bracket;
use super::owner::{BracketCoverage, Owners};

/// A running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// The command's name.
    pub name: &'static str,
    /// The command's serial number: from 1, unique in the process. Those of one thread count up; a thread reserves 64 of them at
    /// once, so they do not order commands of several threads. 0 without the feature `std`.
    pub serial: u64,
    /// 1 for the outermost command of a thread, 2 for one called within it, ..
    pub depth: u32,
    /// The thread's number, as [`current_thread`](super::current_thread).
    pub thread: u64,
    /// The owners of the callbacks that it may call.
    pub owners: Owners,
    /// How much of the program is bracketed.
    pub coverage: BracketCoverage,
    /// The command was called within a callback, which V25 forbids.
    pub entered_in_callback: bool,
    /// The address of the command's frame on its thread's stack: called functions are below, callers above. An unwinder of a
    /// callback's stack has seen the whole command past this address.
    pub stack: usize,
}

/// A running command, on the stack of [`Command::run`](super::Command::run). It cannot leave its thread.
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
    /// A frame of this thread, with the address of its checker, or null.
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

    /// The running command.
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

    /// The number of NULL answers to this command so far (V9).
    #[must_use]
    pub const fn null_answers(&self) -> u32 {
        self.bracket.nulls.get()
    }

    /// Stores the `VkResult` of the command. Not for commands without a result.
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
