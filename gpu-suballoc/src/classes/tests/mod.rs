//! Pages and slabs against a naive model: what lives never overlaps, lies inside its range, is aligned, and dies once.

mod frozen;
mod remote_free;
mod slot;

use std::alloc::{alloc, dealloc};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr::NonNull;
use std::vec::Vec;

use super::sub_allocator::ClassTotals;
use super::sub_allocator::GroupedAllocator;
use super::*;
use crate::host_block::HostBlock;

const GRANULE: u64 = 256;
const PAGE: u64 = 16 << 10;

/// A class, what it was given, and what a naive model thinks of it.
struct ClassSubject<P: SubAllocator<RangeRef = u64>> {
    class: GroupedAllocator<P>,
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

impl<P: SubAllocator<RangeRef = u64>> ClassSubject<P> {
    fn new(class: P) -> Self {
        let class = GroupedAllocator::new(class);
        let (ranges, live) = (BTreeMap::new(), BTreeMap::new());
        Self {
            class,
            ranges,
            next: 0,
            blocks: 0,
            live,
            names: HashSet::new(),
            random: 7,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn grow_with(&mut self, need: HostShortage) {
        // SAFETY: no layout here is empty.
        let block = NonNull::new(unsafe { alloc(need.layout) }).unwrap();
        self.blocks += 1;
        // SAFETY: a new block of that layout.
        let memory = unsafe { HostBlock::new(block, need.layout) };
        assert!(
            self.class.grow_with(need, memory).is_none(),
            "it was lacking"
        );
    }

    fn release(&mut self, memory: HostBlock) {
        self.blocks -= 1;
        let layout = memory.layout();
        // SAFETY: from `supply` above with that layout.
        unsafe { dealloc(memory.into_start().as_ptr(), layout) };
    }

    fn allocate(&mut self, size: u64, alignment: u64, user_data: u32) -> Option<SlotAllocation> {
        loop {
            match self.class.allocate(size, alignment, user_data) {
                Ok(taken) => {
                    self.check_allocated(taken, size, alignment, user_data);
                    return Some(taken);
                }
                Err(ClassShortage::Memory(need)) => self.grow_with(need),
                Err(ClassShortage::Range(need)) => {
                    // With gaps, so that a region that runs over is seen.
                    let base = (self.next + GRANULE).next_multiple_of(need.alignment);
                    let range_ref = base ^ 0x5555;
                    match self.class.add(range_ref, base, need) {
                        Ok(_) => {
                            self.next = base + need.size;
                            self.ranges.insert(base, (need.size, range_ref));
                        }
                        Err(ClassShortage::Memory(need)) => self.grow_with(need),
                        Err(other) => panic!("{other:?}"),
                    }
                }
                Err(ClassShortage::Unsupported) => return None,
            }
        }
    }

    fn check_allocated(
        &mut self,
        taken: SlotAllocation,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) {
        let SlotAllocation {
            group,
            slot,
            generation,
            offset,
            size: got,
        } = taken;
        assert!(
            got >= size && got % GRANULE == 0 && offset % alignment == 0 && offset % GRANULE == 0,
            "{taken:?}"
        );
        let (base, (bytes, range_ref)) = self
            .ranges
            .range(..=offset)
            .next_back()
            .expect("inside a range");
        assert!(offset + got <= base + bytes, "{taken:?}");
        assert_eq!(self.class.range_ref(group), Some(range_ref));
        let before = self.live.range(..offset + got).next_back();
        assert!(
            before.is_none_or(|(at, (bytes, ..))| at + bytes <= offset),
            "{taken:?} overlaps {before:?}"
        );
        assert!(
            self.names.insert((group, slot, generation)),
            "{taken:?}: an id was reissued"
        );
        self.live
            .insert(offset, (got, (group, slot, generation), user_data));
        let found = self.class.find(group, slot, generation).unwrap();
        assert_eq!(
            (found.offset, found.size, found.user_data),
            (offset, got, user_data)
        );
    }

    fn free(&mut self, offset: u64) -> FreedSlot {
        let (size, (group, slot, generation), user_data) = self.live.remove(&offset).unwrap();
        assert_eq!(
            self.class.free(group, slot, generation, user_data ^ 1),
            Err(FreeError::Held)
        );
        let given = self.class.free(group, slot, generation, user_data).unwrap();
        assert_eq!((given.size, given.user_data), (size, user_data));
        assert_eq!(
            self.class.free(group, slot, generation, user_data),
            Err(FreeError::Double)
        );
        given
    }

    fn spare(&mut self, keep: u64) -> Option<u64> {
        let SpareRange {
            range_ref,
            base,
            size,
        } = self.class.remove_spare(keep)?;
        assert_eq!(self.ranges.remove(&base), Some((size, range_ref)));
        assert_eq!(
            self.live.range(base..base + size).count(),
            0,
            "a range with regions was given back"
        );
        Some(size)
    }

    fn check_all(&self) {
        let ClassTotals {
            live,
            used_bytes: used,
            ranges,
            reserved_bytes: reserved,
        } = self.class.totals();
        assert_eq!(
            (live as usize, ranges as usize),
            (self.live.len(), self.ranges.len())
        );
        assert_eq!(used, self.live.values().map(|(size, ..)| size).sum::<u64>());
        assert_eq!(
            reserved,
            self.ranges.values().map(|(size, _)| size).sum::<u64>()
        );
        let mut seen = HashMap::new();
        for number in 0..self.class.number_bound() {
            let mut end = 0;
            self.class.walk(number, &mut |piece| {
                assert!(piece.offset >= end, "in order");
                end = piece.offset + piece.size;
                seen.insert(
                    piece.offset,
                    (
                        piece.size,
                        (piece.group, piece.slot, piece.generation),
                        piece.user_data,
                    ),
                );
            });
        }
        assert_eq!(
            seen,
            self.live
                .iter()
                .map(|(offset, piece)| (*offset, *piece))
                .collect()
        );
    }

    /// Random takes and gives; `shapes` makes a size and an alignment of a random number.
    fn churn(
        &mut self,
        operations: u32,
        most: usize,
        shape: fn(&mut dyn FnMut(u64) -> u64) -> (u64, u64),
    ) {
        for operation in 0..operations {
            if self.live.len() < most && self.random(5) < 3 {
                let mut random = self.random;
                let (size, alignment) = shape(&mut |below| {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (random >> 33) % below
                });
                self.allocate(size, alignment, operation)
                    .expect("it fits the class");
            } else if let Some(offset) = {
                let at = self.random(self.next + 1);
                self.live
                    .range(at..)
                    .next()
                    .or(self.live.iter().next())
                    .map(|(offset, _)| *offset)
            } {
                self.free(offset);
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
            self.free(*offset);
        }
        while self.spare(0).is_some() {}
        assert!(self.ranges.is_empty(), "an empty page or slab was kept");
        self.check_all();
        // Every id that ever was is refused.
        for (group, slot, generation) in std::mem::take(&mut self.names) {
            let refused = self.class.free(group, slot, generation, 0);
            assert!(
                matches!(refused, Err(FreeError::Stale | FreeError::Double)),
                "{refused:?}"
            );
        }
        while let Some(memory) = self.class.detach_memory() {
            self.release(memory);
        }
        assert_eq!(self.blocks, 0, "all host memory came back");
    }
}

const OPERATIONS: u32 = if cfg!(miri) { 100 } else { 30_000 };

#[test]
fn pages_agree_with_the_model() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    pages.churn(OPERATIONS, 300, |random| {
        (random(2 << 10) + 1, 1 << random(12))
    });
    pages.end();
}

#[test]
fn slabs_agree_with_the_model() {
    let mut slabs = ClassSubject::new(SlabAllocator::new(GRANULE));
    slabs.churn(OPERATIONS, 600, |random| {
        let alignment = 1 << random(13);
        let most = (16 * GRANULE / alignment * alignment).max(1);
        (random(most.min(16 * GRANULE)) + 1, alignment)
    });
    slabs.end();
}

#[test]
fn what_does_not_fit_the_class_is_said_to() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let mut slabs = ClassSubject::new(SlabAllocator::new(GRANULE));
    let largest = (pages.class.max_size(), slabs.class.max_size());
    assert_eq!(largest, (PAGE / 8, 16 * GRANULE));
    for (size, alignment) in [
        (0, 1),
        (1, 0),
        (1, 3),
        (u64::MAX, 1),
        (u64::MAX - 15, 16),
        (1, 1 << 63),
        (16 * GRANULE + 1, 1),
    ] {
        assert_eq!(
            pages.class.allocate(size, alignment, 0),
            Err(ClassShortage::Unsupported),
            "{size} {alignment}"
        );
        assert_eq!(
            slabs.class.allocate(size, alignment, 0),
            Err(ClassShortage::Unsupported),
            "{size} {alignment}"
        );
    }
    assert!(pages.allocate(largest.0, 1, 0).is_some());
    assert!(slabs.allocate(largest.1, 1, 0).is_some());
    pages.end();
    slabs.end();
}

#[test]
fn a_second_free_in_a_full_page_is_refused() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let full: Vec<SlotAllocation> = (0..PAGE / GRANULE)
        .filter_map(|_| pages.allocate(GRANULE, 1, 0))
        .collect();
    assert_eq!(
        pages.class.totals(),
        ClassTotals {
            live: 64,
            used_bytes: PAGE,
            ranges: 1,
            reserved_bytes: PAGE
        }
    );
    let (one, other) = (full[0], full[63]);
    for taken in [one, other] {
        assert!(
            pages
                .class
                .free(taken.group, taken.slot, taken.generation, 0)
                .is_ok()
        );
        assert_eq!(
            pages
                .class
                .free(taken.group, taken.slot, taken.generation, 0),
            Err(FreeError::Double)
        );
        pages.live.remove(&taken.offset);
    }
    assert_eq!(
        pages.class.free(one.group, 64, one.generation, 0),
        Err(FreeError::Foreign)
    );
    assert_eq!(pages.class.free(77, 0, 1, 0), Err(FreeError::Foreign));
    assert_eq!(pages.class.free(u32::MAX, 0, 1, 0), Err(FreeError::Foreign));
    assert_eq!(
        pages.class.free(one.group, one.slot, one.generation + 1, 0),
        Err(FreeError::Foreign)
    );
    pages.end();
}

#[test]
fn an_old_id_stays_refused_however_often_its_seat_is_reused() {
    const REUSES: u32 = if cfg!(miri) { 1000 } else { 1_000_000 };
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let first = pages.allocate(GRANULE, 1, 0).unwrap();
    pages.free(first.offset);
    for _ in 0..REUSES {
        let taken = pages.class.allocate(GRANULE, 1, 0).unwrap();
        assert!(
            pages
                .class
                .free(first.group, first.slot, first.generation, 0)
                .is_err()
        );
        assert!(
            pages
                .class
                .free(taken.group, taken.slot, taken.generation, 0)
                .is_ok()
        );
    }
    assert!(
        pages
            .class
            .find(first.group, first.slot, first.generation)
            .is_err()
    );
    pages.end();
}

#[test]
fn seats_that_are_used_up_are_left_out() {
    let mut slabs = ClassSubject::new(SlabAllocator::new(GRANULE));
    let one = slabs.allocate(GRANULE, 1, 0).unwrap();
    slabs.free(one.offset);
    slabs.class.age(one.group, 0..8);
    // The slab has no seat any more; its range is given back, and its number is not used again.
    let other = slabs.allocate(GRANULE, 1, 0).unwrap();
    assert_ne!(other.group, one.group);
    slabs.end();

    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let one = pages.allocate(GRANULE, 1, 0).unwrap();
    pages.class.age(one.group, 1..3);
    let other = pages.allocate(GRANULE, 1, 0).unwrap();
    assert_eq!((other.group, other.slot), (one.group, 3));
    pages.end();
}

#[test]
fn slabs_grow_with_their_population_and_go_when_there_is_another() {
    let mut slabs = ClassSubject::new(SlabAllocator::new(GRANULE));
    let mut sizes = Vec::new();
    for _ in 0..200 {
        let before = slabs.ranges.len();
        slabs.allocate(GRANULE, 1, 0).unwrap();
        if slabs.ranges.len() > before {
            sizes.push(slabs.ranges.last_key_value().unwrap().1.0 / GRANULE);
        }
    }
    assert_eq!(sizes, [8, 8, 16, 32, 64, 64, 64]);
    let emptied = slabs
        .live
        .keys()
        .copied()
        .collect::<Vec<_>>()
        .into_iter()
        .filter(|offset| slabs.free(*offset).is_emptied)
        .count();
    assert_eq!(emptied, 6, "the last one waits");
    assert!(slabs.spare(1 << 30).is_none());
    assert_eq!(std::iter::from_fn(|| slabs.spare(GRANULE)).count(), 6);
    assert_eq!(slabs.ranges.len(), 1);
    slabs.end();
}

#[test]
fn small_regions_fill_up_what_a_large_one_left() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let regions: Vec<u64> = (0..8)
        .map(|_| pages.allocate(PAGE / 8 - GRANULE, 1, 0).unwrap().offset)
        .collect();
    let large = pages.allocate(PAGE / 8, 1, 0).map(|taken| taken.offset);
    assert_eq!(
        large,
        Some(regions[7] + PAGE / 8 - GRANULE),
        "eight granules are left"
    );
    let large = pages.allocate(PAGE / 8, 1, 0).unwrap().offset;
    assert_eq!(pages.ranges.len(), 2);
    pages.end();
    assert!(large > regions[7]);
}

