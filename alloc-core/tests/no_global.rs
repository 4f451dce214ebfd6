//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.
//!
//! The global allocator of this process refuses whatever a library call asks of it, and counts. What it cannot see is
//! the small block that libc itself takes for a thread's first destructor of thread-local storage; see `attach_thread`.
//!
//! Runs under miri.

#[path = "it/operations/mod.rs"]
mod operations;
#[path = "it/programs"]
#[allow(dead_code, reason = "the programs use the rest")]
mod programs {
    pub(crate) mod side;
}

use testkit::Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    operations::once().assert_global_allocator_is_not_asked(GLOBAL);
}
