//! The record of every call, for a trace, where the process that has the layer linked wants one.

use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{OwnerId, Recorder};

use crate::in_process::observation;
use crate::per_process::PerProcess;
use crate::record::SYSTEM;

static TAPE: PerProcess<Recorder<'static>> = PerProcess::new();

/// The recorder; `None` where nothing is recorded, or without memory.
#[inline]
pub(crate) fn tape() -> Option<&'static Recorder<'static>> {
    if observation()?.records {
        TAPE.get_or_make(|| Recorder::new(&SYSTEM).ok())
    } else {
        None
    }
}

/// In the child of a fork, which has a trace of its own.
pub(crate) fn after_fork() {
    TAPE.forget();
}

fn number(owner: Option<OwnerId>) -> u64 {
    owner.map_or(0, |owner| owner.get().into())
}

/// Callbacks of this owner, which record and call `inner`; `inner` itself without memory.
pub(crate) fn tapped(
    inner: RawCallbacks,
    (owner, parent): (OwnerId, Option<OwnerId>),
    kind: &'static str,
) -> RawCallbacks {
    let Some(tape) = tape() else { return inner };
    let owner = number(Some(owner));
    tape.owner(owner, number(parent), kind);
    // SAFETY: bridges that were published live for ever, as the recorder does; before that the callbacks are not handed out.
    let tap = unsafe { tape.tap(owner, inner) };
    tap.map_or(inner, |tap| *tap.raw())
}

/// Records the command around `call`; `result` is the command's.
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
