//! An application's allocator that survives a driver's worst: it knows its blocks by a table, and gives no memory back
//! before its end.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloc_core::Scope;
use vk_callbacks::CommandRow;
use vk_callbacks::command::{current_command, current_thread};
use vk_callbacks::commands::AllocatorSource::Pool;
use vk_callbacks::raw::{RawCallbacks, RawScope};

/// Room before each block, so that what lies there can be read.
const BEFORE: usize = 64;

#[derive(Default)]
pub(crate) struct Heap {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    live: BTreeMap<usize, HeapLive>,
    /// Blocks that were freed; their memory is still there.
    gone: BTreeMap<usize, HeapLive>,
    /// All memory, live or not.
    memory: Vec<(*mut u8, Layout)>,
    seen: HeapSeen,
}

#[derive(Clone, Copy)]
struct HeapLive {
    size: usize,
    align: usize,
    thread: u64,
}

/// The calls of the heap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeapSeen {
    pub(crate) calls: u64,
    /// By scope.
    pub(crate) requests: [u64; 5],
    /// By commands on pools and what is made from them.
    pub(crate) from_pools: u64,
    pub(crate) reallocations: u64,
    pub(crate) of_nothing: u64,
    pub(crate) null_frees: u64,
    pub(crate) notices: u64,
    /// Frees on another thread than the allocation's.
    pub(crate) other_thread_frees: u64,
}

// SAFETY: the pointers are used under the lock, or exclusively.
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

    pub(crate) fn seen(&self) -> HeapSeen {
        self.table().seen
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn give(&mut self, size: usize, align: usize) -> *mut u8 {
        let Ok(layout) = Layout::from_size_align(size + BEFORE.max(align), align.max(16)) else {
            return ptr::null_mut();
        };
        // SAFETY: the size is not 0.
        let whole = unsafe { alloc(layout) };
        if whole.is_null() {
            return whole;
        }
        self.memory.push((whole, layout));
        let block = whole.wrapping_add(BEFORE.max(align));
        self.live.insert(block.addr(), HeapLive { size, align, thread: current_thread() });
        block
    }

    fn take_back(&mut self, at: usize) -> Option<HeapLive> {
        let block = self.live.remove(&at)?;
        self.gone.insert(at, block);
        Some(block)
    }

    fn asked(&mut self, size: usize, scope: RawScope) {
        if let Some(requests) = usize::try_from(scope).ok().and_then(|scope| self.seen.requests.get_mut(scope)) {
            *requests += 1;
        }
        self.seen.of_nothing += u64::from(size == 0);
        let pooled =
            current_command().is_some_and(|command| CommandRow::of(command.name).source(Scope::Object) == Pool);
        self.seen.from_pools += u64::from(pooled);
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

fn heap<'a>(user_data: *mut c_void) -> MutexGuard<'a, Table> {
    // SAFETY: the user data that stands beside these functions.
    let heap = unsafe { &*user_data.cast::<Heap>() };
    let mut table = heap.table();
    table.seen.calls += 1;
    table
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let mut table = heap(user_data);
    table.asked(size, scope);
    table.give(size, align).cast()
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let mut table = heap(user_data);
    table.asked(size, scope);
    table.seen.reallocations += 1;
    if old.is_null() {
        return table.give(size, align).cast();
    }
    // What was freed can be had again: a careless allocator would not notice.
    let had = table.live.get(&old.addr()).or(table.gone.get(&old.addr()));
    let Some(had) = had.copied() else {
        return ptr::null_mut();
    };
    if size == 0 {
        table.take_back(old.addr());
        return ptr::null_mut();
    }
    let new = table.give(size, had.align.max(align));
    if !new.is_null() {
        table.take_back(old.addr());
        // SAFETY: both blocks are there and hold that many bytes.
        unsafe { new.copy_from_nonoverlapping(old.cast(), had.size.min(size)) };
    }
    new.cast()
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    let mut table = heap(user_data);
    table.seen.null_frees += u64::from(block.is_null());
    let elsewhere = table.take_back(block.addr()).is_some_and(|block| block.thread != current_thread());
    table.seen.other_thread_frees += u64::from(elsewhere);
}

unsafe extern "system" fn notice(user_data: *mut c_void, _: usize, _: i32, _: RawScope) {
    heap(user_data).seen.notices += 1;
}
