//! A running command: the live checker's lies in a frame on the stack, the judge's in its memory.

#![forbid(unsafe_code)]

use core::cell::Cell;
use core::marker::PhantomData;
use core::num::{NonZeroU32, NonZeroU64};
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::commands::{CommandAction, CommandRow};

/// Not returned yet, or returns nothing.
const NO_RESULT: i32 = 0;

/// The object that a command creates until it is reported.
///
/// One word without padding, which would be copied in other pieces than those that were stored: the processor stalls on
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation(NonZeroU64);

impl Creation {
    const MANY: u64 = 1 << 32;
    /// Not 0, whatever the owner.
    const SOME: u64 = 1 << 33;

    pub(crate) fn new(owner: u32, many: bool) -> Self {
        let many = if many { Self::MANY } else { 0 };
        let word = NonZeroU64::new(Self::SOME | many | u64::from(owner));
        Self(word.unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) const fn owner(self) -> u32 {
        self.0.get() as u32
    }

    /// The command may create several objects: then a report does not end the creation, the thread's next command does.
    pub(crate) const fn many(self) -> bool {
        self.0.get() & Self::MANY != 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bracket<'t> {
    pub(crate) name: &'t str,
    /// Never 0, never used twice.
    pub(crate) serial: u64,
    pub(crate) owners: Owners,
    pub(crate) coverage: BracketCoverage,
    row: Cell<Option<&'static CommandRow>>,
    /// Allocated blocks of scope command less freed ones, on this thread. A hint: other threads may have freed some.
    pub(crate) command_live: Cell<u32>,
    pub(crate) nulls: Cell<u32>,
    pub(crate) creation: Cell<Option<Creation>>,
    pub(crate) result: Cell<i32>,
}

impl<'t> Bracket<'t> {
    #[inline]
    pub(crate) const fn new(
        name: &'t str,
        serial: u64,
        owners: Owners,
        coverage: BracketCoverage,
        row: Option<&'static CommandRow>,
    ) -> Self {
        Self {
            name,
            serial,
            owners,
            coverage,
            row: Cell::new(row),
            command_live: Cell::new(0),
            nulls: Cell::new(0),
            creation: Cell::new(None),
            result: Cell::new(NO_RESULT),
        }
    }

    /// It is looked up once, at the first callback.
    #[inline]
    pub(crate) fn row(&self) -> &'static CommandRow {
        self.row.get().unwrap_or_else(|| self.look_up())
    }

    #[cold]
    fn look_up(&self) -> &'static CommandRow {
        let row = CommandRow::of(self.name);
        self.row.set(Some(row));
        row
    }

    #[inline]
    pub(crate) fn allocates(&self) -> bool {
        match self.row.get() {
            Some(row) => row.action == CommandAction::Allocate,
            None => self.name.starts_with("vkAllocate") && self.look_up().action == CommandAction::Allocate,
        }
    }

    pub(crate) fn null_answered(&self) {
        self.nulls.set(self.nulls.get().saturating_add(1));
    }
}

/// A running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandInfo {
    /// The command's name.
    pub name: &'static str,
    /// The command's serial number: from 1, unique in the process. Those of one thread count up; those of several are
    /// in no order. 0 without the feature `std`.
    pub serial: u64,
    /// The thread's number, as [`current_thread`](super::current_thread).
    pub thread: u64,
    /// The address of the command's frame on its thread's stack: called functions are below, callers above. An unwinder
    /// of a callback's stack has seen the whole command past this address.
    pub stack: usize,
}

/// A running command, on the stack of [`Command::run`](super::Command::run). It cannot leave its thread.
#[derive(Debug)]
pub struct CommandFrame {
    bracket: Bracket<'static>,
    thread: u64,
    /// V25 forbids it.
    entered_in_callback: bool,
    /// The checker that watches this command, or null.
    checker: *const (),
    this_thread: PhantomData<*const ()>,
}

impl CommandFrame {
    #[inline]
    pub(super) fn new(bracket: Bracket<'static>, thread: u64, entered_in_callback: bool, checker: *const ()) -> Self {
        Self { bracket, thread, entered_in_callback, checker, this_thread: PhantomData }
    }

    /// The running command.
    #[must_use]
    pub fn info(&self) -> CommandInfo {
        CommandInfo {
            name: self.bracket.name,
            serial: self.bracket.serial,
            thread: self.thread,
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

/// The owners of the callbacks that a command may call, most specific first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The object's own, its pool's or, for a command about a cache, the cache's.
    pub object: Option<OwnerId>,
    /// The cache's, for a command about another object (`pipelineCache` of `vkCreateComputePipelines`).
    pub cache: Option<OwnerId>,
    /// The deferred operation's, while the deferred work runs or is joined (V26).
    pub deferred: Option<OwnerId>,
    /// The device's.
    pub device: Option<OwnerId>,
    /// The instance's.
    pub instance: Option<OwnerId>,
}

/// The id of a bridge, or of any watched callbacks, unique in the process (until 2^32 were created).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub(crate) NonZeroU32);

impl OwnerId {
    /// A new id, for callbacks without a bridge.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = match NEXT.fetch_add(1, Relaxed) {
            0 => NEXT.fetch_add(1, Relaxed), // wrapped after 2^32
            number => number,
        };
        Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number itself, never 0.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// How much of a program is bracketed: whether a thread without a bracket proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BracketCoverage {
    /// Every command of every thread runs in a bracket.
    Complete,
    /// All but those that record into a command buffer (`vkCmd*`): a call of a command pool's callbacks outside of
    /// brackets is no finding.
    ExceptRecording,
    /// Some commands may run without a bracket.
    Partial,
}
