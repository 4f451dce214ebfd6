//! What the benches of GPU memory share: who is to place the four traces, and what is measured of them.
//!
//! Not in `support`, since the heap's meter takes the place of `malloc` in every program that it is part of.
#![allow(dead_code, unreachable_pub, reason = "shared by two benches, each of which uses a part")]

pub mod arenas;
pub mod driver;
pub mod play;
pub mod stamps;
pub mod table;
pub mod traces;
pub mod whole;
pub mod witness;

use traces::SizeEnding;

/// Both endings of sizes, by the names that rows have.
pub const ENDINGS: [(&str, SizeEnding); 2] = [("odd", SizeEnding::ByteOdd), ("rounded", SizeEnding::Rounded)];
