//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

mod common;
mod operations;

use std::collections::BTreeSet;
use std::path::Path;

use debug_guard::{FailingAllocator, Fault};
use operations::{Operation, Through, run, table};
use testkit::{Sweep, Swept, Takes, Trial, Witness, public_api};

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
    sweep_all(
        refuse,
        |_| true,
        |name, takes, swept| {
            let Swept { requests, failed, survived } = swept;
            match takes {
                Takes::Memory | Takes::MemoryButKeeps(_) => {
                    assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}")
                }
                Takes::MemoryOrLess(_) => assert!(requests > 0 && survived > 0, "{name}: {swept:?}"),
                Takes::Nothing(why) => assert_eq!(requests, 0, "{name} was to take nothing: {why}"),
            }
        },
    );
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

#[test]
fn the_table_names_every_public_function() {
    let named: BTreeSet<&str> = table::<Staged<'_>>().iter().flat_map(|operation| operation.names).copied().collect();
    let offered = public_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let offered: BTreeSet<&str> = offered.iter().map(String::as_str).collect();
    let missing: Vec<_> = offered.difference(&named).collect();
    let gone: Vec<_> = named.difference(&offered).collect();
    assert!(missing.is_empty(), "public functions that no operation runs: {missing:?}");
    assert!(gone.is_empty(), "names that are no public function any more: {gone:?}");
}

/// A name in the table is no proof that its body calls the function; that the word stands there as code is some.
#[test]
fn the_bodies_call_what_the_table_names() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operations");
    let mut words = BTreeSet::new();
    for file in directory.read_dir().expect("the table's directory") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a text");
        // Every second piece lies between quotes: names and messages.
        let code = text.split('"').step_by(2);
        words.extend(code.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_')).map(str::to_owned));
    }
    for operation in table::<Staged<'_>>() {
        for name in operation.names {
            let function = name.rsplit("::").next().unwrap_or(name);
            assert!(words.contains(function), "{name} is in the table, and no body calls it");
        }
    }
}
