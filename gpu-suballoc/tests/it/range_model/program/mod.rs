//! Random use of a virtual block beside an interval model: what is taken, what is a hole, and nothing else. The fuzz
//! target includes this folder.
//!
//! After each operation the totals are the model's; now and then, and at the end, the
//! block's walk is the model's list of intervals, hole by hole. A general block may refuse only where the model has no
//! hole that fits; stacks and rings free in their order.
#![allow(unreachable_pub, reason = "nothing of a test is for others")]

use alloc_core::Scope;
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::{BlockAlgorithm, VirtualBlock, virtual_block::*};
use std::collections::BTreeMap;
use testkit::RecordingAllocator;
use testkit::programs::{Bytes, Ran, Tried};

/// Live ranges at most.
const LIVE: usize = 4096;
/// Stale ids that are remembered.
const DEAD: usize = 64;
/// Operations between two walks.
const WALK: u64 = 128;

/// Blocks that are used in order.
pub const LINEAR: [BlockAlgorithm; 3] = [BlockAlgorithm::Stack, BlockAlgorithm::DoubleStack, BlockAlgorithm::Ring];

type Host = FailingAllocator<RecordingAllocator>;

#[derive(Clone, Copy, Debug)]
struct LiveRange {
    range: VirtualRange,
    asked: u64,
    is_upper: bool,
}

/// Intervals, and nothing clever.
#[derive(Debug)]
struct RangeModel {
    granule: u64,
    holes: BTreeMap<u64, u64>,
    used_ranges: BTreeMap<u64, u64>,
    used: u64,
    size: u64,
}

impl RangeModel {
    fn new(size: u64, granule: u64) -> Self {
        Self { granule, holes: BTreeMap::from([(0, size)]), used_ranges: BTreeMap::new(), used: 0, size }
    }

    fn span(&self, size: u64) -> u64 {
        size.next_multiple_of(self.granule)
    }

    fn fits(&self, size: u64, alignment: u64) -> bool {
        let (span, alignment) = (u128::from(self.span(size)), u128::from(alignment.max(self.granule)));
        self.holes.iter().any(|(&start, &len)| {
            u128::from(start).next_multiple_of(alignment) + span <= u128::from(start) + u128::from(len)
        })
    }

    fn allocate(&mut self, offset: u64, span: u64) {
        let hole = self.holes.range(..=offset).next_back().map(|(&start, &len)| (start, len));
        let (start, len) = hole.unwrap_or_else(|| panic!("{offset:#x} lies below every hole: it is taken, or outside"));
        let (end, hole_end) = (offset.checked_add(span).expect("no range ends beyond 2^64"), start + len);
        assert!(
            end <= hole_end,
            "{offset:#x}+{span:#x} overlaps what is taken, or the end: the hole is {start:#x}+{len:#x}"
        );
        self.holes.remove(&start);
        if start < offset {
            self.holes.insert(start, offset - start);
        }
        if end < hole_end {
            self.holes.insert(end, hole_end - end);
        }
        self.used_ranges.insert(offset, span);
        self.used += span;
    }

    fn free(&mut self, offset: u64) {
        let span = self.used_ranges.remove(&offset).expect("the program frees what it took");
        self.used -= span;
        let (mut start, mut len) = (offset, span);
        if let Some((&below, &its)) =
            self.holes.range(..offset).next_back().filter(|(below, its)| **below + **its == offset)
        {
            self.holes.remove(&below);
            (start, len) = (below, len + its);
        }
        if let Some(above) = self.holes.remove(&(offset + span)) {
            len += above;
        }
        self.holes.insert(start, len);
    }
}

struct RangeProgram<'b, 'h> {
    bytes: Bytes<'b>,
    host: &'h Host,
    block: VirtualBlock<&'h Host>,
    algorithm: BlockAlgorithm,
    model: RangeModel,
    /// In the order in which they came, where that is the order of their ends.
    live: Vec<LiveRange>,
    dead: Vec<VirtualAllocation>,
    ran: Ran,
    tried: Tried,
}

