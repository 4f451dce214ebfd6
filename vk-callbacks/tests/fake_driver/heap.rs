//! An application's allocator that survives a driver's worst: it knows its blocks by a table, and gives no memory back before its end.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vk_callbacks::{RawCallbacks, RawScope};

/// Room before each block, so that what lies there can be read.
const BEFORE: usize = 64;

#[derive(Default)]
pub(crate) struct Heap {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Size and alignment by address.
    live: BTreeMap<usize, (usize, usize)>,
    /// All memory, live or not.
    memory: Vec<(*mut u8, Layout)>,
    calls: u64,
}

// SAFETY: the pointers are used under the lock, or when nobody else can.
unsafe impl Send for Table {}

impl Heap {
    /// Callbacks into this heap; it stays where it is while they are used.
    pub(crate) fn raw(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: Some(notice),
            pfn_internal_free: Some(notice),
        }
    }

    pub(crate) fn live_blocks(&self) -> usize {
        self.table().live.len()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.table().calls
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn give(&mut self, size: usize, align: usize) -> *mut u8 {
        let Ok(layout) = Layout::from_size_align(size + BEFORE.max(align), align.max(16)) else { return ptr::null_mut() };
        // SAFETY: the size is not 0.
        let whole = unsafe { alloc(layout) };
        if whole.is_null() {
            return whole;
        }
        self.memory.push((whole, layout));
        let block = whole.wrapping_add(BEFORE.max(align));
        self.live.insert(block.addr(), (size, align));
        block
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (whole, layout) in self.memory.drain(..) {
            // SAFETY: taken in `give` with this layout; the callbacks are used no more.
            unsafe { dealloc(whole, layout) };
        }
    }
}

unsafe fn heap<'a>(user_data: *mut c_void) -> MutexGuard<'a, Table> {
    // SAFETY: the user data that stands beside these functions.
    let heap = unsafe { &*user_data.cast::<Heap>() };
    let mut table = heap.table();
    table.calls += 1;
    table
}

unsafe extern "system" fn allocation(user_data: *mut c_void, size: usize, align: usize, _: RawScope) -> *mut c_void {
    // SAFETY: as above.
    unsafe { heap(user_data) }.give(size, align).cast()
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    _: RawScope,
) -> *mut c_void {
    // SAFETY: as above.
    let mut table = unsafe { heap(user_data) };
    if old.is_null() {
        return table.give(size, align).cast();
    }
    let Some((had, made_with)) = table.live.get(&old.addr()).copied() else { return ptr::null_mut() };
    if size == 0 {
        table.live.remove(&old.addr());
        return ptr::null_mut();
    }
    let new = table.give(size, made_with.max(align));
    if !new.is_null() {
        table.live.remove(&old.addr());
        // SAFETY: both blocks are there and hold that many bytes.
        unsafe { new.copy_from_nonoverlapping(old.cast(), had.min(size)) };
    }
    new.cast()
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    // SAFETY: as above.
    unsafe { heap(user_data) }.live.remove(&block.addr());
}

unsafe extern "system" fn notice(user_data: *mut c_void, _: usize, _: i32, _: RawScope) {
    // SAFETY: as above.
    drop(unsafe { heap(user_data) });
}
