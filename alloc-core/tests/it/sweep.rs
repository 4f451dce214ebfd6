//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The scenarios in `operations` call every public function; one that they lack fails here.

use std::cell::Cell;
use std::path::Path;

use crate::operations::{Place, run, scenarios};
use debug_guard::{FailingAllocator, Fault};
use testkit::{MemoryUse, RecordingAllocator, Sweep, Swept, Trial};

type Host = FailingAllocator<RecordingAllocator>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

fn sweep(refuse: Refuse) -> Sweep<impl Fn(RecordingAllocator) -> Host, Refuse> {
    Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse)
}

/// Runs the scenarios in all places, each with every refusal. Returns how many times the backing used a context
/// meanwhile.
fn sweep_all(
    sweep: &Sweep<impl Fn(RecordingAllocator) -> Host, Refuse>,
    of: impl Fn(MemoryUse) -> bool,
    judge: impl Fn(&str, MemoryUse, Swept),
) -> u64 {
    let visits = Cell::new(0);
    for (number, scenario) in scenarios::<Staged<'_>>().iter().enumerate().filter(|(_, scenario)| of(scenario.takes)) {
        for place in Place::ALL {
            let name = format!("{} ({place:?})", scenario.name);
            // The scenarios again, because their stage lives no longer than the trial.
            let swept = sweep.run(&name, |trial| visits.set(visits.get() + run(trial, &scenarios()[number], place)));
            judge(&name, scenario.takes, swept);
        }
    }
    visits.get()
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(&sweep(refuse), |_| true, |name, takes, swept| takes.judge_each_alone(name, swept));
}

/// Each request of an operation creates children, allocates and reads accounts of the very context that the operation
/// is about.
#[test]
fn each_request_refused_alone_while_the_backing_reenters() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    let sweep = sweep(refuse).reentering();
    let visits = sweep_all(&sweep, |_| true, |name, takes, swept| takes.judge_each_alone(name, swept));
    assert!(visits > 1000, "{visits}");
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(
        &sweep(refuse),
        |takes| !matches!(takes, MemoryUse::MemoryButKeeps(_)),
        |name, takes, swept| {
            let Swept { requests, failed, survived } = swept;
            match takes {
                MemoryUse::Memory | MemoryUse::MemoryOrLess(_) | MemoryUse::MemoryButKeeps(_) => {
                    assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}");
                }
                MemoryUse::Nothing(why) => {
                    assert_eq!(requests, 0, "{name} was to take nothing: {why}")
                }
            }
        },
    );
}

/// `after_fork` is for a process with one thread, and takes no memory at all: vk-layer's tests of row LC9 call it;
/// `forgo_thread_locals` is for a whole process: the reference driver's tests of row RD12 call it.
/// `floor_char_boundary` is arithmetic over a `str`. A default context is set once a process, and takes no memory: the
/// example of its page sets it.
const NOT_HERE: &[&str] =
    &["after_fork", "default_context", "floor_char_boundary", "forgo_thread_locals", "set_default_context"];

#[test]
fn the_scenarios_call_every_public_function() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = testkit::public_api(&manifest.join("src"));
    let names = all.iter().map(String::as_str);
    testkit::assert_bodies_call(manifest, names.filter(|name| !NOT_HERE.contains(name)));
}
