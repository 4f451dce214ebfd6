#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a report is made of std's collections, once there is memory for them"
    )
)]
mod fill;
mod interval;
mod process;
mod request;
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a report is made of std's collections, once there is memory for them"
    )
)]
mod rows;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use alloc_core::{HostError, TryString};
use vk_report::files::{self, PRIVATE};
use vk_report::report;

use crate::accounts::{Accounts, INSTANCES};
use crate::description::DeviceDescription;
use crate::file_name::write_named;
use crate::hooks::{COMMANDS, caught, commands_called, has_live_instance};
use crate::once::OnceAcrossForks;
use crate::os::{self, admit_file_size, write_to_error_output};
use crate::record::{Own, own};
use crate::settings::{Target, complain, settings};
use crate::state;
use crate::tape;
use crate::turn::Turn;

pub(crate) use interval::write_if_due;
pub(crate) use request::{listen, write_if_requested};

static REPORTED: AtomicU64 = AtomicU64::new(0);

static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Whether a thread had a part of a report when the process ended.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static WRITING: AtomicBool = AtomicBool::new(false);

pub(crate) fn after_fork() {
    REPORTED.store(0, Ordering::Relaxed);
    WRITTEN.store(0, Ordering::Relaxed);
    WRITING.store(false, Ordering::Relaxed);
}

pub(crate) fn at_exit() {
    extern "C" fn write_at_exit() {
        HAS_ENDED.store(true, Ordering::Relaxed);
        caught(write);
    }

    static REGISTERED: OnceAcrossForks = OnceAcrossForks::new();
    REGISTERED.call_once(|| {
        if !os::at_exit(write_at_exit) {
            complain(format_args!("no report will be written at exit: the C library has no room for a handler"));
        }
    });
}

/// Runs after every handler of an exit: a program's earlier handlers and static destructors may have ended objects
/// meanwhile. On Windows a library's own handlers come last of all.
#[cfg(unix)]
pub(crate) extern "C" fn write_at_the_end() {
    if HAS_ENDED.load(Ordering::Relaxed) {
        caught(write);
    }
}

/// A part of a report. `None` where a thread had it that the system has ended: on Windows all others have ended when
/// this library's handlers run.
pub(crate) fn part<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    part_of(
        || mutex.lock().unwrap_or_else(PoisonError::into_inner),
        || match mutex.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Ok(held) => Some(held),
        },
    )
}

/// As [`part`].
pub(crate) fn description(of: &Accounts) -> Option<DeviceDescription> {
    let of = &of.description;
    part_of(|| of.lock(), || of.try_lock()).and_then(|described| *described)
}

fn part_of<R>(wait: impl FnOnce() -> R, attempt: impl FnOnce() -> Option<R>) -> Option<R> {
    if !os::THREADS_END_FIRST || !HAS_ENDED.load(Ordering::Relaxed) {
        return Some(wait());
    }
    let part = attempt();
    if part.is_none() {
        LEFT_OUT.store(true, Ordering::Relaxed);
    }
    part
}

pub(crate) fn can_be_due() -> bool {
    settings().interval != 0 || request::can_be_requested()
}

#[inline]
pub(crate) fn may_be_due(number: u64) -> bool {
    settings().interval != 0 || request::may_be_requested(number)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// Nothing is written where no command came since the last report.
    Routine,
    Request,
}

pub(crate) fn write() {
    write_on(Occasion::Routine);
}

/// `false` where another thread is writing.
fn write_on(occasion: Occasion) -> bool {
    if settings().passes_through || INSTANCES.is_empty() {
        return true;
    }
    let is_last = || HAS_ENDED.load(Ordering::Relaxed) || !has_live_instance();
    let wait = || std::thread::sleep(Duration::from_millis(1));
    let Some(_turn) = writing_turn(&WRITING, is_last, wait) else {
        return false;
    };
    let commands = COMMANDS.get();
    let reported = REPORTED.swap(commands, Ordering::Relaxed);
    if reported == commands && occasion == Occasion::Routine {
        return true;
    }
    let mut is_written = true;
    for (target, render) in [(&settings().text, text as Render), (&settings().json, json)] {
        if let Some(target) = target {
            is_written &= write_to(target, commands_called(), render);
        }
    }
    tape::write();
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed) + 1;
    state::reported(commands, number, is_written);
    true
}

