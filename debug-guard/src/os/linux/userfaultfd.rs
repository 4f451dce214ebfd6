//! Pages that are missing raise SIGBUS until this process copies, zeroes or moves one into their place:
//! userfaultfd(2), ioctl_userfaultfd(2). A child after fork makes a descriptor of its own.

use core::ffi::c_int;
use core::ptr::{NonNull, from_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use super::fork::without_forks;
use super::memory::{self, Advice};
use super::process::page_size;
use crate::mode::BackEnd;
use crate::os::{Content, OsRefusal, PageCalls};

const USER_MODE_ONLY: c_int = 1;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_MOVE: u64 = 1 << 16;
const REGISTER_MISSING: u64 = 1;
const DONT_WAKE: u64 = 1;

/// Longer runs are zeroed in one call, and take memory when they are accessed.
const COPIED_PAGES: usize = 16;
const TRIES: usize = 1000;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `done` is how many bytes were copied or moved, or an error as a negative number.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

#[repr(C)]
struct Zero {
    start: u64,
    len: u64,
    mode: u64,
    done: i64,
}

const API: libc::Ioctl = libc::_IOWR::<Api>(0xAA, 0x3F);
const REGISTER: libc::Ioctl = libc::_IOWR::<Register>(0xAA, 0x00);
const COPY: libc::Ioctl = libc::_IOWR::<Transfer>(0xAA, 0x03);
const ZERO: libc::Ioctl = libc::_IOWR::<Zero>(0xAA, 0x04);
const MOVE: libc::Ioctl = libc::_IOWR::<Transfer>(0xAA, 0x05);

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static MOVES: AtomicBool = AtomicBool::new(false);

/// The watched regions, for the child after fork: base and bytes; base 0 = free.
static WATCHED: [(AtomicUsize, AtomicUsize); 256] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256];

pub(super) struct Userfaultfd {
    pub(super) moves: bool,
}

impl PageCalls for Userfaultfd {
    fn back_end(&self) -> BackEnd {
        if self.moves { BackEnd::UserfaultfdMove } else { BackEnd::UserfaultfdCopy }
    }

    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal> {
        let base = memory::reserve_for_blocks(bytes)?;
        let watched = watch(self.moves, base, bytes);
        if watched.is_err() {
            // SAFETY: reserved above, not used.
            unsafe { memory::unmap(base, bytes) };
        }
        watched.map(|()| base)
    }

    unsafe fn release(&self, base: usize, bytes: usize) {
        forget(base);
        // SAFETY: the region is no longer used.
        unsafe { memory::unmap(base, bytes) };
    }

    unsafe fn open(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: every page in there is missing.
        unsafe { memory::unprotect(base, bytes) }
    }

    unsafe fn provide(&self, base: usize, bytes: usize, pattern: Option<NonNull<u8>>) -> Result<Content, OsRefusal> {
        let page = page_size();
        let Some(pattern) = pattern.filter(|_| bytes <= COPIED_PAGES * page) else {
            return zero(base, bytes).map(|()| Content::Zero);
        };
        for at in (0..bytes).step_by(page) {
            if let Err(refusal) = copy(base + at, page, pattern) {
                discard(base, at);
                return Err(refusal);
            }
        }
        Ok(Content::Pattern)
    }

    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        // SAFETY: pages of the caller's, whose content nobody uses again.
        unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) }
    }

    unsafe fn pass_on(&self, from: usize, to: usize) -> bool {
        // SAFETY: both pages are the caller's, and no thread accesses `from` again.
        self.moves && unsafe { move_page(from, to, page_size()) }
    }

    fn land(&self, base: usize, bytes: usize, is_opened: bool) -> bool {
        memory::keeping_errno(|| {
            if !is_opened {
                // SAFETY: only the guard, which calls this, relies on inaccessible pages.
                let _ = unsafe { memory::unprotect(base, bytes) };
            }
            fill(base, bytes).is_ok()
        })
    }
}

fn watch(moves: bool, base: usize, bytes: usize) -> Result<(), OsRefusal> {
    without_forks(|| {
        if DESCRIPTOR.load(Ordering::Relaxed) < 0 {
            open()?;
        }
        if moves && !MOVES.load(Ordering::Relaxed) {
            return Err(OsRefusal::Call { call: "UFFDIO_API", errno: libc::EINVAL });
        }
        let (place_base, place_bytes) =
            WATCHED.iter().find(|(base, _)| base.load(Ordering::Relaxed) == 0).ok_or(OsRefusal::TooManyRegions)?;
        register(base, bytes)?;
        place_bytes.store(bytes, Ordering::Relaxed);
        place_base.store(base, Ordering::Relaxed);
        Ok(())
    })
}

fn forget(base: usize) {
    if let Some((place, _)) = WATCHED.iter().find(|(place, _)| place.load(Ordering::Relaxed) == base) {
        place.store(0, Ordering::Relaxed);
    }
}

/// The program closed the former descriptor. False if that is valid.
fn watch_anew(errno: i32) -> bool {
    if errno != libc::EBADF && errno != libc::ENOTTY {
        return false;
    }
    without_forks(|| {
        // The number may be another file's by now, so it is not closed.
        DESCRIPTOR.store(-1, Ordering::Relaxed);
        open().is_ok() && register_all()
    })
}

fn register_all() -> bool {
    let mut all = true;
    for (base, bytes) in &WATCHED {
        let base = base.load(Ordering::Relaxed);
        all &= base == 0 || register(base, bytes.load(Ordering::Relaxed)).is_ok();
    }
    all
}

