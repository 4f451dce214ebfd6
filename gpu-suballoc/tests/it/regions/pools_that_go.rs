//! A pool is destroyed while memory for a call about it is asked for, and another one gets its place: the call is
//! refused, and that one is left alone.

use testkit::{HookedAllocator, with_hook};

use super::*;

fn called(mock: &Mock) -> GpuAllocator<&Mock, HookedAllocator<RecordingAllocator>> {
    over(mock, HookedAllocator::new(RecordingAllocator::system()))
}

#[test]
fn ge16_room_is_not_reserved_in_a_pool_that_has_the_place_of_a_destroyed_one() {
    let mock = Mock::new(Nvidia);
    let gpu = called(&mock);
    let first = gpu.create_pool(&PoolOptions::new(0)).unwrap();
    let second = Cell::new(None);
    let exchange = |_| {
        if second.get().is_none() {
            gpu.destroy_pool(first).unwrap();
            second.set(Some(gpu.create_pool(&PoolOptions::new(1)).unwrap()));
        }
    };
    let reserve = || gpu.reserve(1 << 20, u32::MAX, &any().pool(first));
    let reserved = with_hook(1, &exchange, reserve);
    assert!(second.get().is_some(), "called");
    assert_eq!(reserved, refusal(NoSuchPool));
    assert_eq!(mock.live_counts().memory, 0);
}

#[test]
fn df4_a_pool_stays_while_its_defragmentation_asks_for_memory() {
    let mock = Mock::new(Nvidia);
    let gpu = called(&mock);
    let two = PoolOptions { min_blocks: 2, ..PoolOptions::new(0) };
    let pool = gpu.create_pool(&two).unwrap();
    let refused = Cell::new(None);
    let destroy = |_| refused.set(Some(gpu.destroy_pool(pool)));
    let options = all_moves().pool(pool);
    let run = with_hook(1, &destroy, || gpu.defragment(options));
    let expected = refusal(Defragmenting);
    assert_eq!(refused.get(), Some(expected), "called");
    assert_eq!(run.map(drop), Ok(()));
    assert_eq!(gpu.destroy_pool(pool), Ok(()), "nobody is at it");
}
