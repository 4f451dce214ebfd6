//! What reports read of the records.

#![forbid(unsafe_code)]

use super::RegionMetadata;
use super::detail::{MAX_NAME, RegionDetail};
use super::record::RegionRecord;
use crate::id::RegionSlot;
use crate::region::RegionContent;
use core::fmt;

use crate::request::ResourceKind;

/// What the record of one region says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordInfo {
    /// The name that its user has: the block in it may be an older one.
    pub(crate) key: Option<RegionSlot>,
    /// Bytes that were asked for; 0 where that was not noted.
    pub(crate) asked: u64,
    pub(crate) tag: u64,
    pub(crate) site: u64,
    /// Vulkan's usage bits of the buffer or image; 0 where there is none.
    pub(crate) usage: u64,
    pub(crate) content: RegionContent,
    pub(crate) resource: ResourceKind,
    pub(crate) crops: u32,
    pub(crate) maps: u16,
    /// Kept for reuse, nobody's.
    pub(crate) is_reusable: bool,
    name: [u8; MAX_NAME],
    length: u8,
}

// The name as text.
impl fmt::Debug for RecordInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key: _,
            asked,
            tag,
            site,
            usage,
            content,
            resource,
            crops,
            maps,
            is_reusable: parked,
            name: _,
            length: _,
        } = self;
        let mut all = f.debug_struct("RecordInfo");
        all.field("name", &self.name())
            .field("tag", tag)
            .field("site", site)
            .field("asked", asked)
            .field("usage", usage);
        all.field("content", content)
            .field("resource", resource)
            .field("crops", crops)
            .field("maps", maps);
        all.field("parked", parked).finish()
    }
}

impl RecordInfo {
    const EMPTY: Self = Self {
        key: None,
        asked: 0,
        tag: 0,
        site: 0,
        usage: 0,
        content: RegionContent::Bare,
        resource: ResourceKind::Linear,
        crops: 0,
        maps: 0,
        is_reusable: false,
        name: [0; MAX_NAME],
        length: 0,
    };

    fn with_detail(self, detail: Option<&RegionDetail>) -> Self {
        let Some(detail) = detail else { return self };
        let mut facts = Self {
            tag: detail.tag(),
            site: detail.site(),
            ..self
        };
        let name = detail.name();
        if let (Some(copy), Ok(length)) =
            (facts.name.get_mut(..name.len()), u8::try_from(name.len()))
        {
            copy.copy_from_slice(name);
            facts.length = length;
        }
        facts
    }

    /// Empty where there is none.
    pub(crate) fn name(&self) -> &str {
        self.name
            .get(..usize::from(self.length))
            .and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

/// A wrapped buffer, or a crop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AliasInfo {
    pub(crate) key: RegionSlot,
    /// Of a crop: what it was cut from. Of a wrapped buffer: itself.
    pub(crate) root: RegionSlot,
    /// From the start of the root, or of the wrapped buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) info: RecordInfo,
}

impl RegionMetadata {
    /// What the record of that number says of the region of that key; `None` where it is another's by now, or nobody's.
    pub(crate) fn info(&self, number: u32, key: RegionSlot) -> Option<RecordInfo> {
        let state = self.state.lock();
        match state.table.get(number)? {
            RegionRecord::Root(root) if root.is_named(key) => {
                let kind = state.kinds.get(root.kind);
                let facts = RecordInfo {
                    key: Some(root.key),
                    asked: root.asked,
                    usage: kind.map_or(0, |kind| u64::from(kind.usage)),
                    content: root.content,
                    resource: kind.map_or(ResourceKind::Linear, |kind| kind.resource),
                    crops: root.crops,
                    maps: root.maps,
                    is_reusable: root.state == super::root_state::RootState::Reusable,
                    ..RecordInfo::EMPTY
                };
                Some(facts.with_detail(root.detail.as_ref()))
            }
            RegionRecord::Wrapped(wrapped) if wrapped.key(number) == key => Some(
                RecordInfo {
                    content: RegionContent::Buffer,
                    crops: wrapped.crops,
                    maps: wrapped.maps,
                    ..RecordInfo::EMPTY
                }
                .with_detail(wrapped.detail.as_ref()),
            ),
            RegionRecord::Crop(crop) if crop.key(number) == key => Some(
                RecordInfo {
                    asked: crop.size,
                    maps: crop.maps,
                    ..RecordInfo::EMPTY
                }
                .with_detail(crop.detail.as_ref()),
            ),
            _ => None,
        }
    }

    /// Each wrapped buffer and each crop, in the order of their records. Under the lock: `see` takes no memory and calls nobody.
    pub(crate) fn each_alias(&self, see: &mut dyn FnMut(&AliasInfo)) {
        let state = self.state.lock();
        for (number, record) in state.table.each() {
            match record {
                RegionRecord::Wrapped(wrapped) => {
                    let facts = RecordInfo {
                        crops: wrapped.crops,
                        maps: wrapped.maps,
                        content: RegionContent::Buffer,
                        ..RecordInfo::EMPTY
                    };
                    let (key, wrap) = (wrapped.key(number), wrapped.buffer_info());
                    let facts = facts.with_detail(wrapped.detail.as_ref());
                    see(&AliasInfo {
                        key,
                        root: key,
                        offset: wrap.offset,
                        size: wrap.size,
                        info: facts,
                    });
                }
                RegionRecord::Crop(crop) => {
                    let root = match state.table.get(crop.root) {
                        Some(RegionRecord::Root(root)) => root.key,
                        Some(RegionRecord::Wrapped(wrapped)) => wrapped.key(crop.root),
                        _ => continue,
                    };
                    let key = crop.key(number);
                    let facts = RecordInfo {
                        asked: crop.size,
                        maps: crop.maps,
                        ..RecordInfo::EMPTY
                    }
                    .with_detail(crop.detail.as_ref());
                    see(&AliasInfo {
                        key,
                        root,
                        offset: crop.offset,
                        size: crop.size,
                        info: facts,
                    });
                }
                RegionRecord::Root(_)
                | RegionRecord::Free { .. }
                | RegionRecord::Reserved { .. } => {}
            }
        }
    }
}
