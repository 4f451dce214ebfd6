//! A meter on the C library's heap, preloaded into a process (`LD_PRELOAD`): it replaces the malloc family, forwards
//! each request, and adds calls and bytes to one of four cells, selected by what the calling thread does.
//!
//! ```text
//!   driver, LLVM, libstdc++, the program                            C library
//!        malloc(n) ------> here: cells[doing] += (1, n) -------> __libc_malloc(n)
//!                                     |
//!   bracket of a command, callback ---+  a byte of the thread's own, written through `steward_meter.doing()`
//! ```
//!
//! It counts granted requests with their requested bytes; `realloc` counts as a request for the new size. Memory of
//! `mmap` (code of a JIT, device memory, shared memory) is counted apart. Frees are not counted: the figures are gross.
//! `free` is here so that a block returns to its heap even if a library has its own allocator.
//!
//! It allocates nothing: it calls the C library's functions by their second names (`__libc_malloc`), which need no
//! lookup within an allocation.
//!
//! Any thread may read the counters: they are exact while threads pause. A thread keeps its place for ever, so its
//! requests stay counted after its end. Threads beyond the last place share one with atomic additions.
//!
//! Linux with the GNU C library, on x86-64 and AArch64. Empty elsewhere.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
// The program's build aborts on panic and needs no std. Cargo's build of this package unwinds, which needs std.
#![cfg_attr(panic = "abort", no_std)]
#![allow(unreachable_pub, reason = "what is exported by name has no path")]

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}

// Functions that accept any argument are safe.
#[link(name = "c")]
unsafe extern "C" {
    safe fn __libc_malloc(size: usize) -> *mut c_void;
    safe fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    safe fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    safe fn __libc_valloc(size: usize) -> *mut c_void;
    safe fn __libc_pvalloc(size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    safe fn __errno_location() -> *mut c_int;
    fn syscall(number: c_long, ...) -> c_long;
    #[cfg(panic = "abort")]
    safe fn abort() -> !;
}

const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;
#[cfg(target_arch = "x86_64")]
const SYS_MMAP: c_long = 9;
#[cfg(target_arch = "aarch64")]
const SYS_MMAP: c_long = 222;

/// The cells, by what a thread does: 0 never issued a command, 1 is outside of commands, 2 in a command, 3 in a
/// callback.
pub const CELLS: usize = 4;

/// Threads that have counters of their own.
const PLACES: usize = 4096;

/// The sums of one cell.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MeteredBytes {
    /// Requests that were granted.
    pub calls: u64,
    /// Their requested bytes.
    pub bytes: u64,
    /// Bytes mapped.
    pub mapped: u64,
}

/// Returns whether a block is foreign to the heap, which must not free it.
pub type Judge = extern "C" fn(*mut c_void) -> bool;

/// The program looks this up once by the name `steward_meter`.
#[derive(Debug)]
#[repr(C)]
pub struct Meter {
    /// The version of this struct and of the cells: 2.
    pub version: u32,
    /// The calling thread's cell, 0 to 3; only the thread may write it, while it lives.
    pub doing: extern "C" fn() -> *mut u8,
    /// Writes the sums of all threads to `CELLS` elements.
    pub read: unsafe extern "C" fn(*mut MeteredBytes),
    /// Sets the judge of blocks that are freed or reallocated in a command, or on a thread that never issued one.
    pub judge_frees: extern "C" fn(Judge),
}

/// See [`Meter`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name for C")]
pub static steward_meter: Meter = Meter { version: 2, doing, read, judge_frees };

/// A thread's static thread-local storage, zero at its start. `#[thread_local]` is not stable and std's macro leaves
/// the model to the compiler, so assembly declares and reaches the bytes.
///
/// ```text
///   +0                  +8
///   | place: *Counters  | doing: u8, 7 unused |
/// ```
#[repr(C)]
struct Thread {
    /// Its counters; NULL until the first request, and always in a thread without a place.
    place: *const Counters,
    doing: u8,
}

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl steward_meter_thread",
    ".hidden steward_meter_thread",
    ".type steward_meter_thread, @object",
    ".size steward_meter_thread, 16",
    "steward_meter_thread:",
    ".zero 16",
    ".popsection",
);

const _: () = assert!(size_of::<Thread>() == 16);

