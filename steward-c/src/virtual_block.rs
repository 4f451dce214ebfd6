//! Virtual blocks: ranges of something that the library never touches.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use alloc_core::{ContextHandle, TryBox};
use gpu_suballoc::virtual_block::{VirtualAllocation, VirtualAllocationOptions, VirtualBlockError, VirtualPiece};
use gpu_suballoc::{BlockAlgorithm, GpuError, VirtualBlock};

use crate::edge::{StewardContext, context, enter};
use crate::gpu_refusal::{GpuRefusal, misused, refused, refused_because};
use crate::refusal::SUCCESS;
use crate::sized::{self, SizedStruct};

/// A virtual block.
#[repr(C)]
pub struct StewardVirtual {
    _incomplete: [u8; 0],
}

struct Virtual {
    block: VirtualBlock<ContextHandle>,
    memory: ContextHandle,
}

/// `steward_virtual_id`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StewardVirtualId {
    pub words: [u32; 4],
}

/// `steward_virtual_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardVirtualRange {
    pub size: usize,
    pub id: StewardVirtualId,
    pub offset: u64,
    pub bytes: u64,
    pub tag: u32,
    pub note: u32,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardVirtualRange {}

/// `steward_virtual_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardVirtualStats {
    pub size: usize,
    pub bytes: u64,
    pub used: u64,
    pub ranges: u64,
    pub holes: u64,
    pub largest_hole: u64,
    pub host_bytes: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardVirtualStats {}

pub type StewardVirtualWalkFn = unsafe extern "C" fn(user: *mut c_void, piece: *const StewardVirtualRange);

pub type StewardVirtualMergeFn = unsafe extern "C" fn(user: *mut c_void, hole: u32, other: u32) -> u32;

const UPPER: u32 = 1;

const NO_BLOCK: &str = "the virtual block is NULL";
const NO_PLACE: &str = "there is no place for the answer, or its size is not set";

/// Refuses with the block's own sentence.
fn refused_by_block(error: VirtualBlockError) -> i32 {
    match error {
        VirtualBlockError::Host(error) => refused(GpuError::Host(error)),
        other => refused_because(GpuRefusal::Virtual(other)),
    }
}

/// The block behind an address; `None` for NULL.
///
/// # Safety
/// `raw` is NULL or a live block that no other call uses meanwhile.
unsafe fn block<'b>(raw: *mut StewardVirtual) -> Option<&'b mut VirtualBlock<ContextHandle>> {
    // SAFETY: written by `steward_virtual_new`; no other call uses it.
    let content = unsafe { raw.cast::<Virtual>().as_mut() };
    content.map(|content| &mut content.block)
}

const fn id_of(allocation: VirtualAllocation) -> StewardVirtualId {
    let [node, low, high] = allocation.as_raw();
    StewardVirtualId { words: [node, low, high, 0] }
}

