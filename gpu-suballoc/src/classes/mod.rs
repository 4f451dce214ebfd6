//! Classes of placement: structures that place regions faster than the range core, for those who say how long they live.
//!
//! ```text
//!   PageAllocator    transient: a cursor, a count        |  ids lead to   Groups of up to 64 Seats: generation, word, extent; 16 bytes a region.
//!   SlabAllocator    small and lasting: a bit a seat     |                Memory for them never moves, and goes when the class goes
//! ```
//!
//! One thread at a time works with a class: whoever has the pool's lock, or the thread of a shard, which has classes to itself. Others may
//! look at seats and claim them, see [`slot`] and [`remote_free`].

mod groups;
mod pages;
pub(crate) mod remote_free;
mod segments;
mod slabs;
mod slot;
mod sub_allocator;
#[cfg(test)]
mod tests;
mod transient_pages;
mod types;

pub(crate) use groups::{MAX_GROUPS, SlotGroups};
pub(crate) use pages::PageAllocator;
pub(crate) use segments::Segments as Table;
pub(crate) use slabs::SlabAllocator;
pub(crate) use sub_allocator::{ClassTotals, SlabClass, SubAllocator, TransientClass};
pub use transient_pages::{
    TransientAllocation, TransientPages, TransientRange, TransientStatistics,
};
pub(crate) use types::{
    ClassShortage, FreeError, FreedSlot, HostShortage, LiveSlot, RangeShortage, SlotAllocation,
    SlotLocation, SpareRange,
};
