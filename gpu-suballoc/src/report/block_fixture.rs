//! Pictures put together by hand, for the tests of what reads them.

use std::string::{String, ToString};
use std::vec::Vec;

use alloc_core::FromGlobalAlloc;

use super::memory_map::MemoryMap;
use crate::id::RegionId;
use crate::region::RangePlacement;
use crate::view::{BlockContent, BlockView, RangeUse, RangeView, RegionResource};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// A block of ranges, one after the other.
pub(super) struct BlockFixture {
    pub(super) view: BlockView,
    ranges: Vec<(RangeView, String)>,
}

pub(super) fn block(number: u32, content: BlockContent, memory_type: u32) -> BlockFixture {
    let view = BlockView {
        pool: memory_type,
        block: number,
        is_custom: false,
        memory: u64::from(number) + 0x100,
        memory_type: Some(memory_type),
        content,
        size: 0,
        maps: 0,
        ranges: (0, 0),
    };
    BlockFixture {
        view,
        ranges: Vec::new(),
    }
}

pub(super) fn id(number: u32) -> RegionId {
    RegionId::from_raw([7, number, 1, 0])
}

impl BlockFixture {
    pub(super) fn free(self, size: u64) -> Self {
        self.put(RangeUse::Free, size, |_| {}, "")
    }

    pub(super) fn spent(self, size: u64) -> Self {
        self.put(RangeUse::Spent, size, |_| {}, "")
    }

    /// A region of number `number`.
    pub(super) fn region(self, number: u32, size: u64) -> Self {
        self.with(number, size, |_| {})
    }

    pub(super) fn with(self, number: u32, size: u64, change: impl FnOnce(&mut RangeView)) -> Self {
        let fill = |range: &mut RangeView| {
            range.id = Some(id(number));
            range.alignment = 256;
            range.resource = RegionResource::Buffer;
            change(range);
        };
        let name = std::format!("region {number}");
        self.put(RangeUse::Region, size, fill, &name)
    }

    fn put(
        mut self,
        what: RangeUse,
        size: u64,
        change: impl FnOnce(&mut RangeView),
        name: &str,
    ) -> Self {
        let mut range = RangeView::unowned(self.view.size, size, what, RangePlacement::General);
        change(&mut range);
        self.view.size += size;
        self.ranges.push((range, name.to_string()));
        self
    }
}

pub(super) fn picture(
    blocks: impl IntoIterator<Item = BlockFixture>,
    crops: impl IntoIterator<Item = RangeView>,
) -> MemoryMap<'static> {
    let mut picture = MemoryMap::new_in(&SYSTEM);
    picture.grow(1024).expect("memory");
    for built in blocks {
        picture.put_block(built.view);
        for (range, name) in built.ranges {
            let name = put_name(&mut picture, &name);
            picture.put_range(RangeView { name, ..range });
        }
    }
    for crop in crops {
        let name = put_name(&mut picture, "a crop");
        picture.crops.put(RangeView { name, ..crop });
    }
    assert!(picture.is_whole());
    picture
}

pub(super) fn wrapped(number: u32, offset: u64, size: u64) -> BlockFixture {
    let mut built = block(number, BlockContent::Wrapped, 0);
    (built.view.memory_type, built.view.memory) = (None, 0);
    built.free(offset).with(number, size, |range| {
        range.placement = RangePlacement::Wrapped
    })
}

/// A block with a free range, region 1 as `change` makes it, a crop of that and a spent range; and a wrapped buffer, region 6.
pub(super) fn shared_and_wrapped(change: impl FnOnce(&mut RangeView)) -> MemoryMap<'static> {
    let shared = block(3, BlockContent::Shared, 0)
        .free(512)
        .with(1, 1024, change)
        .spent(256);
    picture([shared, wrapped(6, 0, 64)], [crop()])
}

/// Of region 1.
pub(super) fn crop() -> RangeView {
    RangeView {
        id: Some(id(90)),
        root: Some(id(1)),
        ..RangeView::unowned(12, 100, RangeUse::Region, RangePlacement::General)
    }
}

fn put_name(picture: &mut MemoryMap<'_>, name: &str) -> (u32, u32) {
    let first = picture.names.len() as u32;
    let put = picture.names.try_extend_from_slice(name.as_bytes());
    put.expect("memory");
    (first, name.len() as u32)
}
