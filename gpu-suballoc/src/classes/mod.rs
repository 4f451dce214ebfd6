//! Classes of placement: structures that place regions faster than the range core, for those who say how long they live.
//!
//! ```text
//!   Pages    transient: a cursor, a count        |  ids lead to   Groups of up to 64 Seats: generation, word, extent; 16 bytes a region.
//!   Slabs    small and lasting: a bit a seat     |                Memory for them never moves, and goes when the class goes
//!   LinearBlock   stack, double stack, ring: freed from the ends
//! ```
//!
//! One thread at a time works with a class: whoever has the pool's lock, or the thread of a shard, which has classes to itself. Others may
//! look at seats and claim them, see [`seat`] and [`returns`].

mod groups;
mod linear;
mod pages;
mod placing;
mod queue;
pub(crate) mod returns;
mod seat;
mod segments;
mod slabs;
#[cfg(test)]
mod tests;
mod transient_pages;
mod types;

pub(crate) use groups::{GROUPS, Groups};
pub use linear::{LinearAllocation, LinearBlock, LinearError, LinearRange};
pub(crate) use pages::Pages;
pub(crate) use placing::{Placed, Placing, SlabClass, TransientClass};
pub(crate) use segments::{Donation, Segments as Table};
pub(crate) use slabs::Slabs;
pub use transient_pages::{TransientAllocation, TransientPages, TransientRange, TransientStatistics};
pub(crate) use types::{Found, GiveError, Given, Lack, Need, Piece, RangeNeed, Spare, Taken};
