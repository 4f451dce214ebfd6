//! The fake driver: correct unless something is planted in it, and then seen for exactly that.

mod checking;
mod correct;
mod heap;
mod matrix;
mod recording;
mod refusals;
mod stage;
mod watching;
