//! The handler of a signal sets a flag, and a hooked command checks it.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::settings::complain;

pub(crate) struct Request(AtomicBool);

pub(crate) static MARK: Request = Request(AtomicBool::new(false));
pub(crate) static REPORT: Request = Request(AtomicBool::new(false));

impl Request {
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn renew(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

pub(crate) extern "C" fn request_mark(_: i32) {
    MARK.0.store(true, Ordering::Relaxed);
}

pub(crate) extern "C" fn request_report(_: i32) {
    REPORT.0.store(true, Ordering::Relaxed);
}

pub(crate) fn signal_number(name: &str) -> Option<i32> {
    match name {
        "USR1" => Some(libc::SIGUSR1),
        "USR2" => Some(libc::SIGUSR2),
        _ => None,
    }
}

fn signal_name(signal: i32) -> &'static str {
    if signal == libc::SIGUSR1 {
        "SIGUSR1"
    } else {
        "SIGUSR2"
    }
}

pub(crate) fn install_handler(signal: i32, handler: extern "C" fn(i32), what: &str) {
    // SAFETY: numbers and addresses, of which zeros are valid.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the signal's action; NULL changes nothing.
    let is_known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut before) } == 0;
    if !is_known || before.sa_sigaction != libc::SIG_DFL {
        complain(format_args!(
            "{} is handled already, by the program or for another setting: it requests no {what}",
            signal_name(signal)
        ));
        return;
    }
    let mut action = before;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler's library is never unloaded, and it only stores to an atomic.
    let refused = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0;
    if refused {
        complain(format_args!(
            "{} cannot be handled: it requests no {what}",
            signal_name(signal)
        ));
    }
}
