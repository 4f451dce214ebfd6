//! Thin shells over `allocator_api2` and `hashbrown`, without the calls that grow infallibly and abort.

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
