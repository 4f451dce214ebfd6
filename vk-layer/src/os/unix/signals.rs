use std::ptr;

use crate::request::Signal;

const fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Usr1 => libc::SIGUSR1,
        Signal::Usr2 => libc::SIGUSR2,
    }
}

/// # Errors
/// Why the signal will not call the handler.
pub(crate) fn handle_signal(signal: Signal, handler: extern "C" fn(i32)) -> Result<(), &'static str> {
    // SAFETY: numbers and addresses, of which zeros are valid.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the signal's action; NULL changes nothing.
    let is_known = unsafe { libc::sigaction(number(signal), ptr::null(), &raw mut before) } == 0;
    if !is_known || before.sa_sigaction != libc::SIG_DFL {
        return Err("is handled already, by the program or for another setting");
    }
    let mut action = before;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler's library is never unloaded, and it only stores to an atomic.
    let refused = unsafe { libc::sigaction(number(signal), &raw const action, ptr::null_mut()) } != 0;
    if refused {
        return Err("cannot be handled");
    }
    Ok(())
}
