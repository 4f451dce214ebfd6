//! The handler of a signal sets a flag, and a hooked command checks it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::os;
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

/// What may request a mark or a report, where there are signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Usr1,
    Usr2,
}

impl Signal {
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "USR1" => Some(Self::Usr1),
            "USR2" => Some(Self::Usr2),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
        }
    }
}

pub(crate) fn install_handler(signal: Signal, handler: extern "C" fn(i32), what: &str) {
    if let Err(why) = os::handle_signal(signal, handler) {
        complain(format_args!("{} {why}: it requests no {what}", signal.name()));
    }
}
