//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

mod common;
mod operations;

use std::path::Path;

use debug_guard::{FailingAllocator, Fault};
use operations::{Operation, Through, run, table};
use testkit::{Sweep, Swept, Takes, Trial, Witness};

type Host = FailingAllocator<Witness>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

/// Runs one operation of the table through one set of callbacks, with every refusal.
fn swept(number: usize, name: &str, through: Through, refuse: Refuse) -> Swept {
    let sweep = Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse);
    // The table again, because its stage lives no longer than the trial.
    sweep.run(name, |trial| run(trial, &table()[number], through))
}

/// Runs the whole table through all callbacks.
fn sweep_all(refuse: Refuse, of: impl Fn(Takes) -> bool, judge: impl Fn(&str, Takes, Swept)) {
    for (number, operation) in table::<Staged<'_>>().iter().enumerate().filter(|(_, operation)| of(operation.takes)) {
        for through in Through::ALL {
            let Operation { names, how, takes, .. } = operation;
            let name = format!("{} {how} ({through:?})", names.join(", "));
            judge(&name, *takes, swept(number, &name, through, refuse));
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
                Takes::Memory | Takes::MemoryButKeeps(_) => {
                    assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}");
                }
                // What goes on without one block goes on without any.
                Takes::MemoryOrLess(_) => assert!(requests > 0 && survived > 0, "{name}: {swept:?}"),
                Takes::Nothing(why) => assert_eq!(requests, 0, "{name} was to take nothing: {why}"),
            }
        },
    );
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
