//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

#[path = "it/fake_vulkan/mod.rs"]
mod fake_vulkan;
#[path = "it/operations/mod.rs"]
mod operations;

use testkit::Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    operations::once().assert_global_allocator_is_not_asked(GLOBAL);
}
