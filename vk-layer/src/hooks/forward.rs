//! One hook for all commands without a `pAllocator`: it passes on its arguments, whatever the command's parameters are.
//!
//! Parameters of Vulkan's commands are integers, pointers and floats, none larger than 8 bytes, 16 at most. The caller
//! removes them. So a function that passes on 16 words, and 4 floats where these have registers, passes all of them on
//! unchanged: the words behind a command's own parameters are passed on and ignored. `one_row` and `two_rows` have what
//! the calling conventions say of that.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use vk_callbacks::Command;
use vk_callbacks::command::current_thread;

use super::fence::{HookPhase, caught};
use super::names::{HookedName, Role, SLOTS, coverage, in_slot, lose_coverage};
use super::owners::{owners, with_memory};
use super::{COMMANDS, bracket};
use crate::chain::{ERROR_INITIALIZATION_FAILED, ObjectNameInfo, VoidFunction};
use crate::count::Count;
use crate::coverage::{in_command, this_thread_issues_commands};
use crate::leaks::{MarkKind, enter, leaks, object_kind, set_name};
use crate::parent::Parent;
use crate::settings::{Brackets, complain, settings};
use crate::{report, state, timeline};

#[cfg(not(all(
    target_pointer_width = "64",
    any(unix, windows),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("the calling convention is not one of those that `forward` relies on");

#[cfg(all(windows, target_arch = "x86_64"))]
mod one_row;
#[cfg(any(all(unix, target_arch = "x86_64"), target_arch = "aarch64"))]
mod two_rows;

#[cfg(all(windows, target_arch = "x86_64"))]
use one_row::{call, hook_at};
#[cfg(any(all(unix, target_arch = "x86_64"), target_arch = "aarch64"))]
use two_rows::{call, hook_at};

/// No command has as many parameters.
const WORDS: usize = 16;
/// No command has more than 3.
const FLOATS: usize = 4;

pub(super) static SUBMITS: Count = Count::new();

pub(super) static FORWARDED: Count = Count::new();

pub(crate) fn commands_called() -> u64 {
    COMMANDS.get().saturating_add(FORWARDED.get())
}

pub(super) struct Arguments {
    words: [usize; WORDS],
    floats: [f64; FLOATS],
}

impl Arguments {
    /// Of the words in front of floats, which Windows alone counts.
    pub(super) fn word(&self, index: usize) -> usize {
        self.words.get(index).copied().unwrap_or_default()
    }

    fn handle(&self) -> *mut c_void {
        self.word(0) as *mut c_void
    }
}

/// Whatever goes wrong in the layer, the command is called, once, and its result is returned.
///
/// # Safety
/// The arguments are those of the slot's command, on a live handle.
unsafe fn run(slot: usize, arguments: &Arguments) -> usize {
    let failed = ERROR_INITIALIZATION_FAILED as usize;
    let Some(hooked) = in_slot(slot) else {
        return failed;
    };
    // SAFETY: the command's first parameter is a live handle.
    let parent = caught(|| unsafe { Parent::of(hooked.row, arguments.handle()) }).flatten();
    let found = parent.and_then(|parent| {
        // SAFETY: it lives while the command runs.
        let function = caught(|| unsafe { parent.other(slot, &hooked.name) }).flatten()?;
        Some((parent, function))
    });
    let Some((parent, function)) = found else {
        return failed;
    };
    if hooked.role == Role::NameObject {
        // SAFETY: the command has this info as its second parameter.
        fenced(|| unsafe { note_name(arguments.word(1) as *const ObjectNameInfo) });
    }
    if hooked.is_bracketed() && settings().brackets == Brackets::All {
        FORWARDED.add(1, current_thread());
    }
    this_thread_issues_commands();
    let scope = fenced(|| enter(hooked.name.as_str()));
    let result = Cell::new(None);
    fenced(|| {
        if !hooked.is_bracketed() {
            return;
        }
        // SAFETY: the arguments are those of a command of this row.
        let mut owners = unsafe { owners(hooked.row, parent, arguments) };
        if matches!(hooked.role, Role::Memory(_)) {
            owners = with_memory(owners, parent);
        }
        let command = Command::of(hooked.row, hooked.name.as_str(), owners, coverage());
        bracket::around(command, |frame| {
            let recorded = (owners.object.or(owners.device).or(owners.instance), hooked.name.as_str());
            let call = || {
                in_command(|| {
                    // SAFETY: the command below has the slot's name.
                    let returned = unsafe { call(function, arguments) };
                    // First of all: whatever panics from here on, the command has been called.
                    result.set(Some(returned));
                    bracket::strike_command(hooked.name.as_str(), HookPhase::Returned);
                    returned
                })
            };
            let returned =
                bracket::recorded(recorded, call, |returned| if hooked.returns_result { *returned as i32 } else { 0 });
            if hooked.returns_result {
                frame.returned(returned as i32);
            }
        });
    });
    // The first time where nothing is judged.
    // SAFETY: the command below has the slot's name.
    let result = result.get().unwrap_or_else(|| in_command(|| unsafe { call(function, arguments) }));
    caught(|| drop(scope));
    match hooked.role {
        Role::Join | Role::DeferredResult | Role::Concurrency if hooked.role.says_done(result as i32) => {
            let operation = arguments.word(1) as u64;
            fenced(|| parent.deferred.note_done(operation, parent.accounts));
        }
        Role::Memory(command) if !hooked.returns_result || result as i32 >= 0 => {
            // SAFETY: the arguments are those of the slot's command, which has succeeded.
            fenced(|| unsafe { command.note(parent, arguments) });
        }
        _ => {}
    }
    fenced(|| ended(hooked));
    result
}

fn ended(hooked: &HookedName) {
    let frame = match hooked.role {
        Role::Submit => {
            let number = SUBMITS.add(1, current_thread());
            timeline::submitted();
            state::submit_ended(number);
            // A program may submit for long without a command that has callbacks.
            if report::may_be_due(number) {
                report::write_if_requested(number);
            }
            MarkKind::Submit
        }
        Role::Present => MarkKind::Present,
        _ => return report::write_if_due(),
    };
    if let Some(leaks) = leaks() {
        leaks.frame_command(frame);
    }
    report::write_if_due();
}

/// Does nothing once such work has panicked.
fn fenced<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    if HAS_PANICKED.load(Ordering::Relaxed) {
        return None;
    }
    let done = caught(work);
    if done.is_none() && !HAS_PANICKED.swap(true, Ordering::Relaxed) {
        lose_coverage();
        complain(format_args!(
            "the layer panicked: from now on commands without callbacks are not judged; please report this defect"
        ));
    }
    done
}

/// # Safety
/// `info` is NULL or valid; its name is NULL, which removes a name, or ends with 0.
unsafe fn note_name(info: *const ObjectNameInfo) {
    // SAFETY: NULL or valid.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return;
    };
    let Some(kind) = object_kind(info.object_type) else {
        return;
    };
    let name: *const c_char = info.name;
    if name.is_null() {
        return set_name(kind, info.object, "");
    }
    // SAFETY: not NULL, so it ends with 0.
    if let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() {
        set_name(kind, info.object, name);
    }
}

pub(super) fn hook_of_slot(slot: usize) -> Option<VoidFunction> {
    HOOKS.get(slot).copied()
}

static HOOKS: [VoidFunction; SLOTS] = hooks!(
    hook_at:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
);
