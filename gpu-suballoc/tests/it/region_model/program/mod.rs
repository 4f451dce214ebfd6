//! Random use of two allocators beside an interval model of every block: regions, crops of crops, wrapped buffers,
//! maps, batches, pools, trims, defragmentations, bad input, failures of host and device. What an allocator says is
//! held against what was asked, against each other region, and against what the device says it gave. The fuzz target
//! includes this folder.
#![allow(unreachable_pub, reason = "nothing of a test is for others")]

pub mod again;
mod crops;
mod maps;
mod model;
mod moves;
pub mod subject;
mod wrong;

use again::*;
use alloc_core::HostAllocator;
use debug_guard::FailingAllocator;
use gpu_suballoc::{
    AllocatorOptions, BlockAlgorithm, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError, Lifetime,
    MemoryPreference, PoolId, PoolOptions, PropertyFlags, Region, RegionId, RegionOptions, ResourceKind,
    ResourceRequirements, allocator::*, device::*, error::GpuMisuse::*, pool::*, region::*, report::*, request::*,
};
use mock_device::*;
use model::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use subject::*;
use testkit::RecordingAllocator;
use testkit::programs::{Bytes, Ran, Tried};

/// Live regions at most, of one allocator.
const LIVE: usize = 1024;
/// Operations between two walks.
const WALK: u64 = 256;

/// One allocator and what must be true of it.
struct Side {
    subject: RegionSubject,
    model: RegionModel,
    pools: [bool; 2],
    frame: u32,
}

struct RegionProgram<'b> {
    bytes: Bytes<'b>,
    sides: [Side; 2],
    /// The one that the current operation is about.
    at: usize,
    ran: Ran,
    tried: Tried,
}

/// Runs the program in `bytes` on two allocators of one kind that `make` makes, each over a device of its own.
///
/// # Panics
/// When one says or does what it must not.
pub fn region_ops(bytes: &[u8], make: impl Fn() -> RegionSubject) -> (Ran, Tried) {
    let sides = [(); 2].map(|()| {
        let subject = make();
        let model = RegionModel::new(subject.device());
        Side { subject, model, pools: [false; 2], frame: 0 }
    });
    let mut program =
        RegionProgram { bytes: Bytes::new(bytes), sides, at: 0, ran: Ran::default(), tried: Tried::default() };
    while let Some(succeeded) = program.step() {
        program.ran.count(succeeded);
        program.compare();
    }
    program.finish()
}

