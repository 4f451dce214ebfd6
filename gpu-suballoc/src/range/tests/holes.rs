//! Tests of the places of ranges and of joining holes.

use super::*;

#[test]
fn h87_mixed_alignments_leave_their_pads_free() {
    let mut core = Core::new(1 << 20, 256);
    core.allocate(300);
    let far = core.request(1000, 64 << 10, Fit::Low).unwrap();
    assert_eq!((far.offset, far.size), (64 << 10, 1024));
    // The padding is one hole, and the next small request is allocated there.
    assert_eq!(core.pieces()[1], (512, (64 << 10) - 512, false));
    assert_eq!(core.allocate(256).offset, 512);
    // Every byte is used or free.
    assert_eq!(core.core.used_bytes() + core.core.free_bytes(), 1 << 20);
    assert_eq!(core.core.used_bytes(), 512 + 1024 + 256);
}

#[test]
fn a_size_of_four_alignments_is_rounded_up_where_there_is_room() {
    let mut core = Core::new(64 << 10, 256);
    let rounded = core.request(4 * 4096 + 256, 4096, Fit::Low).unwrap();
    assert_eq!((rounded.offset, rounded.size), (0, 5 * 4096));
    assert_eq!(
        core.get(rounded.node, rounded.generation).unwrap().asked,
        4 * 4096 + 256
    );
    let small = core.request(3 * 4096 + 256, 4096, Fit::High).unwrap();
    assert_eq!((small.offset, small.size), (12 * 4096, 3 * 4096 + 256));
    // The rest is exactly 7 alignments: a request of 7 alignments less one granule is rounded up to it.
    let rest = core.request(7 * 4096 - 256, 4096, Fit::High).unwrap();
    assert_eq!((rest.offset, rest.size), (5 * 4096, 7 * 4096));
    core.free_allocated(rest);
    core.allocate(4096 - 256);
    core.request(256, 256, Fit::High).unwrap();
    let hole = core.core.largest_free(&core.store, &core.index);
    let exact = core.request(hole, 4096, Fit::Low).unwrap();
    assert_eq!(exact.size, hole, "no whole alignments fit any more");
}

#[test]
fn h88_no_hole_of_nothing_is_ever_left() {
    let mut core = Core::new(4096, 16);
    let whole = core.allocate(4096);
    assert_eq!(core.pieces(), [(0, 4096, true)]);
    assert_eq!(
        (
            core.core.free_range_count(),
            core.core.free_bytes(),
            core.core.largest_free_bound(&core.index)
        ),
        (0, 0, 0)
    );
    assert_eq!(core.request(1, 1, Fit::Low), Err(RangeError::Full));
    core.free_allocated(whole);
    // The padding in front ends at the range, and the range ends at the end of the block.
    let last = core.request(16, 16, Fit::High).unwrap();
    assert_eq!(core.pieces(), [(0, 4080, false), (4080, 16, true)]);
    core.free_allocated(last);
    assert_eq!(core.pieces(), [(0, 4096, false)]);
}

#[test]
fn h96_holes_are_joined_as_soon_as_they_touch() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [2, 1, 0],
        [1, 2, 0],
        [2, 0, 1],
    ] {
        let mut core = Core::new(4096, 16);
        let ranges = [core.allocate(100), core.allocate(200), core.allocate(300)];
        core.allocate(16);
        for at in order {
            core.free_allocated(ranges[at]);
        }
        assert_eq!(core.pieces()[0], (0, 112 + 208 + 304, false), "{order:?}");
        assert_eq!(core.core.free_range_count(), 2);
    }
}

#[test]
fn of_two_holes_of_a_size_the_one_in_the_lower_block_is_used_first() {
    for first in [true, false] {
        let mut core = Core::new(4096, 16);
        let before = core.allocate(1024);
        let low = core.allocate(256);
        core.allocate(4096 - 1024 - 256);
        core.ready(16);
        let mut other = RangeAllocator::new(4096, 16).unwrap().numbered(1);
        other.begin(&core.store, &core.index).unwrap();
        let mut take = |size| {
            let want = RangeRequest {
                size,
                alignment: 1,
                user_data: 0,
                fit: Fit::Low,
            };
            other.allocate(&core.store, &core.index, &want).unwrap()
        };
        let (high, _) = (take(256), take(4096 - 256));
        let mut free_high = |core: &Core| {
            let id = (high.node, high.generation);
            other.free(&core.store, &core.index, id, None).unwrap()
        };
        if first {
            free_high(&core);
            core.free_allocated(low);
        } else {
            core.free_allocated(low);
            free_high(&core);
        }
        // In its block the range is behind the other range.
        let want = RangeRequest {
            size: 256,
            alignment: 1,
            user_data: 0,
            fit: Fit::Low,
        };
        let granules = GranuleRequest::new(&want, 256, 4).unwrap();
        assert_eq!(core.index.find(&core.store, &granules).unwrap().block, 0);
        assert!(core.get(before.node, before.generation).is_ok());
        other.clear(&core.store, &core.index);
    }
}

#[test]
#[cfg_attr(miri, ignore = "33 000 ranges are too many for it")]
fn where_nodes_are_many_the_hole_of_before_is_used_next() {
    for (live, is_first) in [(1000_u64, true), (33_000, false)] {
        let mut core = Core::new(1 << 20, 16);
        let ranges: Vec<_> = (0..live).map(|_| core.allocate(16)).collect();
        core.allocate((1 << 20) - 16 * live);
        for at in [100, 200] {
            core.free_allocated(ranges[at]);
        }
        let again = core.allocate(16);
        let expected = if is_first { 100 } else { 200 };
        assert_eq!(again.offset, 16 * expected, "{live} live");
    }
}

/// Holes are removed from the front, the middle and the end of the lists of a crowded store.
#[test]
#[cfg_attr(miri, ignore = "33 000 ranges are too many for it")]
fn where_nodes_are_many_no_hole_is_lost_and_none_is_somebodys() {
    const SIZE: u64 = 1 << 20;
    let mut core = Core::new(SIZE, 16);
    let mut ranges: Vec<_> = (0..40_000).map(|_| core.allocate(16)).collect();
    core.allocate(SIZE - 16 * 40_000);
    let mut used = vec![true; SIZE as usize / 16];
    let granules = |range: &AllocatedRange| {
        let first = (range.offset / 16) as usize;
        first..first + (range.size / 16) as usize
    };
    let take = |used: &mut Vec<bool>, range: &AllocatedRange| {
        for granule in granules(range) {
            assert!(!core::mem::replace(&mut used[granule], true), "{range:?}");
        }
    };
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % below
    };
    for _ in 0..20_000 {
        if ranges.len() > 35_000 && next(2) == 0 {
            let range = ranges.swap_remove(next(ranges.len()));
            used[granules(&range)].fill(false);
            core.free_allocated(range);
        } else if let Ok(range) = core.request(16 * (1 + next(3) as u64), 1, Fit::Low) {
            take(&mut used, &range);
            ranges.push(range);
        }
    }
    assert!(used.contains(&false));
    while let Ok(range) = core.request(16, 1, Fit::Low) {
        take(&mut used, &range);
    }
    assert!(!used.contains(&false), "a hole is in no list");
}
