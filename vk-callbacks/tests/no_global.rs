//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.
//!
//! The global allocator of this process refuses every request during a library call, and counts. It cannot see the
//! small block that libc allocates for a thread's first destructor of thread-local storage.
//!
//! Runs under miri.

#[path = "it/common/mod.rs"]
mod common;
#[path = "it/operations/mod.rs"]
mod operations;

use testkit::Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    operations::once().assert_global_allocator_is_not_asked(GLOBAL);
}
