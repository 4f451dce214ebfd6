//! Random use of a virtual block beside an interval model: what is taken, what is a hole, and nothing else. The fuzz target includes this
//! folder.
//!
//! After each operation the totals are the model's; now and then, and at the end, the
//! subject's walk is the model's list of intervals, hole by hole. A refusal is right only where the model has no hole that fits.

pub(crate) mod subject;

use std::collections::BTreeMap;

use gpu_suballoc::virtual_block::VirtualAllocation;
use testkit::programs::{Bytes, Ran, Tried};

use subject::RangeSubject;

/// Live ranges at most.
const LIVE: usize = 4096;
/// Stale ids that are remembered.
const DEAD: usize = 64;
/// Operations between two walks.
const WALK: u64 = 128;

/// Why a range allocator said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRange {
    /// The request makes no sense: size 0, more than there is, an alignment that is none.
    Misuse,
    /// No hole fits.
    Full,
    /// No host memory.
    Host,
    /// Not a live range.
    Stale,
}

/// The sums that a range allocator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeTotals {
    /// Bytes of live ranges, in whole granules.
    pub(crate) used: u64,
    /// Bytes of holes.
    pub(crate) free: u64,
    /// Live ranges.
    pub(crate) live: u64,
    /// The largest hole's bytes.
    pub(crate) largest: u64,
}

#[derive(Clone, Copy, Debug)]
struct LiveRange {
    id: VirtualAllocation,
    offset: u64,
    size: u64,
    granted: u64,
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
        Self {
            granule,
            holes: BTreeMap::from([(0, size)]),
            used_ranges: BTreeMap::new(),
            used: 0,
            size,
        }
    }

    fn span(&self, size: u64) -> u64 {
        size.next_multiple_of(self.granule)
    }

    fn fits(&self, size: u64, alignment: u64) -> bool {
        let (span, alignment) = (
            u128::from(self.span(size)),
            u128::from(alignment.max(self.granule)),
        );
        self.holes.iter().any(|(&start, &len)| {
            u128::from(start).next_multiple_of(alignment) + span
                <= u128::from(start) + u128::from(len)
        })
    }

    fn allocate(&mut self, offset: u64, span: u64) {
        let hole = self
            .holes
            .range(..=offset)
            .next_back()
            .map(|(&start, &len)| (start, len));
        let (start, len) = hole.unwrap_or_else(|| {
            panic!("{offset:#x} lies below every hole: it is taken, or outside")
        });
        let (end, hole_end) = (
            offset.checked_add(span).expect("no range ends beyond 2^64"),
            start + len,
        );
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
        let span = self
            .used_ranges
            .remove(&offset)
            .expect("the program frees what it took");
        self.used -= span;
        let (mut start, mut len) = (offset, span);
        if let Some((&below, &its)) = self
            .holes
            .range(..offset)
            .next_back()
            .filter(|(below, its)| **below + **its == offset)
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

struct RangeProgram<'b> {
    bytes: Bytes<'b>,
    subject: RangeSubject,
    model: RangeModel,
    live: Vec<LiveRange>,
    dead: Vec<VirtualAllocation>,
    ran: Ran,
    tried: Tried,
}

