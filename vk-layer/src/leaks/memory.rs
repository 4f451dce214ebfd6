//! With the setting `stacks` a header in front of each block refers to its origin.

use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Notice, Scope, dangling, with_requester,
};

use super::{Origin, leaks};
use crate::record::SYSTEM;

/// The header lies inside of the inner allocator's block: offsets in a guard's reports count from there.
pub(crate) struct TrackedMemory<B: 'static>(pub(crate) &'static B);

pub(crate) static TRACKED: TrackedMemory<FromGlobalAlloc<System>> = TrackedMemory(&SYSTEM);

#[derive(Clone, Copy)]
struct BlockHeader {
    origin: Option<&'static Origin>,
    bytes: u64,
}

fn with_header(layout: Layout) -> Result<(Layout, usize), AllocError> {
    let header = Layout::new::<BlockHeader>();
    header.extend(layout).map_err(|_| AllocError)
}

/// # Safety
/// `block` was given by a [`TrackedMemory`] with this layout, and is live.
unsafe fn start_of(block: NonNull<u8>, front: usize) -> NonNull<u8> {
    // SAFETY: `allocate_with` returned it `front` bytes into the inner allocator's block.
    unsafe { block.sub(front) }
}

impl<B> TrackedMemory<B> {
    fn new_header(layout: Layout) -> BlockHeader {
        // Only blocks of a bridge, which are the driver's, have bytes in front.
        let of_driver = with_requester(|requester| {
            let requester = requester.filter(|requester| requester.front != 0)?;
            Some((requester.name, layout.size().saturating_sub(requester.front)))
        });
        let (kind, bytes) = of_driver.unwrap_or_default();
        BlockHeader { origin: of_driver.and_then(|_| leaks()?.origin_of_block(kind)), bytes: bytes as u64 }
    }

    fn allocate_with(
        layout: Layout,
        allocate: impl FnOnce(Layout) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let (whole, front) = with_header(layout)?;
        let start = allocate(whole)?;
        let header = Self::new_header(layout);
        if let Some(origin) = header.origin {
            origin.add_block(header.bytes);
        }
        // SAFETY: the beginning of a block with room for the header, aligned for it.
        unsafe { start.cast::<BlockHeader>().write(header) };
        // SAFETY: within the block, by `with_header`.
        Ok(unsafe { start.add(front) })
    }
}

// SAFETY: each block is a part of an inner block that no other block shares, with the layout's size and alignment,
// until it is freed.
unsafe impl<B: HostAllocator + Sync> HostAllocator for TrackedMemory<B> {
    fn traits(&self) -> AllocatorTraits {
        self.0.traits().with_requester()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        Self::allocate_with(layout, |whole| self.0.allocate(whole, scope))
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        Self::allocate_with(layout, |whole| self.0.allocate_zeroed(whole, scope))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        let (Ok((whole, front)), true) = (with_header(layout), layout.size() != 0) else {
            return;
        };
        // SAFETY: `allocate_with` returned the block, with this layout.
        let start = unsafe { start_of(block, front) };
        // SAFETY: `allocate_with` wrote it.
        let header = unsafe { start.cast::<BlockHeader>().read() };
        if let Some(origin) = header.origin {
            origin.remove_block(header.bytes);
        }
        // SAFETY: the inner block, with its layout.
        unsafe { self.0.deallocate(start, whole, scope) };
    }

    fn notify(&self, notice: Notice) {
        self.0.notify(notice);
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use alloc_core::{HostAllocator as _, Scope};

    use super::{TRACKED, with_header};

    #[test]
    fn the_header_lies_in_front_of_blocks_of_every_alignment() {
        for align in [1, 8, 16, 64, 4096] {
            let layout = Layout::from_size_align(40, align).expect("a layout");
            let (whole, front) = with_header(layout).expect("a layout");
            assert!(front >= 16 && front.is_multiple_of(align) && whole.size() == front + 40);
            let block = TRACKED.allocate_zeroed(layout, Scope::Object).expect("memory");
            assert!(block.addr().get().is_multiple_of(align));
            // SAFETY: 40 bytes that were just allocated.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), 40) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            // SAFETY: the live block.
            unsafe { TRACKED.deallocate(block, layout, Scope::Object) };
        }
        let empty = Layout::new::<()>();
        let block = TRACKED.allocate(empty, Scope::Object).expect("no memory needed");
        // SAFETY: an empty block, with the layout that it was allocated with.
        unsafe { TRACKED.deallocate(block, empty, Scope::Object) };
    }
}
