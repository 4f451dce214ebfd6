//! Threads' alternate stacks are small (Rust's have 8 KiB), and the kernel saves vector registers on them.

use core::ffi::c_void;
use core::ptr::{from_mut, null_mut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{memory, page_size, process};
use crate::os::{Handled, OsRefusal, Trap};

const BYTES: usize = 256 << 10;
/// After so many tries another thread has left the stack by a long jump or hangs in its report, and the small stack
/// is used.
const LOOKS: usize = 1_000_000;

static TOP: AtomicUsize = AtomicUsize::new(0);
static OWNER: AtomicU32 = AtomicU32::new(0);

pub(super) fn make() -> Result<(), OsRefusal> {
    if TOP.load(Ordering::Relaxed) == 0 {
        let below = page_size();
        let base = memory::reserve(below + BYTES)?;
        // SAFETY: reserved above, not used yet.
        unsafe { memory::unprotect(base + below, BYTES) }?;
        TOP.store(base + below + BYTES, Ordering::Release);
    }
    Ok(())
}

/// In a child the user is gone, unless it is the thread that forked (a report that starts another program).
pub(super) fn inherit(former: u32, now: u32) {
    let stays = former != 0 && OWNER.load(Ordering::Relaxed) == former;
    OWNER.store(if stays { now } else { 0 }, Ordering::Relaxed);
}

/// One thread at a time. A fault within a report is handled on the present stack.
pub(super) fn run(asked: fn(&Trap) -> Handled, trap: &Trap) -> Handled {
    let top = TOP.load(Ordering::Acquire);
    let thread = process::query_thread_id();
    if top == 0 || !SWITCHES || OWNER.load(Ordering::Relaxed) == thread || !consumes(thread) {
        return asked(trap);
    }
    let mut question = Question { asked, trap, answer: Handled::No };
    // SAFETY: no other thread is on that stack, and the question outlives the call.
    unsafe { on_stack(from_mut(&mut question).cast(), answer, top) };
    OWNER.store(0, Ordering::Release);
    question.answer
}

fn consumes(thread: u32) -> bool {
    for _ in 0..LOOKS {
        if OWNER.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        // SAFETY: yields the processor.
        let _ = unsafe { libc::sched_yield() };
    }
    false
}

struct Question<'a> {
    asked: fn(&Trap) -> Handled,
    trap: &'a Trap,
    answer: Handled,
}

/// # Safety
/// `question` is a [`Question`] that is not used otherwise.
unsafe extern "C" fn answer(question: *mut c_void) {
    // SAFETY: a `Question` that is not used otherwise.
    let question = unsafe { &mut *question.cast::<Question<'_>>() };
    let mut small = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let off = small;
    // The kernel sees this thread outside of its alternate stack, where the handler is still at work: what is stopped
    // from here on must not begin there again.
    // SAFETY: takes the stack away for a while, and writes what was in force.
    let changed = unsafe { libc::sigaltstack(&raw const off, &raw mut small) } == 0;
    question.answer = (question.asked)(question.trap);
    if changed {
        // SAFETY: the stack that was in force.
        let _ = unsafe { libc::sigaltstack(&raw const small, null_mut()) };
    }
}

const SWITCHES: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// # Safety
/// `top` is aligned to 16, there is room below, and `function` takes the argument.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(naked)]
unsafe extern "C" fn on_stack(argument: *mut c_void, function: unsafe extern "C" fn(*mut c_void), top: usize) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp", // an unwinder finds its way back to the small stack, and to the stopped one
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc"
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc"
    );
}

/// # Safety
/// `function` takes the argument.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn on_stack(argument: *mut c_void, function: unsafe extern "C" fn(*mut c_void), _: usize) {
    // SAFETY: `function` takes the argument.
    unsafe { function(argument) };
}
