//! Descriptions of resources, each stored once: what a move makes another resource from, and what reports show.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::device::{
    BufferInfo, BufferUsage, ExternalHandleTypes, ImageInfo, ImageTiling, QueueFamilies,
};
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::request::{RegionOptions, ResourceKind};

/// The description of a resource, without its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ResourceDescription {
    /// `Vk..UsageFlags`.
    pub(crate) usage: u32,
    pub(crate) resource: ResourceKind,
    flags: u32,
    sharing: QueueFamilies,
    external: ExternalHandleTypes,
    /// Others may know the memory object.
    pub(crate) leaves_device: bool,
}

impl ResourceDescription {
    pub(crate) fn of_buffer(info: &BufferInfo, options: &RegionOptions<'_>) -> Self {
        Self {
            usage: info.usage.as_raw(),
            resource: ResourceKind::Linear,
            flags: info.flags,
            sharing: info.sharing,
            external: info.external,
            leaves_device: leaves_device(info.external, options),
        }
    }

    pub(crate) fn of_image(
        info: &ImageInfo,
        resource: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Self {
        Self {
            usage: info.usage.as_raw(),
            resource,
            flags: info.flags,
            sharing: info.sharing,
            external: info.external,
            leaves_device: leaves_device(info.external, options),
        }
    }

    /// The info of a buffer of this description, of `size` bytes.
    pub(crate) const fn buffer_info(&self, size: u64) -> BufferInfo {
        BufferInfo {
            size,
            usage: BufferUsage::from_raw(self.usage),
            flags: self.flags,
            sharing: self.sharing,
            external: self.external,
        }
    }

    /// Whether this info matches the stored usage, flags, sharing, external handle types and tiling. Extent and format are not stored.
    pub(crate) fn is_like_image(&self, info: &ImageInfo) -> bool {
        let is_optimal = info.tiling == ImageTiling::Optimal;
        self.usage == info.usage.as_raw()
            && self.flags == info.flags
            && self.sharing == info.sharing
            && self.external == info.external
            && is_optimal == (self.resource == ResourceKind::Optimal)
    }
}

fn leaves_device(external: ExternalHandleTypes, options: &RegionOptions<'_>) -> bool {
    !external.is_empty() || !options.export.is_empty() || options.next.is_some()
}

/// All descriptions so far; they are few and never removed.
pub(super) struct ResourceDescriptions(GrowableVec<ResourceDescription, 16>);

impl ResourceDescriptions {
    /// Not a number of a description.
    pub(super) const NONE: u16 = u16::MAX;
    /// Limit of the table: further descriptions are not stored, and their resources do not move.
    const MAX_LEN: u32 = 1024;

    pub(super) const fn new() -> Self {
        Self(GrowableVec::new())
    }

    /// Inserts a description. Returns its number, or [`ResourceDescriptions::NONE`] if there is no room.
    pub(super) fn insert(&mut self, description: ResourceDescription) -> u16 {
        let found = self
            .0
            .as_slice()
            .iter()
            .position(|noted| *noted == description);
        let number = found.unwrap_or(self.0.as_slice().len());
        if found.is_none() && self.0.push(description).is_err() {
            return Self::NONE;
        }
        u16::try_from(number).unwrap_or(Self::NONE)
    }

    pub(super) fn get(&self, number: u16) -> Option<&ResourceDescription> {
        self.0.as_slice().get(usize::from(number))
    }
}

impl GrowableTable for ResourceDescriptions {
    fn missing(&self) -> Option<Layout> {
        self.0
            .missing_capacity(1)
            .filter(|_| self.0.len() < Self::MAX_LEN)
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.0.grow_with(block)
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.0.detach_memory()
    }
}
