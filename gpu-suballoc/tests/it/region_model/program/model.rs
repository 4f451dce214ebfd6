//! What must be true of one allocator's regions: intervals by memory object, owners of crops, maps.

use super::*;

/// A live region.
pub struct Entry {
    pub key: u64,
    pub region: Region,
    pub id: RegionId,
    pub facts: RegionFacts,
    /// What it was requested with, of a region without a resource.
    alignment: u64,
    pub kind: Kind,
    /// Maps of it that have not ended.
    pub maps: u32,
    /// Crops of it that live; of roots only.
    pub crops: u32,
    /// What was written at both ends, when it was mapped.
    pub mark: Option<u64>,
    /// In which custom pool.
    pub pool: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Owned(Resource),
    Wrapped { backed: bool },
    Crop { root: u64, depth: u32 },
}

pub struct RegionModel {
    pub device: DeviceTraits,
    pub entries: Vec<Entry>,
    pub dead: Vec<RegionId>,
    /// End and kind of what lies at (memory, offset).
    used_ranges: BTreeMap<(u64, u64), (u64, Resource)>,
    /// Where offset 0 of a memory object lies while something in it is mapped, and how many maps there are.
    pub bases: HashMap<u64, (usize, u64)>,
    sums: Sums,
    next: u64,
}

