//! Fault injection itself.

use std::alloc::Layout;

use alloc_core::{AllocError, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault};
use testkit::{MemoryUse, Stage};

use super::{GuardOperation, bytes, give, memory};

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![
        GuardOperation {
            names: &[
                "FailingAllocator::admits",
                "FailingAllocator::arm",
                "FailingAllocator::disarm",
                "FailingAllocator::inner",
                "FailingAllocator::live_bytes",
                "FailingAllocator::new",
                "FailingAllocator::refused",
                "FailingAllocator::requests",
            ],
            how: "all of them",
            takes: |_| MemoryUse::Nothing("what a decorator gives, it is given"),
            body: |stage, _| {
                let counts = stage.attempt_plainly(|| {
                    let failing = FailingAllocator::new(stage.host(), Fault::From(0));
                    failing.arm(Fault::LiveBytes(0));
                    assert!(!failing.admits(1, Scope::Object) && failing.admits(0, Scope::Object));
                    failing.arm(Fault::LiveBytes(0));
                    failing.disarm();
                    failing.inner().refusal(Layout::new::<u8>(), Scope::Object);
                    [failing.requests(), failing.refused(), failing.live_bytes()]
                });
                assert_eq!(counts, [0; 3]);
            },
        },
        GuardOperation {
            names: &[],
            how: "a decorator over one that refuses passes every refusal on",
            takes: memory,
            body: |stage, _| {
                let failing = FailingAllocator::new(stage.host(), Fault::Never);
                let (block, size) = stage.attempt(
                    || failing.live_bytes(),
                    || {
                        let mut now = (failing.allocate_zeroed(bytes(16), Scope::Object)?, 16);
                        for next in [72, 16] {
                            let moved = match next > now.1 {
                                // SAFETY: the live block.
                                true => unsafe { failing.resize(now.0, bytes(now.1), bytes(next), Scope::Object) },
                                // SAFETY: the live block.
                                false => unsafe { failing.resize(now.0, bytes(now.1), bytes(next), Scope::Object) },
                            };
                            match moved {
                                Ok(moved) => now = (moved, next),
                                Err(AllocError) => {
                                    give(&failing, now.0, now.1);
                                    return Err(AllocError);
                                }
                            }
                        }
                        Ok(now)
                    },
                );
                give(&failing, block, size);
                assert_eq!(failing.live_bytes(), 0);
            },
        },
    ]
}
