//! The blocks of a trace, each with its owner's account and its call site. A trace has commands but no stacks.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use alloc_core::Scope;
use vk_callbacks::TraceEvent;
use vk_callbacks::trace::{Caller, Pointer, Request};
use vk_report::report::origins::{BlockOrigin, LiveBlock, Moment, SiteRecorder};
use vk_report::report::{Leaks, Phase};

use super::accounts::{CountedBlock, TraceAccounts};

/// Nanoseconds of a line, since traces have no time.
const LINE_NS: u64 = 1000;

pub(super) struct TraceSites {
    pub(super) recorder: SiteRecorder,
    pub(super) accounts: TraceAccounts,
    /// The running commands of each thread, the innermost last.
    commands: HashMap<u64, Vec<String>>,
    resized: BTreeMap<u64, Resized>,
}

/// A block that is being resized: its number, and what it is at its site and in its account.
#[derive(Clone, Copy)]
struct Resized(u64, LiveBlock, CountedBlock);

impl TraceSites {
    pub(super) fn new(recorder: SiteRecorder) -> Self {
        Self { recorder, accounts: TraceAccounts::default(), commands: HashMap::new(), resized: BTreeMap::new() }
    }

    pub(super) fn step(&mut self, line: u64, event: &TraceEvent<'_>) {
        let at = |by: &Caller| Moment { at: line.saturating_mul(LINE_NS), thread: by.thread };
        match event {
            TraceEvent::Owner { owner, kind, .. } => self.accounts.declare(*owner, kind, line),
            TraceEvent::Phase { name } => {
                self.end_phase(line);
                self.accounts.begin_phase(name);
            }
            _ => self.accounts.begin_line(line),
        }
        match event {
            TraceEvent::Enter { by, command } => {
                self.accounts.begin_command();
                let commands = self.commands.entry(by.thread).or_default();
                commands.push((*command).to_owned());
                self.recorder.begin_command(command, at(by));
            }
            TraceEvent::Leave { by, .. } => {
                self.commands.entry(by.thread).or_default().pop();
                self.recorder.end_command(at(by));
            }
            TraceEvent::Created { by, handle, .. } => self.recorder.created(by.thread, *handle),
            TraceEvent::Allocate { by, block: Pointer::Block(block), asked } => {
                self.allocate(*block, by, asked, at(by));
            }
            TraceEvent::ReallocateBegin { by, old: Pointer::Block(old) } => {
                if let Some(resized) = self.begin_resize(*old, at(by))
                    && let Some(unfinished) = self.resized.insert(by.thread, resized)
                {
                    // A thread resizes one block at a time, so the trace lacks this resize's end.
                    self.end_unfinished(unfinished, at(by));
                }
            }
            TraceEvent::Reallocate { by, old, new, asked } => {
                self.reallocate(by, (*old, *new), asked, at(by));
            }
            TraceEvent::Free { by, block: Pointer::Block(block) } => {
                if let Some(freed) = self.begin_resize(*block, at(by)) {
                    self.end_free(freed);
                }
            }
            _ => {}
        }
        self.accounts.end_line(line);
    }

    pub(super) fn end(&mut self, line: u64) {
        self.end_phase(line);
        for (thread, unfinished) in std::mem::take(&mut self.resized) {
            let at = line.saturating_mul(LINE_NS);
            self.end_unfinished(unfinished, Moment { at, thread });
        }
    }

    pub(super) fn leaks(&self, phases: &[Phase]) -> Leaks {
        let line = |at: u64| format!("line {}", at / LINE_NS);
        self.recorder.leaks_named(phases, &line)
    }

    fn end_phase(&mut self, line: u64) {
        if let Some(is_fullest) = self.accounts.end_phase() {
            let at = line.saturating_mul(LINE_NS);
            self.recorder.end_phase(is_fullest, at);
        }
    }

    fn begin_resize(&mut self, block: u64, moment: Moment) -> Option<Resized> {
        let site = self.recorder.begin_resize(block, moment)?;
        Some(Resized(block, site, self.accounts.remove(block)?))
    }

    fn end_resize(&mut self, Resized(_, site, held): Resized, block: u64, bytes: u64, moment: Moment) {
        self.recorder.end_resize(site, block, bytes, moment);
        self.accounts.resize(block, held, bytes);
    }

    fn keep(&mut self, Resized(block, site, held): Resized, moment: Moment) {
        self.recorder.end_resize(site, block, site.bytes, moment);
        self.accounts.put_back(block, held);
    }

    /// The trace does not say how the resize ended: the block is as live as before, unless another one has its number.
    fn end_unfinished(&mut self, unfinished: Resized, moment: Moment) {
        if self.accounts.has(unfinished.0) {
            self.end_free(unfinished);
        } else {
            self.keep(unfinished, moment);
        }
    }

    fn end_free(&mut self, Resized(_, site, held): Resized) {
        self.recorder.end_free(site);
        self.accounts.free(held);
    }

    fn allocate(&mut self, block: u64, by: &Caller, requested: &Request, moment: Moment) {
        let origin = BlockOrigin {
            context: self.accounts.name(by.owner),
            command: self.commands.get(&by.thread).and_then(|commands| commands.last()).map_or("", String::as_str),
            scope: u32::try_from(requested.scope).ok().and_then(Scope::from_raw),
            stack: None,
        };
        let scope = origin.scope;
        self.recorder.allocate(block, origin, requested.size, moment);
        self.accounts.allocate(block, by.owner, scope, requested.size);
    }

    fn reallocate(&mut self, by: &Caller, (old, new): (Pointer, Pointer), requested: &Request, moment: Moment) {
        let begun = self.resized.remove(&by.thread);
        // The line of the beginning may be lost.
        let resized = match (begun, old) {
            (None, Pointer::Block(old)) => self.begin_resize(old, moment),
            (begun, _) => begun,
        };
        match (resized, old, new) {
            (Some(resized), _, Pointer::Block(new)) => {
                self.end_resize(resized, new, requested.size, moment);
            }
            (Some(resized), Pointer::Block(_), _) if requested.size != 0 => {
                self.keep(resized, moment);
            }
            (Some(resized), ..) => self.end_free(resized),
            (None, _, Pointer::Block(new)) => self.allocate(new, by, requested, moment),
            (None, ..) => {}
        }
    }
}
