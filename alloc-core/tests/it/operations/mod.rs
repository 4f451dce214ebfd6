//! Scenarios that together run every public operation of the crate: what `sweep.rs` refuses memory to, step by step,
//! and what `no_global.rs` and `dhat_heap.rs` watch.
#![allow(dead_code, reason = "each test binary uses its part")]

mod arenas;
mod blocks;
mod collections;
mod contexts;
mod tagged;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use crate::programs::side::use_context;
use alloc_core::{Budget, Context, ContextHandle, ContextOptions, FromAllocator, Scope, Scoped};
use testkit::{MemoryUse, Once, OperationTable, Stage, picture};

/// A sequence of operations.
pub(crate) struct Scenario<S: Stage> {
    pub(crate) name: &'static str,
    pub(crate) takes: MemoryUse,
    body: fn(&Ground<'_, S>),
}

/// Where in a tree of contexts a scenario is run.
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
struct Ground<'s, S: Stage> {
    stage: &'s S,
    root: Context,
    child: Option<Context>,
}

impl<S: Stage> Ground<'_, S> {
    /// The context that the scenario is about.
    fn context(&self) -> &Context {
        self.child.as_ref().unwrap_or(&self.root)
    }

    fn handle(&self) -> ContextHandle {
        self.context().handle()
    }

    /// A context below, which is there before anything is refused.
    fn below(&self) -> Context {
        self.context().child("below").expect("refused nothing")
    }

    /// A step that may be refused. Then the tree is as it was, and the next try succeeds.
    fn step<T, E: Debug>(&self, step: impl FnMut() -> Result<T, E>) -> T {
        self.stage.attempt(|| picture(&self.root), step)
    }

    /// A step that changes a value. If it is refused, what `see` tells of the value is as it was too.
    fn change<V, O: PartialEq + Debug, E: Debug>(
        &self,
        value: V,
        see: impl Fn(&V) -> O,
        mut step: impl FnMut(&mut V) -> Result<(), E>,
    ) -> V {
        let value = RefCell::new(value);
        self.stage.attempt(|| (see(&value.borrow()), picture(&self.root)), || step(&mut value.borrow_mut()));
        value.into_inner()
    }

    /// A step that requests nothing.
    fn without_memory<T>(&self, step: impl FnOnce() -> T) -> T {
        let mut step = Some(step);
        let step = || step.take().expect("made once")();
        self.stage.attempt_without_memory(step)
    }
}

/// Runs the scenario on a tree of its own over the stage's allocator, and closes the tree: nothing may be left.
///
/// Returns how many times the stage's allocator used the context meanwhile.
pub(crate) fn run<S: Stage>(stage: &S, scenario: &Scenario<S>, place: Place) -> u64 {
    let own = over(Scoped::new(stage.host(), Scope::Cache));
    let options = ContextOptions::new("root").scope(Scope::Device);
    // SAFETY: closed below, before the stage goes.
    let root = unsafe { Context::root(stage.host(), options) }.expect("refused nothing");
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
    let ground = Ground { stage, root, child };
    let visits = Cell::new(0);
    let hook = || use_context(ground.context(), visits.replace(visits.get() + 1));
    stage.with_hook(&hook, || (scenario.body)(&ground));
    let Ground { root, child, .. } = ground;
    drop(child);
    if let Err(refused) = root.close_root() {
        panic!("{refused}");
    }
    visits.get()
}

/// All scenarios.
pub(crate) fn scenarios<S: Stage>() -> Vec<Scenario<S>> {
    let memory = |name, body| Scenario { name, takes: MemoryUse::Memory, body };
    let smaller = "a chunk that is refused is asked for smaller, down to what the block needs";
    let served = "what one domain refuses, the other serves";
    let stack = "values on the stack, and numbers in records that are there";
    vec![
        memory("contexts", contexts::contexts::<S>),
        memory("roots", contexts::roots::<S>),
        memory("owned values", contexts::owned::<S>),
        memory("snapshots", contexts::snapshots::<S>),
        Scenario { name: "questions", takes: MemoryUse::Nothing(stack), body: contexts::questions::<S> },
        memory("blocks", blocks::blocks::<S>),
        memory("arrays", collections::arrays::<S>),
        memory("boxes", collections::boxes::<S>),
        memory("maps", collections::maps::<S>),
        memory("texts", collections::texts::<S>),
        memory("an arena's own chunks", arenas::own_chunks::<S>),
        Scenario { name: "arenas", takes: MemoryUse::MemoryOrLess(smaller), body: arenas::arenas::<S> },
        memory("tagged blocks", tagged::blocks::<S>),
        memory("collectors", tagged::collectors::<S>),
        memory("linear blocks", tagged::linear::<S>),
        Scenario {
            name: "a domain with a fallback",
            takes: MemoryUse::MemoryOrLess(served),
            body: tagged::fallback::<S>,
        },
    ]
}

/// The scenarios for nets that run each once.
pub(crate) fn once() -> OperationTable<Scenario<Once>, Place> {
    OperationTable {
        operations: scenarios,
        // Under miri seconds a place and scenario: one with a lease will do.
        ways: if cfg!(miri) { &[Place::ChildWithLeasedBudget] } else { &Place::ALL },
        name: |scenario| scenario.name.to_owned(),
        run: |scenario, place| {
            run(&Once, scenario, place);
        },
        allocates: |_, _| true,
    }
}

/// A host allocator over an allocator of a context that outlives it.
fn over<A: alloc_core::Allocator>(allocator: A) -> FromAllocator<A> {
    // SAFETY: a context's blocks do not go with the value that they were requested through.
    unsafe { FromAllocator::new(allocator) }
}
