//! The fake driver under an allocator that refuses: it answers out of host memory or goes on, keeps nothing, and breaks
//! no rule.

use std::cell::Cell;
use std::pin::pin;

use debug_guard::{FailingAllocator, Fault};
use fake_driver::FakeProgram;
use testkit::{RecordingAllocator, Sweep};
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::{Checker, VK_ERROR_OUT_OF_HOST_MEMORY};

use super::checking::{Checking, OPTIONS, SYSTEM, found_by};
use super::stage::{Allocators, Interrupted, Meeting, Stage};

type Host = FailingAllocator<RecordingAllocator>;

fn swept(name: &str, refuse: fn(u64) -> Fault) {
    let sweep = Sweep::new(
        |witness| FailingAllocator::new(witness, Fault::Never),
        |host: &Host, n: Option<u64>| host.arm(n.map_or(Fault::Never, refuse)),
    );
    let nulls = Cell::new(0);
    let swept = sweep.run(name, |trial| {
        let bridge = pin!(BareBridge::new(trial.host()));
        let checker = Checker::new(&SYSTEM, OPTIONS).expect("memory of the system");
        let meeting = Meeting::default();
        {
            let checking = Checking::new(&checker);
            let interrupted = Interrupted { watch: &checking, meeting: &meeting };
            // SAFETY: the bridge outlives the allocators, which outlive the run.
            let allocators = unsafe { Allocators::new(bridge.as_ref().raw(), None, &interrupted) };
            let stage = Stage::new(&checking, &allocators, &meeting);
            let program = FakeProgram { defect: None, rounds: 1, habits: false };
            trial.attempt(
                || (),
                || {
                    let answer = program.run(&stage);
                    assert!(matches!(answer, Ok(()) | Err(VK_ERROR_OUT_OF_HOST_MEMORY)), "{answer:?}");
                    answer
                },
            );
            checker.finish();
        }
        let found = found_by(&checker);
        assert!(found.is_empty(), "{found:#?}");
        assert_eq!(bridge.counters().faults(), 0);
        nulls.set(nulls.get() + bridge.counters().backing_refusals);
        checker.close().expect("nothing is live");
    });
    // Nearly all are needed; the scratch memory of a thread that only lends a hand is not.
    assert!(swept.requests > 100 && swept.failed > 100 && nulls.get() > 100, "{swept:?}");
    println!("{name}: {swept:?}, {} answers of NULL", nulls.get());
}

#[test]
fn v9_each_request_refused_alone() {
    swept("the fake program, one request refused", Fault::Nth);
}

#[test]
fn v9_each_request_and_all_after_it_refused() {
    swept("the fake program, all requests refused from one on", Fault::From);
}
