//! Buffers, images, their memory and their views, and samplers. Fields are in reverse order of creation: Rust drops
//! them in order.

use ash::vk;
use gpu_suballoc::{MemoryPreference, PropertyFlags};

use super::device::Device;
use super::error::WorkloadError;
use super::expect::{SIDE, WORDS};
use super::memory::{Mapped, device_local, for_buffers, for_images};
use super::object::Guard;
use super::physical::YCBCR_FORMAT;

/// The format of every texel, pixel and buffer element: exact on every device.
pub(super) const FORMAT: vk::Format = vk::Format::R32_UINT;

const WORD: u64 = size_of::<u32>() as u64;
pub(super) const FILL_BYTES: u64 = WORDS as u64 * WORD;
pub(super) const HASH_BYTES: u64 = 2 * FILL_BYTES;
pub(super) const DRAWN_BYTES: u64 = (SIDE * SIDE) as u64 * WORD;

/// The layout of the read-back buffer, by byte offset:
///
/// ```text
/// 0            FILL_BYTES        + HASH_BYTES       + DRAWN_BYTES
/// | the fill   | both dispatches | the drawn image  |
/// ```
pub(super) const READ_BACK_BYTES: u64 = FILL_BYTES + HASH_BYTES + DRAWN_BYTES;

pub(super) struct Buffers<'d> {
    pub(super) texel_view: Guard<'d, vk::BufferView>,
    read_back_offset: u64,
    host_memory: Guard<'d, vk::DeviceMemory>,
    _device_memory: Guard<'d, vk::DeviceMemory>,
    pub(super) read_back: Guard<'d, vk::Buffer>,
    pub(super) parameters: Guard<'d, vk::Buffer>,
    pub(super) hashes: Guard<'d, vk::Buffer>,
    pub(super) texels: Guard<'d, vk::Buffer>,
}

impl<'d> Buffers<'d> {
    /// The host writes `scale` to the uniform buffer.
    pub(super) fn new(device: &'d Device<'d>, scale: u32) -> Result<Self, WorkloadError> {
        use vk::BufferUsageFlags as Usage;
        let texels =
            buffer(device, FILL_BYTES, Usage::UNIFORM_TEXEL_BUFFER | Usage::TRANSFER_DST | Usage::TRANSFER_SRC)?;
        let hashes = buffer(device, HASH_BYTES, Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC)?;
        let parameters = buffer(device, WORD, Usage::UNIFORM_BUFFER)?;
        let read_back = buffer(device, READ_BACK_BYTES, Usage::TRANSFER_DST)?;

        let (_device_memory, _) = for_buffers(device, "the device's buffers", [*texels, *hashes], device_local())?;
        let seen = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE).preferring(PropertyFlags::HOST_CACHED);
        let (host_memory, [parameters_offset, read_back_offset]) =
            for_buffers(device, "the host's buffers", [*parameters, *read_back], seen)?;
        write_word(device, &host_memory, parameters_offset, scale)?;

        let info = vk::BufferViewCreateInfo::default().buffer(*texels).format(FORMAT).range(vk::WHOLE_SIZE);
        // SAFETY: the buffer is bound, has UNIFORM_TEXEL_BUFFER usage, and every device supports the format for it.
        let texel_view = unsafe { device.create(&info) }?;
        Ok(Self { texel_view, read_back_offset, host_memory, _device_memory, read_back, parameters, hashes, texels })
    }

    /// Calls `look` with the words of the read-back buffer. All work that writes them has ended.
    pub(super) fn read(
        &self,
        device: &Device<'_>,
        look: impl FnOnce(&[u32]) -> Result<u64, WorkloadError>,
    ) -> Result<u64, WorkloadError> {
        let mapped = Mapped::new(device, &self.host_memory)?;
        mapped.invalidate()?;
        // SAFETY: the buffer was bound at this offset of the memory.
        let start = unsafe { mapped.at(self.read_back_offset) };
        // SAFETY: the mapping covers the whole buffer; its offset is a multiple of 4; any bits are a `u32`; the device
        // does not write any more.
        let words = unsafe { std::slice::from_raw_parts(start.as_ptr(), (READ_BACK_BYTES / WORD) as usize) };
        look(words)
    }
}

pub(super) fn buffer<'d>(
    device: &'d Device<'d>,
    size: u64,
    usage: vk::BufferUsageFlags,
) -> Result<Guard<'d, vk::Buffer>, WorkloadError> {
    let info = vk::BufferCreateInfo::default().size(size).usage(usage);
    // SAFETY: every caller passes a size and a usage that are not 0.
    unsafe { device.create(&info) }
}

