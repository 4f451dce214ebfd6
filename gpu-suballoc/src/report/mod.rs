//! What an allocator has to tell: totals, a picture of its memory, leaks, JSON, and which regions to move.

mod dump;
mod json;
mod leaks;
mod moves;
mod picture;
mod stats;
mod take;
mod view;

pub use leaks::{Leak, LeakKind};
pub use moves::{Move, MoveLimits, MovePlace, MovePlan};
pub use picture::Picture;
pub use stats::{GpuStats, Totals};
pub use view::{BlockContent, BlockView, CropView, Placement, RangeUse, RangeView, Resource};

#[cfg(test)]
mod built;
