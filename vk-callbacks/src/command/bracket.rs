//! A running command as the rules see it: the live checker's lies in a frame on the stack, the judge's in its own memory.

#![forbid(unsafe_code)]

use core::cell::Cell;
use core::num::NonZeroU64;

use super::owner::{BracketCoverage, Owners};
use crate::commands::{CommandAction, CommandRow};

/// Not returned yet, or returns nothing.
const NO_RESULT: i32 = 0;

/// A command that is making an object, or has made one that nobody has told of yet: the owner's number, and whether it may make several.
///
/// One word, without padding: padding of a frame would be copied with what lies beside it, in pieces other than those that it was
/// stored in, and the processor waits for those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Making(NonZeroU64);

impl Making {
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

    /// It may make several: then that one was told does not end it, the thread's next command does.
    pub(crate) const fn many(self) -> bool {
        self.0.get() & Self::MANY != 0
    }
}

/// One command of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Bracket<'t> {
    pub(crate) name: &'t str,
    /// Never 0, never used twice.
    pub(crate) serial: u64,
    pub(crate) owners: Owners,
    pub(crate) coverage: BracketCoverage,
    row: Cell<Option<&'static CommandRow>>,
    /// Blocks of scope command that it took less those that it freed, on this thread. A hint: others may have freed some.
    pub(crate) command_live: Cell<u32>,
    /// Requests that were answered with NULL.
    pub(crate) nulls: Cell<u32>,
    /// Whose callbacks the object that it makes draws on, once it has.
    pub(crate) making: Cell<Option<Making>>,
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
            making: Cell::new(None),
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

    /// It makes objects from a pool. A name without its row is not looked up for that.
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
