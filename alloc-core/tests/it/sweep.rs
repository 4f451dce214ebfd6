//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

use std::cell::Cell;
use std::path::Path;

use crate::operations::{Operation, Place, run, table};
use debug_guard::{FailingAllocator, Fault};
use testkit::{MemoryUse, RecordingAllocator, Sweep, Swept, Trial};

type Host = FailingAllocator<RecordingAllocator>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

fn sweep(refuse: Refuse) -> Sweep<impl Fn(RecordingAllocator) -> Host, Refuse> {
    Sweep::new(
        |witness| FailingAllocator::new(witness, Fault::Never),
        refuse,
    )
}

/// Runs the whole table in all places, each operation with every refusal. Returns how many times the backing used a context meanwhile.
fn sweep_all(
    sweep: &Sweep<impl Fn(RecordingAllocator) -> Host, Refuse>,
    of: impl Fn(MemoryUse) -> bool,
    judge: impl Fn(&str, MemoryUse, Swept),
) -> u64 {
    let visits = Cell::new(0);
    for (number, operation) in table::<Staged<'_>>()
        .iter()
        .enumerate()
        .filter(|(_, operation)| of(operation.takes))
    {
        for place in Place::ALL {
            let Operation {
                names, how, takes, ..
            } = operation;
            let name = format!("{} {how} ({place:?})", names.join(", "));
            // The table again, because its stage lives no longer than the trial.
            judge(
                &name,
                *takes,
                sweep.run(&name, |trial| {
                    visits.set(visits.get() + run(trial, &table()[number], place))
                }),
            );
        }
    }
    visits.get()
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(
        &sweep(refuse),
        |_| true,
        |name, takes, swept| takes.judge_each_alone(name, swept),
    );
}

/// Each request of an operation creates children, allocates and reads accounts of the very context that the operation is about.
#[test]
fn each_request_refused_alone_while_the_backing_reenters() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    let sweep = sweep(refuse).reentering();
    let visits = sweep_all(
        &sweep,
        |_| true,
        |name, takes, swept| takes.judge_each_alone(name, swept),
    );
    assert!(visits > 1000, "{visits}");
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(
        &sweep(refuse),
        |takes| !matches!(takes, MemoryUse::MemoryButKeeps(_)),
        |name, takes, swept| {
            let Swept {
                requests,
                failed,
                survived,
            } = swept;
            match takes {
                MemoryUse::Memory | MemoryUse::MemoryOrLess(_) | MemoryUse::MemoryButKeeps(_) => {
                    assert!(
                        requests > 0 && survived == 0 && failed >= requests,
                        "{name}: {swept:?}"
                    );
                }
                MemoryUse::Nothing(why) => {
                    assert_eq!(requests, 0, "{name} was to take nothing: {why}")
                }
            }
        },
    );
}

fn names() -> impl Iterator<Item = &'static str> {
    table::<Staged<'_>>()
        .into_iter()
        .flat_map(|operation| operation.names)
        .copied()
}

/// What takes its memory from the global allocator, because it cannot be told another: no net for routed memory holds it.
/// `foreign_bump.rs` refuses and watches the global allocator itself. And `after_fork`, which only a process with one thread may call:
/// vk-layer's tests of row LC9 do, and it takes no memory at all; so for `forgo_thread_locals`, which is for a whole process, and the
/// reference driver's tests of row RD12. `floor_char_boundary` is arithmetic over a `str`.
const NOT_ROUTED: &[&str] = &[
    "ForeignBump::allocation_limit",
    "ForeignBump::bytes_held",
    "ForeignBump::context",
    "ForeignBump::new_in",
    "ForeignBump::reset",
    "ForeignBump::set_allocation_limit",
    "ForeignBump::try_alloc",
    "ForeignBump::try_alloc_layout",
    "ForeignBump::try_alloc_slice_copy",
    "ForeignBump::try_alloc_slice_fill_with",
    "ForeignBump::try_alloc_str",
    "ForeignBump::try_with_capacity_in",
    "after_fork",
    "floor_char_boundary",
    "forgo_thread_locals",
];

#[test]
fn the_table_names_every_public_function() {
    let names = names().chain(NOT_ROUTED.iter().copied());
    testkit::assert_every_function_is_named(Path::new(env!("CARGO_MANIFEST_DIR")), names);
}

#[test]
fn the_bodies_call_what_the_table_names() {
    testkit::assert_bodies_call(Path::new(env!("CARGO_MANIFEST_DIR")), names());
}
