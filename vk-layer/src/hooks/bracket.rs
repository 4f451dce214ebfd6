use std::cell::Cell;
use std::sync::atomic::Ordering;

use vk_callbacks::command::{CommandFrame, current_thread};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Command, OwnerId, Owners};

use super::fence::{HookPhase, caught, fenced};
use super::names::coverage;
use crate::accounts::{Accounts, KindAccount, KindOwner, checker};
use crate::chain::ERROR_INITIALIZATION_FAILED;
use crate::commands::{is_about_loader, row};
use crate::count::Count;
use crate::coverage::{in_command, this_thread_issues_commands};
use crate::foreign::{EndedObject, ForeignRecord, ForeignUse};
use crate::in_process::observation;
use crate::leaks::{self, CalledCommand, CommandScope};
use crate::settings::settings;
use crate::{report, state, tape, timeline};

pub(crate) static COMMANDS: Count = Count::new();

/// The owner is that of the callbacks that replaced NULL, or of the program's, where they are watched.
pub(super) struct Finished<'a> {
    /// The number counts commands of this thread, or of all others.
    number: u64,
    thread: u64,
    pub(super) result: i32,
    pub(super) owner: Option<OwnerId>,
    pub(super) called: Option<CalledCommand>,
    given: *const RawCallbacks,
    foreign: Option<ForeignRecord<'a>>,
    _ended: Option<EndedObject>,
}

#[derive(Clone, Copy)]
pub(super) enum Passed<'a> {
    ByProgram(*const RawCallbacks, Option<u64>),
    /// They are watched for longer than the command.
    Watched(&'a ForeignUse<'a>),
}

/// The program's own callbacks are watched, unless they are for an object that was created unwatched. Whatever goes
/// wrong in the layer, the command is called, once, and its result is returned.
pub(super) fn run<'a>(
    index: usize,
    accounts: &'a Accounts,
    parents: Owners,
    passed: Passed<'_>,
    call: impl FnOnce(*const RawCallbacks) -> i32,
) -> Finished<'a> {
    let mut call = Some(call);
    let mut once = |allocator| {
        let call = call.take();
        call.map_or(ERROR_INITIALIZATION_FAILED, |call| call(allocator))
    };
    // Not generic: a copy of it in each hook would be a quarter of the library.
    run_once(index, accounts, parents, passed, &mut once)
}

fn run_once<'a>(
    index: usize,
    accounts: &'a Accounts,
    parents: Owners,
    passed: Passed<'_>,
    call: &mut dyn FnMut(*const RawCallbacks) -> i32,
) -> Finished<'a> {
    let (allocator, ends, kept) = match passed {
        Passed::ByProgram(allocator, ends) => (allocator, ends, None),
        Passed::Watched(kept) => (kept.checked.as_ptr(), None, Some(kept)),
    };
    let thread = current_thread();
    let number = COMMANDS.add(1, thread);
    if state::is_open() {
        state::command_begins(COMMANDS.get(), index);
    }
    this_thread_issues_commands();
    let mut scope = None;
    let chosen = fenced(index, || {
        scope = leaks::enter(row(index).name);
        match kept {
            None => choose(index, accounts, (allocator, ends)),
            Some(_) => {
                count_foreign_command(index, accounts);
                Chosen::default()
            }
        }
    });
    let chosen = chosen.unwrap_or_else(|| {
        let is_replaced = allocator.is_null() && !is_about_loader(index);
        Chosen { replacement: accounts.last_owner(index).filter(|_| is_replaced), ..Chosen::default() }
    });
    let Chosen { replacement, foreign, ended } = chosen;
    let watched_by = foreign.as_deref().or(kept).map(ForeignUse::id);
    let owner = replacement.map(KindOwner::id).or(watched_by);
    let given = replacement.map_or(allocator, |owner| &raw const owner.callbacks);
    let watched = foreign.as_ref().map(|foreign| foreign.checked.as_ptr());
    let allocator = watched.unwrap_or(given);
    let result = Cell::new(None);
    let mut call_once = || {
        let call = || {
            in_command(|| {
                let returned = call(allocator);
                // First of all: whatever panics from here on, the command has been called.
                result.set(Some(returned));
                strike(index, HookPhase::Returned);
                returned
            })
        };
        recorded((owner, row(index).name), call, |result| *result)
    };
    if settings().check || observation().is_some() || tape::is_on() {
        fenced(index, || {
            strike(index, HookPhase::Around);
            around(command(index, parents, owner), |frame| {
                frame.returned(call_once());
            });
        });
    }
    let result = result.get().unwrap_or_else(|| in_command(|| call(allocator)));
    let called = scope.as_ref().and_then(CommandScope::called);
    if scope.is_some() {
        caught(|| drop(scope));
    }
    Finished { number, thread, result, owner, called, given, foreign, _ended: ended }
}

/// The bracket is a plain one without a checker where the layer is linked into the program or a trace is recorded, so
/// that call stacks, refusals and the trace know the command. Without either nothing is called.
pub(super) fn around(command: Command, call: impl FnOnce(&CommandFrame)) {
    if let Some(checker) = checker() {
        checker.run(command, call);
    } else if observation().is_some() || tape::is_on() {
        command.run(call);
    }
}

