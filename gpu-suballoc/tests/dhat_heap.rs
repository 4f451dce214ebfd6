//! Law 1 once more, with other eyes: dhat, in its testing mode, sees no block of any public operation.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

#[path = "it/fake_vulkan/mod.rs"]
mod fake_vulkan;
#[path = "it/operations/mod.rs"]
mod operations;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    operations::once().assert_no_block_on_the_heap(|| dhat::HeapStats::get().total_blocks);
}
