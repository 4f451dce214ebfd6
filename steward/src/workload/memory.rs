use std::ptr::NonNull;

use ash::vk;
use gpu_suballoc::{MemoryPreference, PropertyFlags};

use super::device::Device;
use super::error::WorkloadError;
use super::object::Guard;

/// Host-visible memory is scarce on some devices.
pub(super) fn device_local() -> MemoryPreference {
    MemoryPreference::default().preferring(PropertyFlags::DEVICE_LOCAL).avoiding(PropertyFlags::HOST_VISIBLE)
}

pub(super) fn for_buffers<'d, const N: usize>(
    device: &'d Device<'d>,
    what: &'static str,
    buffers: [vk::Buffer; N],
    preference: MemoryPreference,
) -> Result<(Guard<'d, vk::DeviceMemory>, [u64; N]), WorkloadError> {
    // SAFETY: the caller holds the guard of the buffer.
    let needs = buffers.map(|buffer| unsafe { device.get_buffer_memory_requirements(buffer) });
    let (memory, offsets) = allocate(device, what, needs, preference)?;
    for (buffer, offset) in buffers.into_iter().zip(offsets) {
        // SAFETY: the buffer is not bound yet, and `allocate` placed it, aligned, in memory of a type that it accepts.
        unsafe { device.bind_buffer_memory(buffer, *memory, offset) }
            .map_err(WorkloadError::of("vkBindBufferMemory"))?;
    }
    Ok((memory, offsets))
}

pub(super) fn for_images<'d, const N: usize>(
    device: &'d Device<'d>,
    what: &'static str,
    images: [vk::Image; N],
    preference: MemoryPreference,
) -> Result<Guard<'d, vk::DeviceMemory>, WorkloadError> {
    // SAFETY: the caller holds the guard of the image.
    let needs = images.map(|image| unsafe { device.get_image_memory_requirements(image) });
    let (memory, offsets) = allocate(device, what, needs, preference)?;
    for (image, offset) in images.into_iter().zip(offsets) {
        // SAFETY: the image is not bound yet, and `allocate` placed it, aligned, in memory of a type that it accepts.
        unsafe { device.bind_image_memory(image, *memory, offset) }.map_err(WorkloadError::of("vkBindImageMemory"))?;
    }
    Ok(memory)
}

fn allocate<'d, const N: usize>(
    device: &'d Device<'d>,
    what: &'static str,
    needs: [vk::MemoryRequirements; N],
    preference: MemoryPreference,
) -> Result<(Guard<'d, vk::DeviceMemory>, [u64; N]), WorkloadError> {
    let placed = place(needs).ok_or(WorkloadError::Requirements { what })?;
    let memory_type = device.physical().memory_type(placed.memory_type_bits, preference);
    let memory_type = memory_type.map_err(|reason| WorkloadError::MemoryType { what, reason })?;
    let info = vk::MemoryAllocateInfo::default().allocation_size(placed.size).memory_type_index(memory_type);
    // SAFETY: the size is not 0 and the index is one of the device's types.
    let memory = unsafe { device.create::<vk::DeviceMemory>(&info) }?;
    Ok((memory, placed.offsets))
}

#[derive(Debug, PartialEq, Eq)]
struct BoundMemory<const N: usize> {
    offsets: [u64; N],
    size: u64,
    memory_type_bits: u32,
}

/// Returns `None` for an alignment that is no power of two and for sums beyond 2^64.
fn place<const N: usize>(needs: [vk::MemoryRequirements; N]) -> Option<BoundMemory<N>> {
    let mut placed = BoundMemory { offsets: [0; N], size: 0, memory_type_bits: !0 };
    for (offset, need) in placed.offsets.iter_mut().zip(needs) {
        if !need.alignment.is_power_of_two() {
            return None;
        }
        *offset = placed.size.checked_next_multiple_of(need.alignment)?;
        placed.size = offset.checked_add(need.size)?;
        placed.memory_type_bits &= need.memory_type_bits;
    }
    Some(placed)
}

pub(super) struct Mapped<'m> {
    device: &'m Device<'m>,
    memory: vk::DeviceMemory,
    start: NonNull<u8>,
}

impl<'m> Mapped<'m> {
    /// `memory` must be host-visible and not mapped.
    pub(super) fn new(device: &'m Device<'m>, memory: &'m Guard<'m, vk::DeviceMemory>) -> Result<Self, WorkloadError> {
        let (memory, flags) = (**memory, vk::MemoryMapFlags::empty());
        // SAFETY: the guard keeps the memory alive, every preference for mapped memory requires HOST_VISIBLE, and no
        // other `Mapped` of it exists.
        let start =
            unsafe { device.map_memory(memory, 0, vk::WHOLE_SIZE, flags) }.map_err(WorkloadError::of("vkMapMemory"))?;
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { device, memory, start }),
            None => Err(WorkloadError::Command { command: "vkMapMemory", result: vk::Result::ERROR_MEMORY_MAP_FAILED }),
        }
    }

    /// # Safety
    /// `offset` lies inside the memory.
    pub(super) unsafe fn at(&self, offset: u64) -> NonNull<u32> {
        // SAFETY: the offset lies inside the memory, all of which is mapped; what was mapped fits the address space.
        unsafe { self.start.add(offset as usize) }.cast()
    }

    /// Memory that is not coherent needs this before the device reads.
    pub(super) fn flush(&self) -> Result<(), WorkloadError> {
        // SAFETY: the memory is mapped, and the range is all of it.
        unsafe { self.device.flush_mapped_memory_ranges(&[self.all()]) }
            .map_err(WorkloadError::of("vkFlushMappedMemoryRanges"))
    }

    pub(super) fn invalidate(&self) -> Result<(), WorkloadError> {
        // SAFETY: the memory is mapped, and the range is all of it.
        unsafe { self.device.invalidate_mapped_memory_ranges(&[self.all()]) }
            .map_err(WorkloadError::of("vkInvalidateMappedMemoryRanges"))
    }

    fn all(&self) -> vk::MappedMemoryRange<'static> {
        vk::MappedMemoryRange::default().memory(self.memory).size(vk::WHOLE_SIZE)
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; the mapping is not used after its owner is dropped.
        unsafe { self.device.unmap_memory(self.memory) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(size: u64, alignment: u64, memory_type_bits: u32) -> vk::MemoryRequirements {
        vk::MemoryRequirements { size, alignment, memory_type_bits }
    }

    #[test]
    fn resources_lie_behind_one_another_and_share_their_types() {
        let placed = place([need(5, 4, 0b110), need(8, 16, 0b011), need(1, 1, 0b111)]);
        assert_eq!(placed, Some(BoundMemory { offsets: [0, 16, 24], size: 25, memory_type_bits: 0b010 }));
    }

    #[test]
    fn nonsense_from_a_driver_is_refused() {
        assert_eq!(place([need(1, 0, 1)]), None);
        assert_eq!(place([need(1, 3, 1)]), None);
        assert_eq!(place([need(u64::MAX, 1, 1), need(1, 1, 1)]), None);
        assert_eq!(place([need(u64::MAX - 15, 16, 1), need(u64::MAX - 15, 16, 1)]), None);
    }
}
