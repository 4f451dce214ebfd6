//! What reports read of the records.

#![forbid(unsafe_code)]

use super::Records;
use super::detail::{Detail, MAX_NAME};
use super::record::{Key, Record};
use core::fmt;

use crate::allocator::Content;
use crate::id::{Place, PlaceKind};
use crate::request::ResourceKind;

/// What the record of one region says.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// Bytes that were asked for; 0 where that was not noted.
    pub(crate) asked: u64,
    pub(crate) tag: u64,
    pub(crate) site: u64,
    /// Vulkan's usage bits of the buffer or image; 0 where there is none.
    pub(crate) usage: u64,
    pub(crate) content: Content,
    pub(crate) resource: ResourceKind,
    pub(crate) crops: u32,
    pub(crate) maps: u16,
    /// Kept for reuse, nobody's.
    pub(crate) parked: bool,
    name: [u8; MAX_NAME],
    length: u8,
}

// The name as text.
impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, tag, site, usage, content, resource, crops, maps, parked, name: _, length: _ } = self;
        let mut all = f.debug_struct("Facts");
        all.field("name", &self.name()).field("tag", tag).field("site", site).field("asked", asked).field("usage", usage);
        all.field("content", content).field("resource", resource).field("crops", crops).field("maps", maps);
        all.field("parked", parked).finish()
    }
}

impl Facts {
    const NOTHING: Self = Self {
        asked: 0,
        tag: 0,
        site: 0,
        usage: 0,
        content: Content::Bare,
        resource: ResourceKind::Linear,
        crops: 0,
        maps: 0,
        parked: false,
        name: [0; MAX_NAME],
        length: 0,
    };

    fn with(self, detail: Option<&Detail>) -> Self {
        let Some(detail) = detail else { return self };
        let mut facts = Self { tag: detail.tag(), site: detail.site(), ..self };
        let name = detail.name();
        if let (Some(copy), Ok(length)) = (facts.name.get_mut(..name.len()), u8::try_from(name.len())) {
            copy.copy_from_slice(name);
            facts.length = length;
        }
        facts
    }

    /// Empty where there is none.
    pub(crate) fn name(&self) -> &str {
        self.name.get(..usize::from(self.length)).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// A wrapped buffer, or a crop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    pub(crate) key: Key,
    /// Of a crop: what it was cut from. Of a wrapped buffer: itself.
    pub(crate) root: Key,
    /// From the start of the root, or of the wrapped buffer.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) facts: Facts,
}

impl Records {
    /// What the record of that number says of the region of that key; `None` where it is another's by now, or nobody's.
    pub(crate) fn facts(&self, number: u32, key: Key) -> Option<Facts> {
        let state = self.state.lock();
        match state.table.get(number)? {
            Record::Root(root) if root.key == key => {
                let kind = state.kinds.get(root.kind);
                let facts = Facts {
                    asked: root.asked,
                    usage: kind.map_or(0, |kind| u64::from(kind.usage)),
                    content: root.content,
                    resource: kind.map_or(ResourceKind::Linear, |kind| kind.resource),
                    crops: root.crops,
                    maps: root.maps,
                    parked: root.state == super::record::State::Parked,
                    ..Facts::NOTHING
                };
                Some(facts.with(root.detail.as_ref()))
            }
            Record::Wrapped(wrapped) if wrapped.key(number) == key => Some(
                Facts { content: Content::Buffer, crops: wrapped.crops, maps: wrapped.maps, ..Facts::NOTHING }
                    .with(wrapped.detail.as_ref()),
            ),
            Record::Crop(crop) if key.is_crop() && crop.generation == key.generation => {
                Some(Facts { asked: crop.size, maps: crop.maps, ..Facts::NOTHING }.with(crop.detail.as_ref()))
            }
            _ => None,
        }
    }

    /// Each wrapped buffer and each crop, in the order of their records. Under the lock: `see` takes no memory and calls nobody.
    pub(crate) fn each_alias(&self, see: &mut dyn FnMut(&Alias)) {
        let state = self.state.lock();
        for (number, record) in state.table.each() {
            match record {
                Record::Wrapped(wrapped) => {
                    let facts = Facts { crops: wrapped.crops, maps: wrapped.maps, content: Content::Buffer, ..Facts::NOTHING };
                    let (key, wrap) = (wrapped.key(number), wrapped.facts());
                    let facts = facts.with(wrapped.detail.as_ref());
                    see(&Alias { key, root: key, offset: wrap.offset, size: wrap.size, facts });
                }
                Record::Crop(crop) => {
                    let root = match state.table.get(crop.root) {
                        Some(Record::Root(root)) => root.key,
                        Some(Record::Wrapped(wrapped)) => wrapped.key(crop.root),
                        _ => continue,
                    };
                    let key = Key { place: CROP.pack(), slot: number, generation: crop.generation };
                    let facts = Facts { asked: crop.size, maps: crop.maps, ..Facts::NOTHING }.with(crop.detail.as_ref());
                    see(&Alias { key, root, offset: crop.offset, size: crop.size, facts });
                }
                Record::Root(_) | Record::Free { .. } | Record::Taken { .. } => {}
            }
        }
    }
}

/// The place in the ids of crops.
pub(crate) const CROP: Place = Place { kind: PlaceKind::Crop, pool: 0, block: 0 };
