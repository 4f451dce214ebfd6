//! What must be true of one allocator's regions: intervals by memory object, owners of crops, maps.

use std::collections::{BTreeMap, HashMap};

use super::{
    Class, DeviceTraits, Memory, Piece, RegionFacts, RegionRequest, Regions, Resource, Sums,
};

/// A live region.
pub(super) struct Entry<S: Regions> {
    pub(super) key: u64,
    pub(super) region: S::Region,
    pub(super) id: S::Id,
    pub(super) facts: RegionFacts,
    pub(super) kind: Kind,
    /// Maps of it that have not ended.
    pub(super) maps: u32,
    /// Crops of it that live; of roots only.
    pub(super) crops: u32,
    /// What was written at both ends, when it was mapped.
    pub(super) mark: Option<u64>,
    /// In which custom pool.
    pub(super) pool: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Owned(Resource),
    Wrapped { backed: bool },
    Crop { root: u64, depth: u32 },
}

pub(super) struct RegionModel<S: Regions> {
    pub(super) device: DeviceTraits,
    pub(super) entries: Vec<Entry<S>>,
    pub(super) dead: Vec<S::Id>,
    /// End and kind of what lies at (memory, offset).
    used_ranges: BTreeMap<(u64, u64), (u64, Resource)>,
    /// Where offset 0 of a memory object lies while something in it is mapped, and how many maps there are.
    pub(super) bases: HashMap<u64, (usize, u64)>,
    sums: Sums,
    next: u64,
}

impl<S: Regions> RegionModel<S> {
    pub(super) fn new(device: DeviceTraits) -> Self {
        Self {
            device,
            entries: Vec::new(),
            dead: Vec::new(),
            used_ranges: BTreeMap::new(),
            bases: HashMap::new(),
            sums: Sums::default(),
            next: 1,
        }
    }

    pub(super) fn by_key(&self, key: u64) -> usize {
        self.entries
            .iter()
            .position(|entry| entry.key == key)
            .expect("a root lives while its crops do")
    }

    /// The root of an entry, which may be itself.
    pub(super) fn root(&self, index: usize) -> usize {
        match self.entries[index].kind {
            Kind::Crop { root, .. } => self.by_key(root),
            _ => index,
        }
    }

    /// A region that was just given: is it what was asked for, and nobody else's?
    pub(super) fn check_allocated(
        &mut self,
        subject: &S,
        region: S::Region,
        ask: &RegionRequest,
    ) -> RegionFacts {
        let id = subject.id(&region);
        let facts = subject.facts(&region);
        assert_eq!(subject.facts_by_id(id), Ok(facts), "by its name");
        let own = ask.resource == Resource::Buffer;
        assert!(
            facts.size >= ask.size && facts.size - ask.size < 65_536.max(ask.size),
            "{facts:x?} for {ask:x?}"
        );
        assert!(
            own || facts.offset.is_multiple_of(ask.alignment),
            "{facts:x?} for {ask:x?}"
        );
        assert_eq!(
            facts.base, 0,
            "a region's own buffer begins with it: {facts:x?}"
        );
        let &(visible, local) = self
            .device
            .types
            .get(facts.memory_type as usize)
            .expect("a memory type of the device");
        assert!(
            own || ask.bits >> facts.memory_type & 1 == 1,
            "{facts:x?} for {ask:x?}"
        );
        match ask.memory {
            Memory::Any => {}
            Memory::Visible => assert!(visible, "{facts:x?} for {ask:x?}"),
            Memory::Local => assert!(local, "{facts:x?} for {ask:x?}"),
        }
        assert!(
            !ask.dedicated || (facts.class == Class::Dedicated && facts.offset == 0),
            "{facts:x?} for {ask:x?}"
        );
        assert!(!self.dead.contains(&id), "{id:?} is given out again");
        self.lay(&facts, ask.resource);
        self.sums.regions += 1;
        self.keep(region, id, facts, Kind::Owned(ask.resource), ask.pool);
        facts
    }

    pub(super) fn wrapped(
        &mut self,
        region: S::Region,
        id: S::Id,
        facts: RegionFacts,
        backed: bool,
    ) {
        self.sums.wrapped += 1;
        self.keep(region, id, facts, Kind::Wrapped { backed }, None);
    }

