//! Memory that is set aside, to fall back to.

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::tagged::{Fill, TaggedBlock, TaggedDomain};
use alloc_core::{Allocator, Context, ContextOptions, HostError, TryVec};
use testkit::{RecordingAllocator, Rng};

use super::root;

/// The handle of a reserve's context outlives the domain: when the domain's record is gone, blocks that are left are
/// none of the two that always stay, and the reserve is not made whole under them.
#[test]
fn ca27_a_reserve_whose_domain_has_ended_keeps_what_is_left_apart() {
    let root = root();
    let reserve = TaggedDomain::reserve(&root, 64 << 10).expect("memory");
    let handle = reserve.context().clone();
    let mut small = TryVec::<u8, _>::new_in(handle.clone());
    small.try_reserve_exact(32).expect("room");
    let [much, less] = [1000, 600].map(|size| Layout::array::<u8>(size).expect("a layout"));
    let large = Allocator::allocate(&handle, much).expect("room").cast::<u8>();
    // SAFETY: within the block.
    (0..600).for_each(|number: usize| unsafe { large.add(number).write(number as u8) });
    drop(reserve);
    drop(small);
    // In another size class: it moves, and must not move onto itself.
    // SAFETY: the block of this layout.
    let large = unsafe { Allocator::shrink(&handle, large, much, less) }.expect("there is room");
    // SAFETY: written above, and moved.
    let bytes = unsafe { large.as_ref() };
    assert!((0..600).all(|number: usize| bytes[number] == number as u8));
    // SAFETY: the block of this layout, used no more.
    unsafe { Allocator::deallocate(&handle, large.cast(), less) };
    drop(handle);
    root.close_root().expect("nothing is left");
}

/// While one block stays, the reserve is not made whole: what comes again comes out of what was freed.
#[test]
fn ca27_what_a_full_reserve_gets_back_serves_again() {
    let root = root();
    let reserve = TaggedDomain::reserve(&root, 16 << 10).expect("memory");
    let mut live: Vec<TaggedBlock> = Vec::new();
    let fill = |live: &mut Vec<TaggedBlock>| {
        live.extend(std::iter::from_fn(|| reserve.allocate(1000, Fill::Undefined).ok()));
        live.len()
    };
    let count = fill(&mut live);
    assert!(count > 8, "{count}");
    for _ in 0..3 {
        // SAFETY: live, freed here.
        live.drain(1..).for_each(|block| unsafe { block.free() });
        assert_eq!(fill(&mut live), count);
    }
    // SAFETY: live, freed here.
    live.drain(..).for_each(|block| unsafe { block.free() });
    drop(reserve);
    root.close_root().expect("nothing is left");
}

/// Random use against a model: what a reserve hands out lies in the one block that was set aside, aligned and apart,
/// with what was written; it refuses when it is full, and is whole again when everything was freed.
#[test]
fn ca27_a_reserve_serves_out_of_one_block_until_it_is_full() {
    const BYTES: usize = 32 << 10;
    let witness = RecordingAllocator::system();
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root")) }.expect("a root");
    assert!(TaggedDomain::reserve(&root, 100).is_err(), "no room for its record");
    let before = witness.total();
    let reserve = TaggedDomain::reserve(&root, BYTES).expect("memory");
    assert_eq!(witness.total().live_blocks, before.live_blocks + 1);
    let mut rng = Rng::new(27);
    let mut most = Vec::new();
    for _round in 0..3 {
        let mut live: Vec<(TaggedBlock, usize, u8)> = Vec::new();
        let mut refused = 0;
        for step in 0..if cfg!(miri) { 200 } else { 5000 } {
            let fill = step as u8;
            let size = 1 + rng.below(700) as usize;
            match rng.below(5) {
                0 | 1 if !live.is_empty() => {
                    let (block, size, fill) = live.swap_remove(rng.below(live.len() as u64) as usize);
                    // SAFETY: live, of this size, freed here.
                    unsafe {
                        let bytes = NonNull::slice_from_raw_parts(block.payload(), size);
                        assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                        block.free();
                    }
                }
                2 if !live.is_empty() => {
                    let (block, old, fill) = live.swap_remove(rng.below(live.len() as u64) as usize);
                    // SAFETY: live; where it is refused, it is as it was.
                    unsafe {
                        let (block, kept) = block.resize(size).map_or((block, old), |new| (new, size));
                        let bytes = NonNull::slice_from_raw_parts(block.payload(), old.min(kept));
                        assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                        block.payload().write_bytes(fill, kept);
                        live.push((block, kept, fill));
                    }
                }
                _ => match reserve.allocate(size, Fill::Undefined) {
                    Ok(block) => {
                        // SAFETY: new, of this size.
                        unsafe { block.payload().write_bytes(fill, size) };
                        live.push((block, size, fill));
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(matches!(error, HostError::OutOfHostMemory { .. }), "{error}");
                    }
                },
            }
        }
        assert!(cfg!(miri) || refused > 0, "it was never full");
        for (block, size, fill) in live {
            // SAFETY: live, of this size, freed here.
            unsafe {
                let bytes = NonNull::slice_from_raw_parts(block.payload(), size);
                assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                block.free();
            }
        }
        // All that was freed is found again, however it was cut before.
        let mut large = Vec::new();
        while let Ok(block) = reserve.allocate(1000, Fill::Undefined) {
            large.push(block);
        }
        most.push(large.len());
        for block in large {
            // SAFETY: live, freed here.
            unsafe { block.free() };
        }
    }
    assert!(most[0] > BYTES / 1000 / 2, "{most:?}");
    assert_eq!(most, [most[0]; 3], "it is whole again");
    assert_eq!(witness.total().live_blocks, before.live_blocks + 1, "no other block was allocated");
    drop(reserve);
    assert_eq!(witness.total().live_blocks, before.live_blocks);
    root.close_root().expect("nothing is left");
    witness.assert_empty("at the end");
}
