//! What a queue would do: copies between buffers as the device sees them.

use core::ptr::NonNull;

use super::state::{MockResource, MockState, ResourceInfo};
use super::violation::{Breach, MockCall};
use crate::device::BufferUsage;

impl MockState {
    /// Where the device sees a range of a bound buffer that has `usage`; the memory object and the offset into it go
    /// along.
    fn range(&mut self, buffer: u64, usage: BufferUsage, offset: u64, size: u64) -> Option<(NonNull<u8>, u64, u64)> {
        let resource: MockResource = match self.buffers.get(buffer) {
            Ok(resource) => *resource,
            Err(breach) => {
                self.breach(breach, MockCall::Queue, buffer);
                return None;
            }
        };
        let ResourceInfo::Buffer(info) = resource.info else {
            return None;
        };
        let within = offset.checked_add(size).is_some_and(|end| end <= info.size) && info.usage.contains(usage);
        let Some(bound) = resource.bound.filter(|_| within) else {
            self.breach(Breach::QueueMisuse, MockCall::Queue, buffer);
            return None;
        };
        let at = bound.offset + offset;
        match self.memory.get_mut(bound.memory) {
            Ok(object) => Some((object.backing.device_at(at, size)?, bound.memory, at)),
            Err(breach) => {
                self.breach(breach, MockCall::Queue, bound.memory);
                None
            }
        }
    }

    pub(super) fn copy(&mut self, from: (u64, u64), to: (u64, u64), size: u64) -> bool {
        let source = self.range(from.0, BufferUsage::TRANSFER_SRC, from.1, size);
        let target = self.range(to.0, BufferUsage::TRANSFER_DST, to.1, size);
        let (Some((source, source_memory, source_at)), Some((target, target_memory, target_at))) = (source, target)
        else {
            return false;
        };
        if source_memory == target_memory && source_at < target_at + size && target_at < source_at + size {
            self.breach(Breach::QueueMisuse, MockCall::Queue, to.0);
            return false;
        }
        // SAFETY: both ranges lie in live memory objects, which `range` checked, and do not overlap, which was checked
        // above; that the host does not touch them meanwhile is what Vulkan asks of whoever submits. `size` fits, since
        // the backing has it.
        unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), size as usize) };
        true
    }

    pub(super) fn fill(&mut self, buffer: u64, offset: u64, size: u64, byte: u8) -> bool {
        let Some((first, ..)) = self.range(buffer, BufferUsage::TRANSFER_DST, offset, size) else {
            return false;
        };
        // SAFETY: `range`: so many bytes of a live memory object, which the host does not touch meanwhile (valid
        // usage).
        unsafe { first.as_ptr().write_bytes(byte, size as usize) };
        true
    }

    pub(super) fn read(&mut self, buffer: u64, offset: u64, into: &mut [u8]) -> bool {
        let size = into.len() as u64;
        let Some((first, ..)) = self.range(buffer, BufferUsage::TRANSFER_SRC, offset, size) else {
            return false;
        };
        // SAFETY: `range`: so many bytes of a live memory object; `into` is borrowed alone, so it is not the device's.
        unsafe { core::ptr::copy_nonoverlapping(first.as_ptr(), into.as_mut_ptr(), into.len()) };
        true
    }
}
