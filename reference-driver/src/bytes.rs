//! Device memory is mapped, not allocated (RD7). Every access of the device is checked against its bounds.

use core::ptr::NonNull;

use ash::vk;

use crate::pages;

#[derive(Debug)]
pub(crate) struct Mapping(Bytes);

// SAFETY: the application synchronises accesses.
unsafe impl Send for Mapping {}
// SAFETY: the application synchronises accesses.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(size: u64) -> Result<Self, vk::Result> {
        const REFUSED: vk::Result = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        let len = usize::try_from(size).ok().filter(|len| (1..=isize::MAX as usize).contains(len)).ok_or(REFUSED)?;
        let first = pages::map(len).ok_or(REFUSED)?;
        Ok(Self(Bytes { first, len }))
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; bound resources are used no more (valid usage).
        unsafe { pages::unmap(self.0.first, self.0.len) };
    }
}

/// Reads outside give 0, writes outside do nothing, as `robustBufferAccess` allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    first: NonNull<u8>,
    len: usize,
}

// SAFETY: the application synchronises accesses.
unsafe impl Send for Bytes {}
// SAFETY: the application synchronises accesses.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) const NONE: Self = Self { first: NonNull::dangling(), len: 0 };

    pub(crate) const fn len(self) -> u64 {
        self.len as u64
    }

    /// `VK_WHOLE_SIZE` stands for the rest; no bytes if they do not lie inside.
    pub(crate) fn part(self, offset: u64, size: u64) -> Self {
        let Some(rest) = self.len().checked_sub(offset) else {
            return Self::NONE;
        };
        let size = if size == vk::WHOLE_SIZE { rest } else { size };
        if size > rest {
            return Self::NONE;
        }
        // SAFETY: the offset is at most the length.
        let first = unsafe { self.first.add(offset as usize) };
        Self { first, len: size as usize }
    }

    pub(crate) const fn address(self) -> NonNull<u8> {
        self.first
    }

    /// 0 outside.
    pub(crate) fn word(self, offset: u64) -> u32 {
        let part = self.part(offset, 4);
        if part.len == 0 {
            return 0;
        }
        // SAFETY: valid usage: the mapping outlives the work.
        unsafe { part.first.cast::<u32>().read_unaligned() }
    }

    pub(crate) fn set_word(self, offset: u64, word: u32) {
        let part = self.part(offset, 4);
        if part.len != 0 {
            // SAFETY: valid usage: the mapping outlives the work.
            unsafe { part.first.cast::<u32>().write_unaligned(word) }
        }
    }

    pub(crate) fn fill(self, word: u32) {
        (0..self.len() / 4).for_each(|index| self.set_word(4 * index, word));
    }

    pub(crate) fn copy_to(self, to: Self) {
        let len = self.len.min(to.len);
        // SAFETY: live mappings of so many bytes, which may overlap.
        unsafe { to.first.copy_from(self.first, len) };
    }
}
