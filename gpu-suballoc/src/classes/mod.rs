//! Classes of placement: structures that place small regions into ranges of a block, faster than the range itself does.
//!
//! ```text
//!   Pages    transient: a cursor, a count        |  ids lead to   Groups of up to 64 Seats: generation, word, extent; 16 bytes a region.
//!   Slabs    small and lasting: a bit a seat     |                Memory for them never moves, and goes when the class goes
//! ```
//!
//! One thread at a time works with a class: whoever has the pool's lock, or the thread of a shard, which has classes to itself. Others may
//! look at seats and claim them, see [`seat`] and [`returns`].

mod groups;
mod pages;
mod placing;
pub(crate) mod returns;
mod seat;
mod segments;
mod slabs;
#[cfg(test)]
mod tests;
mod transient_pages;
mod types;

pub(crate) use groups::{GROUPS, Groups};
pub(crate) use pages::Pages;
pub(crate) use placing::{Placed, Placing, SlabClass, Totals, TransientClass};
pub(crate) use segments::{Donation, Segments as Table};
pub(crate) use slabs::Slabs;
pub use transient_pages::{TransientAllocation, TransientPages, TransientRange, TransientStatistics};
pub(crate) use types::{Found, GiveError, Given, Lack, Need, Piece, RangeNeed, Spare, Taken};
