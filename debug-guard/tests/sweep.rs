//! Law 2 over this crate: every public function, with every request behind it refused once.

use std::alloc::Layout;
use std::path::Path;

use alloc_core::{AllocError, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault};
use testkit::{Sweep, Swept, public_api};

/// Every public function, and whether it asks for memory. None of these does: what a decorator gives, it is given.
const TABLE: &[&str] = &[
    "FailingAllocator::arm",
    "FailingAllocator::disarm",
    "FailingAllocator::inner",
    "FailingAllocator::live_bytes",
    "FailingAllocator::new",
    "FailingAllocator::refused",
    "FailingAllocator::requests",
    "FailingAllocator::total_bytes",
];

#[test]
fn the_table_names_every_public_function() {
    assert_eq!(public_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")), TABLE);
}

#[test]
fn functions_of_the_table_ask_for_nothing() {
    let sweep = Sweep::new(
        |witness| FailingAllocator::new(witness, Fault::Never),
        |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth)),
    );
    let swept = sweep.run("the table", |trial| {
        let counts = trial.attempt(
            || (),
            || {
                let guard = FailingAllocator::new(trial.host(), Fault::From(0));
                guard.arm(Fault::LiveBytes(0));
                guard.disarm();
                guard.inner().refusal(Layout::new::<u8>(), Scope::Object);
                Ok::<_, AllocError>([guard.requests(), guard.refused(), guard.live_bytes(), guard.total_bytes()])
            },
        );
        assert_eq!(counts, [0; 4]);
    });
    assert_eq!(swept, Swept { requests: 0, failed: 0, survived: 0 });
}

#[test]
fn a_decorator_over_one_that_refuses_passes_every_refusal_on() {
    let sweep = Sweep::new(
        |witness| FailingAllocator::new(witness, Fault::Never),
        |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth)),
    );
    let (small, large) = (Layout::new::<[u64; 2]>(), Layout::new::<[u64; 9]>());
    let swept = sweep.run("allocate, grow, shrink", |trial| {
        let guard = FailingAllocator::new(trial.host(), Fault::Never);
        let block = trial.attempt(
            || guard.live_bytes(),
            || {
                let mut block = (guard.allocate_zeroed(small, Scope::Device)?, small);
                for next in [large, small] {
                    let resized = if next.size() > block.1.size() {
                        // SAFETY: the live block.
                        unsafe { guard.grow(block.0, block.1, next, Scope::Device) }
                    } else {
                        // SAFETY: the live block.
                        unsafe { guard.shrink(block.0, block.1, next, Scope::Device) }
                    };
                    match resized {
                        Ok(moved) => block = (moved, next),
                        Err(error) => {
                            // SAFETY: the live block, which the refusal left alone.
                            unsafe { guard.deallocate(block.0, block.1, Scope::Device) };
                            return Err(error);
                        }
                    }
                }
                Ok(block)
            },
        );
        // SAFETY: the live block.
        unsafe { guard.deallocate(block.0, block.1, Scope::Device) };
        assert_eq!(guard.live_bytes(), 0);
    });
    assert_eq!(swept, Swept { requests: 3, failed: 3, survived: 0 });
}
