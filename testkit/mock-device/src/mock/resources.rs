//! Buffers and images: what they ask for, where they are bound, and who lies beside them.

#![forbid(unsafe_code)]

use super::memory::UNKNOWN;
use super::state::{MockBinding, MockResource, MockState, ResourceInfo};
use super::violation::{Breach, MockCall};
use crate::device::{
    BufferInfo, BufferUsage, DeviceError, ImageInfo, ImageTiling, ImageUsage, ResourceHandle, ResourceRequirements,
};

/// Sparse binding, residency and aliasing: such a resource has no one memory.
const SPARSE: u32 = 0b111;
/// `VK_IMAGE_CREATE_DISJOINT_BIT`.
const DISJOINT: u32 = 1 << 9;

impl MockState {
    pub(super) fn create_buffer(&mut self, info: &BufferInfo) -> Result<u64, DeviceError> {
        let device = self.config.properties();
        let address = info.usage.contains(BufferUsage::SHADER_DEVICE_ADDRESS);
        let breach = if info.size == 0 || info.usage.as_raw() == 0 || info.flags & SPARSE != 0 {
            Some(Breach::BadCreateInfo)
        } else if info.size > device.limits.max_buffer_size {
            Some(Breach::OverMaxBufferSize)
        } else if address && !device.features.buffer_device_address
            || !info.external.is_empty() && !device.features.external_memory
        {
            Some(Breach::FeatureNotEnabled)
        } else {
            None
        };
        if let Some(breach) = breach {
            self.breach(breach, MockCall::CreateBuffer, 0);
            return Err(UNKNOWN);
        }
        let rules = self.config.rules;
        let needs = self.needs(info.size, rules.buffer_alignment, rules.buffer_types, false, info.external.as_raw());
        let needs = needs.ok_or(DeviceError::OutOfDeviceMemory)?;
        let made = MockResource { info: ResourceInfo::Buffer(*info), needs, bound: None, users: 0 };
        self.buffers.insert(made).ok_or(DeviceError::OutOfHostMemory)
    }

    pub(super) fn create_image(&mut self, info: &ImageInfo) -> Result<u64, DeviceError> {
        let features = self.config.features;
        let empty = info.extent.contains(&0) || info.mip_levels == 0 || info.array_layers == 0;
        let breach = if empty
            || info.usage.as_raw() == 0
            || !info.samples.is_power_of_two()
            || info.flags & (SPARSE | DISJOINT) != 0
        {
            Some(Breach::BadCreateInfo)
        } else if !info.external.is_empty() && !features.external_memory {
            Some(Breach::FeatureNotEnabled)
        } else {
            None
        };
        if let Some(breach) = breach {
            self.breach(breach, MockCall::CreateImage, 0);
            return Err(UNKNOWN);
        }
        let rules = self.config.rules;
        let transient = info.usage.contains(ImageUsage::TRANSIENT_ATTACHMENT);
        let (alignment, types) = match info.tiling {
            ImageTiling::Linear => (rules.linear_alignment, rules.buffer_types),
            ImageTiling::Optimal => (rules.optimal_alignment, rules.optimal_types),
        };
        // Of those that are told apart by nothing else, depth has other types than colour, as on devices.
        let types = if is_depth(info) && !types.is_power_of_two() { types ^ 1 << types.ilog2() } else { types };
        let types =
            if transient && info.tiling == ImageTiling::Optimal { types | rules.transient_types } else { types };
        let size = image_bytes(info).ok_or(DeviceError::OutOfDeviceMemory)?;
        let prefers = size >= rules.prefers_dedicated_from;
        let needs = self.needs(size, alignment, types, prefers, info.external.as_raw());
        let needs = needs.ok_or(DeviceError::OutOfDeviceMemory)?;
        let made = MockResource { info: ResourceInfo::Image(*info), needs, bound: None, users: 0 };
        self.images.insert(made).ok_or(DeviceError::OutOfHostMemory)
    }

    fn needs(
        &self,
        size: u64,
        alignment: u64,
        types: u32,
        prefers: bool,
        external: u32,
    ) -> Option<ResourceRequirements> {
        let known = self.config.features.dedicated_allocation;
        let requires = known && external != 0 && self.config.rules.external_requires_dedicated;
        Some(ResourceRequirements {
            size: size.checked_next_multiple_of(alignment)?,
            alignment,
            memory_type_bits: types,
            prefers_dedicated: known && prefers || requires,
            requires_dedicated: requires,
        })
    }

    pub(super) fn requirements(&mut self, call: MockCall, name: ResourceHandle) -> ResourceRequirements {
        match self.resource(name).map(|resource| resource.needs) {
            Ok(needs) => needs,
            Err(breach) => {
                self.breach(breach, call, super::raw(name));
                ResourceRequirements {
                    size: 0,
                    alignment: 1,
                    memory_type_bits: 0,
                    prefers_dedicated: false,
                    requires_dedicated: false,
                }
            }
        }
    }

