//! The call stacks of the program that created what is alive, with the setting `stacks`.
//!
//! ```text
//!   a hooked command -> the program's call stack, stored once -> Origin (stack, kind of object)
//!       driver's block (TrackedMemory) --counted--------------->   | blocks: live, bytes, total
//!       created object (ObjectTable: handle, size, name) ------>   | objects: live, bytes, total
//!       mark: a frame, or a request --------------------------->   | growth since the mark before
//!                                                                      | the same at the peak of their bytes
//! ```
//! Counts and frames lie in the state file (`store`), so that they are known of a process that died. Reports read the
//! same words.

mod counts;
mod marks;
mod memory;
mod modules;
mod object_type;
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "a report is made of std's collections, once there is memory for them"
    )
)]
mod objects;
mod origins;
mod store;

use std::alloc::System;
use std::cell::Cell;
use std::sync::atomic::Ordering;

use alloc_core::{FromGlobalAlloc, HostError, TryVec};
use debug_guard::{StackDepot, StackId};

pub(crate) use marks::{Frame, MarkKind};
pub(crate) use memory::{TRACKED, TrackedMemory};
pub(crate) use object_type::object_kind;
pub(crate) use origins::Origin;
pub(crate) use store::StackWords;

use crate::commands::{KINDS, row};
use crate::once::OnceAcrossForks;
use crate::per_process::PerProcess;
use crate::record::{Own, SYSTEM, new_static};
use crate::request::{install_handler, request_mark};
use crate::settings::settings;
use crate::state;
use crate::timeline::begin_phase;
use marks::Marks;
use objects::ObjectTable;
use origins::OriginTable;
use store::StackStore;

pub(crate) struct Leaks {
    depot: StackDepot<&'static FromGlobalAlloc<System>>,
    origins: OriginTable,
    pub(crate) objects: ObjectTable,
    marks: Marks,
    store: &'static StackStore,
}

#[derive(Clone, Copy)]
pub(crate) struct CalledCommand {
    name: &'static str,
    stack: StackId,
    /// The origin of what it created last.
    origin: Option<&'static Origin>,
}

thread_local! {
    /// What the loader and layers call during the command is a part of it.
    static CURRENT: Cell<Option<CalledCommand>> = const { Cell::new(None) };
}

static LEAKS: PerProcess<Leaks> = PerProcess::new();

#[inline]
pub(crate) fn leaks() -> Option<&'static Leaks> {
    if is_on() { leaks_or_new() } else { None }
}

#[inline(never)]
fn leaks_or_new() -> Option<&'static Leaks> {
    LEAKS.get_or_make(Leaks::new)
}

#[inline]
pub(crate) fn is_on() -> bool {
    settings().stacks
}

pub(crate) fn after_fork() {
    LEAKS.forget();
}

pub(crate) fn start() {
    static STARTED: OnceAcrossForks = OnceAcrossForks::new();
    if leaks().is_some()
        && let Some(signal) = settings().mark_signal
    {
        STARTED.call_once(|| install_handler(signal, request_mark, "mark"));
    }
}

pub(crate) struct CommandScope {
    before: Option<CalledCommand>,
}

#[inline]
pub(crate) fn enter(name: &'static str) -> Option<CommandScope> {
    if is_on() { capture(name) } else { None }
}

#[inline(never)]
fn capture(name: &'static str) -> Option<CommandScope> {
    let leaks = leaks()?;
    leaks.mark_if_requested();
    let before = CURRENT.get();
    let called = before.or_else(|| {
        let stack = leaks.depot.capture(name)?;
        Some(CalledCommand { name, stack, origin: None })
    });
    CURRENT.set(called);
    Some(CommandScope { before })
}

impl CommandScope {
    pub(crate) fn called(&self) -> Option<CalledCommand> {
        CURRENT.get()
    }
}

impl Drop for CommandScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

pub(crate) fn created(index: usize, handle: u64, called: Option<CalledCommand>) {
    let Some(leaks) = leaks() else { return };
    let origin = called.and_then(|called| leaks.origin_of(called, row(index).object));
    let is_kept = origin.is_some_and(|origin| leaks.objects.insert((kind(index), handle), origin));
    leaks.count_lost(!is_kept);
}

pub(crate) fn set_size(index: usize, handle: u64, bytes: u64) {
    if let Some(leaks) = leaks() {
        leaks.objects.set_size((kind(index), handle), bytes);
    }
}

/// Runs before the command destroys the object, since afterwards another object may have the handle.
pub(crate) fn destroying(index: usize, handle: u64) {
    let Some(leaks) = leaks() else { return };
    leaks.objects.remove((kind(index), handle));
}

pub(crate) fn set_name(kind: &str, handle: u64, name: &str) {
    let Some(leaks) = leaks() else { return };
    let rows = vk_callbacks::CommandRow::all();
    if let Some(kind) = rows.iter().position(|row| row.object == kind) {
        leaks.objects.set_name((kind, handle), name);
    }
}

fn kind(index: usize) -> usize {
    KINDS.get(index).copied().unwrap_or(index)
}

impl Leaks {
    fn new() -> Option<Self> {
        let store = new_static(StackStore::new(state::stack_words())?)?;
        Some(Self {
            depot: StackDepot::new(&SYSTEM).ok()?,
            origins: OriginTable::new(store),
            objects: ObjectTable::new(),
            marks: Marks::new(settings().frame),
            store,
        })
    }

    fn origin_of(&self, called: CalledCommand, kind: &'static str) -> Option<&'static Origin> {
        let known = called.origin.filter(|origin| origin.kind == kind);
        known.or_else(|| {
            let stack = || self.depot.get(called.stack);
            let frames = || stack().map_or(&[][..], |(_, stack)| stack.frames);
            let names = (called.name, kind);
            self.origins.get_or_insert(Some(called.stack), frames, names)
        })
    }

    fn origin_of_block(&self, kind: &'static str) -> Option<&'static Origin> {
        let origin = match CURRENT.get() {
            Some(called) => {
                let origin = self.origin_of(called, kind);
                CURRENT.set(Some(CalledCommand { origin, ..called }));
                origin
            }
            None => self.origins.get_or_insert(None, || &[], ("", kind)),
        };
        self.count_lost(origin.is_none());
        origin
    }

    fn count_lost(&self, is_lost: bool) {
        if is_lost {
            self.store.head.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn frame_command(&self, command: MarkKind) {
        if self.marks.ends_frame(command) {
            self.mark();
        }
    }

    fn mark_if_requested(&self) {
        if self.marks.is_requested() {
            self.mark();
            begin_phase("mark");
        }
    }

    fn mark(&self) {
        self.marks.mark_once(|is_first| {
            for origin in self.origins.iter() {
                origin.objects().mark(is_first);
                origin.blocks().mark(is_first);
            }
        });
        self.store.set_marks(&self.marks);
    }

    pub(crate) fn listed_origins(&self) -> impl Iterator<Item = &'static Origin> {
        self.origins.iter().filter(|origin| origin.is_listed())
    }

    /// For `StoredStacks`.
    pub(crate) fn stored(&self) -> Result<TryVec<u8, Own>, HostError> {
        self.store.set_marks(&self.marks);
        self.store.copy()
    }
}