impl RegionProgram<'_> {
    fn side(&mut self) -> &mut Side {
        &mut self.sides[self.at]
    }

    /// One operation: whether it did what it says; `None` when the program is over.
    fn step(&mut self) -> Option<bool> {
        let (kind, fine) = (self.bytes.next()?, self.bytes.next()?);
        // Mostly the first, so that it becomes full.
        self.at = usize::from(fine >= 224);
        Some(match kind % 64 {
            0..=17 => self.allocate()?,
            18..=35 => self.free_one(fine)?,
            36 | 37 => self.allocate_batch()?,
            38 | 39 => self.free_batch()?,
            40..=43 => self.crop()?,
            44 => self.wrap()?,
            45 => self.detach()?,
            46..=48 => self.map()?,
            49..=51 => self.unmap()?,
            52 => self.look()?,
            53 => self.stale()?,
            54 => self.foreign()?,
            55 => self.bad_request()?,
            56 => self.bad_crop()?,
            57 | 58 => self.refused()?,
            59 => self.pool()?,
            60 => self.free_held()?,
            61 | 62 if fine % 2 == 1 => self.defragment()?,
            61 => {
                self.side().subject.allocator().trim(u64::MAX >> (fine % 64));
                true
            }
            62 => {
                let side = self.side();
                side.frame += 1;
                side.subject.allocator().set_frame(side.frame);
                true
            }
            _ => self.free_by_id()?,
        })
    }

    /// A live entry.
    fn pick(&mut self) -> Option<Option<usize>> {
        let which = self.bytes.below(LIVE)?;
        Some(which.checked_rem(self.side().model.entries.len()))
    }

    fn is_full(&mut self, more: usize) -> bool {
        self.side().model.entries.len() + more > LIVE
    }

    /// Any request that makes sense.
    fn request(&mut self) -> Option<RegionRequest> {
        let [shape, fine, power, how, place] =
            [self.bytes.next()?, self.bytes.next()?, self.bytes.next()?, self.bytes.next()?, self.bytes.next()?];
        let fine = u64::from(fine);
        let size = match shape % 16 {
            0 => 1 + fine,
            1..=5 => 256 * (1 + fine % 16) - fine % 3,
            6..=10 => (1 << (8 + fine % 9)) + fine,
            11 | 12 => (1 << (fine % 21)) - 1 + fine / 86,
            13 | 14 => (1 << (14 + fine % 7)) + 4096 * fine,
            _ => (1 << (20 + fine % 5)) + 65_536 * fine,
        };
        let alignment = 1 << if power < 200 { power % 10 } else { power % 17 };
        let resource = match how & 7 {
            0..=3 => Resource::Linear,
            4 => Resource::Optimal,
            5 => Resource::Unknown,
            _ => Resource::Buffer,
        };
        let lifetime = match how >> 3 & 7 {
            0..=2 => Lifetime::Transient,
            3 | 4 => Lifetime::Unknown,
            _ => Lifetime::Persistent,
        };
        let (visible, local) = (PropertyFlags::HOST_VISIBLE, PropertyFlags::DEVICE_LOCAL);
        let memory = [PropertyFlags::NONE, visible, local, visible][usize::from(how >> 6)];
        let side = self.side();
        let pool = match place {
            200..208 => Some(usize::from(place & 1)).filter(|slot| side.pools[*slot]),
            _ => None,
        };
        let device = &side.model.device;
        let types = (1_u32 << device.types.len()) - 1;
        // A few ask for few types, but for one at least that has what is wanted.
        let few = types & u32::from(place).wrapping_mul(0x9E37_79B9) >> 7;
        let can = (0..device.types.len())
            .any(|index| (few & device.ordinary) >> index & 1 == 1 && device.types[index].contains(memory));
        let bits = if place >= 224 && can { few } else { types };
        let dedicated = place == 223 && pool.is_none();
        let size = size.max(1);
        let ask = RegionRequest { size, alignment, bits, memory, resource, lifetime, dedicated, pool };
        if pool.is_none() {
            return Some(ask);
        }
        // A pool has a memory type and blocks of a size; whoever asks it knows that.
        let (size, alignment) = (size.min(1 << 16), alignment.min(1 << 12));
        Some(RegionRequest { size, alignment, bits: types, memory: PropertyFlags::NONE, ..ask })
    }

    fn allocate(&mut self) -> Option<bool> {
        let ask = self.request()?;
        if self.is_full(1) {
            return Some(false);
        }
        let answer = self.side().subject.allocate(&ask);
        Some(self.check_answer(&ask, answer, false))
    }

    /// Whether the answer to a request that makes sense is right; true when it was granted.
    fn check_answer(&mut self, ask: &RegionRequest, answer: Result<Region, GpuError>, armed: bool) -> bool {
        match answer {
            Ok(region) => {
                self.check_allocated(region, ask);
                return true;
            }
            Err(GpuError::Host(_)) if armed => self.tried.note("refused by the host"),
            Err(error) if is_short(error) => {
                // What failed on purpose may have been a resource's creation, which no hole mends.
                if !armed && !ask.dedicated {
                    let side = self.side();
                    let hole = side.model.fitting_hole(&side.subject, ask);
                    assert!(hole.is_none(), "{ask:x?} is refused, and there is a hole: {hole:x?}");
                    self.tried.note("refused for lack of a hole");
                }
            }
            Err(other) => panic!("{ask:x?}: {other:?}"),
        }
        false
    }

    fn check_allocated(&mut self, region: Region, ask: &RegionRequest) -> RegionFacts {
        let side = &mut self.sides[self.at];
        let facts = side.model.check_allocated(&side.subject, region, ask);
        self.tried.note(facts.class.name());
        if ask.resource != Resource::Buffer {
            self.tried.alignment(ask.alignment);
        }
        self.tried.size(ask.size);
        if ask.pool.is_some() {
            self.tried.note("in a custom pool");
        }
        facts
    }

    fn allocate_batch(&mut self) -> Option<bool> {
        let count = 2 + usize::from(self.bytes.next()? % 30);
        let ask = self.request()?;
        let (size, resource) = (ask.size.min(1 << 20), Resource::Linear);
        let ask = RegionRequest { pool: None, dedicated: false, resource, size, ..ask };
        if self.is_full(count) {
            return Some(false);
        }
        match self.side().subject.allocate_batch(&ask, count) {
            Ok(regions) => {
                assert_eq!(regions.len(), count);
                for region in regions {
                    self.check_allocated(region, &ask);
                }
                self.tried.note("batch");
                Some(true)
            }
            Err(error) if is_short(error) => Some(false),
            Err(other) => panic!("{count} times {ask:x?}: {other:?}"),
        }
    }

    /// Which entries may be freed: not mapped, without crops.
    fn is_free(&mut self, index: usize) -> bool {
        let entry = &self.side().model.entries[index];
        entry.maps == 0 && entry.crops == 0
    }

    fn free_one(&mut self, fine: u8) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        if !self.is_free(index) {
            return Some(false);
        }
        let way = if fine % 4 == 3 { FreeMethod::Release } else { FreeMethod::Free };
        Some(self.free(index, way))
    }

    /// False only where a linear pool wants another first.
    fn free(&mut self, index: usize, way: FreeMethod) -> bool {
        let side = self.side();
        let mut entry = side.model.remove(index);
        match side.subject.free(entry.region, way) {
            Ok(()) => {
                side.model.bury(entry.id);
                true
            }
            Err((GpuError::Misuse(OutOfOrder), region)) if entry.facts.class == Class::Linear => {
                entry.region = region;
                side.model.restore(entry);
                false
            }
            Err((no, _)) => panic!("{:?}, a live region {:x?}, is freed: {no:?}", entry.id, entry.facts),
        }
    }

    fn free_by_id(&mut self) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        // A linear pool may want another first.
        if !self.is_free(index) || self.side().model.entries[index].facts.class == Class::Linear {
            return Some(false);
        }
        let side = self.side();
        let entry = side.model.remove(index);
        side.model.bury(entry.id);
        assert_eq!(side.subject.free_id(entry.id), Ok(()), "{:x?}", entry.facts);
        // The region itself is worth nothing now.
        let again = side.subject.free(entry.region, FreeMethod::Free).map_err(|(no, _)| no);
        assert_eq!(again, Err(Stale.into()), "{:?} was freed by its id", entry.id);
        self.tried.note("double free");
        Some(true)
    }

    fn free_batch(&mut self) -> Option<bool> {
        let (count, first) = (2 + usize::from(self.bytes.next()? % 30), self.pick()?);
        let Some(first) = first else {
            return Some(false);
        };
        let end = (first + count).min(self.side().model.entries.len());
        let chosen: Vec<usize> = (first..end)
            .filter(|index| self.is_free(*index) && self.side().model.entries[*index].facts.class != Class::Linear)
            .collect();
        let side = self.side();
        let keys: Vec<u64> = chosen.into_iter().map(|index| side.model.entries[index].key).collect();
        let regions = keys.into_iter().map(|key| {
            let entry = side.model.remove(side.model.by_key(key));
            side.model.bury(entry.id);
            Some(entry.region)
        });
        let mut regions = Vec::from_iter(regions);
        assert_eq!(side.subject.allocator().free_batch(&mut regions), Ok(()), "of live regions");
        assert!(regions.iter().all(Option::is_none));
        Some(true)
    }

    fn look(&mut self) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        let side = self.side();
        let entry = &mut side.model.entries[index];
        assert_eq!(side.subject.allocator().refresh(&mut entry.region), Ok(()));
        assert_eq!(side.subject.facts(&entry.region), entry.facts, "facts of {:?} do not change", entry.id);
        assert_eq!(side.subject.facts_by_id(entry.id), Ok(entry.facts), "by its id, and by itself");
        Some(true)
    }

    /// Creates a custom pool, or destroys one.
    fn pool(&mut self) -> Option<bool> {
        let (slot, linear) = (usize::from(self.bytes.next()? & 1), self.bytes.next()? & 1 == 1);
        let side = self.side();
        if !side.pools[slot] {
            let made = side.subject.create_pool(slot, linear);
            assert!(made.is_ok() || made.is_err_and(is_short), "{made:?}");
            side.pools[slot] = made.is_ok();
            return Some(made.is_ok());
        }
        let used = side.model.entries.iter().any(|entry| entry.pool == Some(slot));
        let expected = if used { Err(PoolInUse.into()) } else { Ok(()) };
        assert_eq!(side.subject.destroy_pool(slot), expected, "the end of a pool in use: {used}");
        side.pools[slot] = used;
        self.tried.note(if used { "end of a pool in use refused" } else { "end of a pool" });
        Some(true)
    }

    fn compare(&mut self) {
        self.ran.compared += 1;
        let side = &self.sides[self.at];
        side.model.compare_sums(&side.subject);
        if self.ran.operations.is_multiple_of(WALK) {
            self.sides.iter().for_each(|side| side.model.compare_walk(&side.subject));
        }
    }

    /// Frees everything, crops before their roots, and closes the allocators.
    fn finish(mut self) -> (Ran, Tried) {
        for at in 0..self.sides.len() {
            self.at = at;
            let side = self.side();
            side.model.compare_walk(&side.subject);
            while let Some(index) = self.side().model.entries.iter().position(|entry| entry.maps > 0) {
                self.unmap_one(index);
            }
            for crops in [true, false] {
                let mut refused = 0;
                let is_next = |kind: Kind| matches!(kind, Kind::Crop { .. }) == crops;
                while let Some(index) = self.side().model.entries.iter().rposition(|entry| is_next(entry.kind)) {
                    if self.free(index, FreeMethod::Free) {
                        refused = 0;
                    } else {
                        // Another one's turn: the last becomes the first.
                        refused += 1;
                        let entries = &mut self.side().model.entries;
                        assert!(refused <= entries.len(), "a linear pool wants nothing back");
                        entries.rotate_right(1);
                    }
                }
            }
            self.compare();
            let side = self.side();
            for slot in (0..2).filter(|slot| side.pools[*slot]) {
                assert_eq!(side.subject.destroy_pool(slot), Ok(()), "the end of an empty pool");
            }
        }
        for side in self.sides {
            side.model.compare_walk(&side.subject);
            side.subject.close();
        }
        (self.ran, self.tried)
    }
}
