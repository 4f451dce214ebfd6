//! Margins behind regions: a pattern that is written when a region is placed, and looked at when it is freed, or on demand.

use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::{DeviceMemory, MappedRange};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RegionPlaceKind, RegionSlot};
use crate::pool::Suballocation;
use crate::property_flags::PropertyFlags;
use crate::threads;

/// Neither zeros nor text nor a small number, whatever the width.
const PATTERN: [u8; 4] = [0x9d, 0xe3, 0xb7, 0xc5];

/// So often it is asked whether all margins are written.
const LOOKS: u32 = 1 << 14;

/// One of those who are counted: from before a region can be found until its margin is written, or while a margin is asked of the device.
pub(super) struct Counted<'c>(&'c AtomicU32);

impl<'c> Counted<'c> {
    /// The lock of a pool, which is taken next, orders it with those who look at the count after they had that lock.
    fn new(count: &'c AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Whoever sees the count fall sees what was done before.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The first byte of a margin that is not the pattern, and how many from there to the last one.
fn damage(margin: impl Iterator<Item = u8>) -> Option<(u64, u64)> {
    let mut found: Option<(u64, u64)> = None;
    for ((number, byte), wanted) in (0u64..).zip(margin).zip(PATTERN.into_iter().cycle()) {
        if byte != wanted {
            let first = found.map_or(number, |(first, _)| first);
            found = Some((first, number - first + 1));
        }
    }
    found
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Refuses the first free of a region whose margin was written to. The next one finds the pattern again.
    #[cold]
    pub(super) fn check_margin(&self, at: RegionSlot) -> Result<(), GpuMisuse> {
        match self.read_margin(at, true) {
            Some((placed, Some(_))) => {
                let _ = self.write_margin(&placed);
                Err(GpuMisuse::MarginOverwritten)
            }
            _ => Ok(()),
        }
    }

    /// Called before a region is placed whose margin is to be written.
    pub(super) fn begin_arming(&self) -> Counted<'_> {
        Counted::new(&self.arming)
    }

    /// Called after a region was placed, before anybody writes there: it may lie where a region was freed whose margin is being asked of the
    /// device, and that discards what the host did not flush. A thread that is asking itself, further out, does not wait for ever.
    fn await_asking(&self) {
        let mut tries = 0;
        while self.asking.load(Ordering::Acquire) != 0 && threads::pause(&mut tries) {}
    }

    /// Whether there was a moment at which no thread was about to write a margin: then that of each region that was found before is written,
    /// and flushed.
    pub(crate) fn margins_are_written(&self) -> bool {
        (0..LOOKS).any(|_| {
            let is_none_to_come = self.arming.load(Ordering::Acquire) == 0;
            if !is_none_to_come {
                core::hint::spin_loop();
            }
            is_none_to_come
        })
    }

    /// Writes the pattern behind a region that was just placed; on refusal the region is freed again.
    #[cold]
    pub(super) fn arm_margin(
        &self,
        placed: Suballocation,
        user_data: u32,
    ) -> Result<Suballocation, GpuError> {
        self.await_asking();
        match self.write_margin(&placed) {
            Ok(()) => Ok(placed),
            Err(error) => {
                let env = self.device_and_host();
                let freed = self.pools.free_recorded(env, placed.at, user_data);
                debug_assert!(freed.is_ok(), "placed a moment ago: {freed:?}");
                Err(error)
            }
        }
    }

    /// Whether there is a margin behind it: blocks that are shared and that the host sees have them.
    fn has_margin(&self, placed: &Suballocation) -> bool {
        let kind = placed.at.kind();
        matches!(kind, RegionPlaceKind::General | RegionPlaceKind::Linear)
            && self.pools.margin_of(placed.properties) > 0
    }

    /// The margin in its memory object.
    fn margin_range(&self, placed: &Suballocation) -> MappedRange {
        MappedRange {
            memory: placed.memory,
            offset: placed.offset.saturating_add(placed.size),
            size: self.pools.margin_of(placed.properties),
        }
    }

    fn write_margin(&self, placed: &Suballocation) -> Result<(), GpuError> {
        if !self.has_margin(placed) {
            return Ok(());
        }
        let env = self.device_and_host();
        let first = self.pools.map(env, placed.at)?;
        let margin = first.as_ptr().wrapping_add(placed.size as usize);
        let range = self.margin_range(placed);
        for (number, byte) in (0..range.size as usize).zip(PATTERN.into_iter().cycle()) {
            // SAFETY: the margin is the end of the region's range of the block, which is mapped as a whole until the unmap below.
            unsafe { margin.wrapping_add(number).write_volatile(byte) };
        }
        let flushed = self.sync_range(placed.properties, u64::MAX, range, true);
        self.pools.unmap(env, placed.at)?;
        flushed
    }

    /// Where a region with a margin lies, and what is wrong with the margin. `None` for one without, for one that is gone, and where the
    /// memory cannot be mapped or read. What the device wrote is seen where the margin `is_written`, and only there: to ask for it discards
    /// what the host did not flush yet.
    pub(crate) fn read_margin(
        &self,
        at: RegionSlot,
        is_written: bool,
    ) -> Option<(Suballocation, Option<(u64, u64)>)> {
        if !matches!(
            at.kind(),
            RegionPlaceKind::General | RegionPlaceKind::Linear
        ) {
            return None;
        }
        let (placed, _) = self.pools.find(at).ok()?;
        if !self.has_margin(&placed) {
            return None;
        }
        let env = self.device_and_host();
        let (object, first) = self.pools.map_object(env, at).ok()?;
        let margin = first.as_ptr().wrapping_add(placed.size as usize);
        let range = self.margin_range(&placed);
        let look = || {
            damage((0..range.size as usize).map(|number| {
                // SAFETY: as in `write_margin`. Volatile, for whoever wrote here by mistake may be at it still.
                unsafe { margin.wrapping_add(number).read_volatile() }
            }))
        };
        // What the host wrote is seen before, what the device wrote after the invalidation, which may discard the former.
        let (mut found, mut read) = (look(), Ok(()));
        let is_coherent = placed.properties.contains(PropertyFlags::HOST_COHERENT);
        let place = |of: &Suballocation| (of.memory, of.offset, of.size);
        let is_there = || (self.pools.find(at)).is_ok_and(|(now, _)| place(&now) == place(&placed));
        if found.is_none() && is_written && !is_coherent {
            let _asking = Counted::new(&self.asking);
            // Of one that is there now, what comes in its place waits.
            if is_there() {
                let _call = threads::enter_call();
                // Whole atoms, none of which has a byte of the region: what the host wrote there and did not flush yet stays.
                read = self.sync_range(placed.properties, u64::MAX, range, false);
                found = look();
            }
        }
        // Moved or freed by another thread before it was mapped, the margin was anybody's. The memory object is not: it is counted down
        // whatever became of the region.
        let lives = is_there();
        let unmapped = self.pools.unmap_object(env, object).is_ok();
        (read.is_ok() && lives && unmapped).then_some((placed, found))
    }
}
