//! Virtual blocks from outside: what their users know from `VmaVirtualBlock`, and what goes wrong.

use crate::*;

const GRANULE: u64 = 16;

fn block(size: u64) -> VirtualBlock<FromGlobalAlloc<System>> {
    VirtualBlock::new(FromGlobalAlloc::SYSTEM, size, GRANULE).unwrap()
}

/// A merge that unwinds, and a free out of order, change nothing.
#[test]
fn ca40_a_note_that_is_not_merged_is_not_lost() {
    let mut block = block(4096);
    let ranges = [(); 3].map(|()| block.allocate(1024, 16).unwrap().allocation);
    block.free_noted(ranges[0], 5, u32::max).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| block.free_noted(ranges[1], 9, |_, _| panic!("on purpose"))));
    assert!(unwound.is_err());
    assert_eq!(block.info(ranges[1]).unwrap().offset, 1024, "it lives");
    block.free_noted(ranges[1], 9, u32::max).unwrap();
    assert_eq!(block.allocate(2048, 16).unwrap().note, 9);

    let ring = Ring;
    let mut ring = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, 4096, 16, ring).unwrap();
    let [first, second] = each(|| ring.allocate(2048, 16).unwrap().allocation);
    let refused = ring.free_noted(second, 3, |_, _| unreachable!("it is refused"));
    assert_eq!(refused, Err(VirtualBlockError::OutOfOrder));
    ring.free_noted(first, 4, u32::max).unwrap();
    assert_eq!(ring.allocate(2048, 16).unwrap().note, 4);
}

#[test]
fn a_live_range_has_at_most_56_bytes_of_metadata() {
    let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 1 << 36, 256).unwrap();
    let mut rng = Rng::new(1);
    let mut live = Vec::new();
    for turn in 0..40_000 {
        let one = block.allocate(1 + rng.below(1 << 20), 256).unwrap();
        live.push(one.allocation);
        if turn >= 10_000 {
            let gone = live.swap_remove(rng.below(live.len() as u64) as usize);
            block.free(gone).unwrap();
        }
    }
    let each = block.memory_bytes() as f64 / live.len() as f64;
    assert!(each <= 56.0, "{each:.1}");
}

#[test]
fn ge7_what_is_not_free_or_not_there_is_refused() {
    let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 1 << 16, 256).unwrap();
    let one = |size| VirtualAllocationOptions::new(size, 1);
    // The ends of the block, from the first call on.
    for (offset, size, expected) in [
        (1 << 16, 1, VirtualBlockError::Full),
        (u64::MAX - 255, 1, VirtualBlockError::Full),
        ((1 << 16) - 256, 257, VirtualBlockError::Full),
        (0, (1 << 16) + 1, VirtualBlockError::TooLarge),
        (0, 0, VirtualBlockError::ZeroSize),
        (100, 1, VirtualBlockError::Alignment),
    ] {
        assert_eq!(block.allocate_at(offset, &one(size)), Err(expected), "{offset} {size}");
    }
    let aligned = VirtualAllocationOptions::new(256, 1024);
    assert_eq!(block.allocate_at(512, &aligned), Err(VirtualBlockError::Alignment));
    let larger = VirtualAllocationOptions::new(256, 1 << 17);
    assert_eq!(block.allocate_at(0, &larger), Err(VirtualBlockError::TooLarge), "though 0 is a multiple of everything");
    assert_eq!(block.allocate_at(2048, &aligned).unwrap().offset, 2048);
    for (offset, size) in [(2048, 1), (1792, 257), (0, 4096)] {
        assert_eq!(block.allocate_at(offset, &one(size)), Err(VirtualBlockError::Full));
    }
    let told = VirtualAllocationOptions { user_data: 7, ..one(256) };
    let front = block.allocate_at(1792, &told).unwrap();
    assert_eq!(block.info(front.allocation).unwrap().user_data, 7);
    let mut pieces = Vec::new();
    block.for_each(|piece| pieces.extend(piece.used.filter(|used| used.1 > 0)));
    assert_eq!(pieces, [(front.allocation, 7)]);
    let last = block.allocate_at((1 << 16) - 256, &one(200)).unwrap();
    assert_eq!((front.size, last.size), (256, 256));
    assert_eq!(block.statistics().unused_range_count, 2);
    for algorithm in [Stack, DoubleStack, Ring] {
        let mut linear = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, 1 << 16, 256, algorithm).unwrap();
        let refused = linear.allocate_at(0, &one(1));
        assert_eq!(refused, Err(VirtualBlockError::PlacesItself));
    }
}

/// More than the interval model has: holes are listed in another way then.
#[test]
#[cfg_attr(miri, ignore = "40 000 ranges are too many for it")]
fn where_ranges_are_many_no_hole_is_lost_and_none_is_somebodys() {
    const SIZE: u64 = 1 << 20;
    let mut block = block(SIZE);
    let mut ranges = times(40_000, || block.allocate(16, 1).unwrap());
    block.allocate(SIZE - 16 * 40_000, 1).unwrap();
    let mut used = vec![true; (SIZE / GRANULE) as usize];
    let granules =
        |range: &VirtualRange| (range.offset / GRANULE) as usize..((range.offset + range.size) / GRANULE) as usize;
    let take = |used: &mut Vec<bool>, range: &VirtualRange| {
        granules(range).for_each(|granule| assert!(!std::mem::replace(&mut used[granule], true), "{range:?}"));
    };
    let mut rng = Rng::new(9);
    for _ in 0..20_000 {
        if ranges.len() > 35_000 && rng.below(2) == 0 {
            let range = ranges.swap_remove(rng.below(ranges.len() as u64) as usize);
            used[granules(&range)].fill(false);
            block.free(range.allocation).unwrap();
        } else if let Ok(range) = block.allocate(16 * (1 + rng.below(3)), 1) {
            take(&mut used, &range);
            ranges.push(range);
        }
    }
    assert!(used.contains(&false));
    while let Ok(range) = block.allocate(16, 1) {
        take(&mut used, &range);
    }
    assert!(!used.contains(&false), "a hole is in no list");
}

#[test]
fn the_largest_block_is_one_range_and_is_aligned_to_the_last_bit() {
    let size = u64::from(u32::MAX - 1) << 31;
    let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, size, 1 << 31).unwrap();
    let whole = block.allocate(size, 1).unwrap();
    assert_eq!((whole.offset, whole.size), (0, size));
    block.free(whole.allocation).unwrap();
    let upper = VirtualAllocationOptions { upper_address: true, ..VirtualAllocationOptions::new(1, 1 << 62) };
    assert_eq!(block.allocate_with(&upper).unwrap().offset, 1 << 62);
}
