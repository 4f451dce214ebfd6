//! Requests by signal: the handler sets a flag, and a hooked command checks it.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::settings::complain;

/// A flag that a handler sets.
pub(crate) struct Request(AtomicBool);

/// Requests a mark, between which growth is counted.
pub(crate) static MARK: Request = Request(AtomicBool::new(false));
/// Requests a report.
pub(crate) static REPORT: Request = Request(AtomicBool::new(false));

impl Request {
    /// Whether there is a request, which stays.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the request again: it could not be served.
    pub(crate) fn renew(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Removes the request; whether there was one.
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

/// The signal with this name, of those that are free for programs.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    match name {
        "USR1" => Some(libc::SIGUSR1),
        "USR2" => Some(libc::SIGUSR2),
        _ => None,
    }
}

/// The name of a signal that [`signal_number`] knows.
fn signal_name(signal: i32) -> &'static str {
    if signal == libc::SIGUSR1 {
        "SIGUSR1"
    } else {
        "SIGUSR2"
    }
}

/// Installs one of the two handlers above, unless the signal is handled already.
pub(crate) fn install_handler(signal: i32, handler: extern "C" fn(i32), what: &str) {
    // SAFETY: a struct of numbers and addresses, of which all zeros are valid.
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
    // SAFETY: the handler is a function of a library that is never unloaded, and only stores to an atomic.
    let refused = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0;
    if refused {
        complain(format_args!(
            "{} cannot be handled: it requests no {what}",
            signal_name(signal)
        ));
    }
}