/// Runs the program in `bytes` on the range allocator that `make` makes for a size and a granule.
///
/// # Panics
/// When it says or does something that intervals do not.
pub(crate) fn range_ops(bytes: &[u8], make: impl FnOnce(u64, u64) -> RangeSubject) -> (Ran, Tried) {
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
    let mut program = RangeProgram {
        bytes,
        subject: make(size, granule),
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
    (program.ran, program.tried)
}

impl RangeProgram<'_> {
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

    fn allocate(&mut self, high: bool) -> Option<bool> {
        let (size, alignment) = (self.size()?, self.alignment()?);
        if self.live.len() == LIVE {
            return Some(false);
        }
        let answer = self.subject.allocate(size, alignment, high);
        Some(self.check_answer(size, alignment, answer, false))
    }

    /// Whether the answer to a request that makes sense is right; true when it was granted.
    fn check_answer(
        &mut self,
        size: u64,
        alignment: u64,
        answer: Result<(VirtualAllocation, u64, u64), NoRange>,
        armed: bool,
    ) -> bool {
        match answer {
            Ok((id, offset, granted)) => {
                assert!(
                    offset.is_multiple_of(alignment),
                    "{offset:#x} is not aligned to {alignment:#x}"
                );
                assert!(
                    offset.is_multiple_of(self.model.granule),
                    "{offset:#x} is within a granule"
                );
                let span = self.model.span(size);
                let whole = span.next_multiple_of(alignment);
                assert!(
                    granted == span || granted == whole && granted - span <= span / 4,
                    "{granted:#x} for {size:#x} aligned to {alignment:#x}"
                );
                self.model.allocate(offset, granted);
                assert!(!self.dead.contains(&id), "{id:?} is given out again");
                self.live.push(LiveRange {
                    id,
                    offset,
                    size,
                    granted,
                });
                self.tried.alignment(alignment);
                self.tried.size(size);
                true
            }
            Err(NoRange::Full) => {
                let fits = self.model.fits(size, alignment);
                assert!(
                    !fits,
                    "{size:#x} aligned to {alignment:#x} is refused, and there is a hole: {:x?}",
                    self.model.holes
                );
                self.tried.note("refused for lack of a hole");
                false
            }
            Err(NoRange::Host) if armed => {
                self.tried.note("refused for lack of host memory");
                false
            }
            Err(other) => panic!(
                "{size:#x} aligned to {alignment:#x} of {:#x}: {other:?}",
                self.model.size
            ),
        }
    }

    fn free(&mut self, index: usize) {
        let LiveRange { id, offset, .. } = self.live.swap_remove(index);
        self.subject
            .free(id)
            .expect("a live range can be given back");
        self.model.free(offset);
        self.bury(id);
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
        assert_eq!(
            self.subject.free(id),
            Err(NoRange::Stale),
            "{id:?} was given back before"
        );
        assert_eq!(self.subject.find(id), None, "{id:?} was given back before");
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
        let answer = self.subject.allocate(size, alignment, which & 1 == 0);
        match answer.map(|(_, offset, _)| offset) {
            Err(NoRange::Misuse) => self.tried.note("bad request"),
            // An alignment above the space leaves offset 0, which is a multiple of everything.
            Err(NoRange::Full) if which % 9 == 7 => {}
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
        self.subject.refuse_host(Some(nth.into()));
        let answer = self.subject.allocate(size, alignment, false);
        self.subject.refuse_host(None);
        let short = answer.is_err_and(|why| why == NoRange::Host);
        let granted = self.check_answer(size, alignment, answer, true);
        if !short {
            return Some(granted);
        }
        self.totals();
        let answer = self.subject.allocate(size, alignment, false);
        Some(self.check_answer(size, alignment, answer, false))
    }

    fn look_up(&mut self) -> Option<bool> {
        let Some(index) = self.bytes.below(LIVE)?.checked_rem(self.live.len()) else {
            return Some(false);
        };
        let LiveRange {
            id,
            offset,
            size,
            granted,
        } = self.live[index];
        let found = self.subject.find(id).expect("a live range is found");
        assert!(
            found == (offset, size) || found == (offset, granted),
            "{id:?} is {found:x?}, not {offset:#x}+{size:#x}"
        );
        Some(true)
    }

    /// Rarely, since everything begins anew then.
    fn clear(&mut self) -> Option<bool> {
        if self.bytes.next()? < 240 {
            return Some(true);
        }
        self.subject.clear();
        while let Some(LiveRange { id, offset, .. }) = self.live.pop() {
            self.model.free(offset);
            self.bury(id);
        }
        self.compare();
        self.tried.note("clear");
        Some(true)
    }

    fn totals(&mut self) {
        let RangeTotals {
            used, free, live, ..
        } = self.subject.totals();
        let expected = (
            self.model.used,
            self.model.size - self.model.used,
            self.live.len() as u64,
        );
        assert_eq!((used, free, live), expected, "used, free, live");
        self.ran.compared += 1;
    }

    /// The walk is the model's intervals: no range lost, no two holes side by side.
    fn compare(&mut self) {
        self.totals();
        let mut taken = self.model.used_ranges.iter().peekable();
        let mut holes = self.model.holes.iter().peekable();
        let mut at = 0;
        self.subject.walk(&mut |offset, size, is_taken| {
            assert_eq!(offset, at, "the walk leaves something out");
            let next = if is_taken { taken.next() } else { holes.next() };
            assert_eq!(
                next,
                Some((&offset, &size)),
                "the walk's next interval, taken: {is_taken}"
            );
            at += size;
        });
        assert_eq!(at, self.model.size, "the walk ends early");
        let largest = self.model.holes.values().copied().max().unwrap_or(0);
        assert_eq!(self.subject.totals().largest, largest, "the largest hole");
    }
}
