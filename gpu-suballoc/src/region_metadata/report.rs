#![forbid(unsafe_code)]

use core::fmt;

use super::detail::{MAX_NAME, RegionDetail};
use super::record::{RecordKind, RegionRecord};
use super::root_state::RootState;
use super::{MetadataState, RegionMetadata};
use crate::id::{RegionKey, RegionPlace};
use crate::request::ResourceKind;
use crate::view::RegionResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordInfo {
    pub(crate) key: RegionKey,
    /// Requested bytes; 0 of a wrapped buffer.
    pub(crate) asked: u64,
    pub(crate) tag: u64,
    pub(crate) site: u64,
    pub(crate) usage: u64,
    pub(crate) resource: RegionResource,
    pub(crate) crops: u32,
    pub(crate) maps: u16,
    pub(crate) is_reusable: bool,
    name: RecordName,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct RecordName {
    bytes: [u8; MAX_NAME],
    length: u8,
}

impl RecordName {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; MAX_NAME];
        let length = name.len().min(MAX_NAME);
        bytes.iter_mut().zip(name).for_each(|(copy, byte)| *copy = *byte);
        Self { bytes, length: length as u8 }
    }

    fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.length));
        name.and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl RecordInfo {
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }
}

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
    pub(crate) fn info(&self, key: RegionKey) -> Option<RecordInfo> {
        let state = self.state.lock();
        state.info(key.slot, state.table.named(key).ok()?)
    }

    pub(crate) fn info_at(&self, at: RegionPlace) -> Option<RecordInfo> {
        let state = self.state.lock();
        state.table.root_at(at)?;
        state.info(at.slot, state.table.get(at.slot)?)
    }

    /// Calls `see` under the lock: it must allocate nothing and call nothing that locks.
    pub(crate) fn each_alias(&self, see: &mut dyn FnMut(&AliasInfo)) {
        let state = self.state.lock();
        for (number, record) in state.table.each() {
            let (root, offset, size) = match record.kind {
                RecordKind::Wrapped => {
                    let Some(buffer) = state.wraps.get(record.link) else {
                        continue;
                    };
                    (number, buffer.offset, buffer.size)
                }
                RecordKind::Crop => (record.link, record.value, record.size),
                _ => continue,
            };
            let root = state.table.get(root).map(|it| it.key(root));
            if let (Some(root), Some(info)) = (root, state.info(number, record)) {
                see(&AliasInfo { key: info.key, root, offset, size, info });
            }
        }
    }
}

impl MetadataState {
    fn info(&self, number: u32, record: &RegionRecord) -> Option<RecordInfo> {
        let kind = self.kinds.get(record.description.into());
        let detail = record.detail.as_ref();
        record.is_region().then(|| RecordInfo {
            key: record.key(number),
            asked: record.size,
            tag: detail.map_or(0, RegionDetail::tag),
            site: detail.map_or(0, RegionDetail::site),
            usage: kind.map_or(0, |kind| u64::from(kind.usage)),
            resource: match (record.kind, kind.map(|kind| kind.resource)) {
                (RecordKind::Buffer | RecordKind::Wrapped, _) => RegionResource::Buffer,
                (RecordKind::Image, Some(ResourceKind::Optimal)) => RegionResource::ImageOptimal,
                (RecordKind::Image, _) => RegionResource::ImageLinear,
                _ => RegionResource::Unknown,
            },
            crops: record.crops,
            maps: record.maps,
            is_reusable: record.state == RootState::Reusable,
            name: RecordName::new(detail.map_or(&[], RegionDetail::name)),
        })
    }
}
