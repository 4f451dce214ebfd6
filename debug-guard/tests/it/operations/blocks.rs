//! Blocks: a guard's functions as an allocator, which stand in no list of the crate's own.

use alloc_core::{AllocError, HostAllocator, Scope};
use debug_guard::{Guard, Mode};
use testkit::{MemoryUse, Stage};

use super::{GuardOperation, bytes, give, guard, options, reentered, take};

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![
        GuardOperation {
            names: &[],
            how: "a guard and its first block",
            takes: |mode| match mode {
                Mode::Off => MemoryUse::Memory,
                _ => MemoryUse::MemoryOrLess("a call site for which there is no room is not written down"),
            },
            body: |stage, mode| {
                let (guard, block) = stage.attempt(
                    || (),
                    || {
                        let guard = Guard::new(stage.host(), options(mode)).map_err(|_| AllocError)?;
                        // Where it is refused the guard goes, and all that was taken for records goes with it.
                        let block = reentered(stage, &guard, || guard.allocate_zeroed(bytes(100), Scope::Object))?;
                        Ok::<_, AllocError>((guard, block))
                    },
                );
                assert_eq!(
                    // SAFETY: 100 bytes of ours.
                    unsafe { block.cast::<[u8; 100]>().as_ref() },
                    &[0; 100],
                    "{mode}"
                );
                give(&guard, block, 100);
            },
        },
        GuardOperation {
            names: &[],
            how: "a block of a guard that gave one before",
            takes: |mode| match mode {
                Mode::Off | Mode::Cookie => MemoryUse::Memory,
                _ => MemoryUse::Nothing("pages come from the system, and records are there"),
            },
            body: |stage, mode| {
                let guard = guard(stage, mode);
                let first = take(&guard, 100);
                give(&guard, first, 100);
                let block = reentered(stage, &guard, || {
                    stage.attempt(|| guard.stats().live_blocks, || guard.allocate(bytes(90), Scope::Object))
                });
                give(&guard, block, 90);
            },
        },
        GuardOperation {
            names: &[],
            how: "a reallocation",
            takes: |mode| match mode {
                Mode::Off | Mode::Cookie => MemoryUse::Memory,
                _ => MemoryUse::Nothing("pages come from the system, and records are there"),
            },
            body: |stage, mode| {
                let guard = guard(stage, mode);
                for _ in 0..40 {
                    let warm = take(&guard, 100);
                    give(&guard, warm, 100);
                }
                let old = take(&guard, 30);
                // SAFETY: 30 bytes of ours.
                unsafe { old.write_bytes(9, 30) };
                let seen = || {
                    // SAFETY: a byte of ours: a failed reallocation leaves the block as it was.
                    (guard.stats().live_blocks, unsafe { old.as_ptr().wrapping_add(29).read() })
                };
                // What is seen after it went well is not compared, and the old block is gone then.
                let moved = reentered(stage, &guard, || {
                    stage.attempt(
                        || {
                            if guard.usable_size(old) == Some(30) { seen() } else { (guard.stats().live_blocks, 9) }
                        },
                        // SAFETY: a live block of this guard.
                        || unsafe { guard.resize(old, bytes(30), bytes(200), Scope::Object) },
                    )
                });
                assert_eq!(
                    // SAFETY: a byte of ours.
                    unsafe { moved.as_ptr().wrapping_add(29).read() },
                    9,
                    "{mode}"
                );
                give(&guard, moved, 200);
            },
        },
        GuardOperation {
            names: &[],
            how: "frees of every kind",
            takes: |_| MemoryUse::Nothing("law 3: freeing takes nothing"),
            body: |stage, mode| {
                let guard = Guard::new(stage.host(), options(mode)).expect("refused nothing");
                let blocks: [_; 200] = std::array::from_fn(|n| (take(&guard, 8 + n), 8 + n));
                reentered(stage, &guard, || {
                    stage.attempt_plainly(|| {
                        for (block, size) in &blocks {
                            give(&guard, *block, *size);
                        }
                    });
                });
                assert_eq!(guard.stats().live_blocks, 0, "{mode}");
            },
        },
    ]
}