const fn allocation_of(id: StewardVirtualId) -> VirtualAllocation {
    let [node, low, high, _] = id.words;
    VirtualAllocation::from_raw([node, low, high])
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_new(
    owner: *const StewardContext,
    bytes: u64,
    granule: u64,
    algorithm: i32,
    out: *mut *mut StewardVirtual,
) -> i32 {
    enter(&"steward_virtual_new", || {
        let Some(out) = NonNull::new(out) else {
            return misused("there is no place for the virtual block");
        };
        // SAFETY: the caller's place.
        unsafe { out.write(null_mut()) };
        // SAFETY: NULL or a live owner.
        let Some(owner) = (unsafe { context(owner) }) else {
            return misused("there is no context to take book-keeping from");
        };
        let algorithm = match algorithm {
            0 => BlockAlgorithm::General,
            1 => BlockAlgorithm::Stack,
            2 => BlockAlgorithm::DoubleStack,
            3 => BlockAlgorithm::Ring,
            _ => return misused("the algorithm is none of STEWARD_VIRTUAL_*"),
        };
        match create(&owner, bytes, granule.max(1), algorithm) {
            Ok(place) => {
                // SAFETY: the caller's place.
                unsafe { out.write(place.cast().as_ptr()) };
                SUCCESS
            }
            Err(error) => refused_by_block(error),
        }
    })
}

fn create(
    owner: &ContextHandle,
    bytes: u64,
    granule: u64,
    algorithm: BlockAlgorithm,
) -> Result<NonNull<Virtual>, VirtualBlockError> {
    let block = VirtualBlock::with_algorithm(owner.clone(), bytes, granule, algorithm)?;
    let memory = owner.clone();
    let placed = TryBox::try_new_in(Virtual { block, memory }, owner.clone()).map_err(|rejected| rejected.error)?;
    Ok(TryBox::into_raw_with_allocator(placed).0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_end(raw: *mut StewardVirtual) {
    enter(&"steward_virtual_end", || {
        let Some(place) = NonNull::new(raw.cast::<Virtual>()) else {
            return;
        };
        // SAFETY: the caller's live block, which no call uses any more.
        let memory = unsafe { place.as_ref() }.memory.clone();
        // SAFETY: allocated there by `steward_virtual_new` from this context.
        drop(unsafe { TryBox::from_raw_in(place, memory) });
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_alloc(
    raw: *mut StewardVirtual,
    bytes: u64,
    align: u64,
    flags: u32,
    tag: u32,
    out: *mut StewardVirtualRange,
) -> i32 {
    enter(&"steward_virtual_alloc", || {
        // SAFETY: NULL or the caller's live block.
        let Some(block) = (unsafe { block(raw) }) else {
            return misused(NO_BLOCK);
        };
        // A range whose id has no place could never be freed.
        // SAFETY: NULL or the caller's place.
        if !unsafe { sized::has_room(out, ID_END) } {
            return misused(NO_PLACE);
        }
        if flags & !UPPER != 0 {
            return misused("flags has a bit that is none of STEWARD_VIRTUAL_*");
        }
        let options = VirtualAllocationOptions {
            upper_address: flags & UPPER != 0,
            user_data: tag,
            ..VirtualAllocationOptions::new(bytes, align.max(1))
        };
        match block.allocate_with(&options) {
            Ok(placed) => {
                let range = StewardVirtualRange {
                    id: id_of(placed.allocation),
                    offset: placed.offset,
                    bytes: placed.size,
                    tag,
                    note: placed.note,
                    ..StewardVirtualRange::default()
                };
                // SAFETY: the caller's place, which has room.
                unsafe { sized::write(out, &range) };
                SUCCESS
            }
            Err(error) => refused_by_block(error),
        }
    })
}

const ID_END: usize = std::mem::offset_of!(StewardVirtualRange, id) + size_of::<StewardVirtualId>();

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_free(raw: *mut StewardVirtual, id: StewardVirtualId) -> i32 {
    enter(&"steward_virtual_free", || {
        // SAFETY: NULL or the caller's live block.
        let Some(block) = (unsafe { block(raw) }) else {
            return misused(NO_BLOCK);
        };
        block.free(allocation_of(id)).map_or_else(refused_by_block, |()| SUCCESS)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_free_noted(
    raw: *mut StewardVirtual,
    id: StewardVirtualId,
    note: u32,
    merge: Option<StewardVirtualMergeFn>,
    user: *mut c_void,
) -> i32 {
    enter(&"steward_virtual_free_noted", || {
        // SAFETY: NULL or the caller's live block.
        let (Some(block), Some(merge)) = (unsafe { block(raw) }, merge) else {
            return misused("there is no virtual block, or no function that merges notes");
        };
        // SAFETY: the caller's function, which keeps the header's rules.
        let merge = |hole, other| unsafe { merge(user, hole, other) };
        block.free_noted(allocation_of(id), note, merge).map_or_else(refused_by_block, |()| SUCCESS)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_clear(raw: *mut StewardVirtual) {
    enter(&"steward_virtual_clear", || {
        // SAFETY: NULL or the caller's live block.
        if let Some(block) = unsafe { block(raw) } {
            block.clear();
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_set_tag(raw: *mut StewardVirtual, id: StewardVirtualId, tag: u32) -> i32 {
    enter(&"steward_virtual_set_tag", || {
        // SAFETY: NULL or the caller's live block.
        let Some(block) = (unsafe { block(raw) }) else {
            return misused(NO_BLOCK);
        };
        block.set_user_data(allocation_of(id), tag).map_or_else(refused_by_block, |()| SUCCESS)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_info(
    raw: *mut StewardVirtual,
    id: StewardVirtualId,
    out: *mut StewardVirtualRange,
) -> i32 {
    enter(&"steward_virtual_info", || {
        // SAFETY: NULL or the caller's live block.
        let Some(block) = (unsafe { block(raw) }) else {
            return misused(NO_BLOCK);
        };
        let found = match block.info(allocation_of(id)) {
            Ok(found) => found,
            Err(error) => return refused_by_block(error),
        };
        let range = StewardVirtualRange {
            id,
            offset: found.offset,
            bytes: found.size,
            tag: found.user_data,
            ..StewardVirtualRange::default()
        };
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &range) } { SUCCESS } else { misused(NO_PLACE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_usage(raw: *mut StewardVirtual, out: *mut StewardVirtualStats) -> i32 {
    enter(&"steward_virtual_usage", || {
        // SAFETY: NULL or the caller's live block.
        let Some(block) = (unsafe { block(raw) }) else {
            return misused(NO_BLOCK);
        };
        let found = block.statistics();
        let stats = StewardVirtualStats {
            size: size_of::<StewardVirtualStats>(),
            bytes: found.size,
            used: found.allocation_bytes,
            ranges: found.allocation_count.into(),
            holes: found.unused_range_count.into(),
            largest_hole: block.largest_free(),
            host_bytes: block.memory_bytes(),
        };
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &stats) } { SUCCESS } else { misused(NO_PLACE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_virtual_walk(
    raw: *mut StewardVirtual,
    see: Option<StewardVirtualWalkFn>,
    user: *mut c_void,
) -> i32 {
    enter(&"steward_virtual_walk", || {
        // SAFETY: NULL or the caller's live block.
        let (Some(block), Some(see)) = (unsafe { block(raw) }, see) else {
            return misused("there is no virtual block, or no function that sees its pieces");
        };
        block.for_each(|VirtualPiece { offset, size, used, .. }| {
            let piece = StewardVirtualRange {
                size: size_of::<StewardVirtualRange>(),
                id: used.map_or_else(StewardVirtualId::default, |(id, _)| id_of(id)),
                offset,
                bytes: size,
                tag: used.map_or(0, |(_, tag)| tag),
                note: 0,
            };
            // SAFETY: the caller's function, which keeps the header's rules.
            unsafe { see(user, &raw const piece) };
        });
        SUCCESS
    })
}
