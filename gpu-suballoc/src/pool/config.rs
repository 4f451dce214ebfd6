//! It is constant while the pool lives.

#![forbid(unsafe_code)]

use super::options::PoolOptions;
use super::request::AllocationRequest;
use crate::id::RangePlacement;
use crate::memory_type::PropertyFlags;
use crate::request::ResourceKind;

#[derive(Clone, Copy, Debug)]
pub(super) struct PoolConfig {
    pub(super) index: u16,
    /// The device's own pools have 0.
    pub(super) generation: u32,
    pub(super) heap: u32,
    pub(super) properties: PropertyFlags,
    pub(super) granule_log2: u32,
    /// `bufferImageGranularity` if it is more than a granule, else 1.
    pub(super) granularity: u64,
    pub(super) has_device_address: bool,
    pub(super) margin: u64,
    /// Unset options have the defaults of the allocator; linear pools have one block, of one size.
    pub(super) options: PoolOptions,
}

impl PoolConfig {
    /// A resource of unknown kind gets whole granularity pages; in a linear pool, any that is not of the pool's kind.
    #[inline]
    pub(super) fn padded(&self, request: &AllocationRequest) -> (u64, u64) {
        let alignment = request.alignment.max(self.options.min_alignment);
        let is_kept_off = match request.kind {
            ResourceKind::Unknown => true,
            kind => self.options.algorithm.is_linear() && kind != self.options.kind,
        };
        if self.granularity == 1 || !is_kept_off {
            return (request.size.saturating_add(self.margin), alignment);
        }
        let size =
            request.size.saturating_add(self.margin).checked_next_multiple_of(self.granularity).unwrap_or(u64::MAX);
        (size, alignment.max(self.granularity))
    }

    pub(super) const fn page(&self) -> u32 {
        let page = self.granularity >> self.granule_log2;
        if page > 1 << 31 {
            1 << 31
        } else if page > 1 {
            page as u32
        } else {
            1
        }
    }

    pub(super) const fn granule(&self) -> u64 {
        1 << self.granule_log2
    }

    /// There are no shared blocks.
    pub(super) fn is_lazily_allocated(&self) -> bool {
        self.properties.contains(PropertyFlags::LAZILY_ALLOCATED)
    }

    pub(super) const fn place_kind(&self) -> RangePlacement {
        if self.options.algorithm.is_linear() { RangePlacement::Linear } else { RangePlacement::General }
    }

    pub(super) const fn is_fixed(&self) -> bool {
        self.options.block_size.is_some()
    }

    pub(super) const fn is_custom(&self) -> bool {
        self.generation != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gets pages of its own is in `region_model`.
    #[test]
    fn a_page_is_whole_granules_and_a_power_of_two() {
        for (granularity, page) in [(1, 1), (1024, 4), (131_072, 512), (1 << 63, 1 << 31)] {
            let config = PoolConfig {
                index: 0,
                generation: 0,
                heap: 0,
                properties: PropertyFlags::NONE,
                granule_log2: 8,
                granularity,
                has_device_address: false,
                margin: 0,
                options: PoolOptions::new(0),
            };
            assert_eq!(config.page(), page);
        }
    }
}