impl RegionModel {
    pub fn new(device: DeviceTraits) -> Self {
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

    pub fn by_key(&self, key: u64) -> usize {
        self.entries.iter().position(|entry| entry.key == key).expect("a root lives while its crops do")
    }

    /// The root of an entry, which may be itself.
    pub fn root(&self, index: usize) -> usize {
        match self.entries[index].kind {
            Kind::Crop { root, .. } => self.by_key(root),
            _ => index,
        }
    }

    /// A region that was just allocated: is it what was asked for, and nobody else's?
    pub fn check_allocated(&mut self, subject: &RegionSubject, region: Region, ask: &RegionRequest) -> RegionFacts {
        let (id, is_mapped, facts) = (region.id(), region.mapped().is_some(), subject.facts(&region));
        assert_eq!(subject.facts_by_id(id), Ok(facts), "by its name");
        let own = ask.resource == Resource::Buffer;
        let flags = self.device.types.get(facts.memory_type as usize).expect("a memory type of the device");
        for (is_right, what) in [
            (facts.size >= ask.size && facts.size - ask.size < 65_536.max(ask.size), "size"),
            (facts.offset.is_multiple_of(ask.alignment), "alignment"),
            (facts.base == 0 && facts.buffer.is_some() == own, "place in its own buffer"),
            (own || ask.bits >> facts.memory_type & 1 == 1, "type"),
            (flags.contains(ask.memory), "memory"),
            (is_mapped == (ask.is_mapped() && flags.contains(PropertyFlags::HOST_VISIBLE)), "pointer"),
            (!ask.dedicated || (facts.class == Class::Dedicated && facts.offset == 0), "memory object"),
        ] {
            assert!(is_right, "{what} of {facts:x?} for {ask:x?}");
        }
        assert!(!self.dead.contains(&id), "{id:?} is given out again");
        self.lay(&facts, ask.resource);
        self.sums.regions += 1;
        self.keep(region, facts, Kind::Owned(ask.resource), ask.pool);
        if let Some(entry) = self.entries.last_mut() {
            entry.alignment = ask.alignment;
        }
        facts
    }

    pub fn wrapped(&mut self, region: Region, facts: RegionFacts, backed: bool) {
        self.sums.wrapped += 1;
        self.keep(region, facts, Kind::Wrapped { backed }, None);
    }

    pub fn cropped(&mut self, region: Region, facts: RegionFacts, root: usize, depth: u32) {
        self.sums.crops += 1;
        let root = &mut self.entries[root];
        root.crops += 1;
        // What is written into a crop shows in its root.
        root.mark = None;
        let kind = Kind::Crop { root: root.key, depth };
        self.keep(region, facts, kind, None);
    }

    fn keep(&mut self, region: Region, facts: RegionFacts, kind: Kind, pool: Option<usize>) {
        let (key, id) = (self.next, region.id());
        self.entries.push(Entry { key, region, id, facts, alignment: 1, kind, maps: 0, crops: 0, mark: None, pool });
        self.next += 1;
    }

    /// Takes an entry out, to be freed.
    pub fn remove(&mut self, index: usize) -> Entry {
        let entry = self.entries.swap_remove(index);
        match entry.kind {
            Kind::Owned(_) => {
                let was = self.used_ranges.remove(&(entry.facts.memory, entry.facts.offset));
                assert!(was.is_some(), "it was laid");
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

    /// Puts back what was not freed after all.
    pub fn restore(&mut self, entry: Entry) {
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
    pub fn lift(&mut self, index: usize) {
        let facts = &self.entries[index].facts;
        assert!(self.used_ranges.remove(&(facts.memory, facts.offset)).is_some(), "it was laid");
    }

    /// A region that was [lifted](Self::lift) lies where it says.
    pub fn settle(&mut self, index: usize) {
        let Entry { facts, alignment, .. } = self.entries[index];
        assert!(facts.offset.is_multiple_of(alignment), "{facts:x?} at {alignment:#x}");
        let Kind::Owned(resource) = self.entries[index].kind else { panic!("{facts:x?} has a place of its own") };
        self.lay(&facts, resource);
    }

    pub fn bury(&mut self, id: RegionId) {
        if self.dead.len() == 128 {
            self.dead.remove(0);
        }
        self.dead.push(id);
    }

    /// Nothing lies there, and no neighbour of the other kind shares a page of the device's granularity.
    fn lay(&mut self, facts: &RegionFacts, resource: Resource) {
        let (memory, start) = (facts.memory, facts.offset);
        let end = start.checked_add(facts.size).expect("below 2^64");
        assert!(memory != 0, "a region of no memory: {facts:x?}");
        let below = self.used_ranges.range((memory, 0)..(memory, start)).next_back();
        let above = self.used_ranges.range((memory, start)..=(memory, u64::MAX)).next();
        let page = |at: u64| at / self.device.granularity;
        let below = below.map(|(&(_, at), &(its_end, kind))| (at, its_end, kind, its_end, start));
        let above = above.map(|(&(_, at), &(its_end, kind))| (at, its_end, kind, end, at));
        for (at, its_end, kind, lower_end, upper_start) in below.into_iter().chain(above) {
            assert!(lower_end <= upper_start, "{facts:x?} overlaps {at:#x}..{its_end:#x}");
            let shared = page(lower_end - 1) == page(upper_start);
            assert!(
                !shared || may_share(resource, kind),
                "{facts:x?} ({resource:?}) shares a page with {at:#x}..{its_end:#x} ({kind:?})"
            );
        }
        self.used_ranges.insert((memory, start), (end, resource));
    }

    /// The allocator's sums are the model's, and its blocks are what the device gave.
    pub fn compare_sums(&self, subject: &RegionSubject) {
        let (blocks, block_bytes) = subject.device_usage();
        let expected = Sums { blocks, block_bytes, ..self.sums };
        assert_eq!(subject.sums(), expected, "the allocator's sums (left), and the model's with the device's");
    }

    /// The walk has each block whole, and in it each region where the model has it.
    pub fn compare_walk(&self, subject: &RegionSubject) {
        self.compare_sums(subject);
        let size_of = |memory| subject.memory(memory).map(|(size, _)| size);
        for ((memory, offset), (end, _)) in &self.used_ranges {
            let size = size_of(*memory);
            assert!(size.is_some_and(|size| *end <= size), "{offset:#x}..{end:#x} in {memory:#x} of {size:x?}");
        }
        let (mut at, mut regions) = (BTreeMap::new(), 0);
        subject.walk(&mut |piece: Piece| {
            let reached = at.entry(piece.memory).or_insert(0);
            assert_eq!(*reached, piece.offset, "the walk leaves something out before {piece:x?}");
            *reached += piece.size;
            let Some(id) = piece.id else { return };
            let (start, end) = (piece.offset, piece.offset + piece.size);
            let mut inside = self.used_ranges.range((piece.memory, start)..(piece.memory, end));
            let first = inside.next().map(|((_, offset), (its_end, _))| (*offset, *its_end));
            let fits = first.is_some_and(|(offset, its_end)| offset == start && its_end <= end);
            assert!(fits && inside.next().is_none(), "{piece:x?} is not {first:x?}");
            assert!(self.entries.iter().any(|entry| entry.id == id), "{id:?} is in the walk, and not live");
            regions += 1;
        });
        assert_eq!(regions, self.used_ranges.len(), "regions in the walk");
        if let Some(mapped) = subject.mapped_objects() {
            let for_life = self.entries.iter().filter(|entry| entry.region.mapped().is_some());
            let needed = self.bases.keys().copied().chain(for_life.map(|entry| entry.facts.memory));
            assert_eq!(mapped, needed.collect(), "mapped objects of the device (left), and those that are needed");
        }
        assert_eq!(at.len() as u64, subject.device_usage().0, "blocks in the walk (left), and of the device");
        for (memory, reached) in at {
            assert_eq!(Some(reached), size_of(memory), "how far the walk went in {memory:#x} (left), and its size");
        }
    }

    /// The part of a hole that a resource may have: whole pages, or up to a neighbour that may share them.
    fn usable(&self, piece: &Piece, resource: Resource) -> (u64, u64) {
        let (memory, start) = (piece.memory, piece.offset);
        let end = start + piece.size;
        let mut below = self.used_ranges.range((memory, 0)..(memory, start));
        let below = below.next_back().filter(|(_, (its_end, kind))| *its_end == start && may_share(resource, *kind));
        let above = self.used_ranges.get(&(memory, end));
        let above = above.filter(|(_, kind)| may_share(resource, *kind));
        let page = self.device.granularity;
        let (first, last) = (start.next_multiple_of(page), end - end % page);
        (below.map_or(first, |_| start), above.map_or(last, |_| end))
    }

    /// Whether some hole that the allocator knows of would do for `ask`.
    pub fn fitting_hole(&self, subject: &RegionSubject, ask: &RegionRequest) -> Option<Piece> {
        let mut found = None;
        subject.walk(&mut |piece| {
            let Some((_, index)) = subject.memory(piece.memory) else {
                return;
            };
            let (start, end) = self.usable(&piece, ask.resource);
            let start = start.next_multiple_of(ask.alignment.max(256));
            let fits = start.saturating_add(ask.size) <= end;
            let right = self.device.types[index as usize].contains(ask.memory) && ask.bits >> index & 1 == 1;
            if piece.is_hole && ask.pool.is_none() && right && fits {
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