/// Runs the program in `bytes` on a virtual block of this algorithm.
///
/// # Panics
/// When it says or does something that intervals do not.
pub fn range_ops(bytes: &[u8], algorithm: BlockAlgorithm) -> (Ran, Tried) {
    let mut bytes = Bytes::new(bytes);
    let shape = bytes.next().unwrap_or(0);
    let granule = if shape & 1 == 0 { 256 } else { 16 };
    let granules = match shape >> 1 & 7 {
        0 => 1,
        1 => 255,
        2 => 4096,
        3 => 65_537,
        4 => 1 << 20,
        5 => u64::from(u32::MAX - 1),
        _ => 1 << (10 + (shape >> 4)),
    };
    let size = granule * granules;
    let host = Host::new(RecordingAllocator::system(), Fault::Never);
    let block = VirtualBlock::with_algorithm(&host, size, granule, algorithm);
    let mut program = RangeProgram {
        bytes,
        host: &host,
        block: block.expect("the program's blocks make sense"),
        algorithm,
        model: RangeModel::new(size, granule),
        live: Vec::new(),
        dead: Vec::new(),
        ran: Ran::default(),
        tried: Tried::default(),
    };
    program.compare();
    while let Some(succeeded) = program.step() {
        program.ran.count(succeeded);
        program.totals();
        if program.ran.operations.is_multiple_of(WALK) {
            program.compare();
        }
    }
    program.compare();
    while !program.live.is_empty() {
        program.free(program.live.len() - 1);
    }
    program.compare();
    let RangeProgram { block, ran, tried, .. } = program;
    drop(block);
    host.inner().assert_empty("by the block");
    (ran, tried)
}

impl RangeProgram<'_, '_> {
    /// One operation: whether it did what it says; `None` when the program is over.
    fn step(&mut self) -> Option<bool> {
        let kind = self.bytes.next()?;
        Some(match kind % 32 {
            0..=13 => self.allocate(kind >= 200)?,
            14..=25 => match self.bytes.below(LIVE)?.checked_rem(self.live.len()) {
                Some(index) => {
                    self.free(index);
                    true
                }
                None => false,
            },
            26 => self.stale()?,
            27 => self.bad()?,
            28 => self.refused()?,
            29 => self.look_up()?,
            30 => true,
            _ => self.clear()?,
        })
    }

    /// Mostly small beside the space, often beside a power of two.
    fn size(&mut self) -> Option<u64> {
        let (kind, fine) = (self.bytes.next()?, u64::from(self.bytes.next()?));
        let top = u64::from((self.model.size / self.model.granule).max(1).ilog2());
        let granule = self.model.granule;
        let size = match kind % 8 {
            0 => 1 + fine,
            1..=4 => granule * (1 + fine % 32) - fine / 32,
            // A power of two granules, one byte less, one more.
            5 | 6 => ((granule << (fine % (top + 1)).min(top.saturating_sub(4))) - 1) + fine % 3,
            _ => (granule << (fine % (top + 1))) + granule * (fine / 16),
        };
        Some(size.clamp(1, self.model.size))
    }

    fn alignment(&mut self) -> Option<u64> {
        let byte = self.bytes.next()?;
        let power = if byte < 160 { byte % 9 } else { byte % 21 };
        Some((1 << power).min(1 << self.model.size.ilog2()))
    }

    /// The ends of a stack and a ring are one.
    fn ask(&mut self, size: u64, alignment: u64, high: bool) -> Result<LiveRange, VirtualBlockError> {
        let has_two_ends = matches!(self.algorithm, BlockAlgorithm::General | BlockAlgorithm::DoubleStack);
        let options = VirtualAllocationOptions {
            upper_address: high && has_two_ends,
            ..VirtualAllocationOptions::new(size, alignment)
        };
        let range = self.block.allocate_with(&options)?;
        Ok(LiveRange { range, asked: size, is_upper: options.upper_address })
    }

    fn allocate(&mut self, high: bool) -> Option<bool> {
        let (size, alignment) = (self.size()?, self.alignment()?);
        if self.live.len() == LIVE {
            return Some(false);
        }
        let answer = self.ask(size, alignment, high);
        Some(self.check_answer(size, alignment, answer, false))
    }