pub(crate) fn number_of_report() -> u64 {
    WRITTEN.load(Ordering::Relaxed) + 1
}

/// `None` while another thread writes. The last report of all waits for its turn, but not for ever.
fn writing_turn(is_writing: &AtomicBool, is_last: impl Fn() -> bool, mut wait: impl FnMut()) -> Option<Turn<'_>> {
    for _ in 0..1000 {
        let turn = Turn::begin(is_writing);
        if turn.is_some() || !is_last() {
            return turn;
        }
        wait();
    }
    None
}

type Render = fn(u64, &mut TryString<Own>) -> Result<(), HostError>;

fn text(commands: u64, text: &mut TryString<Own>) -> Result<(), HostError> {
    let mut report = fill::report(commands)?;
    if let Some(leaks) = &mut report.leaks {
        leaks.merge();
        leaks.sort();
    }
    text.try_write_fmt(format_args!("{}", report.text(true)))
}

fn json(commands: u64, text: &mut TryString<Own>) -> Result<(), HostError> {
    let report = fill::report(commands)?;
    let mut json = JsonText { text, refusal: None };
    match (report::write_json(&report, &mut json), json.refusal) {
        (Err(_), Some(refusal)) => Err(refusal),
        _ => Ok(()),
    }
}

struct JsonText<'a> {
    text: &'a mut TryString<Own>,
    refusal: Option<HostError>,
}

impl io::Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = str::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.text.try_push_str(part).map_err(|refusal| {
            self.refusal = Some(refusal);
            io::ErrorKind::OutOfMemory
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_to(target: &Target, commands: u64, render: Render) -> bool {
    let pattern = match target {
        Target::Nowhere => return true,
        Target::ErrorOutput => None,
        Target::File(pattern) => Some(pattern),
    };
    let mut report = TryString::new_in(own());
    if let Err(error) = render(commands, &mut report) {
        complain(format_args!("no report: {error}"));
        return false;
    }
    let Some(pattern) = pattern else {
        write_to_error_output(report.as_bytes());
        return true;
    };
    let write = |name: &str| {
        admit_file_size(report.len())?;
        files::write(Path::new(name), report.as_bytes(), PRIVATE)
    };
    write_named("report", pattern, write).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use testkit::Child;

    use super::{HAS_ENDED, LEFT_OUT, part, writing_turn};

    /// In a process of its own: it does as if it were at its end.
    #[test]
    fn what_a_thread_had_when_the_process_ended_is_left_out_on_windows() {
        Child::alone("what_a_thread_had_when_the_process_ended_is_left_out_on_windows", || {
            let (free, taken) = (Mutex::new(1), Mutex::new(2));
            let taken_for_ever = taken.lock();
            HAS_ENDED.store(true, Ordering::Relaxed);
            assert_eq!(part(&free).map(|held| *held), Some(1));
            assert!(!LEFT_OUT.load(Ordering::Relaxed));
            if cfg!(windows) {
                assert!(part(&taken).is_none() && LEFT_OUT.load(Ordering::Relaxed));
            }
            drop(taken_for_ever);
            assert_eq!(part(&taken).map(|held| *held), Some(2));
        });
    }

    #[test]
    fn ly33_the_last_report_waits_for_one_that_is_being_written() {
        let is_writing = AtomicBool::new(false);
        let never = || panic!("nobody writes");
        let mut other = writing_turn(&is_writing, || false, never);
        assert!(other.is_some());
        let not_last = writing_turn(&is_writing, || false, || panic!("another comes later"));
        assert!(not_last.is_none() && is_writing.load(Ordering::Relaxed));
        let mut waits = 0;
        let last = writing_turn(
            &is_writing,
            || true,
            || {
                waits += 1;
                if waits == 3 {
                    drop(other.take());
                }
            },
        );
        assert!(last.is_some());
        let mut waits = 0_u32;
        let given_up = writing_turn(&is_writing, || true, || waits += 1);
        assert!(given_up.is_none() && waits == 1000, "a writer that hangs");
        drop(last);
        assert!(!is_writing.load(Ordering::Relaxed));
    }
}