fn write_word(
    device: &Device<'_>,
    memory: &Guard<'_, vk::DeviceMemory>,
    offset: u64,
    word: u32,
) -> Result<(), WorkloadError> {
    let mapped = Mapped::new(device, memory)?;
    // SAFETY: the caller passes the offset of a buffer that was bound to this memory.
    let place = unsafe { mapped.at(offset) };
    // SAFETY: inside the mapping, aligned like every buffer, and the device does not use the memory yet.
    unsafe { place.write(word) };
    mapped.flush()
}

pub(super) struct Images<'d> {
    pub(super) target_view: Guard<'d, vk::ImageView>,
    pub(super) texture_view: Guard<'d, vk::ImageView>,
    _memory: Guard<'d, vk::DeviceMemory>,
    pub(super) target: Guard<'d, vk::Image>,
    pub(super) texture: Guard<'d, vk::Image>,
}

impl<'d> Images<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        use vk::ImageUsageFlags as Usage;
        let texture = image(device, 4, Usage::TRANSFER_DST | Usage::SAMPLED)?;
        let target = image(device, SIDE, Usage::COLOR_ATTACHMENT | Usage::TRANSFER_SRC)?;
        let _memory = for_images(device, "the images", [*texture, *target], device_local())?;
        let texture_view = image_view(device, *texture)?;
        let target_view = image_view(device, *target)?;
        Ok(Self { target_view, texture_view, _memory, target, texture })
    }
}

fn image<'d>(
    device: &'d Device<'d>,
    side: u32,
    usage: vk::ImageUsageFlags,
) -> Result<Guard<'d, vk::Image>, WorkloadError> {
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(FORMAT)
        .extent(vk::Extent3D { width: side, height: side, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(usage);
    // SAFETY: every device supports the format, optimally tiled, for sampling, as a colour attachment and for
    // transfers, in far larger sizes.
    unsafe { device.create(&info) }
}

pub(super) const COLOR: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

fn image_view<'d>(device: &'d Device<'d>, image: vk::Image) -> Result<Guard<'d, vk::ImageView>, WorkloadError> {
    let info = vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(FORMAT)
        .subresource_range(COLOR);
    // SAFETY: the image is bound, and has this format and range.
    unsafe { device.create(&info) }
}

pub(super) struct Samplers<'d> {
    _converting: Option<Converting<'d>>,
    pub(super) nearest: Guard<'d, vk::Sampler>,
}

/// The sampler and its conversion are only created and destroyed: drivers keep both in host memory alone.
struct Converting<'d> {
    _sampler: Guard<'d, vk::Sampler>,
    _conversion: Guard<'d, vk::SamplerYcbcrConversion>,
}

impl<'d> Samplers<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        // SAFETY: plain values; integer formats are sampled with the nearest filter.
        let nearest = unsafe { device.create(&clamped()) }?;
        let _converting = device.physical().chroma.map(|chroma| Converting::new(device, chroma)).transpose()?;
        Ok(Self { _converting, nearest })
    }
}

impl<'d> Converting<'d> {
    fn new(device: &'d Device<'d>, chroma: vk::ChromaLocation) -> Result<Self, WorkloadError> {
        let info = vk::SamplerYcbcrConversionCreateInfo::default()
            .format(YCBCR_FORMAT)
            .ycbcr_model(vk::SamplerYcbcrModelConversion::YCBCR_601)
            .ycbcr_range(vk::SamplerYcbcrRange::ITU_NARROW)
            .x_chroma_offset(chroma)
            .y_chroma_offset(chroma)
            .chroma_filter(vk::Filter::NEAREST);
        // SAFETY: the feature is enabled, and the format supports this chroma position.
        let _conversion = unsafe { device.create::<vk::SamplerYcbcrConversion>(&info) }?;
        let mut with = vk::SamplerYcbcrConversionInfo::default().conversion(*_conversion);
        // SAFETY: a conversion allows this filter and addressing: nearest, as in the conversion, and clamped.
        let _sampler = unsafe { device.create(&clamped().push_next(&mut with)) }?;
        Ok(Self { _sampler, _conversion })
    }
}

fn clamped<'i>() -> vk::SamplerCreateInfo<'i> {
    vk::SamplerCreateInfo::default()
        .address_mode_u(vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .address_mode_v(vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .address_mode_w(vk::SamplerAddressMode::CLAMP_TO_EDGE)
}
