use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::{DeviceMemory, MappedRange};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RangePlacement, RegionKey};
use crate::memory_type::PropertyFlags;
use crate::on_drop::OnDrop;
use crate::pool::{HostAccess, Suballocation};
use crate::threads;

/// Neither zeros nor text nor a small number of any width.
const PATTERN: [u8; 4] = [0x9d, 0xe3, 0xb7, 0xc5];

const MAX_ATTEMPTS: u32 = 1 << 14;

/// A thread counts until the margin is written, or while it reads a margin from the device.
fn count(count: &AtomicU32) -> OnDrop<impl FnMut() + use<'_>> {
    // The lock of a pool, which is taken next, orders it with those who look at the count after they had that lock.
    count.fetch_add(1, Ordering::Relaxed);
    OnDrop(|| {
        // A thread that sees the count fall sees the margin, or that the device was read.
        count.fetch_sub(1, Ordering::Release);
    })
}

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
    /// It restores the pattern, so that the next free succeeds.
    #[cold]
    pub(super) fn check_margin(&self, key: RegionKey) -> Result<(), GpuMisuse> {
        match self.read_margin(key, true) {
            Some((placed, Some(_))) => {
                let _ = self.write_margin(&placed, self.whole_margin(&placed));
                Err(GpuMisuse::MarginOverwritten)
            }
            _ => Ok(()),
        }
    }

    /// Called after a region was placed and before the host writes to it: another thread may be reading from the device
    /// the margin that was there before, which discards unflushed writes of the host. A thread that is reading itself,
    /// in an outer call, stops waiting.
    fn await_asking(&self) {
        let mut tries = 0;
        while self.asking.load(Ordering::Acquire) != 0 && threads::pause(&mut tries) {}
    }

    /// True if there was a moment without a thread about to write a margin: the margins of all regions found before are
    /// written then.
    pub(crate) fn margins_are_written(&self) -> bool {
        (0..MAX_ATTEMPTS).any(|_| {
            core::hint::spin_loop();
            self.arming.load(Ordering::Acquire) == 0
        })
    }

    #[cold]
    pub(super) fn place_with_margin(
        &self,
        place: impl FnOnce() -> Result<Suballocation, GpuError>,
    ) -> Result<Suballocation, GpuError> {
        let _arming = count(&self.arming);
        let placed = place()?;
        self.await_asking();
        // The atom that margin and region share is flushed as well: the device has written nothing there yet.
        match self.write_margin(&placed, placed.size) {
            Ok(()) => Ok(placed),
            Err(error) => {
                let freed = self.pools().free(placed.at);
                debug_assert!(freed.is_ok(), "{freed:?}");
                Err(error)
            }
        }
    }

    fn margin_size(&self, placed: &Suballocation) -> u64 {
        let margin = self.pools.margin_of(placed.properties);
        if margin == 0 || placed.at.kind() == RangePlacement::Dedicated {
            return 0;
        }
        // What a large alignment added is not written.
        let rest = placed.reserved.saturating_sub(placed.size);
        rest.min(margin.saturating_add(self.pools.granule()))
    }

    /// The margin's first byte, from the region's start, that shares no atom with the region: invalidating that atom
    /// would lose writes to the region.
    fn whole_margin(&self, placed: &Suballocation) -> u64 {
        let atom = self.limits.non_coherent_atom_size.max(1);
        (placed.size.checked_next_multiple_of(atom)).unwrap_or(placed.reserved)
    }

    fn margin_from(&self, placed: &Suballocation, first: u64) -> MappedRange {
        let end = placed.size.saturating_add(self.margin_size(placed));
        MappedRange {
            memory: placed.memory,
            offset: placed.offset.saturating_add(first),
            size: end.saturating_sub(first),
        }
    }

    fn write_margin(&self, placed: &Suballocation, flushed: u64) -> Result<(), GpuError> {
        let size = self.margin_size(placed);
        if size == 0 {
            return Ok(());
        }
        let first = self.pools().map(placed.at)?;
        let margin = first.as_ptr().wrapping_add(placed.size as usize);
        for (number, byte) in (0..size as usize).zip(PATTERN.into_iter().cycle()) {
            // SAFETY: the margin is the end of the region's range of the block, which is mapped until the unmap below.
            unsafe { margin.wrapping_add(number).write_volatile(byte) };
        }
        let range = self.margin_from(placed, flushed);
        let flushed = self.sync_range(placed.properties, u64::MAX, range, HostAccess::Wrote);
        self.pools().unmap(placed.at.block)?;
        flushed
    }

    /// The device's writes are read only if the margin `is_written`: the invalidation discards unflushed writes of the
    /// host.
    pub(crate) fn read_margin(&self, key: RegionKey, is_written: bool) -> Option<(Suballocation, Option<(u64, u64)>)> {
        let at = self.records.place_of(key)?;
        let placed = self.pools().find(at).ok()?;
        let size = self.margin_size(&placed);
        if size == 0 {
            return None;
        }
        let first = self.pools().map(at).ok()?;
        let margin = first.as_ptr().wrapping_add(placed.size as usize);
        let range = self.margin_from(&placed, self.whole_margin(&placed));
        let find_damage = || {
            damage((0..size as usize).map(|number| {
                // SAFETY: the margin is the end of the region's range of the block, which is mapped until the unmap
                // below. Volatile: a wrong write may happen meanwhile.
                unsafe { margin.wrapping_add(number).read_volatile() }
            }))
        };
        // The invalidation may discard writes of the host; those of the device are seen after it.
        let (mut found, mut read) = (find_damage(), Ok(()));
        let is_coherent = placed.properties.contains(PropertyFlags::HOST_COHERENT);
        let place = |of: &Suballocation| (of.memory, of.offset, of.size);
        let is_there = || (self.pools().find(at)).is_ok_and(|now| place(&now) == place(&placed));
        if found.is_none() && is_written && !is_coherent {
            let _asking = count(&self.asking);
            // While the region is still there, what is placed after it waits.
            if is_there() {
                let _call = threads::enter_call();
                // These atoms have no byte of the region, whose unflushed writes stay.
                read = self.sync_range(placed.properties, u64::MAX, range, HostAccess::Reads);
                found = find_damage();
            }
        }
        // If another thread moved or freed the region before the mapping, these bytes may be another region's.
        let lives = is_there();
        let unmapped = self.pools().unmap(at.block).is_ok();
        (read.is_ok() && lives && unmapped).then_some((placed, found))
    }
}
