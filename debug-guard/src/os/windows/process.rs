use core::hash::BuildHasher;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::calls::{
    self, CloseHandle, GetConsoleMode, GetCurrentProcess, GetCurrentProcessId, GetCurrentThreadId, GetStdHandle,
    GetSystemInfo, GlobalMemoryStatusEx, MemoryStatus, NtQueryInformationThread, OpenThread, QUERY_THREAD,
    STANDARD_ERROR, STANDARD_OUTPUT, Sleep, SystemInformation, THREAD_NAME, TerminateProcess, WideText, WriteFile,
};
use super::memory::keeping_error;

pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut about = SystemInformation::default();
    // SAFETY: writes into `about`.
    unsafe { GetSystemInfo(&raw mut about) };
    let size = (about.page_size as usize).max(4096);
    SIZE.store(size, Ordering::Relaxed);
    size
}

pub(crate) fn process_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { GetCurrentProcessId() }
}

#[inline]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { GetCurrentThreadId() }
}

/// Cut if necessary; empty if the thread has no name or has ended. Allocates nothing.
pub(crate) fn thread_name(thread: u32, text: &mut [u8; 16]) -> &str {
    const ROOM: usize = 256;
    let mut name = WideText::<ROOM>::new();
    let mut length = 0;
    let status = keeping_error(|| {
        // SAFETY: asks for a handle; a thread that is none is answered.
        let handle = unsafe { OpenThread(QUERY_THREAD, 0, thread) };
        if handle.is_null() {
            return -1;
        }
        // SAFETY: writes into `name`, of this size.
        let status = unsafe {
            NtQueryInformationThread(
                handle,
                THREAD_NAME,
                (&raw mut name).cast(),
                size_of::<WideText<ROOM>>() as u32,
                &raw mut length,
            )
        };
        // SAFETY: opened above, closed once.
        unsafe { CloseHandle(handle) };
        status
    });
    if status < 0 {
        return "";
    }
    super::text::write(super::text::characters(name.units().iter().copied()), text)
}

/// Stops where the system accepts no more; keeps the thread's error number.
pub(crate) fn write(fd: i32, bytes: &[u8]) {
    keeping_error(|| {
        let file = standard(fd);
        let mut left = bytes;
        while !left.is_empty() {
            let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
            let mut written = 0;
            // SAFETY: the bytes are borrowed; what is no file is answered.
            let done = unsafe { WriteFile(file, left.as_ptr(), count, &raw mut written, null_mut()) };
            if done == 0 || written == 0 {
                break;
            }
            left = left.get(written as usize..).unwrap_or_default();
        }
    });
}

pub(crate) fn is_terminal(fd: i32) -> bool {
    let mut mode = 0;
    // SAFETY: writes into `mode`; other files than consoles are answered.
    keeping_error(|| unsafe { GetConsoleMode(standard(fd), &raw mut mode) } != 0)
}

/// It is null for others than 1 and 2.
fn standard(fd: i32) -> *mut core::ffi::c_void {
    let which = match fd {
        1 => STANDARD_OUTPUT,
        2 => STANDARD_ERROR,
        _ => return null_mut(),
    };
    // SAFETY: asks for a handle.
    unsafe { GetStdHandle(which) }
}

/// A millisecond or more.
pub(crate) fn pause() {
    // SAFETY: ends after that time.
    unsafe { Sleep(1) };
}

pub(crate) fn abort() -> ! {
    std::process::abort()
}

/// Runs `call` when `main` returns or C's `exit` is called. If the C runtime has no room, it is not run.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function without arguments that lives as long as the process.
    let _ = unsafe { calls::atexit(call) };
}

/// Runs nothing else, not even what was to be run at exit.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: asks for a constant that stands for this process.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: ends this process, and does not come back.
    let _ = unsafe { TerminateProcess(process, code.cast_unsigned()) };
    abort()
}

pub(crate) fn forks() -> u32 {
    0
}

/// One thread at a time. Never held over an allocator.
pub(crate) fn without_forks<R>(f: impl FnOnce() -> R) -> R {
    static HELD: AtomicBool = AtomicBool::new(false);
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            HELD.store(false, Ordering::Release);
        }
    }
    while HELD.swap(true, Ordering::Acquire) {
        pause();
    }
    let _release = Release;
    f()
}

pub(crate) fn total_memory() -> Option<u64> {
    let mut status = MemoryStatus::new();
    // SAFETY: writes into `status`, whose length is in it.
    let known = keeping_error(|| unsafe { GlobalMemoryStatusEx(&raw mut status) }) != 0;
    known.then_some(status.total_physical)
}

/// From the keys that the standard library got for its hash maps. Allocates nothing.
pub(crate) fn random_u64() -> u64 {
    std::hash::RandomState::new().hash_one(0_u64)
}
