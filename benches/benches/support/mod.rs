//! What the benches share: how time is taken, how rounds are run, how figures are printed.
#![allow(dead_code, unreachable_pub, reason = "shared by several benches, each of which uses a part")]

pub mod backing;
pub mod callbacks;
pub mod clock;
pub mod crowd;
pub mod elsewhere;
pub mod heap;
pub mod report;
pub mod ring;
pub mod rounds;
pub mod subject;
pub mod talloc;
pub mod trace;
