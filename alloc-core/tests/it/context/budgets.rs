//! Limits nest.

use super::*;

#[test]
fn m23_a_leased_budget_is_hard_and_refunds_are_exact() {
    let limit: u64 = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
    let root = root();
    let limited = root.child_with(ContextOptions::new("limited").budget(Budget::limit(limit))).expect("child");
    let mut blocks = Vec::new();
    loop {
        match limited.try_allocate(layout(1000), Scope::Object) {
            Ok(p) => blocks.push(p),
            Err(HostError::OverBudget { .. }) => break,
            Err(other) => panic!("{other:?}"),
        }
        assert!(limited.usage().total().live_bytes <= limit);
    }
    // One thread: nothing is stranded.
    assert_eq!(blocks.len() as u64, limit / 1000);
    for p in blocks {
        // SAFETY: a live block of this allocator, with its layout and scope.
        unsafe { HostAllocator::deallocate(&limited, p, layout(1000), Scope::Object) };
    }
    fold_thread();
    assert_eq!(limited.budget().expect("set").charged, 0);
}