    pub(super) fn cropped(
        &mut self,
        region: S::Region,
        id: S::Id,
        facts: RegionFacts,
        root: usize,
        depth: u32,
    ) {
        self.sums.crops += 1;
        self.entries[root].crops += 1;
        // What is written into a crop shows in its root.
        self.entries[root].mark = None;
        let kind = Kind::Crop {
            root: self.entries[root].key,
            depth,
        };
        self.keep(region, id, facts, kind, None);
    }

    fn keep(
        &mut self,
        region: S::Region,
        id: S::Id,
        facts: RegionFacts,
        kind: Kind,
        pool: Option<usize>,
    ) {
        self.entries.push(Entry {
            key: self.next,
            region,
            id,
            facts,
            kind,
            maps: 0,
            crops: 0,
            mark: None,
            pool,
        });
        self.next += 1;
    }

    /// Takes an entry out, to be given back.
    pub(super) fn remove(&mut self, index: usize) -> Entry<S> {
        let entry = self.entries.swap_remove(index);
        match entry.kind {
            Kind::Owned(_) => {
                self.used_ranges
                    .remove(&(entry.facts.memory, entry.facts.offset))
                    .expect("it was laid");
                self.sums.regions -= 1;
            }
            Kind::Wrapped { .. } => self.sums.wrapped -= 1,
            Kind::Crop { root, .. } => {
                let root = self.by_key(root);
                self.entries[root].crops -= 1;
                self.sums.crops -= 1;
            }
        }
        entry
    }

    /// Puts back what was not given back after all.
    pub(super) fn restore(&mut self, entry: Entry<S>) {
        match entry.kind {
            Kind::Owned(resource) => {
                self.lay(&entry.facts, resource);
                self.sums.regions += 1;
            }
            Kind::Wrapped { .. } => self.sums.wrapped += 1,
            Kind::Crop { root, .. } => {
                let root = self.by_key(root);
                self.entries[root].crops += 1;
                self.sums.crops += 1;
            }
        }
        self.entries.push(entry);
    }

    /// Nothing lies any more where a region of its own lay, which lies elsewhere by now.
    pub(super) fn lift(&mut self, index: usize) {
        let facts = &self.entries[index].facts;
        let was = self.used_ranges.remove(&(facts.memory, facts.offset));
        assert!(was.is_some(), "it was laid");
    }

    /// A region that was [lifted](Self::lift) lies where it says.
    pub(super) fn settle(&mut self, index: usize) {
        let (facts, kind) = (self.entries[index].facts, self.entries[index].kind);
        let Kind::Owned(resource) = kind else {
            panic!("{facts:x?} has a place of its own")
        };
        self.lay(&facts, resource);
    }

    pub(super) fn bury(&mut self, id: S::Id) {
        if self.dead.len() == 128 {
            self.dead.remove(0);
        }
        self.dead.push(id);
    }

    /// Nothing lies there, and no neighbour of the other kind shares a page of the device's granularity.
    fn lay(&mut self, facts: &RegionFacts, resource: Resource) {
        let (memory, start, end) = (
            facts.memory,
            facts.offset,
            facts.offset.checked_add(facts.size).expect("below 2^64"),
        );
        assert!(memory != 0, "a region of no memory: {facts:x?}");
        let below = self
            .used_ranges
            .range((memory, 0)..(memory, start))
            .next_back();
        let above = self
            .used_ranges
            .range((memory, start)..=(memory, u64::MAX))
            .next();
        let page = |at: u64| at / self.device.granularity;
        let below = below.map(|(&(_, at), &(its_end, kind))| (at, its_end, kind, its_end, start));
        let above = above.map(|(&(_, at), &(its_end, kind))| (at, its_end, kind, end, at));
        for (at, its_end, kind, lower_end, upper_start) in below.into_iter().chain(above) {
            assert!(
                lower_end <= upper_start,
                "{facts:x?} overlaps {at:#x}..{its_end:#x}"
            );
            let shared = page(lower_end - 1) == page(upper_start);
            assert!(
                !shared || may_share(resource, kind),
                "{facts:x?} ({resource:?}) shares a page with {at:#x}..{its_end:#x} ({kind:?})"
            );
        }
        self.used_ranges.insert((memory, start), (end, resource));
    }

