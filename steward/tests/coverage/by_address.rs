//! A second meter, in the test's own `malloc`, which comes before the preloaded one: each request is put down to the
//! program or to anybody else by the address it was called from. It knows nothing of threads, commands or callbacks.

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::fs;
use std::mem::transmute;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Requests that were granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenAddress {
    /// Calls from the program's own file: application and callbacks.
    pub(super) program: (u64, u64),
    /// Calls from anywhere else: loader, driver, LLVM, C and C++ libraries, code that was compiled at run time.
    pub(super) others: (u64, u64),
}

impl SeenAddress {
    pub(super) fn since(self, before: Self) -> Self {
        let less = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
        Self { program: less(self.program, before.program), others: less(self.others, before.others) }
    }
}

/// Calls and bytes.
struct Counter(AtomicU64, AtomicU64);

static PROGRAM: Counter = Counter(AtomicU64::new(0), AtomicU64::new(0));
static OTHERS: Counter = Counter(AtomicU64::new(0), AtomicU64::new(0));

static FROM: AtomicUsize = AtomicUsize::new(0);
static TO: AtomicUsize = AtomicUsize::new(0);

type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

/// The functions behind ours: the preloaded meter's.
struct Next {
    malloc: extern "C" fn(usize) -> *mut c_void,
    calloc: extern "C" fn(usize, usize) -> *mut c_void,
    realloc: Realloc,
    aligned_alloc: extern "C" fn(usize, usize) -> *mut c_void,
    posix_memalign: PosixMemalign,
}

static NEXT: OnceLock<Next> = OnceLock::new();
/// Until then the C library is asked, past the meter: nothing is looked up within an allocation.
static READY: AtomicBool = AtomicBool::new(false);

// Safe to call are those that may be asked for anything.
unsafe extern "C" {
    safe fn __libc_malloc(size: usize) -> *mut c_void;
    safe fn __libc_calloc(number: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    safe fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// Finds the functions behind ours and the program's place in memory. From here on everything is counted here and by
/// the meter.
pub(super) fn begin() {
    let program = place_of_the_program();
    FROM.store(program.start, Relaxed);
    TO.store(program.end, Relaxed);
    let find = |name: &CStr| {
        // SAFETY: a name in C.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} behind this test's own");
        found
    };
    let next = Next {
        // SAFETY: C's `malloc` has this type.
        malloc: unsafe { transmute::<*mut c_void, extern "C" fn(usize) -> *mut c_void>(find(c"malloc")) },
        // SAFETY: C's `calloc` has this type.
        calloc: unsafe { transmute::<*mut c_void, extern "C" fn(usize, usize) -> *mut c_void>(find(c"calloc")) },
        // SAFETY: C's `realloc` has this type.
        realloc: unsafe { transmute::<*mut c_void, Realloc>(find(c"realloc")) },
        // SAFETY: C's `aligned_alloc` has this type.
        aligned_alloc: unsafe {
            transmute::<*mut c_void, extern "C" fn(usize, usize) -> *mut c_void>(find(c"aligned_alloc"))
        },
        // SAFETY: C's `posix_memalign` has this type.
        posix_memalign: unsafe { transmute::<*mut c_void, PosixMemalign>(find(c"posix_memalign")) },
    };
    assert!(NEXT.set(next).is_ok(), "called once");
    READY.store(true, Relaxed);
}

/// What was seen until now.
pub(super) fn read() -> SeenAddress {
    let of = |counter: &Counter| (counter.0.load(Relaxed), counter.1.load(Relaxed));
    SeenAddress { program: of(&PROGRAM), others: of(&OTHERS) }
}

fn place_of_the_program() -> Range<usize> {
    let file = std::env::current_exe().expect("a test knows its file");
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    let mut ends = Vec::new();
    for line in maps.lines().filter(|line| line.ends_with(&*file.to_string_lossy())) {
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        ends.extend([from, to].map(|end| usize::from_str_radix(end, 16).expect("an address")));
    }
    let (from, to) = (ends.iter().min().expect("mapped"), ends.iter().max().expect("mapped"));
    assert!((*from..*to).contains(&(begin as *const () as usize)), "the program lies in {from:x}..{to:x}");
    *from..*to
}

fn next() -> Option<&'static Next> {
    if READY.load(Relaxed) { NEXT.get() } else { None }
}

fn note(granted: bool, bytes: usize, caller: usize) {
    if granted {
        let counter = if (FROM.load(Relaxed)..TO.load(Relaxed)).contains(&caller) { &PROGRAM } else { &OTHERS };
        counter.0.fetch_add(1, Relaxed);
        counter.1.fetch_add(bytes as u64, Relaxed);
    }
}

extern "C" fn malloc_for(size: usize, caller: usize) -> *mut c_void {
    let block = next().map_or_else(|| __libc_malloc(size), |next| (next.malloc)(size));
    note(!block.is_null(), size, caller);
    block
}

extern "C" fn calloc_for(number: usize, size: usize, caller: usize) -> *mut c_void {
    let block = next().map_or_else(|| __libc_calloc(number, size), |next| (next.calloc)(number, size));
    note(!block.is_null(), number.wrapping_mul(size), caller);
    block
}

extern "C" fn realloc_for(block: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    let resized = match next() {
        // SAFETY: the caller of `realloc` passes NULL or a live block of the C library's.
        Some(next) => unsafe { (next.realloc)(block, size) },
        // SAFETY: the caller of `realloc` passes NULL or a live block of the C library's.
        None => unsafe { __libc_realloc(block, size) },
    };
    note(!resized.is_null(), size, caller);
    resized
}

extern "C" fn aligned_for(align: usize, size: usize, caller: usize) -> *mut c_void {
    let block = next().map_or_else(|| __libc_memalign(align, size), |next| (next.aligned_alloc)(align, size));
    note(!block.is_null(), size, caller);
    block
}

extern "C" fn posix_memalign_for(out: *mut *mut c_void, align: usize, size: usize, caller: usize) -> c_int {
    let Some(next) = next() else {
        let block = __libc_memalign(align, size);
        // SAFETY: the caller of `posix_memalign` passes a place for the block.
        unsafe { out.write(block) };
        return if block.is_null() { libc::ENOMEM } else { 0 };
    };
    // SAFETY: the caller of `posix_memalign` passes a place for the block.
    let result = unsafe { (next.posix_memalign)(out, align, size) };
    note(result == 0, size, caller);
    result
}

/// Hands the return address on as the argument behind the last.
macro_rules! with_caller {
    ($function:path, $x86_64:literal, $aarch64:literal) => {
        #[cfg(target_arch = "x86_64")]
        naked_asm!(concat!("mov ", $x86_64, ", qword ptr [rsp]"), "jmp {}", sym $function);
        #[cfg(target_arch = "aarch64")]
        naked_asm!(concat!("mov ", $aarch64, ", x30"), "b {}", sym $function);
    };
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    with_caller!(malloc_for, "rsi", "x1");
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
    with_caller!(calloc_for, "rdx", "x2");
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    with_caller!(realloc_for, "rdx", "x2");
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    with_caller!(aligned_for, "rdx", "x2");
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    with_caller!(aligned_for, "rdx", "x2");
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    with_caller!(posix_memalign_for, "rcx", "x3");
}
