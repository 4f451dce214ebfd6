//! Maps: what may be mapped, where, and that what was written is still there.

use super::*;

/// Regions above this size are not written to: a device of the tests has all its memory from the machine's.
const WRITTEN: u64 = 1 << 20;

impl RegionProgram<'_> {
    pub fn map(&mut self) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        let side = self.side();
        let root = &side.model.entries[side.model.root(index)];
        let can = match root.kind {
            Kind::Wrapped { backed } => backed,
            _ => side.model.device.types[root.facts.memory_type as usize].contains(PropertyFlags::HOST_VISIBLE),
        };
        let entry = &mut side.model.entries[index];
        let at = match side.subject.map(&entry.region) {
            Ok(at) => at,
            Err(no) => {
                assert!(!can && matches!(no, GpuError::MapUnsupported { .. }), "{:x?} is mapped: {no:?}", entry.facts);
                self.tried.note("map refused");
                return Some(true);
            }
        };
        assert!(can, "{:x?} cannot be mapped", entry.facts);
        entry.maps += 1;
        // A crop of a wrapped buffer lies where its root does, whose memory may begin elsewhere than the buffer.
        let base = at.addr().get().wrapping_sub(entry.facts.offset as usize);
        let (known, maps) = side.model.bases.entry(entry.facts.memory).or_insert((base, 0));
        *maps += 1;
        assert_eq!(*known, base, "two maps of one memory object, the second of {:x?}", entry.facts);
        // SAFETY: a map that was just made.
        unsafe { self.mark(index, at) };
        self.tried.note("map");
        Some(true)
    }

    /// What was written last time is there; then both ends are written.
    ///
    /// # Safety
    /// `at` is the region's first byte, mapped.
    unsafe fn mark(&mut self, index: usize, at: NonNull<u8>) {
        let side = self.side();
        let Entry { facts, kind, crops, mark, key, region, .. } = &mut side.model.entries[index];
        let (offset, size) = (facts.offset % 8, facts.size);
        let is_root = matches!(kind, Kind::Owned(_)) && facts.class != Class::Crop;
        if !is_root || *crops > 0 || !(16..=WRITTEN).contains(&size) {
            return;
        }
        let last = usize::try_from(size).expect("it is mapped") - size_of::<u64>();
        // SAFETY: `size` bytes from `at` are mapped.
        let ends: [NonNull<u64>; 2] = [at.cast(), unsafe { at.add(last) }.cast()];
        let gpu = side.subject.allocator();
        gpu.invalidate(region, 0, size).unwrap();
        for end in ends {
            // SAFETY: within the region, which is mapped.
            let found = unsafe { end.read_unaligned() };
            assert!(mark.is_none_or(|mark| mark == found), "{facts:x?} was written {mark:x?} and has {found:#x}");
        }
        let new = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset;
        for end in ends {
            // SAFETY: within the region, which is mapped.
            unsafe { end.write_unaligned(new) };
        }
        gpu.flush(region, 0, size).unwrap();
        *mark = Some(new);
    }

    pub fn unmap(&mut self) -> Option<bool> {
        let which = self.bytes.below(64)?;
        let entries = &self.side().model.entries;
        let mapped: Vec<usize> = (0..entries.len()).filter(|index| entries[*index].maps > 0).collect();
        let Some(which) = which.checked_rem(mapped.len()) else {
            return Some(false);
        };
        self.unmap_one(mapped[which]);
        Some(true)
    }

    pub fn unmap_one(&mut self, index: usize) {
        let side = self.side();
        let entry = &mut side.model.entries[index];
        entry.maps -= 1;
        side.subject.unmap(&entry.region);
        let (_, maps) = side.model.bases.get_mut(&entry.facts.memory).expect("it was mapped");
        *maps -= 1;
        if *maps == 0 {
            side.model.bases.remove(&entry.facts.memory);
        }
    }
}
