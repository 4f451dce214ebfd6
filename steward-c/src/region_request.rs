//! Requests for regions: the structs of the header, and their conversion.

use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null, null_mut};

use gpu_suballoc::allocator::{Backing, WrapInfo};
use gpu_suballoc::device::{BufferHandle, ExternalHandleTypes, ImageHandle, MemoryHandle, NextChain, ResourceHandle};
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{Lifetime, MemoryPreference, PropertyFlags, RegionOptions, ResourceKind};

use crate::sized::SizedStruct;

/// `steward_region_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardRegionRequest {
    pub size: usize,
    pub bytes: u64,
    pub align: u64,
    pub memory_types: u32,
    pub usage: u32,
    pub required: u32,
    pub preferred: u32,
    pub avoided: u32,
    pub lifetime: i32,
    pub kind: i32,
    pub dedicated: i32,
    pub tag: u64,
    pub name: *const c_char,
    pub dedicated_buffer: u64,
    pub dedicated_image: u64,
    pub next: *const c_void,
    pub export_types: u32,
    pub external_types: u32,
    pub flags: u64,
}

impl Default for StewardRegionRequest {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            bytes: 0,
            align: 0,
            memory_types: 0,
            usage: 0,
            required: 0,
            preferred: 0,
            avoided: 0,
            lifetime: 0,
            kind: 0,
            dedicated: 0,
            tag: 0,
            name: null(),
            dedicated_buffer: 0,
            dedicated_image: 0,
            next: null(),
            export_types: 0,
            external_types: 0,
            flags: 0,
        }
    }
}

// SAFETY: numbers and addresses, the first of them the size.
unsafe impl SizedStruct for StewardRegionRequest {}

/// `steward_wrap_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardWrapRequest {
    pub size: usize,
    pub buffer: u64,
    pub offset: u64,
    pub bytes: u64,
    pub buffer_bytes: u64,
    pub memory: u64,
    pub memory_offset: u64,
    pub memory_bytes: u64,
    pub properties: u64,
    pub mapped: *mut c_void,
    pub tag: u64,
    pub name: *const c_char,
}

impl Default for StewardWrapRequest {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            buffer: 0,
            offset: 0,
            bytes: 0,
            buffer_bytes: 0,
            memory: 0,
            memory_offset: 0,
            memory_bytes: 0,
            properties: 0,
            mapped: null_mut(),
            tag: 0,
            name: null(),
        }
    }
}

// SAFETY: numbers and addresses, the first of them the size.
unsafe impl SizedStruct for StewardWrapRequest {}

/// `STEWARD_REQUEST_WITHIN_BUDGET` and `STEWARD_REQUEST_MAPPED`.
const WITHIN_BUDGET: u64 = 1;
const MAPPED: u64 = 2;

impl StewardRegionRequest {
    /// Zeros are any alignment and any type.
    ///
    /// # Errors
    /// What is wrong, where a word is none of the header's.
    ///
    /// # Safety
    /// `next` is NULL or a chain as [`NextChain::new`] requires.
    pub(crate) unsafe fn options<'n>(&self, name: &'n str) -> Result<RegionOptions<'n>, &'static str> {
        let [required, preferred, avoided] = [self.required, self.preferred, self.avoided].map(PropertyFlags::from_raw);
        let preference = MemoryPreference::requiring(required).preferring(preferred).avoiding(avoided);
        let lifetime = match self.lifetime {
            0 => Lifetime::Unknown,
            1 => Lifetime::Transient,
            2 => Lifetime::Persistent,
            _ => return Err("lifetime is none of STEWARD_LIFETIME_*"),
        };
        let kind = match self.kind {
            0 => ResourceKind::Linear,
            1 => ResourceKind::Optimal,
            2 => ResourceKind::Unknown,
            _ => return Err("kind is none of STEWARD_KIND_*"),
        };
        let dedicated = match self.dedicated {
            0 => DedicatedPolicy::Allowed,
            1 => DedicatedPolicy::Never,
            2 => DedicatedPolicy::Preferred,
            3 => DedicatedPolicy::Required,
            _ => return Err("dedicated is none of STEWARD_DEDICATED_*"),
        };
        let buffer = BufferHandle::from_raw(self.dedicated_buffer).map(ResourceHandle::Buffer);
        let image = ImageHandle::from_raw(self.dedicated_image).map(ResourceHandle::Image);
        if buffer.is_some() && image.is_some() {
            return Err("memory is dedicated to dedicated_buffer or to dedicated_image, not to both");
        }
        if self.flags & !(WITHIN_BUDGET | MAPPED) != 0 {
            return Err("flags has a bit that is none of STEWARD_REQUEST_*");
        }
        // SAFETY: a chain as `NextChain::new` requires.
        let next = NonNull::new(self.next.cast_mut()).map(|first| unsafe { NextChain::new(first) });
        Ok(RegionOptions {
            dedicated_for: buffer.or(image),
            memory_type_bits: match self.memory_types {
                0 => u32::MAX,
                types => types,
            },
            next,
            within_budget: self.flags & WITHIN_BUDGET != 0,
            mapped: self.flags & MAPPED != 0,
            name: Some(name).filter(|name| !name.is_empty()),
            ..RegionOptions::new()
                .preference(preference)
                .lifetime(lifetime)
                .kind(kind)
                .dedicated(dedicated)
                .min_alignment(self.align.max(1))
                .export(ExternalHandleTypes::from_raw(self.export_types))
                .tag(self.tag)
        })
    }
}

impl StewardWrapRequest {
    /// Zeros are what is not known.
    ///
    /// # Errors
    /// What is wrong, where properties are none of Vulkan's.
    pub(crate) fn info<'n>(&self, name: &'n str) -> Result<WrapInfo<'n>, &'static str> {
        let properties =
            u32::try_from(self.properties).map_err(|_| "properties has a bit that VkMemoryPropertyFlags has not")?;
        let known = |bytes: u64| (bytes != 0).then_some(bytes);
        let backing = MemoryHandle::from_raw(self.memory).map(|memory| Backing {
            memory,
            offset: self.memory_offset,
            memory_size: self.memory_bytes,
            properties: PropertyFlags::from_raw(properties),
            mapped: NonNull::new(self.mapped.cast()),
        });
        Ok(WrapInfo {
            offset: self.offset,
            size: known(self.bytes),
            buffer_size: known(self.buffer_bytes),
            backing,
            name: Some(name).filter(|name| !name.is_empty()),
            tag: self.tag,
            ..WrapInfo::new(BufferHandle::from_raw(self.buffer), 0)
        })
    }
}
