//! Markers and protections raise SIGSEGV, userfaultfd raises SIGBUS, both with the exact address. The handler runs on
//! the thread's alternate stack where it has one and can be entered again from itself; it acquires no lock and no
//! memory.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{from_mut, null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::OnceLock;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::caught;
use super::context::Context;
use super::memory;
use crate::os::{Handled, OsRefusal, Trap};

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// A thread that has none gets this many. Faults are handled on [`super::report_stack`].
const STACK_BYTES: usize = 32 << 10;

/// A `fn(&Trap) -> Handled`; null before the handler is installed.
static INSTALL_STATE: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// Set before the handler is installed.
static FORMER: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];
/// True if a former handler for one signal was called.
static SPENT: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

pub(super) fn installed() -> bool {
    !INSTALL_STATE.load(Ordering::Acquire).is_null()
}

/// What `asked` answers [`Handled::No`] goes to the former handler. Later calls change nothing. The calling thread
/// gets an alternate stack where it has none.
pub(crate) fn install_fault_handler(asked: fn(&Trap) -> Handled) -> Result<(), OsRefusal> {
    super::fork::watch()?;
    super::fork::without_forks(|| {
        if installed() {
            return Ok(());
        }
        install_signal_stack()?;
        super::report_stack::make()?;
        for (signal, former) in SIGNALS.into_iter().zip(&FORMER) {
            let mut action = plain(libc::SIG_DFL);
            // SAFETY: writes what is in force.
            memory::answer("sigaction", unsafe { libc::sigaction(signal, null(), from_mut(&mut action)) })?;
            let _ = former.set(action);
        }
        // The handler may be entered at once.
        INSTALL_STATE.store(asked as *mut (), Ordering::Release);
        let mut ours = plain(on_fault as *const () as usize);
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // On the large stack the thread looks as if its alternate stack were free: nothing may be put on it
        // meanwhile.
        ours.sa_mask = others();
        for signal in SIGNALS {
            // SAFETY: a function that does what signal-safety(7) allows.
            let set = unsafe { libc::sigaction(signal, &raw const ours, null_mut()) };
            if let Err(refusal) = memory::answer("sigaction", set) {
                INSTALL_STATE.store(null_mut(), Ordering::Release);
                return Err(refusal);
            }
        }
        Ok(())
    })?;
    unblock_faults();
    Ok(())
}

/// If the processor raises a blocked signal, the process ends without a handler.
pub(super) fn unblock_faults() {
    if !installed() {
        return;
    }
    let faults = faults();
    // SAFETY: a set that was made in full.
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const faults, null_mut()) };
}

fn faults() -> libc::sigset_t {
    SIGNALS.into_iter().fold(empty(), with)
}

fn others() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes a set.
    let _ = unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT]
    {
        // SAFETY: filled above.
        let _ = unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
    }
    // SAFETY: made above.
    unsafe { all.assume_init() }
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes a set.
    let _ = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: made above.
    unsafe { set.assume_init() }
}

fn with(mut set: libc::sigset_t, signal: c_int) -> libc::sigset_t {
    // SAFETY: a set that was made in full.
    let _ = unsafe { libc::sigaddset(&raw mut set, signal) };
    set
}

fn plain(handler: usize) -> libc::sigaction {
    // SAFETY: all zeros is an action: the default, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler;
    action
}

/// The stack stays as long as the process.
fn install_signal_stack() -> Result<(), OsRefusal> {
    let mut stack = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: writes what is in force now.
    memory::answer("sigaltstack", unsafe { libc::sigaltstack(null(), from_mut(&mut stack)) })?;
    if stack.ss_flags & libc::SS_DISABLE == 0 {
        return Ok(());
    }
    let base = memory::reserve(STACK_BYTES)?;
    // SAFETY: reserved above, not used yet.
    unsafe { memory::unprotect(base, STACK_BYTES) }?;
    let ours = libc::stack_t { ss_sp: core::ptr::with_exposed_provenance_mut(base), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: memory of that size, which stays.
    memory::answer("sigaltstack", unsafe { libc::sigaltstack(&raw const ours, null_mut()) })
}

/// # Safety
/// Called by the kernel.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = memory::errno();
    // SAFETY: the kernel's own, for this call.
    let told = unsafe { &*info };
    let code = told.si_code;
    // SAFETY: the third argument is the interrupted thread's state, this call's to change.
    let state = unsafe { Context::new(context) };
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if code > 0 && state.pc() == caught::load as *const () as usize {
        state.go_on_at(caught::cannot as *const () as usize);
        memory::set_errno(errno);
        return;
    }
    // What another process sent has no address (SI_USER and below); what the processor cannot place neither
    // (SI_KERNEL).
    let placed = code > 0 && code != libc::SI_KERNEL;
    let asked = INSTALL_STATE.load(Ordering::Acquire);
    if placed && !asked.is_null() {
        // SAFETY: of these signals the kernel fills the address in.
        let address = unsafe { told.si_addr() }.addr();
        let trap = Trap { address, access: state.access(), pc: state.pc(), frame: state.frame(), stack: state.stack() };
        // SAFETY: such a function was stored there, and nothing else.
        let asked = unsafe { core::mem::transmute::<*mut (), fn(&Trap) -> Handled>(asked) };
        if super::report_stack::run(asked, &trap) == Handled::Resume {
            memory::set_errno(errno);
            return;
        }
    }
    memory::set_errno(errno);
    // SAFETY: the arguments of a signal that was delivered to this thread.
    unsafe { pass_on(signal, code, info, context) };
}

/// # Safety
/// In the handler, with its arguments.
unsafe fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let which = usize::from(signal == libc::SIGBUS);
    let former = FORMER.get(which).and_then(OnceLock::get);
    let Some((former, spent)) = former.zip(SPENT.get(which)) else {
        return;
    };
    let once = former.sa_flags & libc::SA_RESETHAND != 0 && spent.swap(true, Ordering::Relaxed);
    match former.sa_sigaction {
        // A signal of the processor cannot be ignored: the kernel ends the process.
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => by_default(signal, code),
        _ if once => by_default(signal, code),
        handler => {
            // As if the kernel had called it: with the signals blocked that the interrupted thread and the handler
            // block.
            let mut own = empty();
            if former.sa_flags & libc::SA_NODEFER == 0 {
                own = with(own, signal);
            }
            let mut before = empty();
            // SAFETY: the kernel's own, for this call.
            let interrupted = unsafe { &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask };
            // SAFETY: a set that the kernel made; the former one is written.
            let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, interrupted, &raw mut before) };
            for blocked in [&former.sa_mask, &own] {
                // SAFETY: sets made in full.
                let _ = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, blocked, null_mut()) };
            }
            if former.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: it was installed as such a handler.
                let handler = unsafe {
                    core::mem::transmute::<usize, unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)>(
                        handler,
                    )
                };
                // SAFETY: with what the kernel handed to us.
                unsafe { handler(signal, info, context) };
            } else {
                // SAFETY: it was installed as a handler of one argument.
                let handler = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler) };
                // SAFETY: with what the kernel handed to us.
                unsafe { handler(signal) };
            }
            // SAFETY: the set that was in force.
            let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
        }
    }
}

/// A repeated access raises the signal again, a sent signal is sent again.
fn by_default(signal: c_int, code: c_int) {
    let default = plain(libc::SIG_DFL);
    // SAFETY: the default action.
    let _ = unsafe { libc::sigaction(signal, &raw const default, null_mut()) };
    if code <= 0 {
        // SAFETY: sends a signal to the calling thread.
        let _ = unsafe { libc::raise(signal) };
    }
}
