//! The configuration of a pool, which is constant while the pool lives.

#![forbid(unsafe_code)]

use super::request::AllocationRequest;
use crate::device::{ExternalHandleTypes, NextChain};
use crate::memory_type::PropertyFlags;
use crate::request::BlockAlgorithm;
use crate::request::ResourceKind;

/// A pool's memory type, and the rules of its regions and blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolConfig {
    /// The pool's index in the allocator.
    pub(super) index: u16,
    /// Counts the custom pools that had this index. 0 for the device's own pools.
    pub(super) generation: u32,
    pub(super) memory_type: u32,
    pub(super) heap: u32,
    pub(super) properties: PropertyFlags,
    /// In a linear pool, of regions that are not padded.
    pub(super) kind: ResourceKind,
    /// Regions begin and end at multiples of `1 << granule_log2` bytes.
    pub(super) granule_log2: u32,
    /// `bufferImageGranularity` if it is more than a granule, else 1.
    pub(super) granularity: u64,
    /// All blocks have one size: only requests for dedicated memory get it.
    pub(super) is_fixed: bool,
    /// Linear pools have one block.
    pub(super) algorithm: BlockAlgorithm,
    /// A defragmentation moves none of its regions.
    pub(super) is_pinned: bool,
    pub(super) min_blocks: u32,
    pub(super) max_blocks: u32,
    pub(super) max_bytes: u64,
    /// Bytes of empty blocks to keep, if the options say.
    pub(super) keep_empty: Option<u64>,
    pub(super) priority: Option<f32>,
    pub(super) min_alignment: u64,
    pub(super) export: ExternalHandleTypes,
    pub(super) next: Option<NextChain>,
    pub(super) has_device_address: bool,
    /// Bytes behind each region of a block that belong to the region but not to its user.
    pub(super) margin: u64,
}

impl PoolConfig {
    /// Size and alignment with which a request is placed in a shared block. A resource of unknown kind gets whole granularity pages; in a
    /// linear pool, which does not look at neighbours, each that is not of the pool's kind.
    #[inline]
    pub(super) fn padded(&self, request: &AllocationRequest) -> (u64, u64) {
        let alignment = request.alignment.max(self.min_alignment);
        let is_kept_off = match request.kind {
            ResourceKind::Unknown => true,
            kind => self.algorithm.is_linear() && kind != self.kind,
        };
        if self.granularity == 1 || !is_kept_off {
            return (request.size.saturating_add(self.margin), alignment);
        }
        let size = request
            .size
            .saturating_add(self.margin)
            .checked_next_multiple_of(self.granularity)
            .unwrap_or(u64::MAX);
        (size, alignment.max(self.granularity))
    }

    /// Granules of a granularity page.
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

    /// Whether each region has a memory object of its own, so that the driver backs no more than what is used: there are no shared blocks.
    pub(super) fn is_lazily_allocated(&self) -> bool {
        self.properties.contains(PropertyFlags::LAZILY_ALLOCATED)
    }

    pub(super) const fn is_custom(&self) -> bool {
        self.generation != 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Facts of no pool in particular.
    pub(in crate::pool) fn pool_config(kind: ResourceKind, granularity: u64) -> PoolConfig {
        PoolConfig {
            index: 0,
            generation: 0,
            memory_type: 0,
            heap: 0,
            properties: PropertyFlags::NONE,
            kind,
            granule_log2: 8,
            granularity,
            is_fixed: false,
            algorithm: BlockAlgorithm::General,
            is_pinned: false,
            min_blocks: 0,
            max_blocks: u32::MAX,
            max_bytes: u64::MAX,
            keep_empty: None,
            priority: None,
            min_alignment: 1,
            export: ExternalHandleTypes::NONE,
            next: None,
            has_device_address: false,
            margin: 0,
        }
    }

    #[test]
    fn what_may_be_of_the_other_kind_gets_pages_of_its_own() {
        use ResourceKind::{Linear, Optimal, Unknown};
        let padded = |config: PoolConfig, kind| {
            config.padded(&AllocationRequest {
                kind,
                ..AllocationRequest::new(1000, 16)
            })
        };
        for granularity in [1024u64, 65_536, 131_072] {
            let (whole, asked) = ((granularity, granularity), (1000, 16));
            let general = pool_config(Linear, granularity);
            let stack = PoolConfig {
                algorithm: BlockAlgorithm::Stack,
                ..general
            };
            for (config, kind, expected) in [
                (general, Linear, asked),
                (general, Optimal, asked),
                (general, Unknown, whole),
                (stack, Linear, asked),
                (stack, Optimal, whole),
                (stack, Unknown, whole),
            ] {
                assert_eq!(padded(config, kind), expected, "{kind:?} in {config:?}");
            }
        }
        let nowhere = pool_config(Linear, 1);
        assert_eq!(padded(nowhere, Unknown), (1000, 16));
        let huge = AllocationRequest {
            kind: Unknown,
            ..AllocationRequest::new(u64::MAX, 1)
        };
        assert_eq!(pool_config(Linear, 1024).padded(&huge).0, u64::MAX);
        let aligned = PoolConfig {
            min_alignment: 4096,
            ..nowhere
        };
        assert_eq!(padded(aligned, Linear), (1000, 4096));
    }

    #[test]
    fn a_page_is_whole_granules_and_a_power_of_two() {
        for (granularity, page) in [(1, 1), (1024, 4), (131_072, 512), (1 << 63, 1 << 31)] {
            assert_eq!(pool_config(ResourceKind::Linear, granularity).page(), page);
        }
    }
}
