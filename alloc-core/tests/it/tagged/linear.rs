//! Linear memory in a tree of blocks.

use alloc_core::tagged::{Fill, LinearBlocks};
use alloc_core::{HostError, Misuse};

use super::{domain, root};

/// As Mesa's compilers since 23.3 count on it.
#[test]
fn ca7_linear_memory_without_sizes_has_no_gaps_and_resizes_nothing() {
    let root = root();
    let domain = domain(&root);
    let size = LinearBlocks::unsized_block_size(8190).expect("small");
    let top = domain.allocate(size, Fill::Undefined).expect("a block");
    let blocks = || domain.context().usage().total().live_blocks;
    // SAFETY: the block is live and of that size.
    unsafe {
        let linear = LinearBlocks::init_unsized(top);
        assert_eq!(linear.block(), top);
        let first = linear.allocate(1024, Fill::Zeros).expect("room");
        assert_eq!(first, linear.first());
        for number in 1..8 {
            let next = linear.allocate(1021, Fill::Zeros).expect("room");
            assert_eq!((next.offset_from(first), blocks()), (1024 * number, 2));
        }
        // The first chunk is full to its last byte, and one of no bytes needs no further one.
        linear.allocate(0, Fill::Undefined).expect("nothing");
        assert_eq!(blocks(), 2);
        let second = linear.allocate(8, Fill::Zeros).expect("a chunk");
        linear.allocate(20_000, Fill::Undefined).expect("a chunk of its own");
        assert_eq!(blocks(), 4);
        let third = linear.allocate(8184, Fill::Undefined).expect("room");
        assert_eq!((third.offset_from(second), blocks()), (8, 4));
        for size in [0, 8, 100] {
            let refused = Err(HostError::Misuse(Misuse::UnknownSize));
            assert_eq!(linear.resize(first, size), refused);
        }
        assert_eq!(linear.allocate(usize::MAX - 6, Fill::Zeros), Err(HostError::TooLarge));
        assert_eq!(LinearBlocks::unsized_block_size(usize::MAX - 32), Err(HostError::TooLarge));
        top.free();
    }
    assert_eq!(blocks(), 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}