#[inline]
pub(super) fn recorded<R>(
    (owner, name): (Option<OwnerId>, &'static str),
    call: impl FnOnce() -> R,
    result: impl FnOnce(&R) -> i32,
) -> R {
    let stacks = observation().and_then(|observed| observed.stacks.as_ref());
    if stacks.is_none() && !tape::is_on() {
        return call();
    }
    if let Some(stacks) = stacks {
        let moment = stacks.moment();
        stacks.with(|recorder| recorder.begin_command(name, moment));
    }
    let returned = tape::during(owner, name, call, result);
    if let Some(stacks) = stacks {
        let moment = stacks.moment();
        stacks.with(|recorder| recorder.end_command(moment));
    }
    returned
}

impl<'a> Finished<'a> {
    pub(super) fn foreign(&self) -> Option<&ForeignUse<'a>> {
        self.foreign.as_deref()
    }

    pub(super) fn finish(self, index: usize) -> i32 {
        if state::is_open() {
            fenced(index, || state::command_ended(index, self.number));
        }
        if timeline::is_sampled(self.number) {
            fenced(index, timeline::sample);
        }
        if report::may_be_due(self.number) {
            caught(report::write_if_due);
            caught(|| report::write_if_requested(self.number));
        }
        self.result
    }
}

/// The program never sees the object. It is destroyed with the callbacks that it was created with.
pub(super) fn undo(index: usize, parents: Owners, finished: &Finished<'_>, call: impl FnOnce(*const RawCallbacks)) {
    let mut call = Some(call);
    let mut call_once = || {
        if let Some(call) = call.take() {
            let watched = finished.foreign.as_ref();
            call(watched.map_or(finished.given, |foreign| foreign.checked.as_ptr()));
        }
    };
    caught(|| {
        if let Some(checker) = checker() {
            checker.run(command(index, parents, finished.owner), |_| call_once());
        }
    });
    call_once();
}

#[derive(Default)]
struct Chosen<'a> {
    replacement: Option<&'a KindOwner>,
    foreign: Option<ForeignRecord<'a>>,
    ended: Option<EndedObject>,
}

fn choose<'a>(
    index: usize,
    accounts: &'a Accounts,
    (allocator, ends): (*const RawCallbacks, Option<u64>),
) -> Chosen<'a> {
    strike(index, HookPhase::Before);
    // SAFETY: NULL, or the command's argument.
    let Some(raw) = (unsafe { allocator.as_ref() }) else {
        return Chosen { replacement: accounts.owner_or_new(index), ..Chosen::default() };
    };
    let Some(kind) = count_foreign_command(index, accounts) else {
        return Chosen::default();
    };
    let ended = ends.and_then(|handle| kind.foreign()?.remove(handle, raw));
    let name = row(index).object;
    let is_watched = (ends.is_none() || ended.is_some()) && !is_about_loader(index);
    // SAFETY: Vulkan's rule about `pAllocator`: valid for the command, and for what it creates.
    let watch = || unsafe { ForeignUse::record(kind, name, *raw) };
    Chosen { replacement: None, foreign: is_watched.then(watch).flatten(), ended }
}

fn count_foreign_command(index: usize, accounts: &Accounts) -> Option<&KindAccount> {
    let kind = accounts.kind(index)?;
    if kind.foreign_commands.fetch_add(1, Ordering::Relaxed) == 0 {
        accounts.use_kind(index);
    }
    Some(kind)
}

fn command(index: usize, parents: Owners, owner: Option<OwnerId>) -> Command {
    let row = row(index);
    let owners = match row.object {
        "VkInstance" => Owners { instance: owner, ..parents },
        "VkDevice" => Owners { device: owner, ..parents },
        _ => Owners { object: owner, ..parents },
    };
    Command::of(row, row.name, owners, coverage())
}

pub(crate) fn strike(index: usize, phase: HookPhase) {
    strike_command(row(index).name, phase);
}

pub(super) fn strike_command(name: &str, phase: HookPhase) {
    #[cfg(feature = "planted-panic")]
    crate::planted_panic::strike(name, phase);
    #[cfg(not(feature = "planted-panic"))]
    let _ = (name, phase);
}

pub(super) fn created(index: usize, accounts: &Accounts, handle: u64, finished: &Finished<'_>) {
    let callbacks = (finished.owner, finished.foreign());
    created_with((index, accounts), handle, callbacks, (finished.called, finished.thread));
}

pub(super) fn created_with(
    (index, accounts): (usize, &Accounts),
    handle: u64,
    (owner, foreign): (Option<OwnerId>, Option<&ForeignUse<'_>>),
    (called, thread): (Option<CalledCommand>, u64),
) {
    fenced(index, || {
        note_created(index, accounts, (1, thread));
        leaks::created(index, handle, called);
        if let Some(foreign) = foreign {
            foreign.created(handle);
        }
        tape::created(owner, handle, row(index).object);
        if let Some(stacks) = observation().and_then(|observed| observed.stacks.as_ref()) {
            stacks.with(|recorder| recorder.created(current_thread(), handle));
        }
        if let Some(checker) = checker() {
            checker.created(row(index).object, handle, owner);
        }
    });
}

pub(super) fn count_created(index: usize, accounts: &Accounts, objects: u64) {
    fenced(index, || note_created(index, accounts, (objects, current_thread())));
}

fn note_created(index: usize, accounts: &Accounts, (objects, thread): (u64, u64)) {
    strike(index, HookPhase::After);
    if let Some(kind) = accounts.kind(index) {
        // The first count by this thread, or by all others.
        if kind.created.add(objects, thread) == objects {
            accounts.use_kind(index);
        }
    }
}

pub(super) fn ended(index: usize, accounts: &Accounts, handle: u64, finished: &Finished<'_>) {
    fenced(index, || {
        strike(index, HookPhase::After);
        tape::destroyed(finished.owner, handle, row(index).object);
        if let Some(checker) = checker() {
            checker.destroyed(row(index).object, handle, finished.owner, row(index).name);
        }
        if let Some(kind) = accounts.kind(index) {
            kind.ended.add(1, finished.thread);
        }
    });
}
