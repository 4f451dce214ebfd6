//! What programs of operations share: they are decoded from bytes, and run on the real thing and on a naive model
//! beside it, which lie in the tests of each crate.
//!
//! The same bytes always mean the same program, so a fuzzer's find is replayed by `cargo test` from
//! `testkit/seeds/<target>/`. What is to be kept beyond the next change of the decoding is written as text, under
//! `testkit/seeds/named/<target>/`.

mod aim;
mod bytes;
mod replay;
mod tried;

pub use aim::Aim;
pub use bytes::Bytes;
pub use replay::{cases, random, random_of_both, replay, replay_named, replay_seeds, seeds_met};
pub use tried::Tried;

/// How much of a program took effect. A program whose operations mostly fail tests refusals alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Operations decoded.
    pub operations: u64,
    /// Of these, the ones that did what they say.
    pub succeeded: u64,
    /// Comparisons of the real thing with the model.
    pub compared: u64,
    /// Times that the backing used the real thing in the middle of an operation.
    pub reentered: u64,
}

impl Ran {
    /// Counts one operation.
    pub fn count(&mut self, succeeded: bool) {
        self.operations += 1;
        self.succeeded += u64::from(succeeded);
    }

    /// Adds another program's counts.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.succeeded += other.succeeded;
        self.compared += other.compared;
        self.reentered += other.reentered;
    }

    /// Checks that at least half of the operations took effect, and that there were any.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn assert_meaningful(&self) {
        assert!(self.operations > 0 && self.compared > 0, "nothing was run: {self:?}");
        assert!(self.succeeded * 2 >= self.operations, "fewer than half of the operations took effect: {self:?}");
    }
}
