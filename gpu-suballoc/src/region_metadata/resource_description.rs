//! Descriptions of resources, each stored once. A kept buffer is reused for a request with the same description; reports show descriptions.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::device::{
    BufferInfo, BufferUsage, ExternalHandleTypes, ImageInfo, ImageTiling, NextChain, QueueFamilies,
};
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::PoolId;
use crate::memory_type::MemoryPreference;
use crate::region::RegionContent;
use crate::request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};

/// All parameters of a resource and its request except size, name, tag and site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ResourceDescription {
    pub(crate) usage: u32,
    pub(crate) resource: ResourceKind,
    pub(crate) content: RegionContent,
    flags: u32,
    sharing: QueueFamilies,
    external: ExternalHandleTypes,
    preference: MemoryPreference,
    lifetime: Lifetime,
    dedicated: DedicatedPolicy,
    memory_type_bits: u32,
    min_alignment: u64,
    pool: Option<PoolId>,
    /// The bits of the number, so that descriptions can be compared.
    priority: Option<u32>,
    export: ExternalHandleTypes,
    next: Option<NextChain>,
    within_budget: bool,
    device_address: bool,
    upper_address: bool,
    pinned: bool,
    mapped: bool,
}

impl ResourceDescription {
    pub(crate) fn of_buffer(info: &BufferInfo, options: &RegionOptions<'_>) -> Self {
        let BufferInfo {
            size: _,
            usage,
            flags,
            sharing,
            external,
        } = *info;
        Self {
            usage: usage.as_raw(),
            flags,
            sharing,
            external,
            ..Self::new(RegionContent::Buffer, ResourceKind::Linear, options)
        }
    }

    pub(crate) fn of_image(
        info: &ImageInfo,
        resource: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Self {
        let ImageInfo {
            flags,
            usage,
            sharing,
            external,
            ..
        } = *info;
        Self {
            usage: usage.as_raw(),
            flags,
            sharing,
            external,
            ..Self::new(RegionContent::Image, resource, options)
        }
    }

    fn new(content: RegionContent, resource: ResourceKind, options: &RegionOptions<'_>) -> Self {
        Self {
            usage: 0,
            resource,
            content,
            flags: 0,
            sharing: QueueFamilies::EXCLUSIVE,
            external: ExternalHandleTypes::NONE,
            preference: options.preference,
            lifetime: options.lifetime,
            dedicated: options.dedicated,
            memory_type_bits: options.memory_type_bits,
            min_alignment: options.min_alignment,
            pool: options.pool,
            priority: options.priority.map(f32::to_bits),
            export: options.export,
            next: options.next,
            within_budget: options.within_budget,
            device_address: options.device_address,
            upper_address: options.upper_address,
            pinned: options.pinned,
            mapped: options.mapped,
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

    /// Whether the resource may be shared with other devices or processes.
    pub(crate) fn leaves_device(&self) -> bool {
        !self.external.is_empty() || !self.export.is_empty() || self.next.is_some()
    }

    /// A buffer that may be shared is never kept for reuse.
    fn is_reusable(&self) -> bool {
        self.content == RegionContent::Buffer && !self.leaves_device()
    }
}

/// All descriptions so far; they are few and never removed.
pub(super) struct ResourceDescriptions(GrowableVec<ResourceDescription, 16>);

impl ResourceDescriptions {
    /// Not a number of a description.
    pub(super) const NONE: u16 = u16::MAX;
    /// Limit of the table: further descriptions are not stored, and their buffers are not kept for reuse.
    const MAX_LEN: u32 = 1024;

    pub(super) const fn new() -> Self {
        Self(GrowableVec::new())
    }

    /// The number of a description.
    pub(super) fn find(&self, kind: &ResourceDescription) -> Option<u16> {
        let index = self.0.as_slice().iter().position(|noted| noted == kind)?;
        u16::try_from(index).ok()
    }

    /// Inserts a description. Returns its number, or [`ResourceDescriptions::NONE`] if there is no room.
    pub(super) fn insert(&mut self, kind: ResourceDescription) -> u16 {
        if let Some(number) = self.find(&kind) {
            return number;
        }
        match (u16::try_from(self.0.len()), self.0.push(kind)) {
            (Ok(number), Ok(())) => number,
            _ => Self::NONE,
        }
    }

    pub(super) fn get(&self, number: u16) -> Option<&ResourceDescription> {
        self.0.as_slice().get(usize::from(number))
    }

    pub(super) fn is_reusable(&self, number: u16) -> bool {
        self.get(number)
            .is_some_and(ResourceDescription::is_reusable)
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