    /// Whether the answer to a request that makes sense is right; true when it was granted.
    fn check_answer(
        &mut self,
        size: u64,
        alignment: u64,
        answer: Result<LiveRange, VirtualBlockError>,
        armed: bool,
    ) -> bool {
        match answer {
            Ok(live) => {
                let VirtualRange { allocation, offset, size: granted, .. } = live.range;
                assert!(offset.is_multiple_of(alignment), "{offset:#x} is not aligned to {alignment:#x}");
                assert!(offset.is_multiple_of(self.model.granule), "{offset:#x} is within a granule");
                let span = self.model.span(size);
                let whole = span.next_multiple_of(alignment);
                assert!(
                    granted == span || granted == whole && granted - span <= span / 4,
                    "{granted:#x} for {size:#x} aligned to {alignment:#x}"
                );
                self.model.allocate(offset, granted);
                assert!(!self.dead.contains(&allocation), "{allocation:?} is given out again");
                let newest = self.live.last().filter(|last| !last.is_upper && !live.is_upper);
                if newest.is_some_and(|newest| offset < newest.range.offset) {
                    assert_ne!(self.algorithm, BlockAlgorithm::Stack);
                    self.tried.note("begins below the newest");
                }
                self.live.push(live);
                self.tried.alignment(alignment);
                self.tried.size(size);
                true
            }
            Err(VirtualBlockError::Full) => {
                let fits = self.model.fits(size, alignment);
                assert!(
                    !fits || LINEAR.contains(&self.algorithm),
                    "{size:#x} aligned to {alignment:#x} is refused, and there is a hole: {:x?}",
                    self.model.holes
                );
                self.tried.note("refused for lack of a hole");
                false
            }
            Err(VirtualBlockError::Host(_)) if armed => {
                self.tried.note("refused for lack of host memory");
                false
            }
            Err(other) => panic!("{size:#x} aligned to {alignment:#x} of {:#x}: {other:?}", self.model.size),
        }
    }

    /// Which range goes before this one can: of a general block none.
    fn next_to_go(&self, index: usize) -> usize {
        let is_upper = self.live[index].is_upper;
        let mut of_its_end = (0..self.live.len()).filter(|at| self.live[*at].is_upper == is_upper);
        let next = match self.algorithm {
            BlockAlgorithm::General => None,
            BlockAlgorithm::Ring => of_its_end.next(),
            _ => of_its_end.next_back(),
        };
        next.unwrap_or(index)
    }

    fn free(&mut self, index: usize) {
        let next = self.next_to_go(index);
        if next != index {
            let early = self.live[index].range.allocation;
            assert_eq!(self.block.free(early), Err(VirtualBlockError::OutOfOrder));
            self.tried.note("freed out of its turn");
        }
        let LiveRange { range, .. } = self.live.remove(next);
        let requests = self.host.requests();
        assert_eq!(self.block.free(range.allocation), Ok(()));
        assert_eq!(self.host.requests(), requests, "freeing took memory");
        self.model.free(range.offset);
        self.bury(range.allocation);
    }

    fn bury(&mut self, id: VirtualAllocation) {
        if self.dead.len() == DEAD {
            self.dead.remove(0);
        }
        self.dead.push(id);
    }

    fn stale(&mut self) -> Option<bool> {
        let Some(index) = self.bytes.below(DEAD)?.checked_rem(self.dead.len()) else {
            return Some(false);
        };
        let id = self.dead[index];
        assert_eq!(self.block.free(id), Err(VirtualBlockError::Stale), "{id:?} was given back before");
        assert_eq!(self.block.info(id), Err(VirtualBlockError::Stale), "{id:?} was given back before");
        self.tried.note("stale id");
        Some(true)
    }

