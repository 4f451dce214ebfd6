//! What the backing of a program does with the object that just called it: small operations on the side, which leave no
//! block.

use alloc_core::{ContextHandle, FromGlobalAlloc, HostAllocator, HostError, Scope, Scoped, Snapshot};

/// Bytes and blocks that were allocated, and are freed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

/// What a visit allocated of one context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) scope: Scope,
    /// In the context itself, but for the record of a child.
    pub(super) own: Passed,
    /// In a child, which is gone; `None` without one.
    pub(super) below: Option<Passed>,
}

/// Uses `context` in the middle of an operation on it. `number` chooses how.
///
/// # Panics
/// When it refuses for a reason that it does not have, or gives memory when it is closed; when a block is not its own.
pub(super) fn visit_context(context: &ContextHandle, number: u64) -> Visit {
    let scope = Scope::ALL[(number / 4 % 5) as usize];
    let mut visit = Visit { scope, own: Passed::default(), below: None };
    match number % 4 {
        0 | 1 => visit.own = block(context, scope, number % 4 == 1),
        2 => {
            let closed = context.is_closed();
            match context.child("side") {
                Ok(child) => {
                    assert!(!closed, "a closed context got a child");
                    visit.scope = context.scope();
                    visit.below = Some(block(&child, child.scope(), true));
                    let system = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command);
                    assert_eq!(Snapshot::capture(&child, system).expect("memory of the system").nodes().len(), 1);
                    drop(child);
                }
                Err(error) => assert_refused(context, error),
            }
        }
        _ => {
            let (usage, below) = (context.usage().total(), context.subtree_usage().total());
            assert!(usage.live_bytes <= below.live_bytes, "{context:?} holds more than its subtree");
        }
    }
    visit
}

/// Uses `context` while an operation on it is under way, and leaves it as it was; `number` chooses how. For hooks.
///
/// # Panics
/// When it refuses for a reason that it does not have, or gives memory when it is closed; when a block is given to two.
pub(crate) fn use_context(context: &ContextHandle, number: u64) {
    visit_context(context, number);
}

/// Allocates, writes, perhaps resizes, verifies and frees.
fn block(context: &ContextHandle, scope: Scope, resized: bool) -> Passed {
    let (small, large) = (std::alloc::Layout::new::<[u64; 3]>(), std::alloc::Layout::new::<[u64; 9]>());
    let closed = context.is_closed();
    let mut at = match context.try_allocate(small, scope) {
        Ok(at) => at,
        Err(error) => {
            assert_refused(context, error);
            return Passed::default();
        }
    };
    assert!(!closed, "a closed context gave memory");
    let (mut layout, mut passed) = (small, Passed { bytes: small.size() as u64, blocks: 1 });
    // SAFETY: just allocated, with so many bytes.
    unsafe { at.write_bytes(0x5E, small.size()) };
    if resized {
        // SAFETY: a live block of the context with its layout and scope.
        if let Ok(grown) = unsafe { HostAllocator::resize(context, at, small, large, scope) } {
            (at, layout) = (grown, large);
            passed.bytes = large.size() as u64;
        }
    }
    // SAFETY: live, and so many of its bytes were written.
    let content = unsafe { std::slice::from_raw_parts(at.as_ptr(), small.size()) };
    assert!(content.iter().all(|byte| *byte == 0x5E), "{at:p} was given to two");
    // SAFETY: a live block of the context with its layout and scope.
    unsafe { HostAllocator::deallocate(context, at, layout, scope) };
    passed
}

/// Checks why a context refused: its backing refuses nothing.
fn assert_refused(context: &ContextHandle, error: HostError) {
    match error {
        HostError::Closed { .. } => assert!(context.is_closed(), "{error}"),
        HostError::OverBudget { short_by, .. } => assert!(short_by > 0, "{error}"),
        error => panic!("{error}"),
    }
}
