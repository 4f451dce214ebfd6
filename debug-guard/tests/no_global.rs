//! Law 1: no public operation in any mode reaches the global allocator, not even one that does so in vain.

#[path = "it/operations/mod.rs"]
mod operations;

use testkit::Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    operations::once().assert_global_allocator_is_not_asked(GLOBAL);
}