/// The calling thread's bytes, at a fixed address while it lives.
#[inline(always)]
fn this_thread() -> *mut Thread {
    let thread: *mut Thread;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the variable's offset from the GOT and adds the thread pointer, which the ABI keeps at fs:0
    // (initial-exec).
    unsafe {
        asm!(
            "mov {thread}, qword ptr [rip + steward_meter_thread@GOTTPOFF]",
            "add {thread}, qword ptr fs:[0]",
            thread = out(reg) thread,
            options(pure, readonly, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the variable's offset from the GOT and adds the thread pointer, which the ABI keeps in TPIDR_EL0.
    unsafe {
        asm!(
            "adrp {thread}, :gottprel:steward_meter_thread",
            "ldr {thread}, [{thread}, :gottprel_lo12:steward_meter_thread]",
            "mrs {pointer}, tpidr_el0",
            "add {thread}, {thread}, {pointer}",
            thread = out(reg) thread,
            pointer = out(reg) _,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    thread
}

extern "C" fn doing() -> *mut u8 {
    // SAFETY: the thread's own bytes; only takes their address.
    unsafe { &raw mut (*this_thread()).doing }
}

/// Each thread has its own pair of cache lines, so that no two threads write one line.
#[repr(C, align(128))]
struct Counters([Cell; CELLS]);

#[repr(C)]
struct Cell {
    calls: AtomicU64,
    bytes: AtomicU64,
    mapped: AtomicU64,
}

impl Counters {
    const fn zero() -> Self {
        Self([const { Cell { calls: AtomicU64::new(0), bytes: AtomicU64::new(0), mapped: AtomicU64::new(0) } }; CELLS])
    }
}

/// Zeroed pages of the library, untouched until a thread claims its place.
struct Places(UnsafeCell<[Counters; PLACES]>);

// SAFETY: the counters are atomics.
unsafe impl Sync for Places {}

static COUNTERS: Places = Places(UnsafeCell::new([const { Counters::zero() }; PLACES]));
/// The counters of all threads without a place.
static SHARED: Counters = Counters::zero();
/// Claimed places.
static METERED: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
fn count(block: *mut c_void, bytes: usize) -> *mut c_void {
    if !block.is_null() {
        let thread = this_thread();
        // SAFETY: the thread's own bytes.
        let place = unsafe { (*thread).place };
        // SAFETY: the thread's own bytes.
        let doing = unsafe { (*thread).doing };
        // SAFETY: NULL, or this thread's place from `claim`, in static memory.
        match unsafe { place.as_ref() } {
            Some(own) => {
                let cell = own.cell(doing);
                add_own(&cell.calls, 1);
                add_own(&cell.bytes, bytes as u64);
            }
            None => count_slowly(thread, bytes as u64),
        }
    }
    block
}

impl Counters {
    #[inline(always)]
    fn cell(&self, doing: u8) -> &Cell {
        // The compiler sees that this is in bounds, so the library has no panic.
        &self.0[usize::from(doing) % CELLS]
    }
}

/// Adds to a counter that only this thread writes.
#[inline(always)]
fn add_own(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// Counts a thread's first request, and all requests of a thread without a place.
#[cold]
#[inline(never)]
fn count_slowly(thread: *mut Thread, bytes: u64) {
    // SAFETY: the calling thread's own bytes.
    let doing = unsafe { (*thread).doing };
    match claim(thread) {
        Some(own) => {
            let cell = own.cell(doing);
            add_own(&cell.calls, 1);
            add_own(&cell.bytes, bytes);
        }
        None => {
            let cell = SHARED.cell(doing);
            cell.calls.fetch_add(1, Relaxed);
            cell.bytes.fetch_add(bytes, Relaxed);
        }
    }
}

/// Returns `None` if all places are taken.
fn claim(thread: *mut Thread) -> Option<&'static Counters> {
    // SAFETY: the calling thread's own bytes.
    let place = unsafe { (*thread).place };
    // SAFETY: NULL, or a place in static memory.
    if let Some(own) = unsafe { place.as_ref() } {
        return Some(own);
    }
    let next = |taken: usize| (taken < PLACES).then(|| taken + 1);
    let index = METERED.fetch_update(Relaxed, Relaxed, next).ok()?;
    // SAFETY: the index is below `PLACES`.
    let own = unsafe { COUNTERS.0.get().cast::<Counters>().add(index) };
    // SAFETY: the calling thread's own bytes.
    unsafe { (*thread).place = own };
    // SAFETY: atomics in static memory.
    Some(unsafe { &*own })
}

fn count_mapped(bytes: usize) {
    let thread = this_thread();
    // SAFETY: the thread's own bytes.
    let doing = unsafe { (*thread).doing };
    match claim(thread) {
        Some(own) => add_own(&own.cell(doing).mapped, bytes as u64),
        None => _ = SHARED.cell(doing).mapped.fetch_add(bytes as u64, Relaxed),
    }
}

/// # Safety
/// `out` has room for [`CELLS`] elements.
unsafe extern "C" fn read(out: *mut MeteredBytes) {
    let given = METERED.load(Relaxed);
    for doing in 0..CELLS {
        let mut sum = MeteredBytes { calls: 0, bytes: 0, mapped: 0 };
        let mut add = |counters: &Counters| {
            let cell = counters.cell(doing as u8);
            sum.calls = sum.calls.wrapping_add(cell.calls.load(Relaxed));
            sum.bytes = sum.bytes.wrapping_add(cell.bytes.load(Relaxed));
            sum.mapped = sum.mapped.wrapping_add(cell.mapped.load(Relaxed));
        };
        add(&SHARED);
        for index in 0..given {
            // SAFETY: `METERED` never exceeds `PLACES`.
            let counters = unsafe { COUNTERS.0.get().cast::<Counters>().add(index) };
            // SAFETY: atomics in static memory.
            add(unsafe { &*counters });
        }
        // SAFETY: the caller has room for all cells.
        let at = unsafe { out.add(doing) };
        // SAFETY: the caller has room for all cells.
        unsafe { at.write(sum) };
    }
}

/// NULL, or a [`Judge`].
static JUDGE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

extern "C" fn judge_frees(judge: Judge) {
    JUDGE.store(judge as *mut (), Release);
}

#[inline(always)]
fn must_stay(block: *mut c_void) -> bool {
    let judge = JUDGE.load(Acquire);
    !judge.is_null() && !block.is_null() && is_refused(judge, block)
}

#[inline(never)]
fn is_refused(judge: *mut (), block: *mut c_void) -> bool {
    const IN_CALLBACK: u8 = 3;
    let doing = doing();
    // SAFETY: the thread's own byte.
    let before = unsafe { doing.read_volatile() };
    // Frees of the application and of callbacks are not judged.
    if before == 1 || before == IN_CALLBACK {
        return false;
    }
    // SAFETY: stored by `judge_frees`.
    let judge = unsafe { core::mem::transmute::<*mut (), Judge>(judge) };
    // The judge's own requests and frees are not the driver's.
    // SAFETY: the thread's own byte.
    unsafe { doing.write_volatile(IN_CALLBACK) };
    let refused = judge(block);
    // SAFETY: the thread's own byte.
    unsafe { doing.write_volatile(before) };
    refused
}

// Each function forwards its arguments, so the caller's promises hold for the function behind it. Blocks are the C
// library's, so its own names accept them too.

/// `malloc` of C.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    count(__libc_malloc(size), size)
}

/// `calloc` of C.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
    // The C library refuses a product that overflows, so it is not counted.
    count(__libc_calloc(number, size), number.wrapping_mul(size))
}

/// `realloc` of C.
///
/// # Safety
/// `block` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if must_stay(block) {
        return refuse(ENOMEM);
    }
    // SAFETY: NULL or a live block of this C library.
    count(unsafe { __libc_realloc(block, size) }, size)
}

/// `reallocarray` of the GNU C library: `realloc` for elements, refused if the product overflows.
///
/// # Safety
/// As [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, number: usize, size: usize) -> *mut c_void {
    match number.checked_mul(size) {
        // SAFETY: NULL or a live block, as `realloc` requires.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => refuse(ENOMEM),
    }
}

