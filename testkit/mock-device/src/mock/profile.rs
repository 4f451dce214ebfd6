//! The six profiles of the mock device.

#![forbid(unsafe_code)]

use crate::device::{DeviceFeatures, DeviceLimits, DeviceProperties, HeapFlags, MAX_MEMORY_HEAPS, MemoryHeap};
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType};
use crate::property_flags::PropertyFlags as P;

/// A kind of device. Figures are those that its drivers publish, except where noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MockProfile {
    /// A discrete NVIDIA card: granularity 1024, a large heap of its own, host memory, and a window of 256 MiB into its
    /// own.
    Nvidia,
    /// A discrete AMD card with a base address register of 256 MiB: a small host-visible heap, and types that need a
    /// feature.
    AmdSmallBar,
    /// An Intel chip: one heap for host and device.
    IntelUma,
    /// A tiler at its worst: granularity 65536 and non-coherent host-visible memory only, which is harsher than the
    /// specification allows (*Device Memory*: some type is visible and coherent), and memory that lives on the tile.
    Tiler,
    /// Like MoltenVK: 30 memory objects at most, one heap.
    MoltenVk,
    /// lavapipe of Mesa 22.3: one type, one heap of 2 GiB, neither budget nor priority.
    Lavapipe,
}

impl MockProfile {
    /// Each of them.
    pub const ALL: [Self; 6] =
        [Self::Nvidia, Self::AmdSmallBar, Self::IntelUma, Self::Tiler, Self::MoltenVk, Self::Lavapipe];

    /// Its configuration; change it for another device.
    #[must_use]
    pub fn config(self) -> MockConfig {
        match self {
            Self::Nvidia => nvidia(),
            Self::AmdSmallBar => amd(),
            Self::IntelUma => intel(),
            Self::Tiler => tiler(),
            Self::MoltenVk => molten_vk(),
            Self::Lavapipe => lavapipe(),
        }
    }
}

/// The configuration of a mock device.
#[derive(Clone, Copy, Debug)]
pub struct MockConfig {
    types: [MemoryType; MAX_MEMORY_TYPES],
    type_count: usize,
    heaps: [MemoryHeap; MAX_MEMORY_HEAPS],
    heap_count: usize,
    /// Its limits.
    pub limits: DeviceLimits,
    /// Enabled features.
    pub features: DeviceFeatures,
    /// The requirements of its resources.
    pub rules: ResourceRules,
}

/// The requirements of buffers and images of a mock device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRules {
    /// Alignment of buffers, and of their sizes; a power of two.
    pub buffer_alignment: u64,
    /// The same of images in the device's own order.
    pub optimal_alignment: u64,
    /// The same of linear images.
    pub linear_alignment: u64,
    /// Memory types that buffers and linear images accept.
    pub buffer_types: u32,
    /// Memory types that images in the device's own order accept.
    pub optimal_types: u32,
    /// Memory types for transient attachments alone, which accept `optimal_types` too.
    pub transient_types: u32,
    /// Images from this size on prefer dedicated memory, if that is enabled.
    pub prefers_dedicated_from: u64,
    /// Resources with external handle types require dedicated memory, if that is enabled.
    pub external_requires_dedicated: bool,
}

impl MockConfig {
    /// With other memory types and heaps, as far as Vulkan allows them; buffers and images accept every type.
    #[must_use]
    pub fn with_memory(mut self, types: &[MemoryType], heaps: &[MemoryHeap]) -> Self {
        self.type_count = types.len().min(MAX_MEMORY_TYPES);
        self.heap_count = heaps.len().min(MAX_MEMORY_HEAPS);
        self.types.iter_mut().zip(types).for_each(|(place, kind)| *place = *kind);
        self.heaps.iter_mut().zip(heaps).for_each(|(place, heap)| *place = *heap);
        let every = types.iter().take(MAX_MEMORY_TYPES).fold(0u32, |bits, _| bits << 1 | 1);
        self.rules = ResourceRules { buffer_types: every, optimal_types: every, transient_types: 0, ..self.rules };
        self
    }

    /// With another size of a heap, if it has that heap.
    #[must_use]
    pub fn with_heap_size(mut self, heap: usize, bytes: u64) -> Self {
        if let Some(heap) = self.heaps.get_mut(heap) {
            heap.size = bytes;
        }
        self
    }

