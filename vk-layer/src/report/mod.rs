//! The report: written when the last instance is destroyed, and at exit if commands came since.

mod file;
mod interval;
mod json;
mod leaks;
mod process;
mod request;
mod rows;
mod text;

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use alloc_core::{HostError, TryString};

use crate::accounts::INSTANCES;
use crate::file_name::expand;
use crate::hooks::{COMMANDS, caught, has_live_instance};
use crate::record::{Own, own};
use crate::settings::{Target, complain, settings};
use crate::state;

pub(crate) use interval::write_if_due;
pub(crate) use request::{listen, write_if_requested};
pub(crate) use rows::get;

/// The commands that the last report knows of.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// The process runs its exit handlers.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
static WRITING: AtomicBool = AtomicBool::new(false);

/// In the child of a fork: nothing was reported of it.
pub(crate) fn after_fork() {
    REPORTED.store(0, Ordering::Relaxed);
    WRITING.store(false, Ordering::Relaxed);
    request::after_fork();
}

/// Sees to it that what happens after the last report is reported at exit.
pub(crate) fn at_exit() {
    extern "C" fn write_at_exit() {
        HAS_ENDED.store(true, Ordering::Relaxed);
        caught(write);
    }

    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the library is never unloaded, so that the function is there at exit.
        let refused = unsafe { libc::atexit(write_at_exit) } != 0;
        if refused {
            complain(format_args!(
                "no report will be written at exit: the C library has no room for a handler"
            ));
        }
    });
}

/// Writes the reports that the settings ask for, if commands came since the last ones.
pub(crate) fn write() {
    if settings().passes_through || INSTANCES.is_empty() {
        return;
    }
    let Some(_turn) = WritingTurn::new() else {
        return;
    };
    let commands = COMMANDS.load(Ordering::Relaxed);
    if REPORTED.swap(commands, Ordering::Relaxed) == commands {
        return;
    }
    for (target, render) in [
        (&settings().text, text::render as Render),
        (&settings().json, json::render),
    ] {
        if let Some(target) = target {
            write_to(target, commands, render);
        }
    }
    state::reported(commands);
}

/// One thread at a time writes; the next one may when this goes, by a panic too.
struct WritingTurn;

impl WritingTurn {
    /// `None` while another thread writes. The last report of all waits for it, for a second at most.
    fn new() -> Option<Self> {
        for _ in 0..1000 {
            if !WRITING.swap(true, Ordering::Acquire) {
                return Some(Self);
            }
            if has_live_instance() && !HAS_ENDED.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for WritingTurn {
    fn drop(&mut self) {
        WRITING.store(false, Ordering::Release);
    }
}

type Render = fn(u64, &mut TryString<Own>) -> Result<(), HostError>;

fn write_to(target: &Target, commands: u64, render: Render) {
    let mut report = TryString::new_in(own());
    if let Err(error) = render(commands, &mut report) {
        complain(format_args!("no report: {error}"));
        return;
    }
    match target {
        Target::ErrorOutput => file::write_to_error_output(&report),
        Target::File(pattern) => {
            let Ok(name) = expand(pattern) else {
                return complain(format_args!("no report: out of host memory"));
            };
            if let Err(error) = file::replace(&name, &report) {
                complain(format_args!(
                    "{} cannot be written ({error}): name a file in a folder that can be written to",
                    name.as_str()
                ));
            }
        }
    }
}
