//! Copies of records, for reports.

#![forbid(unsafe_code)]

use core::fmt;

use super::MetadataState;
use super::RegionMetadata;
use super::detail::{MAX_NAME, RegionDetail};
use super::record::RegionRecord;
use super::root_state::RootState;
use crate::id::{RegionKey, RegionPlace};
use crate::region::RegionContent;
use crate::request::ResourceKind;

/// A copy of the record of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordInfo {
    pub(crate) key: RegionKey,
    /// Requested bytes; 0 of a wrapped buffer.
    pub(crate) asked: u64,
    pub(crate) tag: u64,
    pub(crate) site: u64,
    /// Vulkan's usage bits of the buffer or image, or 0.
    pub(crate) usage: u64,
    pub(crate) content: RegionContent,
    pub(crate) resource: ResourceKind,
    pub(crate) crops: u32,
    pub(crate) maps: u16,
    /// In the reuse cache.
    pub(crate) is_reusable: bool,
    name: RecordName,
}

/// A name in place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RecordName {
    bytes: [u8; MAX_NAME],
    length: u8,
}

impl RecordName {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; MAX_NAME];
        let length = name.len().min(MAX_NAME);
        bytes
            .iter_mut()
            .zip(name)
            .for_each(|(copy, byte)| *copy = *byte);
        Self {
            bytes,
            length: length as u8,
        }
    }

    fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.length));
        name.and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl RecordInfo {
    /// The name, or an empty text.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// A wrapped buffer, or a crop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AliasInfo {
    pub(crate) key: RegionKey,
    /// The root of a crop; a wrapped buffer itself.
    pub(crate) root: RegionKey,
    /// From the start of the root, or of the application's buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) info: RecordInfo,
}

impl RegionMetadata {
    /// The record of a region.
    pub(crate) fn info(&self, key: RegionKey) -> Option<RecordInfo> {
        let state = self.state.lock();
        state.info(key.slot, state.table.named(key).ok()?)
    }

    /// The record of the region at a place.
    pub(crate) fn info_at(&self, at: RegionPlace) -> Option<RecordInfo> {
        let state = self.state.lock();
        state.table.root_at(at)?;
        state.info(at.slot, state.table.get(at.slot)?)
    }

    /// Calls `see` for each wrapped buffer and each crop, in the order of their records. It is called under the lock: it must allocate
    /// nothing and call nothing that locks.
    pub(crate) fn each_alias(&self, see: &mut dyn FnMut(&AliasInfo)) {
        let state = self.state.lock();
        for (number, record) in state.table.each() {
            let (root, offset, size) = match record {
                RegionRecord::Wrapped(wrapped) => {
                    let buffer = wrapped.buffer_info();
                    (number, buffer.offset, buffer.size)
                }
                RegionRecord::Crop(crop) => (crop.root(), crop.offset, crop.size),
                _ => continue,
            };
            let root = state.table.get(root).map(|it| it.key(root));
            if let (Some(root), Some(info)) = (root, state.info(number, record)) {
                see(&AliasInfo {
                    key: info.key,
                    root,
                    offset,
                    size,
                    info,
                });
            }
        }
    }
}

impl MetadataState {
    fn info(&self, number: u32, record: &RegionRecord) -> Option<RecordInfo> {
        let header = record.header()?;
        let kind = self.kinds.get(header.kind);
        let detail = header.detail.as_ref();
        Some(RecordInfo {
            key: record.key(number),
            asked: match record {
                RegionRecord::Root(root) => root.asked,
                RegionRecord::Crop(crop) => crop.size,
                _ => 0,
            },
            tag: detail.map_or(0, RegionDetail::tag),
            site: detail.map_or(0, RegionDetail::site),
            usage: kind.map_or(0, |kind| u64::from(kind.usage)),
            content: header.content,
            resource: kind.map_or(ResourceKind::Linear, |kind| kind.resource),
            crops: record.crops(),
            maps: header.maps,
            is_reusable: header.state == RootState::Reusable,
            name: RecordName::new(detail.map_or(&[], RegionDetail::name)),
        })
    }
}
