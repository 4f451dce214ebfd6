//! Slabs that freeze, move and thaw between other work, beside the model.

use super::*;

impl ClassSubject<SlabAllocator<u64>> {
    /// An empty slab's range is nobody's any more.
    fn given_back(&mut self, range: Option<SpareRange<u64>>) {
        let Some(SpareRange {
            range_ref,
            base,
            size,
        }) = range
        else {
            return;
        };
        assert_eq!(self.ranges.remove(&base), Some((size, range_ref)));
        assert_eq!(self.live.range(base..base + size).count(), 0, "it is empty");
    }

    /// All of a frozen slab lies elsewhere.
    fn relocate(&mut self, number: u32) {
        let Some((_, base)) = self.class.frozen(number) else {
            return;
        };
        let (size, _) = self.ranges.remove(&base).expect("it has a range");
        let to = (self.next + GRANULE).next_multiple_of(16 * GRANULE);
        self.next = to + size;
        self.ranges.insert(to, (size, to ^ 0x5555));
        assert!(self.class.relocate(number, to ^ 0x5555, to));
        let moved: Vec<_> = self
            .live
            .range(base..base + size)
            .map(|(at, _)| *at)
            .collect();
        for at in moved {
            let piece = self.live.remove(&at).expect("it lives");
            self.live.insert(at - base + to, piece);
        }
    }
}

#[test]
fn df9_frozen_slabs_take_nothing_and_thaw_with_their_regions() {
    let mut slabs = ClassSubject::new(SlabAllocator::new(GRANULE));
    let shape = |random: &mut dyn FnMut(u64) -> u64| (random(4 * GRANULE) + 1, 1);
    let (mut frozen, mut emptied) = (0, 0);
    for round in 0..if cfg!(miri) { 3u32 } else { 150 } {
        slabs.churn(150, 300, shape);
        for number in (0..slabs.class.number_bound()).filter(|at| (at + round) % 3 != 0) {
            let range = slabs.class.freeze(number);
            emptied += u32::from(range.is_some());
            slabs.given_back(range);
            frozen += u32::from(slabs.class.frozen(number).is_some());
            assert_eq!(slabs.class.freeze(number), None, "once");
        }
        slabs.check_all();
        for user_data in 0..60 {
            let size = slabs.random(4 * GRANULE) + 1;
            let taken = slabs
                .allocate(size, 1, user_data)
                .expect("it fits the class");
            assert_eq!(
                slabs.class.frozen(taken.group),
                None,
                "a frozen slab takes nothing"
            );
            let nth = slabs.random(slabs.live.len() as u64) as usize;
            let offset = *slabs.live.keys().nth(nth).expect("one lives");
            slabs.free(offset);
        }
        while slabs.spare(0).is_some() {}
        for number in 0..slabs.class.number_bound() {
            if number % 2 == 0 {
                slabs.relocate(number);
            }
            let range = slabs.class.thaw(number);
            emptied += u32::from(range.is_some());
            slabs.given_back(range);
            assert!(!slabs.class.relocate(number, 0, 0), "it is not frozen");
        }
        slabs.check_all();
    }
    assert!(
        cfg!(miri) || frozen > 500 && emptied > 20,
        "{frozen} {emptied}"
    );
    slabs.end();
}
