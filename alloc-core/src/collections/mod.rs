//! Collections whose every growth can be refused: thin shells over `allocator_api2` and `hashbrown`.
//!
//! The wrapped types also grow infallibly, and abort when they cannot; the shells leave those calls out. What remains
//! answers with the allocator's own reason, and leaves the collection as it was.

mod boxed;
mod hasher;
mod map;
mod string;
mod vec;

pub use boxed::TryBox;
pub use hasher::{FoldHasher, FoldState};
pub use map::TryMap;
pub use string::{TryString, floor_char_boundary};
pub use vec::TryVec;
