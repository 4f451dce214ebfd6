//! Callbacks over the system's allocator, a set for each kind of object, that count what is live. Shares no code with the
//! product: a witness.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use ash::vk;

use super::driver_shim::Watcher;

/// What one kind's callbacks did.
#[derive(Default)]
struct KindCount {
    calls: AtomicU64,
    live: AtomicI64,
}

/// Counts by kind, from the first object of each on. Both parts of an entry stay where they are.
#[derive(Default)]
pub(super) struct PlainCallbacks {
    kinds: RefCell<BTreeMap<&'static str, Box<(KindCount, vk::AllocationCallbacks<'static>)>>>,
}

impl PlainCallbacks {
    /// By kind: the calls for memory, and the live blocks.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, (u64, i64)> {
        let kinds = self.kinds.borrow();
        let counts = kinds.iter().map(|(kind, entry)| {
            let (calls, live) = (&entry.0.calls, &entry.0.live);
            (*kind, (calls.load(Relaxed), live.load(Relaxed)))
        });
        counts.collect()
    }
}

impl Watcher for PlainCallbacks {
    fn callbacks(
        &self,
        kind: &'static str,
        _: Option<&vk::AllocationCallbacks<'_>>,
    ) -> *const vk::AllocationCallbacks<'_> {
        let mut kinds = self.kinds.borrow_mut();
        let entry = kinds.entry(kind).or_insert_with(|| {
            let callbacks = vk::AllocationCallbacks::default()
                .pfn_allocation(Some(allocate))
                .pfn_reallocation(Some(reallocate))
                .pfn_free(Some(free));
            let mut entry = Box::new((KindCount::default(), callbacks));
            entry.1.p_user_data = (&raw const entry.0).cast_mut().cast();
            entry
        });
        &raw const entry.1
    }

    fn command(&self, _: &'static str, call: &mut dyn FnMut()) {
        call();
    }
}

/// ```text
/// | padding | size: usize | align: usize | the block |
///  ^ base, aligned                         ^ base + lead, what Vulkan sees
/// ```
fn with_lead(size: usize, align: usize) -> Option<(Layout, usize)> {
    let align = align.max(16);
    Some((
        Layout::from_size_align(size.checked_add(align)?, align).ok()?,
        align,
    ))
}

unsafe extern "system" fn allocate(
    count: *mut c_void,
    size: usize,
    align: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: pUserData is one of the counts, which outlive every object.
    let count = unsafe { &*count.cast::<KindCount>() };
    let Some((layout, lead)) = with_lead(size, align) else {
        return null_mut();
    };
    // SAFETY: the layout has at least 16 bytes.
    let base = unsafe { System.alloc(layout) };
    if base.is_null() {
        return null_mut();
    }
    // SAFETY: inside the block, as its size is `lead + size`.
    let block = unsafe { base.add(lead) };
    // SAFETY: the 16 bytes before `block` belong to the lead and are aligned for a usize.
    unsafe {
        block
            .cast::<[usize; 2]>()
            .wrapping_sub(1)
            .write([size, align])
    };
    count.calls.fetch_add(1, Relaxed);
    count.live.fetch_add(1, Relaxed);
    block.cast()
}

unsafe extern "system" fn reallocate(
    count: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if old.is_null() && size == 0 {
        return null_mut();
    }
    if size == 0 {
        // SAFETY: `old` came from `allocate`, says the contract.
        unsafe { free(count, old) };
        return null_mut();
    }
    // SAFETY: pUserData as it came.
    let new = unsafe { allocate(count, size, align, scope) };
    if !new.is_null() && !old.is_null() {
        // SAFETY: `allocate` wrote the lead.
        let [old_size, _] = unsafe { old.cast::<[usize; 2]>().wrapping_sub(1).read() };
        // SAFETY: two different blocks, each at least so large.
        unsafe {
            new.cast::<u8>()
                .copy_from_nonoverlapping(old.cast(), old_size.min(size))
        };
        // SAFETY: `old` came from `allocate`, says the contract.
        unsafe { free(count, old) };
    }
    new
}

unsafe extern "system" fn free(count: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: pUserData is one of the counts, which outlive every object.
    let count = unsafe { &*count.cast::<KindCount>() };
    // SAFETY: `allocate` wrote the lead.
    let [size, align] = unsafe { block.cast::<[usize; 2]>().wrapping_sub(1).read() };
    let Some((layout, lead)) = with_lead(size, align) else {
        return;
    };
    count.live.fetch_sub(1, Relaxed);
    // SAFETY: where the block began.
    let base = unsafe { block.cast::<u8>().sub(lead) };
    // SAFETY: made by `allocate` with this layout, and live.
    unsafe { System.dealloc(base, layout) };
}