#[test]
fn what_others_claimed_is_settled_once() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, PAGE));
    let taken = pages.allocate(GRANULE, 1, 9).unwrap();
    let groups = pages.class.groups();
    assert!(
        groups
            .claim(taken.group, taken.slot, taken.generation, 9)
            .is_ok()
    );
    assert_eq!(
        groups
            .claim(taken.group, taken.slot, taken.generation, 9)
            .err(),
        Some(FreeError::Double)
    );
    assert_eq!(
        pages
            .class
            .free(taken.group, taken.slot, taken.generation, 9),
        Err(FreeError::Double)
    );
    assert_eq!(pages.class.totals().live, 1);
    assert!(pages.class.reclaim(taken.group, taken.slot).is_some());
    assert!(pages.class.reclaim(taken.group, taken.slot).is_none());
    pages.live.clear();
    pages.end();
}

/// Any thread looks, while the owner hands groups from one page to another: not past the page, and not for ever.
#[test]
fn what_lives_in_an_internal_page_is_seen_as_far_as_its_groups_are_its_own() {
    let mut pages = ClassSubject::new(PageAllocator::new(GRANULE, 1 << 20));
    let first = pages.allocate(GRANULE, 1, 0).unwrap().group;
    let last = (0..150)
        .map(|_| pages.allocate(GRANULE, 1, 0).unwrap().group)
        .last()
        .unwrap();
    let groups = pages.class.groups();
    let seen = || {
        let mut seen = 0;
        groups.each_live(first, &mut |_, _, _, _| seen += 1);
        seen
    };
    assert_eq!((seen(), groups.count()), (151, 3));
    let (range_ref, last) = (
        groups.get(first).unwrap().container(),
        groups.get(last).unwrap(),
    );
    last.set_container(range_ref + 1);
    assert_eq!(seen(), 128, "the last group is another page's");
    last.set_container(range_ref);
    last.set_next_group(first);
    assert_eq!(seen(), 151, "a chain that is being changed may lead back");
    last.set_next_group(u32::MAX);
    groups.each_live(u32::MAX, &mut |_, _, _, _| panic!("no such group"));
    pages.end();
}
