//! Law 2 over every public operation: each request behind it is refused once, then that one and all after it.
//!
//! The table in `operations` names every public function that is not `const`; one that it lacks fails here.

use crate::*;

use crate::operations::table;

type Host = FailingAllocator<RecordingAllocator>;
type Refuse = fn(&Host, Option<u64>);
type Staged<'a> = Trial<'a, Host, Refuse>;

fn sweep_all(refuse: Refuse, judge: impl Fn(&str, MemoryUse, Swept)) {
    for (number, operation) in table::<Staged<'_>>().iter().enumerate() {
        let sweep = Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never), refuse).keeping();
        // The table again, because its stage lives no longer than the trial.
        let swept = sweep.run(operation.name, |trial| table()[number].run(trial));
        judge(operation.name, operation.takes, swept);
    }
}

#[test]
fn h34_h36_h49_each_request_refused_alone() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth));
    sweep_all(refuse, |name, takes, swept| takes.judge_each_alone(name, swept));
}

#[test]
fn each_request_refused_and_all_after_it() {
    let refuse: Refuse = |host, n| host.arm(n.map_or(Fault::Never, Fault::From));
    sweep_all(refuse, |name, takes, swept| takes.judge_all_after(name, swept));
}

#[test]
fn the_table_is_complete_and_its_bodies_do_what_they_name() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = || table::<Staged<'_>>().into_iter().flat_map(|operation| operation.calls.split_whitespace());
    assert_every_function_is_named(manifest, names());
    assert_bodies_call(manifest, names());
}
