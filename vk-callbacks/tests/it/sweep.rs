//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here. Bridges choose their functions
//! by the traits of the allocator behind, so the table is swept once for each choice.

use std::cell::Cell;
use std::path::Path;

use crate::operations::{Operation, Through, run, table};
use alloc_core::{AllocatorTraits, Context, ContextOptions};
use debug_guard::{FailingAllocator, Fault};
use testkit::{MemoryUse, RecordingAllocator, Sweep, Swept, Trial};
use vk_callbacks::Bridge;

type Host = FailingAllocator<RecordingAllocator>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

/// The functions that a bridge chooses, by the name that its `Debug` text gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    Plain,
    Fenced,
    Guarded,
}

impl Care {
    const ALL: [Self; 3] = [Self::Plain, Self::Fenced, Self::Guarded];

    /// Makes traits that lead to this choice, if the witness and the decorators between forward those of the system's
    /// allocator.
    fn shown(self) -> fn(AllocatorTraits) -> AllocatorTraits {
        match self {
            // No plan of these sweeps names a context.
            Self::Plain => |mut traits| {
                traits.tracks_requester = false;
                traits
            },
            Self::Fenced => |_| AllocatorTraits::new(),
            Self::Guarded => |traits| traits,
        }
    }

    fn sweep(self, refuse: Refuse) -> Sweep<impl Fn(RecordingAllocator) -> Host, Refuse> {
        Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse).showing(self.shown())
    }
}

/// Runs the whole table through all callbacks, each operation with every refusal. Returns how many times the backing
/// called the callbacks meanwhile.
fn sweep_all(
    refuse: Refuse,
    reenters: bool,
    of: impl Fn(MemoryUse) -> bool,
    judge: impl Fn(&str, MemoryUse, Swept),
) -> u64 {
    let calls = Cell::new(0);
    for (number, operation) in table::<Staged<'_>>().iter().enumerate().filter(|(_, operation)| of(operation.takes)) {
        for (through, care) in Through::ALL.into_iter().flat_map(|through| Care::ALL.map(|care| (through, care))) {
            let Operation { names, how, takes, .. } = operation;
            let name = format!("{} {how} ({through:?}, {care:?})", names.join(", "));
            let sweep = care.sweep(refuse);
            let sweep = if reenters { sweep.reentering() } else { sweep };
            // The table again, because its stage lives no longer than the trial.
            judge(
                &name,
                *takes,
                sweep.run(&name, |trial| calls.set(calls.get() + run(trial, &table()[number], through))),
            );
        }
    }
    calls.get()
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(refuse, false, |_| true, |name, takes, swept| takes.judge_each_alone(name, swept));
}

/// Each request of an operation calls the very callbacks that the operation goes through.
#[test]
fn each_request_refused_alone_while_the_backing_reenters() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    let calls = sweep_all(refuse, true, |_| true, |name, takes, swept| takes.judge_each_alone(name, swept));
    assert!(calls > 1000, "{calls}");
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(
        refuse,
        false,
        |takes| !matches!(takes, MemoryUse::MemoryButKeeps(_)),
        |name, takes, swept| {
            let Swept { requests, failed, survived } = swept;
            match takes {
                MemoryUse::Memory | MemoryUse::MemoryButKeeps(_) => {
                    assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}");
                }
                // What goes on without one block goes on without any.
                MemoryUse::MemoryOrLess(_) => {
                    assert!(requests > 0 && survived > 0, "{name}: {swept:?}")
                }
                MemoryUse::Nothing(why) => {
                    assert_eq!(requests, 0, "{name} was to take nothing: {why}")
                }
            }
        },
    );
}

/// A decorator that does not forward what the system's allocator promises would leave a choice, and so its functions,
/// unswept.
#[test]
fn the_sweep_meets_every_care_that_a_bridge_can_have() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    for care in Care::ALL {
        care.sweep(refuse).run("the care of a bridge", |trial| {
            // SAFETY: closed below, before the trial's allocator goes.
            let root = unsafe { Context::root(trial.host(), ContextOptions::new("root")) }.expect("refused nothing");
            let child = Cell::new(Some(root.child("bridge").expect("refused nothing")));
            let bridge = trial.attempt(
                || (),
                || {
                    Bridge::new(child.take().expect("given back")).map_err(|refused| {
                        child.set(Some(refused.value));
                        refused.error
                    })
                },
            );
            let text = format!("{bridge:?}");
            assert!(text.contains(&format!("care: {care:?},")), "{care:?}: {text}");
            drop(bridge.close().expect("nothing is live"));
            root.close_root().expect("nothing is live");
        });
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    table::<Staged<'_>>().into_iter().flat_map(|operation| operation.names).copied()
}

#[test]
fn the_table_names_every_public_function() {
    testkit::assert_every_function_is_named(Path::new(env!("CARGO_MANIFEST_DIR")), names());
}

#[test]
fn the_bodies_call_what_the_table_names() {
    testkit::assert_bodies_call(Path::new(env!("CARGO_MANIFEST_DIR")), names());
}
