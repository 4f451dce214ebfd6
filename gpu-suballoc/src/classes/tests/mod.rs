//! Pages and slabs against a naive model: what lives never overlaps, lies inside its range, is aligned, and dies once.

mod returns;
mod seat;

use std::alloc::{alloc, dealloc};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr::NonNull;
use std::vec::Vec;

use super::placing::Totals;
use super::*;
use crate::range::Memory;

const GRANULE: u64 = 256;
const PAGE: u64 = 16 << 10;

/// A class, what it was given, and what a naive model thinks of it.
struct Subject<P: Placing<Home = u64>> {
    class: Placed<P>,
    /// Ranges handed in: base to size and home.
    ranges: BTreeMap<u64, (u64, u64)>,
    next: u64,
    blocks: usize,
    /// Live regions: offset to size, name and word.
    live: BTreeMap<u64, (u64, Name, u32)>,
    names: HashSet<Name>,
    random: u64,
}

type Name = (u32, u32, u32);

impl<P: Placing<Home = u64>> Subject<P> {
    fn new(class: P) -> Self {
        let class = Placed::new(class);
        let (ranges, live) = (BTreeMap::new(), BTreeMap::new());
        Self { class, ranges, next: 0, blocks: 0, live, names: HashSet::new(), random: 7 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn supply(&mut self, need: Need) {
        // SAFETY: no layout here is empty.
        let block = NonNull::new(unsafe { alloc(need.layout) }).unwrap();
        self.blocks += 1;
        // SAFETY: a new block of that layout.
        let donation = unsafe { Donation::new(block, need.layout) };
        assert!(self.class.supply(need, donation).is_none(), "it was lacking");
    }

    fn release(&mut self, Memory { block, layout }: Memory) {
        self.blocks -= 1;
        // SAFETY: from `supply` above with that layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }

    fn take(&mut self, size: u64, alignment: u64, word: u32) -> Option<Taken> {
        loop {
            match self.class.take(size, alignment, word) {
                Ok(taken) => {
                    self.check_taken(taken, size, alignment, word);
                    return Some(taken);
                }
                Err(Lack::Memory(need)) => self.supply(need),
                Err(Lack::Range(need)) => {
                    // With gaps, so that a region that runs over is seen.
                    let base = (self.next + GRANULE).next_multiple_of(need.alignment);
                    let home = base ^ 0x5555;
                    match self.class.add(home, base, need) {
                        Ok(_) => {
                            self.next = base + need.size;
                            self.ranges.insert(base, (need.size, home));
                        }
                        Err(Lack::Memory(need)) => self.supply(need),
                        Err(other) => panic!("{other:?}"),
                    }
                }
                Err(Lack::Unfit) => return None,
            }
        }
    }

    fn check_taken(&mut self, taken: Taken, size: u64, alignment: u64, word: u32) {
        let Taken { group, slot, generation, offset, size: got } = taken;
        assert!(got >= size && got % GRANULE == 0 && offset % alignment == 0 && offset % GRANULE == 0, "{taken:?}");
        let (base, (bytes, home)) = self.ranges.range(..=offset).next_back().expect("inside a range");
        assert!(offset + got <= base + bytes, "{taken:?}");
        assert_eq!(self.class.home(group), Some(home));
        let before = self.live.range(..offset + got).next_back();
        assert!(before.is_none_or(|(at, (bytes, ..))| at + bytes <= offset), "{taken:?} overlaps {before:?}");
        assert!(self.names.insert((group, slot, generation)), "{taken:?}: an id was reissued");
        self.live.insert(offset, (got, (group, slot, generation), word));
        let found = self.class.find(group, slot, generation).unwrap();
        assert_eq!((found.offset, found.size, found.word), (offset, got, word));
    }

    fn give(&mut self, offset: u64) -> Given {
        let (size, (group, slot, generation), word) = self.live.remove(&offset).unwrap();
        assert_eq!(self.class.give(group, slot, generation, word ^ 1), Err(GiveError::Held));
        let given = self.class.give(group, slot, generation, word).unwrap();
        assert_eq!((given.size, given.word), (size, word));
        assert_eq!(self.class.give(group, slot, generation, word), Err(GiveError::Double));
        given
    }

    fn spare(&mut self, keep: u64) -> Option<u64> {
        let Spare { home, base, size } = self.class.spare(keep)?;
        assert_eq!(self.ranges.remove(&base), Some((size, home)));
        assert_eq!(self.live.range(base..base + size).count(), 0, "a range with regions was given back");
        Some(size)
    }

    fn check_all(&self) {
        let Totals { live, used, ranges, reserved } = self.class.totals();
        assert_eq!((live as usize, ranges as usize), (self.live.len(), self.ranges.len()));
        assert_eq!(used, self.live.values().map(|(size, ..)| size).sum::<u64>());
        assert_eq!(reserved, self.ranges.values().map(|(size, _)| size).sum::<u64>());
        let mut seen = HashMap::new();
        for number in 0..self.class.numbers() {
            let mut end = 0;
            self.class.walk(number, &mut |piece| {
                assert!(piece.offset >= end, "in order");
                end = piece.offset + piece.size;
                seen.insert(piece.offset, (piece.size, (piece.group, piece.slot, piece.generation), piece.word));
            });
        }
        assert_eq!(seen, self.live.iter().map(|(offset, piece)| (*offset, *piece)).collect());
    }

    /// Random takes and gives; `shapes` makes a size and an alignment of a random number.
    fn churn(&mut self, operations: u32, most: usize, shape: fn(&mut dyn FnMut(u64) -> u64) -> (u64, u64)) {
        for operation in 0..operations {
            if self.live.len() < most && self.random(5) < 3 {
                let mut random = self.random;
                let (size, alignment) = shape(&mut |below| {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (random >> 33) % below
                });
                self.take(size, alignment, operation).expect("it fits the class");
            } else if let Some(offset) = {
                let at = self.random(self.next + 1);
                self.live.range(at..).next().or(self.live.iter().next()).map(|(offset, _)| *offset)
            } {
                self.give(offset);
            }
            if operation % 97 == 0 {
                self.check_all();
            }
            let keep = [u64::MAX, 2 * PAGE, 0][(operation / 500 % 3) as usize];
            self.spare(keep);
        }
    }

    fn end(mut self) {
        while let Some((offset, _)) = self.live.first_key_value() {
            self.give(*offset);
        }
        while self.spare(0).is_some() {}
        assert!(self.ranges.is_empty(), "an empty page or slab was kept");
        self.check_all();
        // Every id that ever was is refused.
        for (group, slot, generation) in std::mem::take(&mut self.names) {
            let refused = self.class.give(group, slot, generation, 0);
            assert!(matches!(refused, Err(GiveError::Stale | GiveError::Double)), "{refused:?}");
        }
        while let Some(memory) = self.class.withdraw() {
            self.release(memory);
        }
        assert_eq!(self.blocks, 0, "all host memory came back");
    }
}

const OPERATIONS: u32 = if cfg!(miri) { 100 } else { 30_000 };

#[test]
fn pages_agree_with_the_model() {
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    pages.churn(OPERATIONS, 300, |random| (random(2 << 10) + 1, 1 << random(12)));
    pages.end();
}

#[test]
fn slabs_agree_with_the_model() {
    let mut slabs = Subject::new(Slabs::new(GRANULE));
    slabs.churn(OPERATIONS, 600, |random| {
        let alignment = 1 << random(13);
        let most = (16 * GRANULE / alignment * alignment).max(1);
        (random(most.min(16 * GRANULE)) + 1, alignment)
    });
    slabs.end();
}

#[test]
fn what_does_not_fit_the_class_is_said_to() {
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let mut slabs = Subject::new(Slabs::new(GRANULE));
    let largest = (pages.class.largest(), slabs.class.largest());
    assert_eq!(largest, (PAGE / 8, 16 * GRANULE));
    for (size, alignment) in [(0, 1), (1, 0), (1, 3), (u64::MAX, 1), (u64::MAX - 15, 16), (1, 1 << 63), (16 * GRANULE + 1, 1)] {
        assert_eq!(pages.class.take(size, alignment, 0), Err(Lack::Unfit), "{size} {alignment}");
        assert_eq!(slabs.class.take(size, alignment, 0), Err(Lack::Unfit), "{size} {alignment}");
    }
    assert!(pages.take(largest.0, 1, 0).is_some());
    assert!(slabs.take(largest.1, 1, 0).is_some());
    pages.end();
    slabs.end();
}

#[test]
fn a_second_free_in_a_full_page_is_refused() {
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let full: Vec<Taken> = (0..PAGE / GRANULE).filter_map(|_| pages.take(GRANULE, 1, 0)).collect();
    assert_eq!(pages.class.totals(), Totals { live: 64, used: PAGE, ranges: 1, reserved: PAGE });
    let (one, other) = (full[0], full[63]);
    for taken in [one, other] {
        assert!(pages.class.give(taken.group, taken.slot, taken.generation, 0).is_ok());
        assert_eq!(pages.class.give(taken.group, taken.slot, taken.generation, 0), Err(GiveError::Double));
        pages.live.remove(&taken.offset);
    }
    assert_eq!(pages.class.give(one.group, 64, one.generation, 0), Err(GiveError::Foreign));
    assert_eq!(pages.class.give(77, 0, 1, 0), Err(GiveError::Foreign));
    assert_eq!(pages.class.give(u32::MAX, 0, 1, 0), Err(GiveError::Foreign));
    assert_eq!(pages.class.give(one.group, one.slot, one.generation + 1, 0), Err(GiveError::Foreign));
    pages.end();
}

#[test]
fn an_old_id_stays_refused_however_often_its_seat_is_reused() {
    const REUSES: u32 = if cfg!(miri) { 1000 } else { 1_000_000 };
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let first = pages.take(GRANULE, 1, 0).unwrap();
    pages.give(first.offset);
    for _ in 0..REUSES {
        let taken = pages.class.take(GRANULE, 1, 0).unwrap();
        assert!(pages.class.give(first.group, first.slot, first.generation, 0).is_err());
        assert!(pages.class.give(taken.group, taken.slot, taken.generation, 0).is_ok());
    }
    assert!(pages.class.find(first.group, first.slot, first.generation).is_err());
    pages.end();
}

#[test]
fn seats_that_are_used_up_are_left_out() {
    let mut slabs = Subject::new(Slabs::new(GRANULE));
    let one = slabs.take(GRANULE, 1, 0).unwrap();
    slabs.give(one.offset);
    slabs.class.age(one.group, 0..8);
    // The slab has no seat any more; its range is given back, and its number is not used again.
    let other = slabs.take(GRANULE, 1, 0).unwrap();
    assert_ne!(other.group, one.group);
    slabs.end();

    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let one = pages.take(GRANULE, 1, 0).unwrap();
    pages.class.age(one.group, 1..3);
    let other = pages.take(GRANULE, 1, 0).unwrap();
    assert_eq!((other.group, other.slot), (one.group, 3));
    pages.end();
}

#[test]
fn slabs_grow_with_their_population_and_go_when_there_is_another() {
    let mut slabs = Subject::new(Slabs::new(GRANULE));
    let mut sizes = Vec::new();
    for _ in 0..200 {
        let before = slabs.ranges.len();
        slabs.take(GRANULE, 1, 0).unwrap();
        if slabs.ranges.len() > before {
            sizes.push(slabs.ranges.last_key_value().unwrap().1.0 / GRANULE);
        }
    }
    assert_eq!(sizes, [8, 8, 16, 32, 64, 64, 64]);
    let emptied = slabs.live.keys().copied().collect::<Vec<_>>().into_iter().filter(|offset| slabs.give(*offset).emptied).count();
    assert_eq!(emptied, 6, "the last one waits");
    assert!(slabs.spare(1 << 30).is_none());
    assert_eq!(std::iter::from_fn(|| slabs.spare(GRANULE)).count(), 6);
    assert_eq!(slabs.ranges.len(), 1);
    slabs.end();
}

#[test]
fn small_regions_fill_up_what_a_large_one_left() {
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let regions: Vec<u64> = (0..8).map(|_| pages.take(PAGE / 8 - GRANULE, 1, 0).unwrap().offset).collect();
    let large = pages.take(PAGE / 8, 1, 0).map(|taken| taken.offset);
    assert_eq!(large, Some(regions[7] + PAGE / 8 - GRANULE), "eight granules are left");
    let large = pages.take(PAGE / 8, 1, 0).unwrap().offset;
    assert_eq!(pages.ranges.len(), 2);
    pages.end();
    assert!(large > regions[7]);
}

#[test]
fn what_others_claimed_is_settled_once() {
    let mut pages = Subject::new(Pages::new(GRANULE, PAGE));
    let taken = pages.take(GRANULE, 1, 9).unwrap();
    let groups = pages.class.groups();
    assert!(groups.claim(taken.group, taken.slot, taken.generation, 9).is_ok());
    assert_eq!(groups.claim(taken.group, taken.slot, taken.generation, 9).err(), Some(GiveError::Double));
    assert_eq!(pages.class.give(taken.group, taken.slot, taken.generation, 9), Err(GiveError::Double));
    assert_eq!(pages.class.totals().live, 1);
    assert!(pages.class.settle(taken.group, taken.slot).is_some());
    assert!(pages.class.settle(taken.group, taken.slot).is_none());
    pages.live.clear();
    pages.end();
}
