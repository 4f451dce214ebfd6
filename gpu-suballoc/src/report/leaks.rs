//! Leaks: regions that are not freed.

#![forbid(unsafe_code)]

use core::fmt;

use super::memory_map::MemoryMap;
use super::view::{RangePlacement, RangeUse, RegionResource};
use crate::id::RegionId;

/// A live region, wrapped buffer or crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionLeak<'p> {
    /// Its id.
    pub id: RegionId,
    /// Its kind.
    pub kind: RegionLeakKind,
    /// The resource in it; `Unknown` for a crop.
    pub resource: RegionResource,
    /// The root of a crop.
    pub root: Option<RegionId>,
    /// Its `VkDeviceMemory`; 0 for wrapped buffers and crops.
    pub memory: u64,
    /// Bytes from the start of the memory, of the application's buffer, or of the root of a crop.
    pub offset: u64,
    /// Requested bytes.
    pub size: u64,
    /// Its name.
    pub name: Option<&'p str>,
    /// The user's tag, or 0.
    pub tag: u64,
    /// The user's number of the call site, or 0.
    pub site: u64,
}

/// The kind of a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionLeakKind {
    /// A region of the allocator's memory.
    Owned,
    /// A wrapped buffer.
    Wrapped,
    /// A crop.
    Crop,
}

impl MemoryMap<'_> {
    /// All live regions as a list of leaks: owned regions, wrapped ones, crops.
    pub fn leaks(&self) -> impl Iterator<Item = RegionLeak<'_>> {
        let ranges = self
            .blocks_with_ranges()
            .flat_map(|(block, ranges)| ranges.iter().map(move |range| (block, range)))
            .filter(|(_, range)| range.range_use == RangeUse::Region);
        let regions = ranges.filter_map(|(block, range)| {
            Some(RegionLeak {
                id: range.id?,
                kind: if range.placement == RangePlacement::Wrapped {
                    RegionLeakKind::Wrapped
                } else {
                    RegionLeakKind::Owned
                },
                resource: range.resource,
                root: None,
                memory: block.memory,
                offset: range.offset,
                size: range.size.saturating_sub(range.padding),
                name: self.name(range),
                tag: range.tag,
                site: range.site,
            })
        });
        let crops = self.crops().iter().map(|crop| RegionLeak {
            id: crop.id,
            kind: RegionLeakKind::Crop,
            resource: RegionResource::Unknown,
            root: Some(crop.root),
            memory: 0,
            offset: crop.offset,
            size: crop.size,
            name: self.crop_name(crop),
            tag: crop.tag,
            site: crop.site,
        });
        regions.chain(crops)
    }
}

impl fmt::Display for RegionLeak<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.kind, self.resource) {
            (RegionLeakKind::Crop, _) => "crop",
            (_, RegionResource::Unknown) => "region",
            (_, RegionResource::Buffer) => "buffer",
            (_, RegionResource::ImageLinear | RegionResource::ImageOptimal) => "image",
        };
        let wrapped = if self.kind == RegionLeakKind::Wrapped {
            "wrapped "
        } else {
            ""
        };
        write!(
            f,
            "{wrapped}{what} {} of {} bytes at offset {:#x}",
            self.id, self.size, self.offset
        )?;
        if let Some(root) = self.root {
            write!(f, " of {root}")?;
        }
        if self.memory != 0 {
            write!(f, " of memory {:#x}", self.memory)?;
        }
        if let Some(name) = self.name {
            write!(f, ", {name:?}")?;
        }
        if self.tag != 0 {
            write!(f, ", tag {:#x}", self.tag)?;
        }
        if self.site != 0 {
            write!(f, ", taken at site {}", self.site)?;
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
