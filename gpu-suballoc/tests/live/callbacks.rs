//! An application's callbacks: the system's memory, counted, and refused on purpose.

use crate::*;

static LIVE: AtomicI64 = AtomicI64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// The number of the request that is refused; `u64::MAX` for none.
static REFUSED: AtomicU64 = AtomicU64::new(u64::MAX);
static COMMAND: Mutex<&str> = Mutex::new("");

/// To pass to every command.
pub const CALLBACKS: vk::AllocationCallbacks<'static> = vk::AllocationCallbacks {
    p_user_data: ptr::null_mut(),
    pfn_allocation: Some(allocation),
    pfn_reallocation: Some(reallocation),
    pfn_free: Some(free),
    pfn_internal_allocation: None,
    pfn_internal_free: None,
    _marker: std::marker::PhantomData,
};

/// Blocks that a driver holds of [`CALLBACKS`].
pub fn live_blocks() -> i64 {
    LIVE.load(SeqCst)
}

/// Blocks that it ever took.
pub fn taken_blocks() -> u64 {
    TAKEN.load(SeqCst)
}

/// Numbers requests from 0 again, and refuses the one of this number. It is said on the standard output before the
/// driver learns of it.
pub fn refuse(request: Option<u64>) {
    REQUESTS.store(0, SeqCst);
    REFUSED.store(request.unwrap_or(u64::MAX), SeqCst);
}

/// Requests since then.
pub fn requests() -> u64 {
    REQUESTS.load(SeqCst)
}

/// Which command runs from now on, for what is said.
pub fn in_command(name: &'static str) {
    *COMMAND.lock().unwrap() = name;
}

/// In front of each block: its size, and how far the whole begins before it.
#[derive(Clone, Copy)]
struct Front {
    size: usize,
    front: usize,
}

fn layout(size: usize, front: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(front)?, front).ok()
}

unsafe extern "system" fn allocation(
    _: *mut c_void,
    size: usize,
    alignment: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if REQUESTS.fetch_add(1, SeqCst) == REFUSED.load(SeqCst) {
        let scope = ["command", "object", "cache", "device", "instance"][scope.as_raw() as usize];
        println!("refused\t{}\t{scope}\t{size}", COMMAND.lock().unwrap());
        return ptr::null_mut();
    }
    let front = alignment.max(size_of::<Front>());
    let Some(layout) = layout(size, front) else {
        return ptr::null_mut();
    };
    // SAFETY: `front` is above 0, hence the size is.
    let whole = unsafe { alloc(layout) };
    if whole.is_null() {
        return ptr::null_mut();
    }
    let block = whole.wrapping_add(front);
    // SAFETY: `front` bytes lie in front of the block, at least as many as a `Front` has, and are as aligned.
    unsafe { block.cast::<Front>().wrapping_sub(1).write_unaligned(Front { size, front }) };
    LIVE.fetch_add(1, SeqCst);
    TAKEN.fetch_add(1, SeqCst);
    block.cast()
}

unsafe extern "system" fn reallocation(
    user: *mut c_void,
    original: *mut c_void,
    size: usize,
    alignment: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if size == 0 {
        // SAFETY: a live block of these callbacks, or NULL, by Vulkan's contract.
        unsafe { free(user, original) };
        return ptr::null_mut();
    }
    // SAFETY: the user data of these callbacks, by Vulkan's contract.
    let moved = unsafe { allocation(user, size, alignment, scope) };
    if !moved.is_null() && !original.is_null() {
        // SAFETY: every block has a front.
        let old = unsafe { original.cast::<Front>().wrapping_sub(1).read_unaligned() };
        // SAFETY: two blocks of at least so many bytes.
        unsafe { ptr::copy_nonoverlapping(original.cast::<u8>(), moved.cast::<u8>(), old.size.min(size)) };
        // SAFETY: the old block lives, by Vulkan's contract; its bytes have moved.
        unsafe { free(user, original) };
    }
    moved
}

unsafe extern "system" fn free(_: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: every block has a front.
    let Front { size, front } = unsafe { block.cast::<Front>().wrapping_sub(1).read_unaligned() };
    let Some(layout) = layout(size, front) else {
        return;
    };
    LIVE.fetch_sub(1, SeqCst);
    // SAFETY: taken with this layout, that far in front.
    unsafe { dealloc(block.cast::<u8>().wrapping_sub(front), layout) };
}
