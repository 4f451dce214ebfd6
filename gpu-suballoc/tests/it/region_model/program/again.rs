//! A device that calls back whoever called it, at every call: allocates, maps, crops, frees, looks at all of it, and
//! keeps some regions from one call to the next, so that what is half done somewhere meets it.

use super::*;

/// How often any of them did something.
pub static TIMES: AtomicU64 = AtomicU64::new(0);

/// Regions that it keeps at most.
const KEPT: usize = 12;

/// See the file.
pub struct Again<D: DeviceMemory + 'static, A: HostAllocator + 'static> {
    gpu: &'static GpuAllocator<D, A>,
    /// Locked while it is at it: its own calls of the device do not come back to it.
    kept: Mutex<Vec<Region>>,
    pub turns: AtomicU64,
    how: How,
}

/// What it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Everything.
    Keeping,
    /// From this turn on, and leaves nothing behind.
    #[allow(dead_code, reason = "the sweep's")]
    Clean(u64),
    /// At this turn it frees somebody else's region: what a half-done state would come to.
    #[allow(dead_code, reason = "for the test that this is seen")]
    Harm(u64),
}

impl<D: DeviceMemory, A: HostAllocator> Again<D, A> {
    pub const fn new(gpu: &'static GpuAllocator<D, A>, how: How) -> Self {
        let first = if let How::Clean(first) = how { first } else { 0 };
        Self { gpu, kept: Mutex::new(Vec::new()), turns: AtomicU64::new(first), how }
    }

    /// At a call of the device.
    pub fn at(&self, call: MockCall) {
        // The facts of the device never change: nothing is under way where they are asked for.
        if call == MockCall::Properties {
            return;
        }
        let Ok(mut kept) = self.kept.try_lock() else {
            return;
        };
        assert_eq!(alloc_core::held_state_locks(), 0);
        TIMES.fetch_add(1, Relaxed);
        let turn = self.turns.fetch_add(1, Relaxed);
        if let How::Harm(at) = self.how
            && turn == at
        {
            let picture = self.gpu.memory_map().unwrap_or_else(|error| panic!("{error}"));
            let others = picture.leaks().map(|leak| leak.id).filter(|id| kept.iter().all(|mine| mine.id() != *id));
            for id in others {
                let _ = self.gpu.free_id(id);
            }
        }
        if let Err(error) = self.turn(turn, &mut kept) {
            // A limit, a failure that is planted, or the very memory that is being mapped.
            let nested = error == NestedMap.into();
            assert!(
                nested
                    || matches!(
                        error,
                        GpuError::Host(_) | GpuError::Device(_) | GpuError::AfterAllocation(_) | GpuError::Limit(_)
                    ),
                "{error}"
            );
        }
    }

    fn turn(&self, turn: u64, kept: &mut Vec<Region>) -> Result<(), GpuError> {
        let lifetime = [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent][(turn % 3) as usize];
        let options = RegionOptions::new().lifetime(lifetime);
        let visible = options.preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
        let needs = ResourceRequirements::new(1 + turn * 97 % 3000, 1 << (turn % 8));
        let clean = matches!(self.how, How::Clean(_));
        match turn % 9 {
            0 | 1 if kept.len() < KEPT && !clean => kept.push(self.gpu.allocate(&needs, &options)?),
            2 if !kept.is_empty() => {
                let region = kept.swap_remove(turn as usize % kept.len());
                self.free(region);
            }
            3 => {
                let region = self.gpu.allocate(&needs, &visible)?;
                let mapped = self.gpu.map(&region).map(|mapping| {
                    // SAFETY: mapped, and as long as that.
                    unsafe { mapping.as_ptr().write_bytes(0x5A, mapping.len()) };
                });
                let flushed = mapped.and_then(|()| match self.gpu.flush(&region, 0, 1) {
                    Err(GpuError::Misuse(NotMapped)) => Ok(()),
                    flushed => flushed,
                });
                self.free(region);
                return flushed;
            }
            4 => {
                let Some(root) = kept.first() else {
                    return Ok(());
                };
                let crop = self.gpu.crop(root, 0, 1, 1)?;
                let deeper = self.gpu.crop(&crop, 0, 1, 1);
                let named = self.gpu.set_name(&crop, &RegionOptions::new().name("again"));
                let refused = self.gpu.free_id(root.id());
                assert_eq!(refused, Err(HasCrops.into()));
                // Also where the host refused the one within.
                let deeper = deeper.map(|deeper| self.free(deeper));
                self.free(crop);
                return deeper.and(named);
            }
            5 => {
                let info = BufferInfo::new(needs.size, BufferUsage::TRANSFER_SRC);
                let region = self.gpu.create_buffer(&info, &options)?;
                self.free(region);
            }
            6 => {
                let region = self.gpu.allocate(&needs, &options)?;
                let id = region.id();
                self.gpu.free_id(id)?;
                assert_eq!(self.gpu.free_id(id), Err(Stale.into()));
            }
            7 if !clean => drop(self.gpu.trim(1 << 16)),
            _ => return self.look(kept),
        }
        Ok(())
    }

    /// All of it, as it is in the middle of somebody's call.
    fn look(&self, kept: &[Region]) -> Result<(), GpuError> {
        let picture = self.gpu.memory_map()?;
        let mut seen = 0;
        for (block, ranges) in picture.blocks_with_ranges() {
            let end = ranges.iter().fold(0, |end, range| {
                assert_eq!(range.offset, end, "ranges tile their block");
                end + range.size
            });
            assert_eq!(end, block.size);
            for range in ranges.iter().filter(|range| range.range_use == RangeUse::Region) {
                let Some(mine) = kept.iter().find(|mine| Some(mine.id()) == range.id) else {
                    continue;
                };
                let place = (mine.memory().map_or(0, MemoryHandle::as_raw), mine.offset());
                assert_eq!(place, (block.memory, range.offset), "{mine:?} lies where it lay");
                seen += 1;
            }
        }
        assert_eq!(seen, kept.len(), "what lives is seen");
        for mine in kept {
            assert_eq!(self.gpu.info(mine.id()).map(|info| (info.offset, info.size)), Ok((mine.offset(), mine.size())));
        }
        Ok(())
    }

    fn free(&self, region: Region) {
        if let Err(refused) = self.gpu.free(region) {
            panic!("{}", refused.error);
        }
    }

    /// How many regions are its own.
    pub fn count(&self) -> u64 {
        self.kept.lock().expect("no panic").len() as u64
    }

    /// Whether a region is its own.
    pub fn has(&self, id: RegionId) -> bool {
        self.kept.lock().expect("no panic").iter().any(|mine| mine.id() == id)
    }

    /// Frees its own, and does nothing more.
    pub fn end(&self) {
        let mut kept = self.kept.lock().expect("no panic");
        kept.drain(..).for_each(|region| self.free(region));
    }
}
