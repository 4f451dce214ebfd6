//! The bytes behind a memory object: what the device sees, and, where memory is not coherent, what the host sees.
//!
//! ```text
//!   coherent        host pointer ----+---- device          one copy
//!   non-coherent    host pointer -- H | D -- device        flush: H to D; invalidate: D to H
//! ```

use super::driver_heap::DriverHeap;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

/// Large enough for every `minMemoryMapAlignment` of the profiles.
const ALIGNMENT: usize = 16_384;

/// Zeroed memory of one object, taken when it is first touched.
#[derive(Clone, Copy)]
struct BackingBytes {
    /// What the heap gave, and the first byte in it that is aligned.
    start: NonNull<u8>,
    first: NonNull<u8>,
    layout: Layout,
}

// SAFETY: bytes that the device owns; who touches them when is the caller's to order, as with any mapped memory.
unsafe impl Send for BackingBytes {}

/// The content of one memory object.
pub(super) struct MockBacking {
    size: u64,
    coherent: bool,
    device: Option<BackingBytes>,
    host: Option<BackingBytes>,
}

impl MockBacking {
    pub(super) const fn new(size: u64, coherent: bool) -> Self {
        Self { size, coherent, device: None, host: None }
    }

    /// Bytes that were touched: of the whole object, or none.
    pub(super) const fn bytes(&self) -> u64 {
        if self.device.is_some() { self.size } else { 0 }
    }

    fn allocate(&self) -> Option<BackingBytes> {
        let size = usize::try_from(self.size).ok()?;
        // With room to align: what the system aligns, it touches, and the kernel gives all of its pages.
        let layout = Layout::from_size_align(size.checked_add(ALIGNMENT)?, 16).ok()?;
        // SAFETY: not empty.
        let start = NonNull::new(unsafe { DriverHeap.alloc_zeroed(layout) })?;
        // SAFETY: less than the alignment, which was added.
        let first = unsafe { start.add(start.addr().get().wrapping_neg() % ALIGNMENT) };
        Some(BackingBytes { start, first, layout })
    }

    fn device(&mut self) -> Option<BackingBytes> {
        self.device = self.device.or_else(|| self.allocate());
        self.device
    }

    fn host(&mut self) -> Option<BackingBytes> {
        if self.coherent {
            return self.device();
        }
        self.host = self.host.or_else(|| self.allocate());
        self.host
    }

    /// Where the host sees `offset`; `None` when host memory is short, or past the end.
    pub(super) fn host_at(&mut self, offset: u64, size: u64) -> Option<NonNull<u8>> {
        let copy = self.host()?;
        self.within(copy, offset, size)
    }

    /// Where the device sees `offset`; as [`host_at`](MockBacking::host_at).
    pub(super) fn device_at(&mut self, offset: u64, size: u64) -> Option<NonNull<u8>> {
        let copy = self.device()?;
        self.within(copy, offset, size)
    }

    fn within(&self, copy: BackingBytes, offset: u64, size: u64) -> Option<NonNull<u8>> {
        let offset = offset.checked_add(size).filter(|end| *end <= self.size).and(usize::try_from(offset).ok())?;
        // SAFETY: `offset + size` is within the block, as was just seen.
        Some(unsafe { copy.first.add(offset) })
    }

    /// Host to device, where they differ. False when host memory is short.
    pub(super) fn flush(&mut self, offset: u64, size: u64) -> bool {
        self.coherent || self.carry(offset, size, true)
    }

    /// Device to host, where they differ. False when host memory is short.
    pub(super) fn invalidate(&mut self, offset: u64, size: u64) -> bool {
        self.coherent || self.carry(offset, size, false)
    }

    fn carry(&mut self, offset: u64, size: u64, to_device: bool) -> bool {
        let (Some(host), Some(device)) = (self.host_at(offset, size), self.device_at(offset, size)) else {
            return false;
        };
        let (from, to) = if to_device { (host, device) } else { (device, host) };
        // SAFETY: `host_at` and `device_at` checked the range; the copies are two blocks; whoever flushes or
        // invalidates promises that nobody writes these bytes now. `size` fits, since the block has it.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), size as usize) };
        true
    }

    /// Gives the bytes back.
    pub(super) fn free(&mut self) {
        for copy in [self.device.take(), self.host.take()].into_iter().flatten() {
            // SAFETY: taken in `allocate` with this layout, and forgotten above.
            unsafe { DriverHeap.dealloc(copy.start.as_ptr(), copy.layout) };
        }
    }
}
