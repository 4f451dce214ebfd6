//! The handler runs on the stack of the thread that was stopped, can be entered again from itself, and acquires no
//! lock and no memory.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::calls::{
    ACCESS_VIOLATION, AddVectoredExceptionHandler, CONTINUE_EXECUTION, CONTINUE_SEARCH, ExceptionPointers,
    GUARD_PAGE_VIOLATION, IN_PAGE_ERROR, PAGE_GUARD, ThreadContext, VirtualProtect,
};
use super::caught;
use super::memory::{self, keeping_error};
use super::process::without_forks;
use crate::os::{Access, Handled, OsRefusal, Trap};

/// A `fn(&Trap) -> Handled`; null before the handler is installed.
static INSTALL_STATE: AtomicPtr<()> = AtomicPtr::new(null_mut());

pub(super) fn installed() -> bool {
    !INSTALL_STATE.load(Ordering::Acquire).is_null()
}

/// What `asked` answers [`Handled::No`] is passed on. Later calls change nothing.
pub(crate) fn install_fault_handler(asked: fn(&Trap) -> Handled) -> Result<(), OsRefusal> {
    without_forks(|| {
        if installed() {
            return Ok(());
        }
        // The handler may be entered at once.
        INSTALL_STATE.store(asked as *mut (), Ordering::Release);
        // SAFETY: a function of this library, which is not unloaded: its blocks could not be either.
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
    // A stack overflow leaves little room.
    if !matches!(record.code, ACCESS_VIOLATION | IN_PAGE_ERROR | GUARD_PAGE_VIOLATION) {
        return CONTINUE_SEARCH;
    }
    // SAFETY: the registers of the stopped thread, this call's to change.
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

/// Another thread's stack grows when that thread comes to the page that guards its end: the read took the mark away.
#[cold]
fn guard_again(address: usize) {
    let Some(about) = memory::information_at(address) else {
        return;
    };
    let mut former = 0;
    // SAFETY: the protection that the page had before this access.
    keeping_error(|| unsafe {
        VirtualProtect(core::ptr::without_provenance_mut(address), 1, about.protection | PAGE_GUARD, &raw mut former)
    });
}
