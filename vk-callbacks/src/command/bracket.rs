//! A running command: the live checker's lies in a frame on the stack, the judge's in its memory.

#![forbid(unsafe_code)]

use core::cell::Cell;
use core::num::NonZeroU64;

use super::owner::{BracketCoverage, Owners};
use crate::commands::{CommandAction, CommandRow};

/// Not returned yet, or returns nothing.
const NO_RESULT: i32 = 0;

/// The object that a command creates until it is reported: the number of its owner, and whether the command may create several.
///
/// One word, without padding: padding would be copied together with neighbouring fields, in other pieces than those that were stored,
/// and the processor stalls on that.
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

    /// The owner's number.
    pub(crate) const fn owner(self) -> u32 {
        self.0.get() as u32
    }

    /// The command may create several objects: then a report does not end the creation, the thread's next command does.
    pub(crate) const fn many(self) -> bool {
        self.0.get() & Self::MANY != 0
    }
}

/// A command of a thread.
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
    /// Requests that were answered with NULL.
    pub(crate) nulls: Cell<u32>,
    /// The object that it creates, once it called the object's callbacks.
    pub(crate) creation: Cell<Option<Creation>>,
    /// The `VkResult`.
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

    /// The command's row. It is looked up once, at the first callback.
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

    /// Whether it allocates objects from a pool. Other names are not looked up.
    #[inline]
    pub(crate) fn allocates(&self) -> bool {
        match self.row.get() {
            Some(row) => row.action == CommandAction::Allocate,
            None => {
                self.name.starts_with("vkAllocate")
                    && self.look_up().action == CommandAction::Allocate
            }
        }
    }

    pub(crate) fn null_answered(&self) {
        self.nulls.set(self.nulls.get().saturating_add(1));
    }
}
