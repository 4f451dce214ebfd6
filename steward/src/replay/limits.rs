//! Limits for what a trace names: each owner, phase and thread takes memory, much more than the few bytes of its line.

#![forbid(unsafe_code)]

use std::collections::HashSet;

use vk_callbacks::TraceEvent;

/// The most owners. A program has one for each kind of object.
const MAX_OWNERS: usize = 1 << 14;
const MAX_PHASES: usize = 1 << 16;
const MAX_THREADS: usize = 1 << 14;

#[derive(Default)]
pub(super) struct TraceLimits {
    owners: usize,
    phases: usize,
    threads: HashSet<u64>,
}

impl TraceLimits {
    /// The error is what there are too many of, and the most.
    pub(super) fn admit(&mut self, event: &TraceEvent<'_>) -> Result<(), (&'static str, usize)> {
        let (named, what, most) = match event {
            TraceEvent::Owner { .. } => {
                self.owners += 1;
                (self.owners, "owners", MAX_OWNERS)
            }
            TraceEvent::Phase { .. } => {
                self.phases += 1;
                (self.phases, "phases", MAX_PHASES)
            }
            TraceEvent::Enter { by, .. }
            | TraceEvent::Leave { by, .. }
            | TraceEvent::Allocate { by, .. }
            | TraceEvent::ReallocateBegin { by, .. }
            | TraceEvent::Reallocate { by, .. }
            | TraceEvent::Free { by, .. }
            | TraceEvent::Notice { by, .. }
            | TraceEvent::Created { by, .. }
            | TraceEvent::Destroyed { by, .. }
            | TraceEvent::Seen { by, .. } => {
                self.threads.insert(by.thread);
                (self.threads.len(), "threads", MAX_THREADS)
            }
            _ => return Ok(()),
        };
        if named > most { Err((what, most)) } else { Ok(()) }
    }
}
