//! `malloc` and its kin, counted while somebody wants to know, and passed on to glibc.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use mock_device::IN_DRIVER;

static WANTED: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// How many blocks were taken while `f` ran, those of the mock device apart, which are its driver's. The process has
/// one thread.
pub fn during(f: impl FnOnce()) -> u64 {
    TAKEN.store(0, SeqCst);
    WANTED.store(true, SeqCst);
    f();
    WANTED.store(false, SeqCst);
    TAKEN.load(SeqCst)
}

fn count() {
    if WANTED.load(SeqCst) && IN_DRIVER.load(SeqCst) == 0 {
        TAKEN.fetch_add(1, SeqCst);
    }
}

unsafe extern "C" {
    safe fn __libc_malloc(size: usize) -> *mut c_void;
    safe fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    safe fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

// SAFETY: glibc's own answers, under the names by which it lets itself be replaced (glibc manual, "Replacing malloc").
#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    count();
    __libc_malloc(size)
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
    count();
    __libc_calloc(number, size)
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    count();
    // SAFETY: a block of the C library's or NULL, by the contract of `realloc`.
    unsafe { __libc_realloc(block, size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    count();
    __libc_memalign(align, size)
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    count();
    __libc_memalign(align, size)
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, align: usize, size: usize) -> c_int {
    count();
    let given = __libc_memalign(align, size);
    if given.is_null() {
        return 12; // ENOMEM
    }
    // SAFETY: a place for a pointer, by the contract of `posix_memalign`.
    unsafe { block.write(given) };
    0
}
