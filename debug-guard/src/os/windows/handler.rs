//! The vectored handler of exceptions: the guard's first, then whatever the program has.
//!
//! It runs on the stack of the thread that was stopped, can be entered again from itself, and takes no lock and no memory. What is not an
//! access to the guard's pages is passed on: to later vectored handlers, the frames of the thread, the filter of unhandled exceptions.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::calls::{
    ACCESS_VIOLATION, AddVectoredExceptionHandler, CONTINUE_EXECUTION, CONTINUE_SEARCH,
    ExceptionPointers, GUARD_PAGE_VIOLATION, IN_PAGE_ERROR, PAGE_GUARD, ThreadContext,
    VirtualProtect,
};
use super::memory::{self, keeping_error};
use super::process::without_forks;
use crate::os::caught;
use crate::os::{Access, Handled, OsRefusal, Trap};

/// A `fn(&Trap) -> Handled`; null before the handler is installed.
static INSTALL_STATE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// True once the handler is installed.
pub(super) fn installed() -> bool {
    !INSTALL_STATE.load(Ordering::Acquire).is_null()
}

/// Has `asked` judge every access of this process that the processor refuses; what it answers [`Handled::No`] is passed on. Once a process:
/// later calls change nothing.
///
/// # Errors
/// Where the system refuses: nothing was installed.
pub(crate) fn install_fault_handler(asked: fn(&Trap) -> Handled) -> Result<(), OsRefusal> {
    without_forks(|| {
        if installed() {
            return Ok(());
        }
        // Before the handler stands: it may be entered at once.
        INSTALL_STATE.store(asked as *mut (), Ordering::Release);
        // SAFETY: a function of this library, which is not unloaded: its blocks could not be either. It is called first.
        let handle = unsafe { AddVectoredExceptionHandler(1, on_exception) };
        if handle.is_null() {
            INSTALL_STATE.store(null_mut(), Ordering::Release);
            return Err(memory::refused("AddVectoredExceptionHandler"));
        }
        Ok(())
    })
}

/// # Safety
/// Called by the system.
unsafe extern "system" fn on_exception(pointers: *mut ExceptionPointers) -> i32 {
    // SAFETY: the system's own, for this call.
    let ExceptionPointers { record, context } = unsafe { &*pointers };
    // SAFETY: the system's own, for this call.
    let record = unsafe { &**record };
    // Anything else, of which a stack overflow leaves little room, is not looked at.
    if !matches!(
        record.code,
        ACCESS_VIOLATION | IN_PAGE_ERROR | GUARD_PAGE_VIOLATION
    ) {
        return CONTINUE_SEARCH;
    }
    // SAFETY: the registers of the stopped thread, ours to change until we return.
    let context = unsafe { &mut **context };
    let [kind, address, ..] = record.information;
    if context.pc == caught::load as *const () as usize {
        if record.code == GUARD_PAGE_VIOLATION {
            guard_again(address);
        }
        context.pc = caught::cannot as *const () as usize;
        return CONTINUE_EXECUTION;
    }
    if record.code == ACCESS_VIOLATION && judge(context, kind, address) == Handled::Resume {
        CONTINUE_EXECUTION
    } else {
        CONTINUE_SEARCH
    }
}

/// Asks the guards.
fn judge(context: &ThreadContext, kind: usize, address: usize) -> Handled {
    let asked = INSTALL_STATE.load(Ordering::Acquire);
    if asked.is_null() {
        return Handled::No;
    }
    let trap = Trap {
        address,
        access: match kind {
            0 => Some(Access::Read),
            1 => Some(Access::Write),
            8 => Some(Access::Execute),
            _ => None,
        },
        pc: context.pc,
        frame: context.frame(),
        stack: context.stack(),
    };
    // SAFETY: such a function was stored there, and nothing else.
    let asked = unsafe { core::mem::transmute::<*mut (), fn(&Trap) -> Handled>(asked) };
    keeping_error(|| asked(&trap))
}

/// Another thread's stack grows when that thread comes to the page that guards its end: a read of ours took the mark away.
#[cold]
fn guard_again(address: usize) {
    let Some(about) = memory::information_at(address) else {
        return;
    };
    let mut former = 0;
    // SAFETY: the protection that the page had until this access, which took the mark away and nothing else.
    keeping_error(|| unsafe {
        VirtualProtect(
            core::ptr::without_provenance_mut(address),
            1,
            about.protection | PAGE_GUARD,
            &raw mut former,
        )
    });
}
