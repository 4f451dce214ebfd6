//! The target of a replay: its allocators, and its listener.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::finding::ReplayFinding;
use super::totals::Totals;

/// The allocators of a replay by owner, and the functions that it calls.
///
/// Every method but [`sink`](ReplayTarget::sink) does nothing by default. Methods are called on the replaying thread.
pub trait ReplayTarget {
    /// The allocator of blocks: a `&dyn HostAllocator`, a handle, ..
    ///
    /// Each block keeps its sink, so two results for one owner may differ.
    type Sink: HostAllocator;

    /// The sink of the owner's blocks. Owner 0 means that the trace does not say.
    fn sink(&mut self, owner: u64) -> Self::Sink;

    /// The trace declared an owner: an object kind, below `parent` (0: below none).
    fn owner(&mut self, owner: u64, parent: u64, kind: &str) {
        let _ = (owner, parent, kind);
    }

    /// A phase begins.
    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        let _ = (phase, totals);
    }

    /// The phase ends, because another begins or the trace is over. [`Totals::phase_peak_bytes`] is this phase's.
    fn phase_end(&mut self, phase: &str, totals: &Totals) {
        let _ = (phase, totals);
    }

    /// A finding in this line (from 1).
    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        let _ = (line, finding);
    }
}

/// A target with one allocator for all owners, which ignores all else.
#[derive(Clone, Copy, Debug)]
pub struct OneSink<'s, A: ?Sized>(
    /// The allocator of all blocks.
    pub &'s A,
);

impl<'s, A: HostAllocator + ?Sized> ReplayTarget for OneSink<'s, A> {
    type Sink = &'s A;

    fn sink(&mut self, _: u64) -> &'s A {
        self.0
    }
}