/// Provided pages are the child's copies; missing ones would read as zeros from here on. If this fails, providing
/// fails.
pub(super) fn watch_again() {
    let parents = DESCRIPTOR.swap(-1, Ordering::Relaxed);
    if parents < 0 {
        return;
    }
    // SAFETY: the child's own number for it; the parent keeps its.
    let _ = unsafe { libc::close(parents) };
    let _ = open().is_ok() && register_all();
}

fn open() -> Result<(), OsRefusal> {
    let with_move = open_with(FEATURE_SIGBUS | FEATURE_MOVE);
    let (descriptor, moves) = match with_move {
        Ok(descriptor) => (descriptor, true),
        Err(_) => (open_with(FEATURE_SIGBUS)?, false),
    };
    MOVES.store(moves, Ordering::Relaxed);
    DESCRIPTOR.store(descriptor, Ordering::Relaxed);
    Ok(())
}

fn open_with(features: u64) -> Result<c_int, OsRefusal> {
    // SAFETY: makes a descriptor.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY) } as c_int;
    if descriptor < 0 {
        return Err(memory::refused("userfaultfd"));
    }
    let mut api = Api { api: 0xAA, features, ioctls: 0 };
    // SAFETY: the structure that this request takes.
    let answer = memory::answer("UFFDIO_API", unsafe { libc::ioctl(descriptor, API, from_mut(&mut api)) });
    if let Err(refusal) = answer {
        // SAFETY: opened above.
        let _ = unsafe { libc::close(descriptor) };
        return Err(refusal);
    }
    Ok(descriptor)
}

fn register(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    let mut run = Register { start: base as u64, len: bytes as u64, mode: REGISTER_MISSING, ioctls: 0 };
    // SAFETY: the structure that this request takes; the pages are empty.
    memory::answer("UFFDIO_REGISTER", unsafe { control(REGISTER, &mut run) })
}

fn copy(to: usize, page: usize, pattern: NonNull<u8>) -> Result<(), OsRefusal> {
    let mut last = 0;
    for _ in 0..TRIES {
        // SAFETY: the page at `to` is the caller's and not provided.
        last = match unsafe { transfer(COPY, to, pattern.addr().get(), page) } {
            Ok(()) => return Ok(()),
            Err(errno) => errno,
        };
        match last {
            libc::EAGAIN => {}
            libc::EEXIST => discard(to, page),
            errno if watch_anew(errno) => {}
            libc::EBADF | libc::ENOTTY => return Err(OsRefusal::Lost),
            _ => break,
        }
    }
    Err(OsRefusal::Call { call: "UFFDIO_COPY", errno: last })
}

/// # Safety
/// The page at `to` is the caller's and not provided; of a page that moves, nothing is used any more.
unsafe fn transfer(request: libc::Ioctl, to: usize, from: usize, page: usize) -> Result<(), c_int> {
    let mut transfer = Transfer { to: to as u64, from: from as u64, len: page as u64, mode: DONT_WAKE, done: 0 };
    // SAFETY: the structure that these requests take; the pages may be changed.
    match unsafe { control(request, &mut transfer) } {
        0 => Ok(()),
        _ => Err(memory::errno()),
    }
}

/// # Safety
/// `argument` is the structure that `request` takes, and the pages that it names may be changed.
unsafe fn control<T>(request: libc::Ioctl, argument: &mut T) -> c_int {
    let descriptor = DESCRIPTOR.load(Ordering::Relaxed);
    // SAFETY: the structure of this request, and pages that may be changed.
    unsafe { libc::ioctl(descriptor, request, from_mut(argument)) }
}

/// Memory is allocated when the pages are written.
fn zero(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    match fill(base, bytes) {
        Err(OsRefusal::Call { errno, .. }) if watch_anew(errno) => fill(base, bytes),
        Err(OsRefusal::Call { errno: libc::EBADF | libc::ENOTTY, .. }) => Err(OsRefusal::Lost),
        other => other,
    }
}

/// Acquires no lock.
fn fill(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    let mut done = 0;
    let mut last = 0;
    for _ in 0..TRIES {
        let mut run = Zero { start: (base + done) as u64, len: (bytes - done) as u64, mode: DONT_WAKE, done: 0 };
        // SAFETY: the structure that this request takes.
        let answer = unsafe { control(ZERO, &mut run) };
        if answer == 0 {
            return Ok(());
        }
        last = memory::errno();
        match last {
            libc::EAGAIN => done += usize::try_from(run.done).unwrap_or(0),
            libc::EEXIST => {
                discard(base, bytes);
                done = 0;
            }
            _ => break,
        }
    }
    discard(base, done);
    Err(OsRefusal::Call { call: "UFFDIO_ZEROPAGE", errno: last })
}

/// # Safety
/// Both pages are the caller's, and no thread may access `from` again.
unsafe fn move_page(from: usize, to: usize, page: usize) -> bool {
    for _ in 0..TRIES {
        // SAFETY: `to` is not provided, and nothing uses `from`.
        let Err(errno) = (unsafe { transfer(MOVE, to, from, page) }) else {
            return true;
        };
        // EBUSY: pinned, or shared with a child. EINVAL: one of them is locked. EEXIST: a stopped access landed there.
        if errno != libc::EAGAIN && !watch_anew(errno) {
            return false;
        }
    }
    false
}

fn discard(base: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: these pages have no valid content.
        let _ = unsafe { memory::advise_locked(base, bytes, Advice::DISCARD) };
    }
}
