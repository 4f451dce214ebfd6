//! Law 2 over every public operation in every mode: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

mod operations;

use std::path::Path;

use debug_guard::{FailingAllocator, Fault, Mode};
use operations::{MODES, Operation, table};
use testkit::{Sweep, Swept, Takes, Trial, Witness, assert_bodies_call, assert_every_function_is_named};

type Host = FailingAllocator<Witness>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

/// Runs one operation of the table in one mode, with every refusal.
fn swept(number: usize, name: &str, mode: Mode, refuse: Refuse) -> Swept {
    let sweep = Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse);
    // The table again, because its stage lives no longer than the trial.
    sweep.run(name, |trial| (table()[number].body)(trial, mode))
}

fn sweep_all(refuse: Refuse, judge: impl Fn(&str, Takes, Swept)) {
    for (number, operation) in table::<Staged<'_>>().iter().enumerate() {
        let Operation { names, how, takes, .. } = operation;
        for mode in MODES {
            let name = format!("{} {how} ({mode})", names.first().unwrap_or(&"a guard:"));
            judge(&name, takes(mode), swept(number, &name, mode, refuse));
        }
    }
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(refuse, |name, takes, swept| takes.judge_each_alone(name, swept));
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(refuse, |name, takes, swept| match takes {
        Takes::Memory => assert!(swept.requests > 0 && swept.survived == 0, "{name}: {swept:?}"),
        Takes::MemoryOrLess(_) | Takes::MemoryButKeeps(_) => assert!(swept.failed > 0, "{name}: {swept:?}"),
        Takes::Nothing(why) => assert_eq!(swept.requests, 0, "{name} was to take nothing: {why}"),
    });
}

#[test]
fn the_table_is_complete_and_its_bodies_do_what_they_name() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = || table::<Staged<'_>>().into_iter().flat_map(|operation| operation.names).copied();
    assert_every_function_is_named(manifest, names());
    assert_bodies_call(manifest, names());
}