    /// The allocator's sums are the model's, and its blocks are what the device gave.
    pub(super) fn compare_sums(&self, subject: &S) {
        let (blocks, block_bytes) = subject.device_usage();
        let expected = Sums {
            blocks,
            block_bytes,
            ..self.sums
        };
        assert_eq!(
            subject.sums(),
            expected,
            "the allocator's sums (left), and the model's with the device's"
        );
    }

    /// The walk has each block whole, and in it each region where the model has it.
    pub(super) fn compare_walk(&self, subject: &S) {
        self.compare_sums(subject);
        for ((memory, offset), (end, _)) in &self.used_ranges {
            let found = subject.memory(*memory);
            let (size, _) = found.unwrap_or_else(|| {
                panic!("{memory:#x} is no memory object, and a region lies in it")
            });
            assert!(
                *end <= size,
                "{offset:#x}..{end:#x} ends outside of its memory of {size:#x}"
            );
        }
        let (mut at, mut regions) = (BTreeMap::new(), 0);
        subject.walk(&mut |piece: Piece<S::Id>| {
            let reached = at.entry(piece.memory).or_insert(0);
            assert_eq!(
                *reached, piece.offset,
                "the walk of {:#x} leaves something out before {piece:x?}",
                piece.memory
            );
            *reached += piece.size;
            let Some(id) = piece.id else { return };
            let (start, end) = (piece.offset, piece.offset + piece.size);
            let mut inside = self
                .used_ranges
                .range((piece.memory, start)..(piece.memory, end));
            let (&(_, offset), &(its_end, _)) = inside
                .next()
                .unwrap_or_else(|| panic!("{piece:x?} is no region of the model's"));
            assert!(
                offset == start && its_end <= end && inside.next().is_none(),
                "{piece:x?} is not {offset:#x}..{its_end:#x}"
            );
            assert!(
                self.entries.iter().any(|entry| entry.id == id),
                "{id:?} is in the walk, and not live"
            );
            regions += 1;
        });
        assert_eq!(regions, self.used_ranges.len(), "regions in the walk");
        assert_eq!(
            at.len() as u64,
            subject.device_usage().0,
            "blocks in the walk (left), and of the device"
        );
        for (memory, reached) in at {
            let size = subject.memory(memory).map(|(size, _)| size);
            assert_eq!(
                Some(reached),
                size,
                "how far the walk went in {memory:#x} (left), and its size"
            );
        }
    }

    /// Whether some hole that the allocator knows of would do for `ask`.
    pub(super) fn fitting_hole(&self, subject: &S, ask: &RegionRequest) -> Option<Piece<S::Id>> {
        let mut found = None;
        subject.walk(&mut |piece| {
            let Some((_, index)) = subject.memory(piece.memory) else {
                return;
            };
            let (visible, local) = self.device.types[index as usize];
            let right = match ask.memory {
                Memory::Any => true,
                Memory::Visible => visible,
                Memory::Local => local,
            };
            let content = match ask.resource {
                Resource::Linear | Resource::Buffer => piece.content.0,
                Resource::Optimal => piece.content.1,
                Resource::Unknown => piece.content.0 && piece.content.1,
            };
            let place =
                piece.id.is_none() && piece.class == Class::General && piece.pool == ask.pool;
            let start = piece.offset.next_multiple_of(ask.alignment.max(256));
            let fits = start.saturating_add(ask.size) <= piece.offset + piece.size;
            if place && right && content && fits && ask.bits >> index & 1 == 1 {
                found = Some(piece);
            }
        });
        found
    }
}

/// Two kinds that may lie on one page of the granularity.
fn may_share(one: Resource, other: Resource) -> bool {
    let linear = |kind| matches!(kind, Resource::Linear | Resource::Buffer);
    (linear(one) && linear(other)) || (one == Resource::Optimal && other == Resource::Optimal)
}
