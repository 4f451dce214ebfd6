//! The region program against a plain allocator of lists, and against broken ones that it must find.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use testkit::Rng;
use testkit::programs::{
    Class, DeviceTraits, FreeMethod, Piece, Ran, RegionFacts, RegionRefusal, RegionRequest,
    Regions, Sums, Tried, Wrap, region_ops, replay,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum RegionFault {
    None,
    IgnoresAlignment,
    IgnoresGranularity,
    OverlapsByOneByte,
    DropsTheParentsOffset,
    FreesUnderCrops,
    FreesMapped,
    FreesTwice,
    TakesTheOthers,
    GivesIdsAgain,
    RefusesHoles,
    MissesRegionsInSums,
    KeepsBlocksFromSums,
    LeaksWhenTheHostRefuses,
    MapsWhatItDoesNotKnow,
    MapsTheBlocksStart,
    AllowsCropsPastTheEnd,
    AllowsNothing,
    DetachesItsOwn,
    EndsPoolsInUse,
    WalksWithGaps,
    HalfABatch,
}

const FAULTS: [RegionFault; 21] = [
    RegionFault::IgnoresAlignment,
    RegionFault::IgnoresGranularity,
    RegionFault::OverlapsByOneByte,
    RegionFault::DropsTheParentsOffset,
    RegionFault::FreesUnderCrops,
    RegionFault::FreesMapped,
    RegionFault::FreesTwice,
    RegionFault::TakesTheOthers,
    RegionFault::GivesIdsAgain,
    RegionFault::RefusesHoles,
    RegionFault::MissesRegionsInSums,
    RegionFault::KeepsBlocksFromSums,
    RegionFault::LeaksWhenTheHostRefuses,
    RegionFault::MapsWhatItDoesNotKnow,
    RegionFault::MapsTheBlocksStart,
    RegionFault::AllowsCropsPastTheEnd,
    RegionFault::AllowsNothing,
    RegionFault::DetachesItsOwn,
    RegionFault::EndsPoolsInUse,
    RegionFault::WalksWithGaps,
    RegionFault::HalfABatch,
];

const BLOCK: u64 = 4 << 20;
const BLOCKS: usize = 6;
/// Shared blocks are given whole pages of the granularity, so that neighbours may be of any kind.
const PAGE: u64 = 1024;
const TOO_MUCH: u64 = 1 << 40;

struct FakeBlock {
    memory: u64,
    bytes: Vec<u64>,
    size: u64,
    /// Offset, length, whose.
    list: Vec<(u64, u64, Option<Id>)>,
    pool: Option<usize>,
    class: Class,
}

type Id = (u64, u64);

#[derive(Clone, Copy)]
struct Known {
    facts: RegionFacts,
    root: Option<Id>,
    crops: u32,
    maps: u32,
    pool: Option<usize>,
}

struct Plain {
    tag: u64,
    fault: RegionFault,
    blocks: RefCell<Vec<FakeBlock>>,
    known: RefCell<BTreeMap<Id, Known>>,
    next: Cell<u64>,
    refuse: Cell<(Option<u64>, Option<u64>)>,
}

impl Plain {
    fn new(tag: u64, fault: RegionFault) -> Self {
        Self {
            tag,
            fault,
            blocks: RefCell::default(),
            known: RefCell::default(),
            next: Cell::new(1),
            refuse: Cell::default(),
        }
    }

    fn has(&self, fault: RegionFault) -> bool {
        self.fault == fault
    }

    fn fresh(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn get(&self, id: Id) -> Result<Known, RegionRefusal> {
        match self.known.borrow().get(&id) {
            Some(known) => Ok(*known),
            None if id.0 != self.tag => Err(RegionRefusal::Foreign),
            None => Err(RegionRefusal::Stale),
        }
    }

    fn block(&self, size: u64, pool: Option<usize>, class: Class) -> Result<usize, RegionRefusal> {
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() >= BLOCKS || self.refuse.get().1 == Some(0) {
            return Err(RegionRefusal::Device);
        }
        let memory = self.fresh();
        blocks.push(FakeBlock {
            memory,
            bytes: vec![0; size as usize / 8 + 1],
            size,
            list: vec![(0, size, None)],
            pool,
            class,
        });
        Ok(blocks.len() - 1)
    }

    fn place(&self, index: usize, ask: &RegionRequest, id: Id) -> Option<RegionFacts> {
        let block = &mut self.blocks.borrow_mut()[index];
        let ignored = (
            self.has(RegionFault::IgnoresAlignment),
            self.has(RegionFault::IgnoresGranularity),
        );
        let alignment = if ignored.0 {
            PAGE
        } else {
            ask.alignment.max(if ignored.1 { 256 } else { PAGE })
        };
        let span = ask
            .size
            .next_multiple_of(if ignored.1 { 256 } else { PAGE });
        let fits = |&(start, len, whose): &(u64, u64, Option<Id>)| {
            whose.is_none() && start.next_multiple_of(alignment).saturating_add(span) <= start + len
        };
        let at = block.list.iter().position(fits)?;
        let (start, len, _) = block.list.remove(at);
        let offset = start.next_multiple_of(alignment);
        let rest = offset + span - u64::from(self.has(RegionFault::OverlapsByOneByte));
        if start + len > rest {
            block.list.insert(at, (rest, start + len - rest, None));
        }
        block.list.insert(at, (offset, span, Some(id)));
        if offset > start {
            block.list.insert(at, (start, offset - start, None));
        }
        let class = if block.class == Class::Dedicated {
            Class::Dedicated
        } else {
            Class::General
        };
        Some(RegionFacts {
            class,
            memory: block.memory,
            offset,
            base: 0,
            size: ask.size,
            memory_type: 0,
        })
    }

    fn give(&self, id: Id) -> Result<(), RegionRefusal> {
        if self.has(RegionFault::TakesTheOthers) && id.0 != self.tag {
            return Ok(());
        }
        let known = match self.get(id) {
            Err(RegionRefusal::Stale) if self.has(RegionFault::FreesTwice) => return Ok(()),
            other => other?,
        };
        if known.crops > 0 && !self.has(RegionFault::FreesUnderCrops) {
            return Err(RegionRefusal::Held);
        }
        if known.maps > 0 && !self.has(RegionFault::FreesMapped) {
            return Err(RegionRefusal::Mapped);
        }
        self.known.borrow_mut().remove(&id);
        if let Some(root) = known.root {
            if let Some(root) = self.known.borrow_mut().get_mut(&root) {
                root.crops -= 1;
            }
            return Ok(());
        }
        let mut blocks = self.blocks.borrow_mut();
        if known.facts.class == Class::Dedicated {
            blocks.retain(|block| block.memory != known.facts.memory);
            return Ok(());
        }
        let Some(block) = blocks
            .iter_mut()
            .find(|block| block.memory == known.facts.memory)
        else {
            return Ok(());
        };
        block
            .list
            .iter_mut()
            .filter(|range| range.2 == Some(id))
            .for_each(|range| range.2 = None);
        let mut at = 0;
        while at + 1 < block.list.len() {
            if block.list[at].2.is_none() && block.list[at + 1].2.is_none() {
                block.list[at].1 += block.list.remove(at + 1).1;
            } else {
                at += 1;
            }
        }
        Ok(())
    }
}

impl Regions for Plain {
    type Region = Id;
    type Id = Id;

    fn device(&self) -> DeviceTraits {
        DeviceTraits {
            types: vec![(true, true)],
            ordinary: 1,
            granularity: PAGE,
            too_much: TOO_MUCH,
        }
    }

    fn allocate(&self, ask: &RegionRequest) -> Result<Id, RegionRefusal> {
        let nothing = ask.size == 0 && !self.has(RegionFault::AllowsNothing);
        if nothing
            || ask.size >= TOO_MUCH
            || !ask.alignment.is_power_of_two()
            || ask.alignment > BLOCK
            || ask.bits & 1 == 0
        {
            return Err(RegionRefusal::Misuse);
        }
        let id = (
            self.tag,
            if self.has(RegionFault::GivesIdsAgain) {
                self.known.borrow().len() as u64
            } else {
                self.fresh()
            },
        );
        let short = self.refuse.get().0 == Some(0);
        if short && !self.has(RegionFault::LeaksWhenTheHostRefuses) {
            return Err(RegionRefusal::Host);
        }
        let own = ask.dedicated || ask.size + ask.alignment > BLOCK;
        let shared = self.blocks.borrow().len();
        let right = |index: &usize| {
            let block = &self.blocks.borrow()[*index];
            block.class == Class::General && block.pool == ask.pool
        };
        let skipped = usize::from(self.has(RegionFault::RefusesHoles) && shared == BLOCKS);
        let found = (0..shared)
            .filter(right)
            .skip(skipped)
            .filter(|_| !own)
            .find_map(|index| self.place(index, ask, id));
        let facts = match found {
            Some(facts) => facts,
            None => {
                let (size, class) = if own {
                    (ask.size.next_multiple_of(PAGE), Class::Dedicated)
                } else {
                    (BLOCK, Class::General)
                };
                let index = self.block(size, ask.pool, class)?;
                self.place(index, ask, id).expect("an empty block holds it")
            }
        };
        self.known.borrow_mut().insert(
            id,
            Known {
                facts,
                root: None,
                crops: 0,
                maps: 0,
                pool: ask.pool,
            },
        );
        if short {
            Err(RegionRefusal::Host)
        } else {
            Ok(id)
        }
    }

    fn allocate_batch(&self, ask: &RegionRequest, count: usize) -> Result<Vec<Id>, RegionRefusal> {
        let mut given = Vec::new();
        for _ in 0..count {
            match self.allocate(ask) {
                Ok(id) => given.push(id),
                Err(no) => {
                    if !self.has(RegionFault::HalfABatch) {
                        given
                            .into_iter()
                            .for_each(|id| self.give(id).expect("it was given"));
                    }
                    return Err(no);
                }
            }
        }
        Ok(given)
    }

    fn id(&self, region: &Id) -> Id {
        *region
    }

    fn facts(&self, region: &Id) -> RegionFacts {
        self.get(*region).expect("live").facts
    }

    fn facts_by_id(&self, id: Id) -> Result<RegionFacts, RegionRefusal> {
        self.get(id).map(|known| known.facts)
    }

    fn free(&self, region: Id, _: FreeMethod) -> Result<(), (RegionRefusal, Id)> {
        self.give(region).map_err(|no| (no, region))
    }

    fn free_batch(&self, regions: Vec<Id>) -> Vec<Id> {
        regions
            .into_iter()
            .filter(|region| self.give(*region).is_err())
            .collect()
    }

    fn free_id(&self, id: Id) -> Result<(), RegionRefusal> {
        self.give(id)
    }

    fn crop(&self, region: &Id, offset: u64, size: u64, element: u32) -> Result<Id, RegionRefusal> {
        let parent = self.get(*region)?;
        let past = offset
            .checked_add(size)
            .is_none_or(|end| end > parent.facts.size)
            && !self.has(RegionFault::AllowsCropsPastTheEnd);
        let whole = |n: u64| n.checked_rem(element.into()) == Some(0);
        if past || size == 0 || !whole(offset) || !whole(size) {
            return Err(RegionRefusal::Misuse);
        }
        let root = parent.root.unwrap_or(*region);
        let its = parent.facts;
        let from = if self.has(RegionFault::DropsTheParentsOffset) {
            self.get(root)?.facts
        } else {
            its
        };
        let at = if from.memory == 0 {
            0
        } else {
            from.offset + offset
        };
        let facts = RegionFacts {
            class: Class::Crop,
            offset: at,
            base: from.base + offset,
            size,
            ..its
        };
        let id = (self.tag, self.fresh());
        let mut known = self.known.borrow_mut();
        known.get_mut(&root).expect("a root lives").crops += 1;
        known.insert(
            id,
            Known {
                facts,
                root: Some(root),
                crops: 0,
                maps: 0,
                pool: None,
            },
        );
        Ok(id)
    }

    fn buffers(&self) -> Vec<(u64, u64)> {
        vec![(77, 65_536), (78, 5000)]
    }

    fn wrap(&self, wrap: &Wrap) -> Result<Id, RegionRefusal> {
        let end = wrap.offset.checked_add(wrap.size);
        if wrap.buffer == 0 || end.is_none() || end > wrap.buffer_size.or(end) {
            return Err(RegionRefusal::Misuse);
        }
        let (class, memory, base) = (
            Class::Wrapped,
            u64::from(wrap.backed) * (1 << 50),
            wrap.offset,
        );
        let offset = if wrap.backed { wrap.offset } else { 0 };
        let facts = RegionFacts {
            class,
            memory,
            offset,
            base,
            size: wrap.size,
            memory_type: 0,
        };
        let id = (self.tag, self.fresh());
        self.known.borrow_mut().insert(
            id,
            Known {
                facts,
                root: None,
                crops: 0,
                maps: 0,
                pool: None,
            },
        );
        Ok(id)
    }

    fn detach(&self, region: Id) -> Result<(), (RegionRefusal, Id)> {
        let wrapped = |id| {
            self.get(id)
                .is_ok_and(|known| known.facts.class == Class::Wrapped)
        };
        let root = self
            .get(region)
            .ok()
            .and_then(|known| known.root)
            .unwrap_or(region);
        if !wrapped(root) && !self.has(RegionFault::DetachesItsOwn) {
            return Err((RegionRefusal::Misuse, region));
        }
        self.give(region).map_err(|no| (no, region))
    }

    fn map(&self, region: &Id) -> Result<NonNull<u8>, RegionRefusal> {
        let known = self.get(*region)?;
        if known.facts.memory == 0 && !self.has(RegionFault::MapsWhatItDoesNotKnow) {
            return Err(RegionRefusal::Unmappable);
        }
        let blocks = self.blocks.borrow();
        let block = blocks
            .iter()
            .find(|block| block.memory == known.facts.memory);
        let start = block.map_or(NonNull::from(&self.tag).cast(), |block| {
            NonNull::from(&block.bytes[0]).cast::<u8>()
        });
        self.known.borrow_mut().get_mut(region).expect("live").maps += 1;
        let offset = if self.has(RegionFault::MapsTheBlocksStart) {
            0
        } else {
            known.facts.offset as usize
        };
        // Of a wrapped buffer the number alone is looked at.
        Ok(NonNull::new(start.as_ptr().wrapping_add(offset)).expect("no null"))
    }

    fn unmap(&self, region: &Id) {
        if let Some(known) = self.known.borrow_mut().get_mut(region) {
            known.maps -= 1;
        }
    }

    fn synchronise(&self, _: &Id, _: u64, _: u64, _: bool) -> Result<(), RegionRefusal> {
        Ok(())
    }

    fn trim(&self, _: u64) {
        self.blocks
            .borrow_mut()
            .retain(|block| block.list.iter().any(|range| range.2.is_some()));
    }

    fn frame(&self, _: u32) {}

    fn create_pool(&self, _: usize, _: bool) -> Result<(), RegionRefusal> {
        Ok(())
    }

    fn destroy_pool(&self, slot: usize) -> Result<(), RegionRefusal> {
        let used = self
            .known
            .borrow()
            .values()
            .any(|known| known.pool == Some(slot));
        if used && !self.has(RegionFault::EndsPoolsInUse) {
            Err(RegionRefusal::Held)
        } else {
            Ok(())
        }
    }

    fn sums(&self) -> Sums {
        let (blocks, known) = (self.blocks.borrow(), self.known.borrow());
        let count = |class: Class| {
            known
                .values()
                .filter(|known| known.facts.class == class)
                .count() as u64
        };
        let regions = count(Class::General) + count(Class::Dedicated);
        let lost = u64::from(self.has(RegionFault::MissesRegionsInSums) && regions > 30);
        let hidden = u64::from(self.has(RegionFault::KeepsBlocksFromSums) && blocks.len() > 3);
        Sums {
            blocks: blocks.len() as u64 - hidden,
            block_bytes: blocks.iter().map(|block| block.size).sum(),
            regions: regions - lost,
            wrapped: count(Class::Wrapped),
            crops: count(Class::Crop),
        }
    }

    fn walk(&self, each: &mut dyn FnMut(Piece<Id>)) {
        for block in self.blocks.borrow().iter() {
            let gap = self.has(RegionFault::WalksWithGaps) && block.list.len() > 9;
            for &(offset, size, id) in block.list.iter().skip(usize::from(gap)) {
                each(Piece {
                    memory: block.memory,
                    offset,
                    size,
                    id,
                    class: block.class,
                    content: (true, true),
                    pool: block.pool,
                });
            }
        }
    }

    fn device_usage(&self) -> (u64, u64) {
        let blocks = self.blocks.borrow();
        (
            blocks.len() as u64,
            blocks.iter().map(|block| block.size).sum(),
        )
    }

    fn memory(&self, memory: u64) -> Option<(u64, u32)> {
        self.blocks
            .borrow()
            .iter()
            .find(|block| block.memory == memory)
            .map(|block| (block.size, 0))
    }

    fn refuse(&self, host: Option<u64>, device: Option<u64>) {
        self.refuse.set((host, device));
    }

    fn close(self) {
        assert!(self.known.borrow().is_empty(), "all was given back");
    }
}

fn run(bytes: &[u8], fault: RegionFault) -> (Ran, Tried) {
    let tags = Cell::new(0);
    region_ops(bytes, || {
        tags.set(tags.get() + 1);
        Plain::new(tags.get(), fault)
    })
}

#[test]
fn region_ops_passes_what_is_right() {
    replay("region_ops", 300, |bytes| run(bytes, RegionFault::None).0);
}

#[test]
fn region_ops_finds_what_is_not() {
    for fault in FAULTS {
        let found = (0..40).any(|seed| {
            let program = Rng::new(seed).bytes(4000);
            catch_unwind(AssertUnwindSafe(|| run(&program, fault))).is_err()
        });
        assert!(found, "{fault:?} was not found");
    }
}
