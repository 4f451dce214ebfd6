//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

mod operations;

use std::path::Path;

use debug_guard::{FailingAllocator, Fault};
use operations::{Operation, Place, run, table};
use testkit::{Sweep, Swept, Takes, Trial, Witness};

type Host = FailingAllocator<Witness>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

/// Runs one operation of the table in one place, with every refusal.
fn swept(number: usize, name: &str, place: Place, refuse: Refuse) -> Swept {
    let sweep = Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse);
    // The table again, because its stage lives no longer than the trial.
    sweep.run(name, |trial| run(trial, &table()[number], place))
}

/// Runs the whole table in all places.
fn sweep_all(refuse: Refuse, of: impl Fn(Takes) -> bool, judge: impl Fn(&str, Takes, Swept)) {
    for (number, operation) in table::<Staged<'_>>().iter().enumerate().filter(|(_, operation)| of(operation.takes)) {
        for place in Place::ALL {
            let Operation { names, how, takes, .. } = operation;
            let name = format!("{} {how} ({place:?})", names.join(", "));
            judge(&name, *takes, swept(number, &name, place, refuse));
        }
    }
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(refuse, |_| true, |name, takes, swept| takes.judge_each_alone(name, swept));
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(
        refuse,
        |takes| !matches!(takes, Takes::MemoryButKeeps(_)),
        |name, takes, swept| {
            let Swept { requests, failed, survived } = swept;
            match takes {
                Takes::Memory | Takes::MemoryOrLess(_) | Takes::MemoryButKeeps(_) => {
                    assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}");
                }
                Takes::Nothing(why) => assert_eq!(requests, 0, "{name} was to take nothing: {why}"),
            }
        },
    );
}

fn names() -> impl Iterator<Item = &'static str> {
    table::<Staged<'_>>().into_iter().flat_map(|operation| operation.names).copied()
}

/// What takes its memory from the global allocator, because it cannot be told another: no net for routed memory holds it.
/// `foreign_bump.rs` refuses and watches the global allocator itself.
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
