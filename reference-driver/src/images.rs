use core::ops::Range;

use ash::vk;

use crate::bytes::Bytes;
use crate::edge::{get, raw};
use crate::memory::aligned;

/// The formats that can be copied, with the bytes of a texel. Only [`WORD`] can be sampled, drawn to, and read as
/// texels of a buffer.
pub(crate) const FORMATS: [(vk::Format, u64); 24] = [
    (vk::Format::R8_UNORM, 1),
    (vk::Format::R8_UINT, 1),
    (vk::Format::R8_SINT, 1),
    (vk::Format::R8G8_UNORM, 2),
    (vk::Format::R8G8_UINT, 2),
    (vk::Format::R16_UINT, 2),
    (vk::Format::R16_SINT, 2),
    (vk::Format::R16_SFLOAT, 2),
    (vk::Format::R8G8B8A8_UNORM, 4),
    (vk::Format::R8G8B8A8_SNORM, 4),
    (vk::Format::R8G8B8A8_UINT, 4),
    (vk::Format::R8G8B8A8_SINT, 4),
    (vk::Format::B8G8R8A8_UNORM, 4),
    (vk::Format::R16G16_UINT, 4),
    (WORD, 4),
    (vk::Format::R32_SINT, 4),
    (vk::Format::R32_SFLOAT, 4),
    (vk::Format::R16G16B16A16_UINT, 8),
    (vk::Format::R16G16B16A16_SFLOAT, 8),
    (vk::Format::R32G32_UINT, 8),
    (vk::Format::R32G32_SFLOAT, 8),
    (vk::Format::R32G32B32A32_UINT, 16),
    (vk::Format::R32G32B32A32_SINT, 16),
    (vk::Format::R32G32B32A32_SFLOAT, 16),
];

pub(crate) const WORD: vk::Format = vk::Format::R32_UINT;
/// No image can have the one format that conversions are made for.
pub(crate) const YCBCR: vk::Format = vk::Format::G8_B8_R8_3PLANE_420_UNORM;

/// Consecutive layers of rows. One mip level, one sample.
pub(crate) struct Image {
    pub(crate) surface: Surface,
    pub(crate) size: u64,
    /// A three-dimensional image stores its slices as layers.
    depth: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Surface {
    pub(crate) bytes: Bytes,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) texel: u64,
}

impl Image {
    pub(crate) fn new(info: &vk::ImageCreateInfo<'_>) -> Result<Self, vk::Result> {
        let texel = texel(info.format).ok_or(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)?;
        let extent = info.extent;
        let factors = [extent.width.into(), extent.height.into(), extent.depth.into(), info.array_layers.into()];
        let size =
            factors.into_iter().try_fold(texel, u64::checked_mul).ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
        aligned(size)?;
        let surface = Surface { bytes: Bytes::NONE, width: extent.width, height: extent.height, texel };
        Ok(Self { surface, size, depth: extent.depth })
    }

    pub(crate) fn slices(&self, range: &vk::ImageSubresourceRange) -> Range<u32> {
        let all = self.size / self.surface.layer_size().max(1);
        let slice = |layer: u32| layer.saturating_mul(self.depth);
        let first = range.base_array_layer;
        let end = slice(first.saturating_add(range.layer_count));
        slice(first)..end.min(u32::try_from(all).unwrap_or(u32::MAX))
    }
}

impl Surface {
    pub(crate) const NONE: Self = Self { bytes: Bytes::NONE, width: 0, height: 0, texel: 4 };

    pub(crate) fn layer_size(self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * self.texel
    }

    /// This layer and all behind it.
    pub(crate) fn skip_layers(self, layer: u32) -> Self {
        let offset = self.layer_size().saturating_mul(layer.into());
        let bytes = self.bytes.part(offset, vk::WHOLE_SIZE);
        Self { bytes, ..self }
    }

    pub(crate) fn of_image(image: vk::Image) -> Self {
        // SAFETY: valid usage: a live, unchanging image.
        unsafe { get::<Image>(raw(image)) }.map_or(Self::NONE, |image| image.surface)
    }

    pub(crate) fn of_view(info: &vk::ImageViewCreateInfo<'_>) -> Self {
        Self::of_image(info.image).skip_layers(info.subresource_range.base_array_layer)
    }

    pub(crate) fn of_handle(view: vk::ImageView) -> Self {
        // SAFETY: valid usage: a live view, or 0.
        unsafe { get::<Self>(raw(view)) }.copied().unwrap_or(Self::NONE)
    }

    /// `None` outside.
    pub(crate) fn offset(self, x: u32, y: u32) -> Option<u64> {
        let inside = x < self.width && y < self.height;
        inside.then(|| (u64::from(y) * u64::from(self.width) + u64::from(x)) * self.texel)
    }
}

/// `None` for a format that no image has.
pub(crate) fn texel(format: vk::Format) -> Option<u64> {
    let found = FORMATS.iter().find(|(known, _)| *known == format);
    found.map(|(_, texel)| *texel)
}
