//! The call sites of a trace, which has commands but no stacks.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use alloc_core::Scope;
use vk_callbacks::TraceEvent;
use vk_callbacks::trace::{Caller, Pointer, Request};
use vk_report::report::origins::{BlockOrigin, LiveBlock, Moment, SiteRecorder};
use vk_report::report::{Leaks, Phase};

/// Nanoseconds of a line, since traces have no time.
const LINE_NS: u64 = 1000;

/// The origin of each block of a trace.
pub(super) struct TraceSites {
    pub(super) recorder: SiteRecorder,
    /// The kinds of owners.
    owners: HashMap<u64, String>,
    /// The running commands of each thread, the innermost last.
    commands: HashMap<u64, Vec<String>>,
    /// The block that each thread is resizing.
    resized: HashMap<u64, LiveBlock>,
}

impl TraceSites {
    pub(super) fn new(recorder: SiteRecorder) -> Self {
        Self {
            recorder,
            owners: HashMap::new(),
            commands: HashMap::new(),
            resized: HashMap::new(),
        }
    }

    pub(super) fn step(&mut self, line: u64, event: &TraceEvent<'_>) {
        let at = |by: &Caller| Moment {
            at: line.saturating_mul(LINE_NS),
            thread: by.thread,
        };
        match event {
            TraceEvent::Owner { owner, kind, .. } => {
                self.owners
                    .entry(*owner)
                    .or_insert_with(|| (*kind).to_owned());
            }
            TraceEvent::Enter { by, command } => {
                let commands = self.commands.entry(by.thread).or_default();
                commands.push((*command).to_owned());
                self.recorder.begin_command(command, at(by));
            }
            TraceEvent::Leave { by, .. } => {
                self.commands.entry(by.thread).or_default().pop();
                self.recorder.end_command(at(by));
            }
            TraceEvent::Created { by, handle, .. } => self.recorder.created(by.thread, *handle),
            TraceEvent::Allocate {
                by,
                block: Pointer::Block(block),
                asked,
            } => {
                self.allocate(*block, by, asked, at(by));
            }
            TraceEvent::ReallocateBegin {
                by,
                old: Pointer::Block(old),
            } => {
                if let Some(live) = self.recorder.begin_resize(*old, at(by))
                    && let Some(unfinished) = self.resized.insert(by.thread, live)
                {
                    // A thread resizes one block at a time, so the trace lacks this resize's end.
                    self.recorder.end_free(unfinished);
                }
            }
            TraceEvent::Reallocate {
                by,
                old,
                new,
                asked,
            } => {
                self.reallocate(by, (*old, *new), asked, at(by));
            }
            TraceEvent::Free {
                by,
                block: Pointer::Block(block),
            } => {
                self.recorder.free(*block, at(by));
            }
            _ => {}
        }
    }

    /// Blocks that were never freed, with the lines of their allocation.
    pub(super) fn leaks(&self, phases: &[Phase]) -> Leaks {
        let line = |at: u64| format!("line {}", at / LINE_NS);
        self.recorder.leaks_named(phases, &line)
    }

    /// The numbers of ended phases and of maxima, before and after a line.
    pub(super) fn end_phase(&mut self, line: u64, before: (usize, u64), now: (usize, u64)) {
        if now.0 != before.0 {
            let at = line.saturating_mul(LINE_NS);
            self.recorder.end_phase(now.1 != before.1, at);
        }
    }

    fn allocate(&mut self, block: u64, by: &Caller, requested: &Request, moment: Moment) {
        let origin = BlockOrigin {
            context: self
                .owners
                .get(&by.owner)
                .map_or("requests without an owner", String::as_str),
            command: self
                .commands
                .get(&by.thread)
                .and_then(|commands| commands.last())
                .map_or("", String::as_str),
            scope: u32::try_from(requested.scope)
                .ok()
                .and_then(Scope::from_raw),
            stack: None,
        };
        self.recorder
            .allocate(block, origin, requested.size, moment);
    }

    fn reallocate(
        &mut self,
        by: &Caller,
        (old, new): (Pointer, Pointer),
        requested: &Request,
        moment: Moment,
    ) {
        let begun = self.resized.remove(&by.thread);
        // Format 1 has one line for a resize.
        let live = match (begun, old) {
            (None, Pointer::Block(old)) => self.recorder.begin_resize(old, moment),
            (begun, _) => begun,
        };
        match (live, old, new) {
            (Some(live), _, Pointer::Block(new)) => {
                self.recorder.end_resize(live, new, requested.size, moment);
            }
            // Another block may have taken the old number since the begin.
            (Some(live), Pointer::Block(old), _) if requested.size != 0 => {
                self.recorder.end_resize(live, old, live.bytes, moment);
            }
            (Some(live), ..) => self.recorder.end_free(live),
            (None, _, Pointer::Block(new)) => self.allocate(new, by, requested, moment),
            (None, ..) => {}
        }
    }
}
