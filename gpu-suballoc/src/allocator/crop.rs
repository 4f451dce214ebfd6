#![forbid(unsafe_code)]

use super::GpuAllocator;
use crate::device::{BufferHandle, DeviceLimits, DeviceMemory};
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionId;
use crate::region::{Ownership, Region};
use crate::request::RegionOptions;
use alloc_core::HostAllocator;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates a crop of a region: `size` bytes from `offset`, both multiples of `element_bytes`. A crop of a crop is
    /// one of the same root, which lives at least as long.
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`], [`GpuMisuse::ZeroElement`], [`GpuMisuse::Misaligned`], [`GpuMisuse::Outside`];
    /// [`GpuMisuse::NoBuffer`] for an image; [`GpuMisuse::OtherAllocator`], [`GpuMisuse::Stale`], [`GpuMisuse::Moved`];
    /// a refusal of the host allocator.
    pub fn crop(&self, of: &Region, offset: u64, size: u64, element_bytes: u64) -> Result<Region, GpuError> {
        self.check_tag(of.id)?;
        check(of, offset, size, element_bytes)?;
        self.check_place(of)?;
        let new = (self.records).prepare(self.host(), None, &RegionOptions::new())?;
        let key = match self.records.insert_crop(new.slot, of.id.key(), (offset, size)) {
            Ok(key) => key,
            Err(error) => {
                self.records.cancel(self.host(), new);
                return Err(error);
            }
        };
        Ok(of.part(RegionId::new(self.tag, key), offset, size))
    }

    /// As [`crop`](GpuAllocator::crop), by id.
    pub fn crop_id(&self, of: RegionId, offset: u64, size: u64, element_bytes: u64) -> Result<Region, GpuError> {
        self.at_its_place(of, |region| self.crop(region, offset, size, element_bytes))
    }
}

impl Region {
    pub(super) fn part(&self, id: RegionId, offset: u64, size: u64) -> Self {
        Self {
            id,
            offset: self.memory.map_or(0, |_| self.offset + offset),
            size,
            buffer_offset: self.buffer_offset + offset,
            mapped: self.mapped.map(|first| first.offset(offset)),
            ownership: Ownership::CropAlias,
            ..*self
        }
    }
}

fn check(of: &Region, offset: u64, size: u64, element: u64) -> Result<(), GpuMisuse> {
    if of.image().is_some() {
        return Err(GpuMisuse::NoBuffer);
    }
    if element == 0 {
        return Err(GpuMisuse::ZeroElement);
    }
    if size == 0 {
        return Err(GpuMisuse::ZeroSize);
    }
    if !offset.is_multiple_of(element) || !size.is_multiple_of(element) {
        return Err(GpuMisuse::Misaligned);
    }
    match offset.checked_add(size) {
        Some(end) if end <= of.size => Ok(()),
        _ => Err(GpuMisuse::Outside),
    }
}

// Descriptors of regions: an aligned offset, and an index for the rest.
//
// ```text
//   buffer: 0 ....... A ....... A ..x========x....      A: multiples of min*BufferOffsetAlignment
//                               |   |        |
//                         offset+   +index   |          index counts whole elements from offset to the region
//                               +---range----+
// ```

/// A descriptor (`VkDescriptorBufferInfo`) of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descriptor {
    /// The region's buffer, or that of its root.
    pub buffer: BufferHandle,
    /// Bytes from the start of the buffer, a multiple of the device's alignment.
    pub offset: u64,
    /// Bytes from there to the region's end.
    pub range: u64,
    /// Elements between `offset` and the region, added to every index.
    pub index: u64,
}

/// The type of a descriptor, which determines the alignment of its offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorUse {
    /// `minStorageBufferOffsetAlignment`.
    #[default]
    Storage,
    /// `minUniformBufferOffsetAlignment`.
    Uniform,
    /// `minTexelBufferOffsetAlignment`.
    Texel,
}

impl DescriptorUse {
    const fn alignment(self, limits: &DeviceLimits) -> u64 {
        match self {
            Self::Storage => limits.min_storage_buffer_offset_alignment,
            Self::Uniform => limits.min_uniform_buffer_offset_alignment,
            Self::Texel => limits.min_texel_buffer_offset_alignment,
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// The descriptor for a region of elements of `element_bytes`. The range includes the bytes between the aligned
    /// offset and the region, and the shader adds [`index`](Descriptor::index) to its indices; at an aligned offset it
    /// is 0.
    ///
    /// # Errors
    /// [`GpuMisuse::NoBuffer`], [`GpuMisuse::ZeroElement`], [`GpuMisuse::OtherAllocator`];
    /// [`GpuMisuse::NoDescriptorOffset`] if no aligned offset is a whole number of elements in front of the region.
    pub fn descriptor(
        &self,
        region: &Region,
        element_bytes: u64,
        use_as: DescriptorUse,
    ) -> Result<Descriptor, GpuMisuse> {
        self.check_tag(region.id)?;
        let buffer = region.buffer().ok_or(GpuMisuse::NoBuffer)?;
        self.check_place(region)?;
        if element_bytes == 0 {
            return Err(GpuMisuse::ZeroElement);
        }
        let (offset, index) = split(region.copy_offset(), element_bytes, use_as.alignment(&self.limits))?;
        Ok(Descriptor { buffer, offset, range: region.copy_offset() - offset + region.size(), index })
    }
}

/// Steps of one size repeat their remainders after as many steps as the other size: the larger of the two is the step.
fn split(start: u64, element: u64, alignment: u64) -> Result<(u64, u64), GpuMisuse> {
    let alignment = alignment.max(1);
    let (first, step) = if element <= alignment { (start % alignment, alignment) } else { (0, element) };
    let mut back = first;
    for _ in 0..=element.min(alignment) {
        let Some(offset) = start.checked_sub(back) else {
            break;
        };
        if back.is_multiple_of(element) && offset.is_multiple_of(alignment) {
            return Ok((offset, back / element));
        }
        back = back.checked_add(step).ok_or(GpuMisuse::NoDescriptorOffset)?;
    }
    Err(GpuMisuse::NoDescriptorOffset)
}

#[cfg(test)]
mod descriptor_tests {
    use super::{GpuMisuse, split};

    #[test]
    fn offset_and_index_lead_back_to_the_start() {
        for alignment in [1, 4, 16, 64, 256] {
            for element in [1, 2, 3, 4, 12, 16, 20, 64, 100] {
                for start in (0..4096).chain([1 << 33, (1 << 33) + 12, u64::MAX - 255, u64::MAX]) {
                    match split(start, element, alignment) {
                        Ok((offset, index)) => {
                            assert_eq!(offset % alignment, 0);
                            assert_eq!(offset + index * element, start);
                        }
                        Err(rule) => {
                            assert_eq!(rule, GpuMisuse::NoDescriptorOffset);
                            let reachable =
                                (0..=start / alignment).rev().take(200).any(|k| (start - k * alignment) % element == 0);
                            assert!(!reachable, "{start} by {element} at {alignment}");
                        }
                    }
                }
            }
        }
        assert_eq!(split((1 << 62) + 1, (1 << 61) + 1, 256), Ok((1 << 61, 1)));
        for (start, element) in [((1 << 62) + 3, (1 << 61) + 1), (u64::MAX, u64::MAX - 1)] {
            let refused = Err(GpuMisuse::NoDescriptorOffset);
            assert_eq!(split(start, element, 256), refused);
        }
    }
}
