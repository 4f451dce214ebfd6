//! Every public operation of the crate, each with a body that runs it: what `sweep.rs` refuses memory to, and what
//! `no_global.rs` and `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod arenas;
mod arrays;
mod blocks;
mod boxes;
mod contexts;
mod maps;
mod plain;
mod snapshots;
pub(crate) mod still;
mod texts;

use std::fmt::{self, Debug};

use alloc_core::{
    Budget, Context, ContextId, ContextOptions, FromAllocator, FromGlobalAlloc, HostAllocator, Scope, Scoped, Snapshot, TryVec,
    Usage, settle_thread,
};

/// Where operations are run: over which allocator, and what an attempt means.
///
/// Bodies take no memory but from the stage: they run where the global allocator refuses.
pub(crate) trait Stage {
    /// The allocator below everything.
    type Host: HostAllocator + Sync + 'static;

    fn host(&self) -> &Self::Host;

    /// Runs the operation that the body is about, once a body. If it fails, what `observe` sees must not have changed, and the
    /// next try must succeed.
    fn attempt<T, E: Debug, O: PartialEq + Debug>(&self, observe: impl Fn() -> O, operation: impl FnMut() -> Result<T, E>) -> T;
}

/// One way to run some public functions.
pub(crate) struct Operation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: Takes,
    pub(crate) body: fn(&S, &Ground),
}

/// What an operation asks its allocator for. The sweep holds each to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Memory: each refusal is an error.
    Memory,
    /// Memory, but it gets over some refusals, for this reason.
    MemoryOrLess(&'static str),
    /// Memory, and where all requests after the refused one are refused as well, it keeps some, for this reason.
    MemoryButKeeps(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// Where in a tree of contexts an operation is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Child,
    ChildWithExactBudget,
    ChildWithLeasedBudget,
    ChildWithAllocator,
}

impl Place {
    pub(crate) const ALL: [Self; 5] =
        [Self::Root, Self::Child, Self::ChildWithExactBudget, Self::ChildWithLeasedBudget, Self::ChildWithAllocator];
}

/// A tree to stand on.
pub(crate) struct Ground {
    root: Context,
    child: Option<Context>,
}

impl Ground {
    /// The context that the operation is about.
    pub(crate) fn context(&self) -> &Context {
        self.child.as_ref().unwrap_or(&self.root)
    }

    /// What a refused operation must leave as it was: the tree, live bytes and blocks a scope, the charges of budgets.
    pub(crate) fn picture(&self) -> impl PartialEq + Debug + use<> {
        // Leases are nobody's yet; without them a charge is what is live.
        settle_thread();
        // Copied with the system's allocator: no request of the stage's, none of the global one.
        let system = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command);
        let snapshot = Snapshot::take(&self.root, system).expect("memory of the system");
        let mut picture = TryVec::new_in(system);
        for node in snapshot.nodes() {
            let seen = Seen {
                id: node.id,
                depth: node.depth,
                closed: node.closed,
                live: live(&node.usage),
                lost: live(&node.gone),
                charged: node.budget.map(|budget| budget.charged),
            };
            picture.try_push(seen).expect("memory of the system");
        }
        picture
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    id: ContextId,
    depth: usize,
    closed: bool,
    live: [(u64, u64); Scope::COUNT],
    lost: [(u64, u64); Scope::COUNT],
    charged: Option<u64>,
}

fn live(usage: &Usage) -> [(u64, u64); Scope::COUNT] {
    Scope::ALL.map(|scope| {
        let used = usage.scope(scope);
        (used.live_bytes, used.live_blocks)
    })
}

/// Runs the operation on a tree of its own over the stage's allocator, and closes the tree: nothing may be left.
pub(crate) fn run<S: Stage>(stage: &S, operation: &Operation<S>, place: Place) {
    let own = FromAllocator(Scoped::new(stage.host(), Scope::Cache));
    // SAFETY: closed below, before the stage goes.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("root").scope(Scope::Device)) }.expect("refused nothing");
    let options = ContextOptions::new("child");
    let options = match place {
        Place::Root => None,
        Place::Child => Some(options.scope(Scope::Object)),
        Place::ChildWithExactBudget => Some(options.budget(Budget::exact(1 << 20))),
        Place::ChildWithLeasedBudget => Some(options.budget(Budget::limit(1 << 20)).label("leased")),
        // SAFETY: `own` outlives the root.
        Place::ChildWithAllocator => Some(unsafe { options.allocator(&own) }),
    };
    let child = options.map(|options| root.child_with(options).expect("refused nothing"));
    let ground = Ground { root, child };
    (operation.body)(stage, &ground);
    let Ground { root, child } = ground;
    drop(child);
    if let Err(refused) = root.close_root() {
        panic!("{refused}");
    }
}

/// All operations, in all their ways.
pub(crate) fn table<S: Stage>() -> Vec<Operation<S>> {
    let mut all = Vec::new();
    all.extend(contexts::operations());
    all.extend(blocks::operations());
    all.extend(arrays::operations());
    all.extend(boxes::operations());
    all.extend(maps::operations());
    all.extend(texts::operations());
    all.extend(arenas::operations());
    all.extend(snapshots::operations());
    all.extend(plain::operations());
    all
}

/// One that takes memory, every block of which it needs.
fn takes<S: Stage>(name: &'static [&'static str], how: &'static str, body: fn(&S, &Ground)) -> Operation<S> {
    Operation { names: name, how, takes: Takes::Memory, body }
}

/// Those that ask for nothing.
fn nothing<S: Stage>(names: &'static [&'static str], why: &'static str, body: fn(&S, &Ground)) -> Operation<S> {
    Operation { names, how: "", takes: Takes::Nothing(why), body }
}

/// Runs what cannot fail as the attempt of a body.
fn plainly<S: Stage, T>(stage: &S, mut operation: impl FnMut() -> T) -> T {
    stage.attempt(|| (), || Ok::<T, fmt::Error>(operation()))
}

/// Where text goes that nobody reads. Takes no memory.
#[derive(Default)]
struct Sink(usize);

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Formats without taking memory.
fn print(what: impl Debug) -> usize {
    let mut sink = Sink::default();
    fmt::write(&mut sink, format_args!("{what:?}")).expect("the sink takes all");
    sink.0
}
