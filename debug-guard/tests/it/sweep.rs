//! Law 2 over every public operation in every mode: each request behind it is refused once, then that one and all after
//! it.
//!
//! The table in `operations` names every public function; one that it lacks fails here.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use crate::operations::{GuardOperation, MODES, VISITS, table};
use debug_guard::{FailingAllocator, Fault};
use testkit::{MemoryUse, RecordingAllocator, Sweep, Swept, Trial, assert_bodies_call, assert_every_function_is_named};

type Host = FailingAllocator<RecordingAllocator>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

fn sweep(refuse: Refuse) -> Sweep<impl Fn(RecordingAllocator) -> Host, Refuse> {
    Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse)
}

/// Runs each operation of the table in each mode, with every refusal.
fn sweep_all(sweep: &Sweep<impl Fn(RecordingAllocator) -> Host, Refuse>, judge: impl Fn(&str, MemoryUse, Swept)) {
    for (number, operation) in table::<Staged<'_>>().iter().enumerate() {
        let GuardOperation { names, how, takes, .. } = operation;
        for mode in MODES {
            let name = format!("{} {how} ({mode})", names.first().unwrap_or(&"a guard:"));
            // The table again, because its stage lives no longer than the trial.
            judge(&name, takes(mode), sweep.run(&name, |trial| (table()[number].body)(trial, mode)));
        }
    }
}

#[test]
fn each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(&sweep(refuse), |name, takes, swept| takes.judge_each_alone(name, swept));
}

/// Each request of an operation takes, lists and frees blocks of the very guard that the operation is about. What they
/// leave in quarantine stays.
#[test]
fn each_request_refused_alone_while_the_allocator_behind_reenters() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    let before = VISITS.load(SeqCst);
    sweep_all(&sweep(refuse).keeping().reentering(), |name, takes, swept| takes.judge_each_alone(name, swept));
    let visits = VISITS.load(SeqCst) - before;
    assert!(visits > 30, "{visits}");
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(&sweep(refuse), |name, takes, swept| takes.judge_all_after(name, swept));
}

#[test]
fn the_table_is_complete_and_its_bodies_do_what_they_name() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = || table::<Staged<'_>>().into_iter().flat_map(|operation| operation.names).copied();
    assert_every_function_is_named(manifest, names());
    assert_bodies_call(manifest, names());
}