    pub(super) fn destroy(&mut self, call: MockCall, name: ResourceHandle) {
        let removed = match name {
            ResourceHandle::Buffer(buffer) => self.buffers.remove(buffer.as_raw()),
            ResourceHandle::Image(image) => self.images.remove(image.as_raw()),
        };
        match removed {
            Ok(MockResource { bound: Some(bound), .. }) => self.unlink(&bound),
            Ok(_) => {}
            Err(breach) => self.breach(breach, call, super::raw(name)),
        }
    }

    fn unlink(&mut self, bound: &MockBinding) {
        match bound.before.and_then(|before| self.resource(before).ok()).and_then(|before| before.bound.as_mut()) {
            Some(before) => before.after = bound.after,
            None => {
                // First of its list; or its memory was freed under it.
                if let Ok(memory) = self.memory.get_mut(bound.memory) {
                    memory.bound = bound.after;
                }
            }
        }
        if let Some(after) =
            bound.after.and_then(|after| self.resource(after).ok()).and_then(|after| after.bound.as_mut())
        {
            after.before = bound.before;
        }
    }

    pub(super) fn bind(
        &mut self,
        call: MockCall,
        name: ResourceHandle,
        memory: u64,
        offset: u64,
    ) -> Result<(), DeviceError> {
        if let Err(breach) = self.check_bind(name, memory, offset) {
            self.breach(breach, call, super::raw(name));
            return Err(UNKNOWN);
        }
        if let Some(breach) = self.collides(name, memory, offset) {
            self.breach(breach, call, super::raw(name));
        }
        let first = self.memory.get_mut(memory).ok().and_then(|memory| memory.bound.replace(name));
        if let Some(first) = first.and_then(|first| self.resource(first).ok()).and_then(|first| first.bound.as_mut()) {
            first.before = Some(name);
        }
        if let Ok(resource) = self.resource(name) {
            resource.bound = Some(MockBinding { memory, offset, before: None, after: first });
        }
        Ok(())
    }

    fn check_bind(&mut self, name: ResourceHandle, memory: u64, offset: u64) -> Result<(), Breach> {
        let resource = *self.resource(name)?;
        let object = self.memory.get(memory)?;
        let request = &object.request;
        if resource.bound.is_some() {
            return Err(Breach::AlreadyBound);
        }
        if !offset.is_multiple_of(resource.needs.alignment) {
            return Err(Breach::BindMisaligned);
        }
        if offset.checked_add(resource.needs.size).is_none_or(|end| end > request.size) {
            return Err(Breach::BindOutOfRange);
        }
        if resource.needs.memory_type_bits >> request.memory_type & 1 == 0 {
            return Err(Breach::BindWrongType);
        }
        match request.dedicated {
            Some(dedicated) if dedicated != name || offset != 0 => {
                return Err(Breach::DedicatedMismatch);
            }
            None if resource.needs.requires_dedicated => return Err(Breach::NotDedicated),
            _ => {}
        }
        let address = matches!(resource.info, ResourceInfo::Buffer(info) if info.usage.contains(BufferUsage::SHADER_DEVICE_ADDRESS));
        if address && !request.device_address {
            return Err(Breach::NoDeviceAddress);
        }
        if !request.export.is_empty() && resource.info.external() & request.export.as_raw() == 0 {
            return Err(Breach::ExternalMismatch);
        }
        Ok(())
    }

    /// What is bound to the same memory and too near.
    fn collides(&mut self, name: ResourceHandle, memory: u64, offset: u64) -> Option<Breach> {
        let resource = *self.resource(name).ok()?;
        let page = self.config.limits.buffer_image_granularity.max(1);
        let (from, to) = (offset, offset + resource.needs.size);
        let mut next = self.memory.get(memory).ok()?.bound;
        while let Some(neighbour) = next {
            let neighbour = *self.resource(neighbour).ok()?;
            let bound = neighbour.bound?;
            let (start, end) = (bound.offset, bound.offset + neighbour.needs.size);
            if from < end && start < to {
                return Some(Breach::Overlap);
            }
            let share_a_page = from / page <= (end - 1) / page && start / page <= (to - 1) / page;
            if resource.info.is_optimal() != neighbour.info.is_optimal() && share_a_page {
                return Some(Breach::GranularityConflict);
            }
            next = bound.after;
        }
        None
    }
}

/// `VK_FORMAT_D16_UNORM` to `VK_FORMAT_D32_SFLOAT_S8_UINT`.
fn is_depth(info: &ImageInfo) -> bool {
    (124..=130).contains(&info.format)
}

/// Four bytes a texel, with every level.
fn image_bytes(info: &ImageInfo) -> Option<u64> {
    let [width, height, depth] = info.extent.map(u64::from);
    let texels = width.checked_mul(height)?.checked_mul(depth)?;
    let levels = if info.mip_levels > 1 { texels.div_ceil(3).checked_add(u64::from(info.mip_levels))? } else { 0 };
    let layer = texels.checked_add(levels)?.checked_mul(4)?.checked_mul(u64::from(info.samples))?;
    layer.checked_mul(u64::from(info.array_layers))
}
