//! Law 1 once more, with other eyes: dhat, in its testing mode, sees no block of any public operation.

mod operations;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let blocks = || dhat::HeapStats::get().total_blocks;
    let before = blocks();
    drop(std::hint::black_box(Vec::<u8>::with_capacity(100)));
    assert_eq!(blocks() - before, 1, "dhat sees a block");
    let before = blocks();
    operations::run();
    assert_eq!(blocks(), before, "a block on the heap");
}
