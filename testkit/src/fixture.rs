//! Tables of operations that several nets share: what an operation is run on, and what it may take.

use std::fmt::{self, Debug};

use alloc_core::{
    Context, ContextId, ForeignKind, FromGlobalAlloc, HostAllocator, Scope, Scoped, Snapshot, TryVec, Usage,
    fold_thread,
};

use crate::sweep::{Counted, Trial};

/// Where the body of an operation runs: over which allocator, and what an attempt means.
///
/// A [`Trial`] of a sweep refuses; [`Once`](crate::Once) only runs, under a global allocator that refuses or is
/// watched. Bodies for both take no memory but from the stage.
pub trait Stage {
    /// The allocator below everything.
    type Host: HostAllocator + Sync + 'static;

    /// The allocator below everything. It refuses nothing outside of [`attempt`](Stage::attempt).
    fn host(&self) -> &Self::Host;

    /// Runs an operation that the body is about. Where it fails, what `observe` sees must not have changed, and the
    /// next try must succeed.
    fn attempt<T, E: Debug, O: PartialEq + Debug>(
        &self,
        observe: impl Fn() -> O,
        operation: impl FnMut() -> Result<T, E>,
    ) -> T;

    /// Runs `body`; where the stage re-enters its caller, each request of the attempt calls `hook` back.
    fn with_hook<T>(&self, hook: &dyn Fn(), body: impl FnOnce() -> T) -> T {
        let _ = hook;
        body()
    }

    /// An attempt that cannot fail, with nothing to be observed.
    fn attempt_plainly<T>(&self, mut operation: impl FnMut() -> T) -> T {
        self.attempt(|| (), || Ok::<T, fmt::Error>(operation()))
    }

    /// As [`attempt_plainly`](Stage::attempt_plainly), of an operation that must request nothing.
    fn attempt_without_memory<T>(&self, operation: impl FnMut() -> T) -> T {
        self.attempt_plainly(operation)
    }
}

impl<H: HostAllocator + Sync + 'static, R: Fn(&H, Option<u64>)> Stage for Trial<'_, H, R> {
    type Host = Counted<H>;

    fn host(&self) -> &Counted<H> {
        Trial::host(self)
    }

    fn attempt<T, E: Debug, O: PartialEq + Debug>(
        &self,
        observe: impl Fn() -> O,
        operation: impl FnMut() -> Result<T, E>,
    ) -> T {
        Trial::attempt(self, observe, operation)
    }

    fn attempt_without_memory<T>(&self, operation: impl FnMut() -> T) -> T {
        let before = self.host().requests();
        let result = self.attempt_plainly(operation);
        let requests = self.host().requests() - before;
        assert_eq!(requests, 0, "requests of a step that needs no memory");
        result
    }

    fn with_hook<T>(&self, hook: &dyn Fn(), body: impl FnOnce() -> T) -> T {
        Trial::with_hook(self, hook, body)
    }
}

/// What an operation asks its allocator for. A sweep holds each to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Memory: each refusal is an error.
    Memory,
    /// Memory, but it gets over some refusals, for this reason.
    MemoryOrLess(&'static str),
    /// Memory, and where all requests after the refused one are refused as well, it keeps some, for this reason.
    MemoryButKeeps(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// What a refused operation must leave as it was below `root`: the tree, live bytes and blocks a scope, what is
/// declared as taken elsewhere, the charges of budgets.
///
/// Takes its own memory from the system, past every allocator that is watched.
///
/// # Panics
/// When the system has no memory.
pub fn picture(root: &Context) -> impl PartialEq + Debug + use<> {
    // A lease is nobody's yet; without leases a charge is what is live.
    fold_thread();
    let system = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command);
    let snapshot = Snapshot::capture(root, system).expect("memory of the system");
    let mut picture = TryVec::new_in(system);
    for node in snapshot.nodes() {
        let seen = Seen {
            id: node.id,
            depth: node.depth,
            closed: node.closed,
            live: live(&node.usage),
            lost: live(&node.gone),
            foreign: ForeignKind::ALL
                .map(|kind| node.usage.foreign(kind).live_bytes + node.gone.foreign(kind).live_bytes),
            charged: node.budget.map(|budget| budget.charged),
        };
        picture.try_push(seen).expect("memory of the system");
    }
    picture
}

#[derive(Debug, PartialEq)]
struct Seen {
    id: ContextId,
    depth: usize,
    closed: bool,
    live: [(u64, u64); Scope::COUNT],
    lost: [(u64, u64); Scope::COUNT],
    foreign: [u64; ForeignKind::COUNT],
    charged: Option<u64>,
}

fn live(usage: &Usage) -> [(u64, u64); Scope::COUNT] {
    Scope::ALL.map(|scope| {
        let used = usage.scope(scope);
        (used.live_bytes, used.live_blocks)
    })
}

/// Where text goes that nobody reads. Takes no memory.
#[derive(Debug, Default)]
pub struct Sink {
    /// Bytes written so far.
    pub bytes: usize,
}

impl Sink {
    /// How many bytes the value's `Debug` text has.
    ///
    /// # Panics
    /// When formatting fails.
    #[must_use]
    pub fn debug(value: impl Debug) -> usize {
        let mut sink = Self::default();
        fmt::write(&mut sink, format_args!("{value:?}")).expect("the sink takes all");
        sink.bytes
    }
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        Ok(())
    }
}
