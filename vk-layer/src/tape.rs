//! Every call is recorded for a trace: with the setting `record`, or where the program that has the layer linked wants
//! one.

use std::fmt;
use std::path::Path;

use alloc_core::TryString;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{OwnerId, Recorder};
use vk_report::files::{self, PRIVATE};

use crate::accounts::all_accounts;
use crate::file_name::write_named;
use crate::in_process::observation;
use crate::os::admit_file_size;
use crate::per_process::PerProcess;
use crate::record::{Own, SYSTEM, own};
use crate::report::description;
use crate::settings::{complain, settings};

static TAPE: PerProcess<Recorder<'static>> = PerProcess::new();

#[inline]
pub(crate) fn tape() -> Option<&'static Recorder<'static>> {
    if is_on() { TAPE.get_or_make(|| Recorder::new(&SYSTEM).ok()) } else { None }
}

#[inline]
pub(crate) fn is_on() -> bool {
    observation().map_or_else(|| settings().record.is_some(), |observed| observed.records)
}

pub(crate) fn write() {
    let Some((pattern, tape)) = settings().record.as_ref().zip(tape()) else {
        return;
    };
    let mut device = TryString::new_in(own());
    if let Some(described) = all_accounts().find_map(description) {
        let _ = device.try_push_str(described.name());
    }
    let mut trace = TraceText(TryString::new_in(own()));
    if let Err(error) = tape.write(device.as_str(), &mut trace) {
        return complain(format_args!("no trace: {error}"));
    }
    write_named("trace", pattern, |name| {
        admit_file_size(trace.0.len())?;
        files::write(Path::new(name), trace.0.as_bytes(), PRIVATE)
    });
}

struct TraceText(TryString<Own>);

impl fmt::Write for TraceText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_push_str(text).map_err(|_| fmt::Error)
    }
}

pub(crate) fn after_fork() {
    TAPE.forget();
}

fn number(owner: Option<OwnerId>) -> u64 {
    owner.map_or(0, |owner| owner.get().into())
}

pub(crate) fn tapped(
    inner: RawCallbacks,
    (owner, parent): (OwnerId, Option<OwnerId>),
    kind: &'static str,
) -> RawCallbacks {
    let Some(tape) = tape() else { return inner };
    let owner = number(Some(owner));
    tape.owner(owner, number(parent), kind);
    // SAFETY: bridges that were published live for ever, as the recorder does.
    let tap = unsafe { tape.tap(owner, inner) };
    tap.map_or(inner, |tap| *tap.raw())
}

#[inline]
pub(crate) fn during<R>(
    owner: Option<OwnerId>,
    command: &'static str,
    call: impl FnOnce() -> R,
    result: impl FnOnce(&R) -> i32,
) -> R {
    let Some(tape) = tape() else { return call() };
    tape.enter_for(number(owner), command);
    let returned = call();
    tape.leave(result(&returned));
    returned
}

pub(crate) fn created(owner: Option<OwnerId>, handle: u64, kind: &'static str) {
    if let Some(tape) = tape() {
        tape.created(number(owner), handle, kind);
    }
}

pub(crate) fn destroyed(owner: Option<OwnerId>, handle: u64, kind: &'static str) {
    if let Some(tape) = tape() {
        tape.destroyed(number(owner), handle, kind);
    }
}