/// `memalign` of the GNU C library.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    count(__libc_memalign(align, size), size)
}

/// `aligned_alloc` of C, as lenient as the GNU C library's.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { memalign(align, size) } else { refuse(EINVAL) }
}

/// `posix_memalign` of POSIX.
///
/// # Safety
/// `out` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    let block = memalign(align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: room for one address.
    unsafe { out.write(block) };
    0
}

/// `valloc` of the GNU C library.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    count(__libc_valloc(size), size)
}

/// `pvalloc` of the GNU C library, which rounds up to whole pages; counts the requested bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    count(__libc_pvalloc(size), size)
}

/// `free` of C.
///
/// # Safety
/// `block` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if must_stay(block) {
        return;
    }
    // SAFETY: NULL or a live block of this C library.
    unsafe { __libc_free(block) }
}

fn refuse(reason: c_int) -> *mut c_void {
    // SAFETY: the calling thread's own `errno`.
    unsafe { __errno_location().write(reason) };
    ptr::null_mut()
}

/// `mmap` of POSIX by system call, because the C library has no second name for it.
///
/// # Safety
/// The caller's: `MAP_FIXED` can replace memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: what `MAP_FIXED` replaces is the program's own memory. Numbers are passed as whole registers, like C's
    // default promotions.
    let answer = unsafe {
        syscall(SYS_MMAP, at, length, c_long::from(protection), c_long::from(flags), c_long::from(file), offset)
    };
    // `MAP_FAILED` is also -1, and `errno` is set.
    if answer != -1 {
        count_mapped(length);
    }
    ptr::with_exposed_provenance_mut(answer as usize)
}

/// `mmap64` of the GNU C library: the same on 64-bit machines.
///
/// # Safety
/// As [`mmap`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: what `MAP_FIXED` replaces is the program's own memory.
    unsafe { mmap(at, length, protection, flags, file, offset) }
}
