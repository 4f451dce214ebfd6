//! Who takes part in a replay: the allocators it drives, and whoever listens.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::finding::ReplayFinding;
use super::totals::Totals;

/// Gives each owner of a trace its allocator, and hears what happens.
///
/// Every method but [`sink`](ReplayTarget::sink) does nothing by default. Methods are called on the replaying thread.
pub trait ReplayTarget {
    /// What blocks are taken from: a `&dyn HostAllocator`, a `Handle`, ..
    ///
    /// Each block keeps the sink that gave it until the block goes, so two answers for one owner may differ.
    type Sink: HostAllocator;

    /// Where the owner's blocks come from. Owner 0, and in format 1 every owner, means that the trace does not say.
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

    /// Something was found in this line (from 1).
    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        let _ = (line, finding);
    }
}

/// A target with one allocator for all owners, which listens to nothing.
#[derive(Clone, Copy, Debug)]
pub struct OneSink<'s, A: ?Sized>(
    /// Where all blocks come from.
    pub &'s A,
);

impl<'s, A: HostAllocator + ?Sized> ReplayTarget for OneSink<'s, A> {
    type Sink = &'s A;

    fn sink(&mut self, _: u64) -> &'s A {
        self.0
    }
}
