//! Sub-allocators that place regions faster than the range allocator, for requests with a known lifetime.
//!
//! ```text
//!   PageAllocator    transient: a cursor, a count        |  ids name   groups of up to 64 slots: generation, user data, extent; 16 bytes a
//!   SlabAllocator    small and lasting: a bit a slot     |             region. Their memory never moves, and is freed with the class
//! ```
//!
//! One thread at a time, the owner, changes a class: the holder of the pool's lock, or the thread of a shard, which has its own classes. Other
//! threads may read slots and claim them, see [`slot`] and [`remote_free`].

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
