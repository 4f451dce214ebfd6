#![forbid(unsafe_code)]

use std::fmt;

use alloc_core::Scope;

use super::{ByScope, ContextRow, Leftover, Phase, VulkanMemoryRow};
use crate::units::bytes;

/// What is in a cell. Its text is short, and a dash for 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Bytes.
    Bytes(u64),
    /// The most bytes at once.
    Peak {
        /// How many.
        bytes: u64,
        /// How far that may be off.
        slack: u64,
    },
    /// A number of things.
    Count(u64),
    /// Words, or nothing.
    Text(String),
}

/// A column.
pub struct Column<T> {
    /// Its heading.
    pub title: &'static str,
    /// Characters, including the space in front.
    pub(super) width: usize,
    /// Columns of the highest rank are left out first.
    pub(super) rank: u8,
    /// The cell of a row.
    pub cell: Box<dyn Fn(&T) -> Cell>,
}

impl<T> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column").field("title", &self.title).finish_non_exhaustive()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::Bytes(0) | Self::Peak { bytes: 0, slack: 0 } | Self::Count(0) => "-".to_owned(),
            Self::Bytes(size) | Self::Peak { bytes: size, slack: 0 } => bytes(*size),
            Self::Peak { bytes: size, .. } => format!("~{}", Self::Bytes(*size)),
            Self::Count(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        })
    }
}

pub(super) fn column<T>(
    (title, width, rank): (&'static str, usize, u8),
    cell: impl Fn(&T) -> Cell + 'static,
) -> Column<T> {
    Column { title, width, rank, cell: Box::new(cell) }
}

fn scopes<T: 'static>(by_scope: fn(&T) -> ByScope) -> impl Iterator<Item = Column<T>> {
    let of = move |scope: Scope| {
        let cell = move |row: &T| Cell::Bytes(by_scope(row).get(scope));
        column((scope.name(), 9, 3), cell)
    };
    Scope::ALL.into_iter().map(of)
}

impl ContextRow {
    /// The columns after the name.
    #[must_use]
    pub fn columns() -> Vec<Column<Self>> {
        let numbers = [
            column(("live", 9, 0), |row: &Self| Cell::Bytes(row.live_bytes)),
            column(("peak", 10, 0), |row: &Self| Cell::Peak { bytes: row.peak_bytes, slack: row.peak_slack }),
            column(("blocks", 8, 2), |row: &Self| Cell::Count(row.total_blocks)),
            column(("taken", 9, 1), |row: &Self| Cell::Bytes(row.total_bytes)),
        ];
        scopes(|row: &Self| row.live_by_scope).chain(numbers).collect()
    }
}

impl Phase {
    /// The columns after the name.
    #[must_use]
    pub fn columns() -> Vec<Column<Self>> {
        let allocated = [
            column(("commands", 9, 2), |row: &Self| Cell::Count(row.commands)),
            column(("blocks", 8, 2), |row: &Self| Cell::Count(row.blocks)),
            column(("freed", 8, 2), |row: &Self| Cell::Count(row.freed)),
            column(("taken", 9, 1), |row: &Self| Cell::Bytes(row.bytes)),
        ];
        let held = [
            column(("live", 9, 0), |row: &Self| Cell::Bytes(row.live_bytes)),
            column(("peak", 9, 0), |row: &Self| Cell::Peak { bytes: row.peak_bytes, slack: row.peak_slack }),
        ];
        let scopes = scopes(|row: &Self| row.live_by_scope);
        allocated.into_iter().chain(scopes).chain(held).collect()
    }
}

impl Leftover {
    /// The columns after the name.
    #[must_use]
    pub fn columns() -> Vec<Column<Self>> {
        let numbers = [
            column(("blocks", 8, 0), |row: &Self| Cell::Count(row.blocks)),
            column(("bytes", 9, 0), |row: &Self| Cell::Bytes(row.bytes)),
        ];
        scopes(|row: &Self| row.by_scope).chain(numbers).collect()
    }
}

impl VulkanMemoryRow {
    /// The columns after the name.
    #[must_use]
    pub fn columns() -> Vec<Column<Self>> {
        vec![
            column(("live", 10, 0), |row: &Self| Cell::Bytes(row.live_bytes)),
            column(("blocks", 9, 0), |row: &Self| Cell::Count(row.live_blocks)),
            column(("peak", 10, 0), |row: &Self| Cell::Bytes(row.peak_bytes)),
            column(("taken", 10, 0), |row: &Self| Cell::Bytes(row.total_bytes)),
            column(("all blocks", 11, 0), |row: &Self| Cell::Count(row.total_blocks)),
            column(("refused", 9, 0), |row: &Self| Cell::Count(row.refusals)),
        ]
    }
}