    /// The properties of the device.
    #[must_use]
    pub fn properties(&self) -> DeviceProperties<'_> {
        DeviceProperties {
            types: self.types.get(..self.type_count).unwrap_or_default(),
            heaps: self.heaps.get(..self.heap_count).unwrap_or_default(),
            limits: self.limits,
            features: self.features,
        }
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// All of these.
pub(super) const fn all<const N: usize>(of: [P; N]) -> P {
    let (mut bits, mut at) = (0, 0);
    while at < N {
        bits |= of[at].as_raw();
        at += 1;
    }
    P::from_raw(bits)
}

const VISIBLE: P = all([P::HOST_VISIBLE, P::HOST_COHERENT]);
const CACHED: P = all([VISIBLE, P::HOST_CACHED]);
const BAR: P = all([VISIBLE, P::DEVICE_LOCAL]);
const UNIFIED: P = all([CACHED, P::DEVICE_LOCAL]);
const TILE: P = all([P::DEVICE_LOCAL, P::LAZILY_ALLOCATED]);
const NON_COHERENT: P = all([P::DEVICE_LOCAL, P::HOST_VISIBLE, P::HOST_CACHED]);
const AMD_COHERENT: P = all([P::DEVICE_COHERENT_AMD, P::DEVICE_UNCACHED_AMD]);

const fn of(properties: P, heap_index: u32) -> MemoryType {
    MemoryType { properties, heap_index }
}

const fn own(size: u64) -> MemoryHeap {
    MemoryHeap::new(size, HeapFlags::DEVICE_LOCAL)
}

const fn host(size: u64) -> MemoryHeap {
    MemoryHeap::new(size, HeapFlags::NONE)
}

const ALL_FEATURES: DeviceFeatures = DeviceFeatures {
    dedicated_allocation: true,
    memory_budget: true,
    memory_priority: true,
    buffer_device_address: true,
    external_memory: true,
    device_coherent_memory: false,
};

const PLAIN: ResourceRules = ResourceRules {
    buffer_alignment: 16,
    optimal_alignment: 4096,
    linear_alignment: 64,
    buffer_types: 0,
    optimal_types: 0,
    transient_types: 0,
    prefers_dedicated_from: u64::MAX,
    external_requires_dedicated: true,
};

const LIMITS: DeviceLimits = DeviceLimits {
    buffer_image_granularity: 1,
    non_coherent_atom_size: 64,
    max_memory_allocation_count: u32::MAX,
    max_memory_allocation_size: 4 * GIB - 4,
    max_buffer_size: 4 * GIB - 4,
    min_memory_map_alignment: 4096,
    min_storage_buffer_offset_alignment: 16,
    min_uniform_buffer_offset_alignment: 64,
    min_texel_buffer_offset_alignment: 16,
};

const NOTHING: MockConfig = MockConfig {
    types: [of(P::NONE, 0); MAX_MEMORY_TYPES],
    type_count: 0,
    heaps: [host(0); MAX_MEMORY_HEAPS],
    heap_count: 0,
    limits: LIMITS,
    features: ALL_FEATURES,
    rules: PLAIN,
};

fn nvidia() -> MockConfig {
    let types = [of(P::NONE, 1), of(P::DEVICE_LOCAL, 0), of(VISIBLE, 1), of(CACHED, 1), of(BAR, 2)];
    let mut config = NOTHING.with_memory(&types, &[own(8 * GIB), host(16 * GIB), own(246 * MIB)]);
    config.limits.buffer_image_granularity = 1024;
    config.limits.max_memory_allocation_size = 0xffe0_0000;
    config.limits.min_memory_map_alignment = 64;
    config.rules.optimal_types = 0b0_0011; // images do not live in what the host sees
    config.rules.optimal_alignment = 1024;
    config.rules.prefers_dedicated_from = 16 * MIB;
    config
}

fn amd() -> MockConfig {
    let types = [
        of(P::DEVICE_LOCAL, 0),
        of(VISIBLE, 1),
        of(BAR, 2),
        of(CACHED, 1),
        of(all([P::DEVICE_LOCAL, AMD_COHERENT]), 0),
        of(all([VISIBLE, AMD_COHERENT]), 1),
    ];
    let mut config = NOTHING.with_memory(&types, &[own(8 * GIB - 256 * MIB), host(16 * GIB), own(256 * MIB)]);
    config.limits.min_storage_buffer_offset_alignment = 4;
    config.limits.min_uniform_buffer_offset_alignment = 4;
    config.limits.min_texel_buffer_offset_alignment = 4;
    config.rules.optimal_types = 0b01_0001;
    config
}

fn intel() -> MockConfig {
    let mut config = NOTHING.with_memory(&[of(P::DEVICE_LOCAL, 0), of(UNIFIED, 0), of(BAR, 0)], &[own(12 * GIB)]);
    config.rules.buffer_alignment = 64;
    config.limits.min_storage_buffer_offset_alignment = 4;
    config
}

fn tiler() -> MockConfig {
    let types = [of(P::DEVICE_LOCAL, 0), of(NON_COHERENT, 0), of(TILE, 0)];
    let mut config = NOTHING.with_memory(&types, &[own(4 * GIB)]);
    config.limits.buffer_image_granularity = 65_536;
    config.limits.max_memory_allocation_count = 4096;
    config.limits.max_memory_allocation_size = GIB;
    config.limits.max_buffer_size = GIB;
    config.limits.min_storage_buffer_offset_alignment = 64;
    config.features.memory_budget = false;
    config.features.memory_priority = false;
    config.rules.buffer_types = 0b011;
    config.rules.optimal_types = 0b011;
    config.rules.transient_types = 0b100;
    config
}

fn molten_vk() -> MockConfig {
    let types = [of(P::DEVICE_LOCAL, 0), of(UNIFIED, 0), of(TILE, 0)];
    let mut config = NOTHING.with_memory(&types, &[own(8 * GIB)]);
    config.limits.buffer_image_granularity = 16;
    config.limits.non_coherent_atom_size = 16;
    config.limits.max_memory_allocation_count = 30;
    config.limits.min_memory_map_alignment = 16_384;
    config.limits.min_uniform_buffer_offset_alignment = 16;
    config.features.memory_priority = false;
    config.rules.buffer_types = 0b011;
    config.rules.optimal_types = 0b011;
    config.rules.transient_types = 0b100;
    config
}

fn lavapipe() -> MockConfig {
    let mut config = NOTHING.with_memory(&[of(UNIFIED, 0)], &[own(2 * GIB)]);
    config.limits.buffer_image_granularity = 64;
    config.limits.max_memory_allocation_size = 2 * GIB;
    config.limits.max_buffer_size = 0xffff_ffff;
    config.limits.min_memory_map_alignment = 64;
    config.limits.min_uniform_buffer_offset_alignment = 16;
    config.features.memory_budget = false;
    config.features.memory_priority = false;
    config.rules.buffer_alignment = 64;
    config.rules.optimal_alignment = 64;
    config
}
