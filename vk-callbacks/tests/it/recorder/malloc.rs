//! C callbacks over real memory, and a driver that churns it.

use super::*;

/// C callbacks over the system's allocator, with a header for the size; counts its calls, beside the recorder.
#[derive(Default)]
pub(crate) struct Malloc {
    calls: AtomicU64,
    bytes: AtomicU64,
    frees: AtomicU64,
    live: AtomicU64,
}

pub(crate) const HEADER: usize = 16;

impl Malloc {
    pub(crate) fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(malloc_allocation),
            pfn_reallocation: Some(malloc_reallocation),
            pfn_free: Some(malloc_free),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }
    fn of<'a>(user_data: *mut c_void) -> &'a Self {
        // SAFETY: the tests pass back what `callbacks` gave, and keep it until the end.
        unsafe { &*user_data.cast::<Self>() }
    }
    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size + HEADER, HEADER).expect("small")
    }
    pub(crate) fn told(&self) -> (u64, u64, u64, u64) {
        (
            self.calls.load(SeqCst),
            self.bytes.load(SeqCst),
            self.frees.load(SeqCst),
            self.live.load(SeqCst),
        )
    }
}

unsafe extern "system" fn malloc_allocation(
    user_data: *mut c_void,
    size: usize,
    _: usize,
    _: i32,
) -> *mut c_void {
    let malloc = Malloc::of(user_data);
    malloc.calls.fetch_add(1, SeqCst);
    malloc.bytes.fetch_add(size as u64, SeqCst);
    malloc.live.fetch_add(size as u64, SeqCst);
    let base = system()
        .allocate(Malloc::layout(size), Scope::Object)
        .expect("memory")
        .as_ptr();
    // SAFETY: the block begins with a header.
    unsafe { base.cast::<usize>().write(size) };
    // SAFETY: within the block.
    unsafe { base.add(HEADER) }.cast()
}

unsafe extern "system" fn malloc_reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: this function's contract. A move frees the old block before it returns, so others are given its address.
    let new = unsafe { malloc_allocation(user_data, size, align, scope) };
    // SAFETY: this function's contract: a block of these callbacks.
    unsafe { malloc_free(user_data, old) };
    Malloc::of(user_data).frees.fetch_sub(1, SeqCst);
    new
}

unsafe extern "system" fn malloc_free(user_data: *mut c_void, block: *mut c_void) {
    let malloc = Malloc::of(user_data);
    malloc.frees.fetch_add(1, SeqCst);
    let Some(block) = NonNull::new(block.cast::<u8>()) else {
        return;
    };
    // SAFETY: the driver frees only what it took: the block has a header before it.
    let base = unsafe { block.sub(HEADER) };
    // SAFETY: the header was written at the allocation.
    let size = unsafe { base.cast::<usize>().read() };
    malloc.live.fetch_sub(size as u64, SeqCst);
    // SAFETY: taken with this layout.
    unsafe { system().deallocate(base, Malloc::layout(size), Scope::Object) };
}

/// Addresses of real blocks go over the C boundary with their provenance here.
pub(crate) fn churn(driver: ModelDriver, seed: u64, steps: u32, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    let at = |address: usize| ptr::with_exposed_provenance_mut::<c_void>(address);
    let mut random = seed;
    for _ in 0..steps {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (choice, size) = ((random >> 60) as u32, (random >> 33) as usize % 300);
        let mine = if choice < 8 {
            None
        } else {
            swap.lock().expect("no panic").pop()
        };
        match mine {
            // SAFETY: a block of some thread that no other thread uses.
            Some(block) if choice < 11 => unsafe {
                raw.pfn_free.expect("set")(user_data, at(block))
            },
            other => {
                let block = match other {
                    // SAFETY: a block of some thread that no other thread uses.
                    Some(old) => unsafe {
                        raw.pfn_reallocation.expect("set")(user_data, at(old), size + 1, 8, 1)
                    },
                    // SAFETY: the recorder and what is behind it are there.
                    None => unsafe { raw.pfn_allocation.expect("set")(user_data, size, 8, 1) },
                };
                swap.lock()
                    .expect("no panic")
                    .push(block.expose_provenance());
            }
        }
    }
}

pub(crate) fn drain(driver: ModelDriver, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    for block in swap.lock().expect("no panic").drain(..) {
        // SAFETY: a live block that no other thread uses.
        unsafe { raw.pfn_free.expect("set")(user_data, ptr::with_exposed_provenance_mut(block)) };
    }
}
