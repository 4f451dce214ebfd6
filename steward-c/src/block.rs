//! Blocks that know their size and their context: for allocators that are called without either.
//!
//! ```text
//!   base                                        block
//!   | to the alignment, if that is above 16 | header | the caller's bytes
//!                                             16 bytes: the context, size << 6 | log2 of the alignment
//! ```
//!
//! **Invariant:** the address that `steward_new` and `steward_resize` return has a [`BlockFront`] in front of it, whose
//! context has counted the block, and whose record lives at least as long: the header of C says so.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null};

use alloc_core::{HostAllocator, HostError, Misuse};

use crate::context::layout_of;
use crate::edge::{StewardContext, context, enter, enter_counting, enter_leaf};
use crate::refusal::{of_some, pointer};

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct BlockFront {
    owner: *const StewardContext,
    shape: u64,
}

const FRONT: usize = size_of::<BlockFront>();
const _: () = assert!(FRONT == 16);

impl BlockFront {
    fn size(self) -> usize {
        (self.shape >> 6) as usize
    }

    /// The bytes are also the alignment of the base.
    fn front(self) -> usize {
        1 << (self.shape & 63)
    }

    fn layout(self) -> Layout {
        let front = self.front();
        // SAFETY: `layout_for` has made this layout once (invariant of this module).
        unsafe { Layout::from_size_align_unchecked(front.wrapping_add(self.size()), front) }
    }
}

fn header_of(block: NonNull<u8>) -> NonNull<BlockFront> {
    // SAFETY: 16 bytes of the same allocation lie in front of the block (invariant of this module).
    unsafe { block.sub(FRONT) }.cast()
}

/// # Safety
/// `block` is a live one of [`steward_new`].
unsafe fn header(block: NonNull<u8>) -> BlockFront {
    // SAFETY: written when the block was made (invariant of this module).
    unsafe { header_of(block).read() }
}

fn layout_for(size: usize, align: usize) -> Result<(u64, Layout), HostError> {
    let front = match align {
        0 => FRONT,
        align if align.is_power_of_two() => align.max(FRONT),
        _ => return Err(HostError::Misuse(Misuse::BadAlignment)),
    };
    let whole = size.checked_add(front).ok_or(HostError::TooLarge)?;
    let layout = layout_of(whole, front)?;
    let size = u64::try_from(size).map_err(|_| HostError::TooLarge)?;
    if size > u64::MAX >> 6 {
        return Err(HostError::TooLarge);
    }
    Ok((size << 6 | u64::from(front.trailing_zeros()), layout))
}

/// # Safety
/// `base` begins an allocation of the shape's layout, which `owner` has counted.
unsafe fn finish(base: NonNull<u8>, owner: *const StewardContext, shape: u64) -> NonNull<u8> {
    let header = BlockFront { owner, shape };
    // SAFETY: the layout has so many bytes in front of the block.
    let block = unsafe { base.add(header.front()) };
    // SAFETY: 16 bytes of the allocation, aligned since the front is a multiple of 16.
    unsafe { header_of(block).write(header) };
    block
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_new(
    owner: *const StewardContext,
    size: usize,
    align: usize,
    zero: bool,
) -> *mut c_void {
    enter_counting(&"steward_new", |table| {
        // SAFETY: NULL or a live owner.
        of_some(unsafe { context(owner) }, |context| {
            let block = layout_for(size, align).and_then(|(shape, layout)| {
                let scope = context.scope();
                let base = if zero {
                    HostAllocator::allocate_zeroed(&*context, layout, scope)
                } else {
                    context.allocate_on(table, layout, scope)
                };
                let base = base.map_err(|_| HostAllocator::refusal(&*context, layout, scope))?;
                // SAFETY: just allocated from this context with this layout.
                Ok(unsafe { finish(base.cast(), owner, shape) })
            });
            pointer(block).cast()
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_resize(block: *mut c_void, size: usize) -> *mut c_void {
    enter(&"steward_resize", || {
        // SAFETY: NULL or the caller's live block.
        let old = NonNull::new(block.cast()).map(|block| (block, unsafe { header(block) }));
        of_some(old, |(block, old)| {
            // SAFETY: the block's context lives as long as it (invariant of this module).
            of_some(unsafe { context(old.owner) }, |context| {
                let moved = layout_for(size, old.front()).and_then(|(shape, layout)| {
                    let scope = context.scope();
                    // SAFETY: so many bytes of the block's allocation lie in front of it.
                    let base = unsafe { block.sub(old.front()) };
                    // SAFETY: allocated from this context so (invariant of this module).
                    let base = unsafe { context.resize(base, old.layout(), layout, scope) };
                    let base = base.map_err(|_| HostAllocator::refusal(&*context, layout, scope))?;
                    // SAFETY: it has the new layout now.
                    Ok(unsafe { finish(base.cast(), old.owner, shape) })
                });
                pointer(moved).cast()
            })
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_delete(block: *mut c_void) {
    enter_counting(&"steward_delete", |table| {
        let Some(block) = NonNull::new(block.cast::<u8>()) else {
            return;
        };
        // SAFETY: the caller's live block.
        let old = unsafe { header(block) };
        // SAFETY: the block's context lives as long as it (invariant of this module).
        if let Some(context) = unsafe { context(old.owner) } {
            // SAFETY: so many bytes of the block's allocation lie in front of it.
            let base = unsafe { block.sub(old.front()) };
            // SAFETY: allocated from this context so (invariant of this module).
            unsafe { context.free_on(table, base, old.layout(), context.scope()) };
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_size_of(block: *const c_void) -> usize {
    enter_leaf(|| {
        // SAFETY: NULL or the caller's live block.
        NonNull::new(block.cast_mut().cast()).map_or(0, |block| unsafe { header(block) }.size())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_owner_of(block: *const c_void) -> *const StewardContext {
    enter_leaf(|| {
        // SAFETY: NULL or the caller's live block.
        NonNull::new(block.cast_mut().cast()).map_or(null(), |block| unsafe { header(block) }.owner)
    })
}
