//! The memory properties of a device that pools use.

#![forbid(unsafe_code)]

use super::options::MemoryOptions;
use crate::device::{DeviceFeatures, DeviceMemory, MAX_MEMORY_HEAPS};
use crate::memory_type::PropertyFlags;
use crate::memory_type::{
    MAX_MEMORY_TYPES, MemoryPreference, MemoryType, MemoryTypeError, MemoryTypesByFit,
    choose_memory_type,
};

/// Types, heaps and limits.
pub(super) struct DeviceMemoryInfo {
    types: [MemoryType; MAX_MEMORY_TYPES],
    type_count: usize,
    heaps: [u64; MAX_MEMORY_HEAPS],
    heap_count: usize,
    /// A bit for each memory type whose required features are enabled.
    usable: u32,
    pub(super) features: DeviceFeatures,
    pub(super) granule_log2: u32,
    /// `nonCoherentAtomSize`: flush ranges are rounded to it.
    pub(super) atom: u64,
    /// Bytes; a power of two.
    pub(super) granularity: u64,
    pub(super) max_objects: u32,
    max_object_size: u64,
}

impl DeviceMemoryInfo {
    pub(super) fn new(device: &dyn DeviceMemory, options: &MemoryOptions) -> Self {
        let properties = device.properties();
        let mut types = [MemoryType {
            properties: PropertyFlags::NONE,
            heap_index: 0,
        }; MAX_MEMORY_TYPES];
        let mut heaps = [0; MAX_MEMORY_HEAPS];
        let mut usable = 0u32;
        let type_count = properties.types.len().min(MAX_MEMORY_TYPES);
        let amd = PropertyFlags::DEVICE_COHERENT_AMD | PropertyFlags::DEVICE_UNCACHED_AMD;
        for (index, (kept, reported)) in types.iter_mut().zip(properties.types).enumerate() {
            *kept = *reported;
            if reported.properties.without(amd) == reported.properties
                || properties.features.device_coherent_memory
            {
                usable |= 1 << index;
            }
        }
        for (kept, reported) in heaps.iter_mut().zip(properties.heaps) {
            *kept = reported.size;
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
            features: properties.features,
            granule_log2: granule.trailing_zeros(),
            atom,
            granularity: if granularity > granule {
                granularity.checked_next_power_of_two().unwrap_or(1)
            } else {
                1
            },
            max_objects: limits
                .max_memory_allocation_count
                .min(options.max_allocations),
            max_object_size: limits
                .max_memory_allocation_size
                .min(options.max_block.unwrap_or(u64::MAX)),
        }
    }

    pub(super) fn types(&self) -> &[MemoryType] {
        self.types.get(..self.type_count).unwrap_or_default()
    }

    /// The type and its heap's size.
    pub(super) fn memory_type(&self, index: u32) -> Option<(MemoryType, u64)> {
        let memory_type = *self.types().get(usize::try_from(index).ok()?)?;
        let heap = self
            .heaps
            .get(usize::try_from(memory_type.heap_index).ok()?)?;
        Some((memory_type, *heap))
    }

    /// Whether the features that the type requires are enabled.
    pub(super) fn is_usable(&self, index: u32) -> bool {
        self.usable
            .checked_shr(index)
            .is_some_and(|bits| bits & 1 == 1)
    }

    pub(super) fn heap_count(&self) -> usize {
        self.heap_count
    }

    /// The size of the largest memory object in a heap.
    pub(super) fn max_object_size(&self, heap_size: u64) -> u64 {
        self.max_object_size.min(heap_size)
    }

    pub(super) fn best_type(
        &self,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> Result<u32, MemoryTypeError> {
        choose_memory_type(self.types(), memory_type_bits & self.usable, preference)
    }

    /// All types that fit, best first.
    pub(super) fn types_by_fit(
        &self,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> MemoryTypesByFit<'_> {
        MemoryTypesByFit {
            types: self.types(),
            memory_type_bits: memory_type_bits & self.usable,
            preference,
            last: None,
        }
    }

    /// Indices and sizes of the heaps.
    pub(super) fn heaps(&self) -> impl Iterator<Item = (u32, u64)> + use<'_> {
        (0u32..).zip(self.heaps.iter().copied())
    }
}
