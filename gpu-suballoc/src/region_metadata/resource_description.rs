#![forbid(unsafe_code)]

use crate::device::{BufferInfo, BufferUsage, ExternalHandleTypes, ImageInfo, ImageTiling, NextChain, QueueFamilies};
use crate::growable_vec::Slots;
use crate::id::PoolId;
use crate::memory_type::MemoryPreference;
use crate::request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};

/// Size, name, tag and site are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ResourceDescription {
    pub(crate) usage: u32,
    pub(crate) resource: ResourceKind,
    flags: u32,
    sharing: QueueFamilies,
    external: ExternalHandleTypes,
    preference: MemoryPreference,
    lifetime: Lifetime,
    dedicated: DedicatedPolicy,
    memory_type_bits: u32,
    min_alignment: u64,
    pool: Option<PoolId>,
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
    pub(crate) fn new(
        (usage, flags): (u32, u32),
        (sharing, external): (QueueFamilies, ExternalHandleTypes),
        resource: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Self {
        Self {
            usage,
            resource,
            flags,
            sharing,
            external,
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

    pub(crate) const fn buffer_info(&self, size: u64) -> BufferInfo {
        BufferInfo {
            size,
            usage: BufferUsage::from_raw(self.usage),
            flags: self.flags,
            sharing: self.sharing,
            external: self.external,
        }
    }

    /// Extent and format are not stored.
    pub(crate) fn is_like_image(&self, info: &ImageInfo) -> bool {
        let is_optimal = info.tiling == ImageTiling::Optimal;
        self.usage == info.usage.as_raw()
            && self.flags == info.flags
            && self.sharing == info.sharing
            && self.external == info.external
            && is_optimal == (self.resource == ResourceKind::Optimal)
    }

    pub(crate) fn leaves_device(&self) -> bool {
        !self.external.is_empty() || !self.export.is_empty() || self.next.is_some()
    }
}

pub(super) const NO_DESCRIPTION: u16 = u16::MAX;
/// Further descriptions are not stored, and their buffers are not kept for reuse.
pub(super) const MAX_DESCRIPTIONS: u32 = 1024;

impl Slots<ResourceDescription> {
    pub(super) fn find(&self, kind: &ResourceDescription) -> Option<u16> {
        let (number, _) = self.each().find(|(_, noted)| *noted == kind)?;
        u16::try_from(number).ok()
    }

    pub(super) fn insert(&mut self, kind: ResourceDescription) -> u16 {
        if let Some(number) = self.find(&kind) {
            return number;
        }
        let Some(number) = self.reserve() else {
            return NO_DESCRIPTION;
        };
        self.fill(number, kind);
        number as u16
    }
}
