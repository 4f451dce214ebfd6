//! The fence: a panic of the layer does not unwind into C, and no command loses its result by one.
//!
//! After a panic the kind of object whose command it struck is passed through: its commands go down with the callbacks
//! that the kind has already, so that what was created with ours is still destroyed with ours, and nothing is counted
//! or judged any more. A kind that has none yet never gets any.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::names::lose_coverage;
use crate::commands::{KINDS, ROWS, row};
use crate::settings::complain;

/// A part of the layer's work beside a command.
#[cfg_attr(not(feature = "planted-panic"), expect(unreachable_pub, reason = "tests name it, with this feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    /// It chooses the callbacks.
    Before,
    /// It judges, with the command inside.
    Around,
    /// The command inside has returned.
    Returned,
    /// It counts what the command has done.
    After,
    /// It updates the state file, of which some words are written.
    State,
}

static PASSED: [AtomicBool; ROWS] = [const { AtomicBool::new(false) }; ROWS];

/// `None` when the work panicked, now or for this kind before.
#[inline]
pub(super) fn fenced<T>(index: usize, work: impl FnOnce() -> T) -> Option<T> {
    let passed = PASSED.get(*KINDS.get(index)?)?;
    if passed.load(Ordering::Relaxed) {
        return None;
    }
    let done = caught(work);
    if done.is_none() {
        has_panicked(index, passed);
    }
    done
}

#[cold]
#[inline(never)]
fn has_panicked(index: usize, passed: &AtomicBool) {
    if !passed.swap(true, Ordering::Relaxed) {
        lose_coverage();
        complain(format_args!(
            "the layer panicked at {}: from now on {} is passed through, and neither counted nor judged; please report this defect",
            row(index).name,
            row(index).object,
        ));
    }
}

static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn has_panicked_ever() -> bool {
    HAS_PANICKED.load(Ordering::Relaxed)
}

pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    // A panic may leave counts half done: they are atomics, and records are published whole.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // Dropping a payload may panic as well.
            std::mem::forget(payload);
            HAS_PANICKED.store(true, Ordering::Relaxed);
            None
        }
    }
}

pub(crate) fn passed_kinds() -> impl Iterator<Item = &'static str> {
    let passed = PASSED.iter().enumerate();
    passed.filter(|(_, passed)| passed.load(Ordering::Relaxed)).map(|(index, _)| row(index).object)
}
