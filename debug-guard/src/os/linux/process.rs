use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::Write;
use std::thread_local;

use super::memory::{self, File, keeping_errno};

pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number.
    let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let size = usize::try_from(asked).unwrap_or(4096);
    SIZE.store(size, Ordering::Relaxed);
    size
}

pub(crate) fn process_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }.cast_unsigned()
}

/// Uses no thread-local: for the handler.
pub(super) fn query_thread_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

thread_local! {
    // Const and without Drop: valid while other thread-locals are destroyed.
    static ID: Cell<u32> = const { Cell::new(0) };
}

#[inline]
pub(crate) fn thread_id() -> u32 {
    let known = ID.get();
    if known == 0 { attach() } else { known }
}

/// Its faults reach the handler although the program blocked the signals, as Mesa does on its own threads.
#[cold]
fn attach() -> u32 {
    super::handler::unblock_faults();
    let id = query_thread_id();
    ID.set(id);
    id
}

/// The former and the new number, in a child after fork.
pub(super) fn renew_thread() -> (u32, u32) {
    let former = ID.get();
    let now = query_thread_id();
    ID.set(now);
    (former, now)
}

/// Stops where the system accepts no more. Async-signal-safe; keeps errno.
pub(crate) fn write(fd: i32, bytes: &[u8]) {
    keeping_errno(|| {
        let mut left = bytes;
        while !left.is_empty() {
            // SAFETY: the bytes are borrowed for the call.
            let written = unsafe { libc::write(fd, left.as_ptr().cast(), left.len()) };
            match usize::try_from(written) {
                Ok(0) => break,
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(_) if memory::errno() == libc::EINTR => {}
                Err(_) => break,
            }
        }
    });
}

/// Async-signal-safe; keeps errno.
pub(crate) fn is_terminal(fd: i32) -> bool {
    let mut size = core::mem::MaybeUninit::<libc::winsize>::uninit();
    // SAFETY: this request writes one `winsize`; what is no terminal refuses it.
    keeping_errno(|| unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, size.as_mut_ptr()) } == 0)
}

/// A tenth of a millisecond or more. Async-signal-safe.
pub(crate) fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
    // SAFETY: reads the time.
    keeping_errno(|| unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) });
}

pub(crate) fn abort() -> ! {
    // SAFETY: does not come back.
    unsafe { libc::abort() }
}

/// Without the kernel's numbers it reads the random bytes from the start of the process.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0_u8; 8];
    // SAFETY: writes at most eight bytes into the array.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == 8 {
        return u64::from_ne_bytes(bytes);
    }
    // SAFETY: asks for a number.
    let address = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    if address == 0 {
        return core::ptr::from_ref(&bytes).addr() as u64;
    }
    // SAFETY: the kernel's sixteen random bytes, which stay as long as the process.
    unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_unaligned() }
}

/// Empty if the thread has ended.
pub(crate) fn thread_name(thread: u32, text: &mut [u8; 16]) -> &str {
    let mut path = [0_u8; 32];
    // Into the array alone: allocates nothing.
    let written = write!(path.as_mut_slice(), "/proc/self/task/{thread}/comm\0");
    let path = CStr::from_bytes_until_nul(&path).ok();
    let Some(file) = path.filter(|_| written.is_ok()).and_then(File::open) else {
        return "";
    };
    let read = file.read(text);
    let name = text.get(..read).unwrap_or_default();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    core::str::from_utf8(name).unwrap_or_default()
}

/// `call` is not run if the process is aborted or ended by a signal, or if the C library has no room.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function without arguments that lives as long as the process.
    let _ = unsafe { libc::atexit(call) };
}

/// Runs nothing else, not even functions of [`at_exit`].
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not come back.
    unsafe { libc::_exit(code) }
}

/// In a container its own control group is the root.
pub(crate) fn total_memory() -> Option<u64> {
    let machine = number(c"/proc/meminfo", b"MemTotal:").and_then(|kib| kib.checked_mul(1024));
    let groups = [c"/sys/fs/cgroup/memory.max", c"/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.into_iter().filter_map(|file| number(file, b"")).min();
    machine.into_iter().chain(group).min()
}

pub(super) fn number(path: &CStr, key: &[u8]) -> Option<u64> {
    let mut text = [0_u8; 64];
    let read = File::open(path)?.read(&mut text);
    let text = text.get(..read)?.strip_prefix(key)?.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len()))?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_and_a_group_no_more() {
        let machine = number(c"/proc/meminfo", b"MemTotal:").expect("it says so") * 1024;
        assert!(machine > 1 << 24, "{machine}");
        assert!(total_memory().expect("at least the machine's") <= machine);
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        assert_eq!(number(c"/proc/meminfo", b"MemFree:"), None, "another line");
        assert_eq!(number(c"/proc/version", b""), None, "words");
        assert_eq!(number(c"/nowhere", b""), None);
    }
}
