//! Law 1 once more, with other eyes: dhat, in its testing mode, sees no block of any public operation.

mod operations;

use operations::{Operation, table};
use testkit::{Once, STILL};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn blocks() -> u64 {
    dhat::HeapStats::get().total_blocks
}

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let before = blocks();
    drop(std::hint::black_box(Vec::<u8>::with_capacity(100)));
    assert_eq!(blocks() - before, 1, "dhat sees a block");

    let operations: Vec<Operation<Once>> = table();
    let (before, requests) = (blocks(), STILL.requests());
    for Operation { names, how, body, .. } in &operations {
        body(&Once);
        assert_eq!(blocks(), before, "{names:?} {how} took from the heap");
    }
    assert!(STILL.requests() > requests && STILL.live() == 0);
    println!("{} operations, no block on the heap", operations.len());
}
