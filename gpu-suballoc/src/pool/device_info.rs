#![forbid(unsafe_code)]

use super::options::MemoryOptions;
use crate::device::{DeviceFeatures, DeviceMemory, ExternalHandleTypes, MAX_MEMORY_HEAPS};
use crate::error::GpuMisuse;
use crate::memory_type::{
    MAX_MEMORY_TYPES, MemoryPreference, MemoryType, MemoryTypeError, MemoryTypesByFit, PropertyFlags, ordinary_types,
};

pub(super) struct DeviceMemoryInfo {
    types: [MemoryType; MAX_MEMORY_TYPES],
    type_count: usize,
    heaps: [u64; MAX_MEMORY_HEAPS],
    pub(super) heap_count: usize,
    /// The required features of these types are enabled, and their heaps have bytes.
    usable: u32,
    ordinary: u32,
    pub(super) features: DeviceFeatures,
    pub(super) granule_log2: u32,
    pub(super) atom: u64,
    /// Bytes; a power of two.
    pub(super) granularity: u64,
    pub(super) max_objects: u32,
    /// Larger dedicated objects are the driver's to refuse.
    pub(super) max_memory_allocation_size: u64,
}

impl DeviceMemoryInfo {
    pub(super) fn new(device: &dyn DeviceMemory, options: &MemoryOptions) -> Self {
        let properties = device.properties();
        let mut types = [MemoryType { properties: PropertyFlags::NONE, heap_index: 0 }; MAX_MEMORY_TYPES];
        let mut heaps = [0; MAX_MEMORY_HEAPS];
        let mut usable = 0u32;
        let type_count = properties.types.len().min(MAX_MEMORY_TYPES);
        for (kept, reported) in heaps.iter_mut().zip(properties.heaps) {
            *kept = reported.size;
        }
        let amd = PropertyFlags::DEVICE_COHERENT_AMD | PropertyFlags::DEVICE_UNCACHED_AMD;
        for (index, (kept, reported)) in types.iter_mut().zip(properties.types).enumerate() {
            *kept = *reported;
            let size = heaps.get(reported.heap_index as usize);
            let has_bytes = size.is_some_and(|size| *size > 0);
            let is_enabled =
                reported.properties.without(amd) == reported.properties || properties.features.device_coherent_memory;
            usable |= u32::from(has_bytes && is_enabled) << index;
        }
        let limits = properties.limits;
        let atom = limits.non_coherent_atom_size.max(1);
        let granule = u64::from(options.granule).max(atom.checked_next_power_of_two().unwrap_or(1));
        let granularity = limits.buffer_image_granularity;
        Self {
            types,
            type_count,
            heaps,
            heap_count: properties.heaps.len().min(MAX_MEMORY_HEAPS),
            usable,
            ordinary: usable & ordinary_types(properties.types),
            features: properties.features,
            granule_log2: granule.trailing_zeros(),
            atom,
            granularity: if granularity > granule { granularity.checked_next_power_of_two().unwrap_or(1) } else { 1 },
            max_objects: limits.max_memory_allocation_count.min(options.max_allocations),
            max_memory_allocation_size: limits.max_memory_allocation_size,
        }
    }

    pub(super) fn check(&self, priority: Option<f32>, export: ExternalHandleTypes) -> Result<(), GpuMisuse> {
        if priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            return Err(GpuMisuse::BadPriority);
        }
        if priority.is_some() && !self.features.memory_priority || !export.is_empty() && !self.features.external_memory
        {
            return Err(GpuMisuse::NotEnabled);
        }
        Ok(())
    }

    pub(super) fn types(&self) -> &[MemoryType] {
        self.types.get(..self.type_count).unwrap_or_default()
    }

    pub(super) fn memory_type(&self, index: u32) -> Option<(MemoryType, u64)> {
        let memory_type = *self.types().get(index as usize)?;
        let heap = self.heaps.get(memory_type.heap_index as usize)?;
        Some((memory_type, *heap))
    }

    #[inline]
    pub(super) fn best_type(
        &self,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> Result<u32, MemoryTypeError> {
        let best = self.types_by_fit(memory_type_bits, preference).best();
        best.map_err(|error| match error {
            MemoryTypeError::NoneAccepted { .. } => MemoryTypeError::NoneAccepted { memory_type_bits },
            other => other,
        })
    }

    pub(super) fn types_by_fit(&self, memory_type_bits: u32, preference: MemoryPreference) -> MemoryTypesByFit<'_> {
        let accepted = memory_type_bits & self.usable;
        MemoryTypesByFit::new(self.types(), self.ordinary, accepted, preference)
    }

    pub(super) fn heaps(&self) -> impl Iterator<Item = (u32, u64)> + use<'_> {
        (0u32..).zip(self.heaps.iter().copied())
    }
}
