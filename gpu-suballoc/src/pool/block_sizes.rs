#![forbid(unsafe_code)]

use super::options::MemoryOptions;
use crate::memory_type::PropertyFlags;

const MIB: u64 = 1 << 20;

/// The last block, nearly empty at worst, is little of all. A smaller part saves nothing in a churn of mixed sizes; an
/// eighth costs 7 % of what lives.
const PART_OF_RESERVED: u64 = 32;
/// Empty blocks of this part of what lives are kept.
const KEPT_PART: u64 = 8;
/// A device that allows fewer memory objects runs out of them before it runs out of bytes.
const FEW_OBJECTS: u32 = 1024;
/// The default size of the largest block, and of the largest one that is not `DEVICE_LOCAL`: there the driver clears
/// each page during the call, at some 4 MiB a millisecond.
const MAX_BLOCK: u64 = 256 * MIB;
const MAX_HOST_BLOCK: u64 = 32 * MIB;

const HALVINGS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(super) next: u64,
    pub(super) first: u64,
    pub(super) max: u64,
    granule: u64,
    multiple: u64,
    part: u64,
}

impl Growth {
    pub(crate) fn new(
        heap_size: u64,
        properties: PropertyFlags,
        (soft_limit, max_objects): (u64, u32),
        options: &MemoryOptions,
    ) -> Self {
        let default = if properties.contains(PropertyFlags::DEVICE_LOCAL) { MAX_BLOCK } else { MAX_HOST_BLOCK };
        let (first, max) = if properties.contains(PropertyFlags::HOST_VISIBLE) {
            let first = options.first_host_block.or(options.first_block);
            (first, options.max_host_block.or(options.max_block))
        } else {
            (options.first_block, options.max_block)
        };
        let granule = u64::from(options.granule);
        let whole = |bytes: u64| (bytes - bytes % granule).max(granule);
        let default = default.min(heap_size / 8).min(soft_limit);
        let max = whole(max.unwrap_or(default).min(heap_size));
        let first = whole(first.unwrap_or((8 * MIB).min(heap_size / 64))).min(max);
        Self {
            next: first,
            first,
            max,
            granule,
            multiple: options.nearest_multiple.max(1),
            part: if max_objects < FEW_OBJECTS { 1 } else { PART_OF_RESERVED },
        }
    }

    pub(crate) fn fixed(size: u64, granule: u64) -> Self {
        Self { next: size, first: size, max: size, granule, multiple: 1, part: PART_OF_RESERVED }
    }

    pub(crate) fn at_most(self, bytes: u64) -> Self {
        let max = self.max.min(bytes - bytes % self.granule).max(self.granule);
        let first = self.first.min(max);
        Self { next: first, first, max, ..self }
    }

    pub(crate) fn first_block(&self) -> u64 {
        self.rounded(self.first).min(self.max)
    }

    pub(crate) fn sizes(&self, need: u64, room: u64) -> impl Iterator<Item = u64> + use<> {
        let need = need.checked_next_multiple_of(self.granule).unwrap_or(u64::MAX);
        let (growth, top) = (*self, self.max.min(room));
        let mut size = self.next.max(need);
        let mut left = if need > top { 0 } else { HALVINGS + 1 };
        // Sizes above budgets and limits are skipped: they cost no attempt.
        while left > 0 && size > top {
            size = smaller(size, need, growth.granule);
        }
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let now = size;
            size = smaller(size, need, growth.granule);
            if size == now {
                left = 0;
            }
            Some(growth.rounded(now).min(top))
        })
    }

    fn rounded(&self, size: u64) -> u64 {
        size.checked_next_multiple_of(self.multiple).unwrap_or(u64::MAX)
    }

    pub(crate) fn follow(&mut self, reserved: u64) {
        self.next = self.within_limits(reserved / self.part);
    }

    /// The next block is not larger than what the pool [keeps](Self::kept), so one that comes and goes stays.
    pub(crate) fn shrink(&mut self, reserved: u64, live: u64) {
        self.follow(reserved);
        self.next = self.next.min(self.within_limits(live / KEPT_PART));
    }

    pub(crate) fn kept(&self, live: u64) -> u64 {
        let kept = self.within_limits(live / KEPT_PART);
        self.rounded(kept).min(self.max)
    }

    fn within_limits(&self, bytes: u64) -> u64 {
        (bytes - bytes % self.granule).clamp(self.first, self.max)
    }
}

fn smaller(size: u64, need: u64, granule: u64) -> u64 {
    let half = size / 2;
    (half - half % granule).max(need)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn sizes(growth: &Growth, need: u64, room: u64) -> Vec<u64> {
        growth.sizes(need, room).collect()
    }

    fn growth_of(heap: u64, ceiling: u64, options: &MemoryOptions) -> Growth {
        Growth::new(heap, PropertyFlags::DEVICE_LOCAL, (ceiling, u32::MAX), options)
    }

    #[test]
    fn ge16_blocks_of_host_memory_stay_small() {
        let host = |options| Growth::new(16 * GIB, PropertyFlags::HOST_VISIBLE, (u64::MAX, u32::MAX), &options);
        let mut growth = host(MemoryOptions::default());
        growth.follow(u64::MAX);
        assert_eq!((growth.next, growth.max), (32 * MIB, 32 * MIB));
        let stated = host(MemoryOptions { max_block: Some(100 * MIB), ..MemoryOptions::default() });
        assert_eq!(stated.max, 100 * MIB, "what the options say counts");
    }

    #[test]
    fn a_refused_block_is_halved_three_times_and_never_below_the_need() {
        let growth = growth_of(16 * GIB, u64::MAX, &MemoryOptions::default());
        assert_eq!(sizes(&growth, 1024, u64::MAX), [8 * MIB, 4 * MIB, 2 * MIB, MIB]);
        assert_eq!(sizes(&growth, 3 * MIB, u64::MAX), [8 * MIB, 4 * MIB, 3 * MIB]);
        assert_eq!(sizes(&growth, 9 * MIB, u64::MAX), [9 * MIB]);
        assert_eq!(sizes(&growth, 9 * MIB + 1, u64::MAX), [9 * MIB + 256]);
        assert_eq!(sizes(&growth, 256 * MIB + 1, u64::MAX), []);
        assert_eq!(sizes(&growth, u64::MAX - 15, u64::MAX), []);
        assert_eq!(sizes(&growth, 1024, 2 * MIB), [2 * MIB, MIB, MIB / 2, MIB / 4]);
        assert_eq!(sizes(&growth, 1024, 1024), [1024]);
        assert_eq!(sizes(&growth, 1024, 1023), []);
    }

    #[test]
    fn odd_limits_leave_whole_granules() {
        let options =
            MemoryOptions { max_block: Some(1_000_001), first_block: Some(99_999), ..MemoryOptions::default() };
        let growth = growth_of(700_000, 600_000, &options);
        assert_eq!(growth.max, 700_000 - 700_000 % 256);
        assert_eq!(growth.next % 256, 0);
        assert_eq!(growth_of(0, u64::MAX, &MemoryOptions::default()).max, 256);
    }
}
