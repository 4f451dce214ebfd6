//! Law 1 once more, with other eyes: dhat, in its testing mode, sees no block of any public operation.

#[path = "it/operations/mod.rs"]
mod operations;
#[path = "it/programs"]
#[allow(dead_code, reason = "the programs use the rest")]
mod programs {
    pub(crate) mod side;
}

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    operations::once().assert_no_block_on_the_heap(|| dhat::HeapStats::get().total_blocks);
}
