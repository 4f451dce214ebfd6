//! How buffers and images were made, each way noted once: what makes a kept buffer fit a new request, and what reports name.

#![forbid(unsafe_code)]

use super::array::{Array, Spare};
use crate::allocator::Content;
use crate::device::{BufferInfo, ExternalHandleTypes, ImageInfo, NextChain, QueueFamilies};
use crate::id::PoolId;
use crate::memory_type::Wish;
use crate::request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};

/// Everything that a request says but size, name, tag and site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) usage: u32,
    pub(crate) resource: ResourceKind,
    pub(crate) content: Content,
    flags: u32,
    sharing: QueueFamilies,
    external: ExternalHandleTypes,
    wish: Wish,
    lifetime: Lifetime,
    dedicated: DedicatedPolicy,
    pool: Option<PoolId>,
    /// Bits, since two kinds are the same or not, whatever numbers mean.
    priority: Option<u32>,
    export: ExternalHandleTypes,
    next: Option<NextChain>,
    within_budget: bool,
}

impl Kind {
    pub(crate) fn of_buffer(info: &BufferInfo, options: &RegionOptions<'_>) -> Self {
        let BufferInfo { size: _, usage, flags, sharing, external } = *info;
        Self { usage: usage.as_raw(), flags, sharing, external, ..Self::new(Content::Buffer, ResourceKind::Linear, options) }
    }

    pub(crate) fn of_image(info: &ImageInfo, resource: ResourceKind, options: &RegionOptions<'_>) -> Self {
        let ImageInfo { flags, usage, sharing, external, .. } = *info;
        Self { usage: usage.as_raw(), flags, sharing, external, ..Self::new(Content::Image, resource, options) }
    }

    fn new(content: Content, resource: ResourceKind, options: &RegionOptions<'_>) -> Self {
        Self {
            usage: 0,
            resource,
            content,
            flags: 0,
            sharing: QueueFamilies::EXCLUSIVE,
            external: ExternalHandleTypes::NONE,
            wish: options.wish,
            lifetime: options.lifetime,
            dedicated: options.dedicated,
            pool: options.pool,
            priority: options.priority.map(f32::to_bits),
            export: options.export,
            next: options.next,
            within_budget: options.within_budget,
        }
    }

    /// What leaves the device belongs to others too, and is never kept for reuse.
    fn can_be_kept(&self) -> bool {
        self.content == Content::Buffer && self.external.is_empty() && self.export.is_empty() && self.next.is_none()
    }
}

/// The kinds there have been; there are few, and they stay.
pub(super) struct Kinds(Array<Kind>);

impl Kinds {
    /// Not one of these.
    pub(super) const NONE: u16 = u16::MAX;
    const FIRST: u32 = 16;
    /// What comes later is not kept for reuse.
    const MOST: u32 = 1024;

    pub(super) const fn new() -> Self {
        Self(Array::new())
    }

    /// The capacity that is to be supplied before another kind can be noted.
    pub(super) fn lacks(&self) -> Option<u32> {
        if self.0.len() >= Self::MOST { None } else { self.0.lacks(Self::FIRST, Self::MOST) }
    }

    /// The number of a kind that is noted.
    pub(super) fn find(&self, kind: &Kind) -> Option<u16> {
        let index = self.0.as_slice().iter().position(|noted| noted == kind)?;
        u16::try_from(index).ok()
    }

    /// Notes a kind; [`Kinds::NONE`] where there is no room.
    pub(super) fn note(&mut self, kind: Kind) -> u16 {
        if let Some(number) = self.find(&kind) {
            return number;
        }
        match (u16::try_from(self.0.len()), self.0.push(kind)) {
            (Ok(number), Ok(())) => number,
            _ => Self::NONE,
        }
    }

    pub(super) fn get(&self, number: u16) -> Option<&Kind> {
        self.0.as_slice().get(usize::from(number))
    }

    pub(super) fn can_be_kept(&self, number: u16) -> bool {
        self.get(number).is_some_and(Kind::can_be_kept)
    }

    pub(super) fn array(&mut self) -> &mut Array<Kind> {
        &mut self.0
    }

    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.0.dismantle()
    }
}
