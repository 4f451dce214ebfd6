//! Blocks and trees of extreme size.

use alloc_core::HostError;
use alloc_core::tagged::Fill;

use super::{block, domain, number, root};

#[test]
fn ca20_sizes_that_overflow_are_refused_and_those_above_4_gib_are_not() {
    let root = root();
    let domain = domain(&root);
    for size in [usize::MAX, usize::MAX - 15, usize::MAX - 47, isize::MAX as usize] {
        assert_eq!(domain.allocate(size, Fill::Undefined), Err(HostError::TooLarge), "{size}");
    }
    // What follows takes more than 32 bits can say, and more than miri has.
    if cfg!(any(miri, target_pointer_width = "32")) {
        return;
    }
    let top = block(&domain);
    // SAFETY: all are live. The system gives address space, of which the pages that are written become memory.
    unsafe {
        let old = top.allocate(8, Fill::Zeros).expect("a block");
        old.payload().cast::<u64>().write(9);
        let child = old.allocate(8, Fill::Zeros).expect("a block");
        let huge = old.resize(5 << 30).expect("address space");
        assert_eq!((huge.size(), number(huge), child.parent()), (5 << 30, 9, Some(huge)));
        huge.payload().add((5 << 30) - 1).write(1);
        let small = huge.resize(16).expect("less");
        assert_eq!((small.size(), number(small), child.parent()), (16, 9, Some(small)));
        let usage = domain.context().usage().total();
        top.free();
        assert_eq!(usage.live_bytes - domain.context().usage().total().live_bytes, 3 * 32 + 8 + 16 + 8);
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca20_a_tree_of_three_million_is_freed_without_recursion() {
    let depth = if cfg!(miri) { 300 } else { 3_000_000 };
    let root = root();
    let domain = domain(&root);
    let top = block(&domain);
    let mut at = top;
    for _ in 1..depth {
        // SAFETY: live.
        at = unsafe { at.allocate(0, Fill::Undefined) }.expect("a block");
    }
    assert_eq!(domain.context().usage().total().live_blocks, depth + 1);
    // SAFETY: live, and used no more.
    unsafe { top.free() };
    assert_eq!(domain.context().usage().total().live_blocks, 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}
