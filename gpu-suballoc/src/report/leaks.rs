//! Leaks: regions that are not freed.

#![forbid(unsafe_code)]

use core::fmt;

use super::memory_map::MemoryMap;
use super::view::{RangePlacement, RangeUse, RangeView, RegionResource};
use crate::id::RegionId;

/// A live region, wrapped buffer or crop. As text a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionLeak<'m> {
    /// Its id.
    pub id: RegionId,
    /// Its name.
    pub name: Option<&'m str>,
    /// Its `VkDeviceMemory`; 0 for wrapped buffers and crops.
    pub memory: u64,
    /// Its place in the map.
    pub range: &'m RangeView,
}

impl MemoryMap<'_> {
    /// All live regions: owned ones, wrapped ones, crops.
    pub fn leaks(&self) -> impl Iterator<Item = RegionLeak<'_>> {
        let regions = self
            .blocks_with_ranges()
            .flat_map(|(block, ranges)| ranges.iter().map(move |range| (block.memory, range)));
        let crops = self.crops().iter().map(|crop| (0, crop));
        regions
            .chain(crops)
            .filter(|(_, range)| range.range_use == RangeUse::Region)
            .filter_map(|(memory, range)| {
                let name = self.name(range);
                Some(RegionLeak {
                    id: range.id?,
                    name,
                    memory,
                    range,
                })
            })
    }
}

impl RegionLeak<'_> {
    /// Requested bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.range.size.saturating_sub(self.range.padding)
    }
}

impl fmt::Display for RegionLeak<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeView {
            offset,
            resource,
            root,
            placement,
            tag,
            site,
            ..
        } = *self.range;
        let what = match (root, resource) {
            (Some(_), _) => "crop",
            (_, RegionResource::Unknown) => "region",
            (_, RegionResource::Buffer) if placement == RangePlacement::Wrapped => "wrapped buffer",
            (_, RegionResource::Buffer) => "buffer",
            (_, RegionResource::ImageLinear | RegionResource::ImageOptimal) => "image",
        };
        write!(
            f,
            "{what} {} of {} bytes at offset {offset:#x}",
            self.id,
            self.size()
        )?;
        if let Some(root) = root {
            write!(f, " of {root}")?;
        }
        if self.memory != 0 {
            write!(f, " of memory {:#x}", self.memory)?;
        }
        if let Some(name) = self.name {
            write!(f, ", {name:?}")?;
        }
        if tag != 0 {
            write!(f, ", tag {tag:#x}")?;
        }
        if site != 0 {
            write!(f, ", taken at site {site}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::super::block_fixture::{id, shared_and_wrapped};

    #[test]
    fn each_live_thing_is_a_line_and_free_space_is_none() {
        let named = |range: &mut super::super::view::RangeView| {
            (range.padding, range.tag, range.site) = (24, 0xabc, 41)
        };
        let picture = shared_and_wrapped(named);
        let lines: Vec<_> = picture.leaks().map(|leak| leak.to_string()).collect();
        assert_eq!(
            lines,
            [
                "buffer 00000007/1#1 of 1000 bytes at offset 0x200 of memory 0x103, \"region 1\", tag 0xabc, taken at site 41",
                "wrapped buffer 00000007/6#1 of 64 bytes at offset 0x0, \"region 6\"",
                "crop 00000007/90#1 of 100 bytes at offset 0xc of 00000007/1#1, \"a crop\"",
            ]
        );
        assert_eq!(
            picture.leaks().map(|leak| leak.id).collect::<Vec<_>>(),
            [id(1), id(6), id(90)]
        );
    }
}