    fn bad(&mut self) -> Option<bool> {
        let which = self.bytes.next()?;
        let end = self.model.size;
        let (size, alignment) = match which % 9 {
            0 => (0, 16),
            1 => (end + 1, 1),
            2 => (u64::MAX - 15, 16),
            3 => (u64::MAX, 1),
            4 => (1 << 63, 256),
            5 => (1, 0),
            6 => (1, 3),
            7 => (1, 1 << 63),
            _ => (256, u64::MAX),
        };
        let answer = self.ask(size, alignment, which & 1 == 0);
        match answer.map(|live| live.range) {
            Err(VirtualBlockError::ZeroSize | VirtualBlockError::Alignment | VirtualBlockError::TooLarge) => {
                self.tried.note("bad request")
            }
            // An alignment above the space leaves offset 0, which is a multiple of everything.
            Err(VirtualBlockError::Full) if which % 9 == 7 => {}
            other => panic!("{size:#x} aligned to {alignment:#x} of {end:#x}: {other:?}"),
        }
        Some(true)
    }

    /// An allocation whose n-th host request is refused; then the same again without.
    fn refused(&mut self) -> Option<bool> {
        let (size, alignment, nth) = (self.size()?, self.alignment()?, self.bytes.next()? % 3);
        if self.live.len() == LIVE {
            return Some(false);
        }
        self.host.arm(Fault::Nth(nth.into()));
        let answer = self.ask(size, alignment, false);
        self.host.disarm();
        let short = matches!(answer, Err(VirtualBlockError::Host(_)));
        let granted = self.check_answer(size, alignment, answer, true);
        if !short {
            return Some(granted);
        }
        self.totals();
        let answer = self.ask(size, alignment, false);
        Some(self.check_answer(size, alignment, answer, false))
    }

    fn look_up(&mut self) -> Option<bool> {
        let Some(index) = self.bytes.below(LIVE)?.checked_rem(self.live.len()) else {
            return Some(false);
        };
        let LiveRange { range, asked, .. } = self.live[index];
        let info = self.block.info(range.allocation);
        let found = info.map(|info| (info.offset, info.size));
        assert_eq!(found, Ok((range.offset, asked)), "{range:?}");
        Some(true)
    }

    /// Rarely, since everything begins anew then.
    fn clear(&mut self) -> Option<bool> {
        if self.bytes.next()? < 240 {
            return Some(true);
        }
        self.block.clear();
        while let Some(LiveRange { range, .. }) = self.live.pop() {
            self.model.free(range.offset);
            self.bury(range.allocation);
        }
        self.compare();
        self.tried.note("clear");
        Some(true)
    }

    fn totals(&mut self) {
        let sums = self.block.statistics();
        let expected = (self.model.size, self.model.used, self.live.len() as u32);
        assert_eq!((sums.size, sums.allocation_bytes, sums.allocation_count), expected, "size, used, live");
        self.ran.compared += 1;
    }

    /// The walk is the model's intervals: no range lost, no two holes side by side.
    fn compare(&mut self) {
        self.totals();
        let mut taken = self.model.used_ranges.iter().peekable();
        let mut holes = self.model.holes.iter().peekable();
        let mut at = 0;
        self.block.for_each(|piece| {
            assert_eq!(piece.offset, at, "the walk leaves something out");
            let next = match piece.used {
                Some(_) => taken.next(),
                None => holes.next(),
            };
            assert_eq!(next, Some((&piece.offset, &piece.size)), "{piece:?}");
            at += piece.size;
        });
        assert_eq!(at, self.model.size, "the walk ends early");
        let largest = self.model.holes.values().copied().max().unwrap_or(0);
        assert_eq!(self.block.largest_free(), largest, "the largest hole");
        let sums = self.block.statistics();
        let bound = sums.largest_free_bound;
        assert!(bound >= largest, "{sums:?} for {largest}");
        assert!(bound == largest || !LINEAR.contains(&self.algorithm), "{sums:?} for {largest}, without an index");
        assert_eq!(sums.unused_range_count as usize, self.model.holes.len());
        assert_eq!(self.block.is_empty(), self.live.is_empty());
        let taken_from_host = self.host.inner().scope(Scope::Object).live_bytes;
        assert_eq!(self.block.memory_bytes(), taken_from_host);
    }
}
