//! Every public operation of the crate, each with a body that runs it: what `sweep.rs` refuses memory to, and what
//! `no_global.rs` and `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod arenas;
mod arrays;
mod blocks;
mod boxes;
mod contexts;
mod foreign;
mod maps;
mod owned;
mod plain;
mod snapshots;
mod tagged;
mod texts;

use std::cell::Cell;
use std::fmt::Debug;

use alloc_core::{Budget, Context, ContextOptions, FromAllocator, Scope, Scoped};
use testkit::programs::use_context;
use testkit::{MemoryUse, Once, OperationTable, Stage, picture};

/// One way to run some public functions.
pub(crate) struct Operation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: MemoryUse,
    pub(crate) body: fn(&S, &Ground),
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
    pub(crate) const ALL: [Self; 5] = [
        Self::Root,
        Self::Child,
        Self::ChildWithExactBudget,
        Self::ChildWithLeasedBudget,
        Self::ChildWithAllocator,
    ];
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

    /// What a refused operation must leave as it was.
    pub(crate) fn picture(&self) -> impl PartialEq + Debug + use<> {
        picture(&self.root)
    }
}

/// Runs the operation on a tree of its own over the stage's allocator, and closes the tree: nothing may be left.
///
/// Returns how many times the stage's allocator used the context meanwhile.
pub(crate) fn run<S: Stage>(stage: &S, operation: &Operation<S>, place: Place) -> u64 {
    let own = over(Scoped::new(stage.host(), Scope::Cache));
    // SAFETY: closed below, before the stage goes.
    let root = unsafe {
        Context::root(
            stage.host(),
            ContextOptions::new("root").scope(Scope::Device),
        )
    }
    .expect("refused nothing");
    let options = ContextOptions::new("child");
    let options = match place {
        Place::Root => None,
        Place::Child => Some(options.scope(Scope::Object)),
        Place::ChildWithExactBudget => Some(options.budget(Budget::exact(1 << 20))),
        Place::ChildWithLeasedBudget => {
            Some(options.budget(Budget::limit(1 << 20)).label("leased"))
        }
        // SAFETY: `own` outlives the root.
        Place::ChildWithAllocator => Some(unsafe { options.allocator(&own) }),
    };
    let child = options.map(|options| root.child_with(options).expect("refused nothing"));
    let ground = Ground { root, child };
    let visits = Cell::new(0);
    let hook = || use_context(ground.context(), visits.replace(visits.get() + 1));
    stage.with_hook(&hook, || (operation.body)(stage, &ground));
    let Ground { root, child } = ground;
    drop(child);
    if let Err(refused) = root.close_root() {
        panic!("{refused}");
    }
    visits.get()
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
    all.extend(foreign::operations());
    all.extend(owned::operations());
    all.extend(snapshots::operations());
    all.extend(tagged::operations());
    all.extend(plain::operations());
    all
}

/// The table for nets that run each operation once.
pub(crate) fn once() -> OperationTable<Operation<Once>, Place> {
    OperationTable {
        operations: table,
        // Under miri a second a place and operation: one with a lease will do.
        ways: if cfg!(miri) {
            &[Place::ChildWithLeasedBudget]
        } else {
            &Place::ALL
        },
        name: |operation| format!("{:?} {}", operation.names, operation.how),
        run: |operation, place| {
            run(&Once, operation, place);
        },
        allocates: |_, _| true,
    }
}

/// One that takes memory, every block of which it needs.
fn takes<S: Stage>(
    name: &'static [&'static str],
    how: &'static str,
    body: fn(&S, &Ground),
) -> Operation<S> {
    Operation {
        names: name,
        how,
        takes: MemoryUse::Memory,
        body,
    }
}

/// Those that ask for nothing.
fn nothing<S: Stage>(
    names: &'static [&'static str],
    why: &'static str,
    body: fn(&S, &Ground),
) -> Operation<S> {
    Operation {
        names,
        how: "",
        takes: MemoryUse::Nothing(why),
        body,
    }
}

/// A host allocator over an allocator of a context that outlives it.
fn over<A: alloc_core::Allocator>(allocator: A) -> FromAllocator<A> {
    // SAFETY: a context's blocks do not go with the value that they were asked through.
    unsafe { FromAllocator::new(allocator) }
}
