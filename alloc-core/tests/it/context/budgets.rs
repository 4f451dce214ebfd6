//! Limits nest.

use super::*;

#[test]
fn m23_limits_nest_and_every_level_is_checked() {
    let root = root();
    let outer = root
        .child_with(ContextOptions::new("outer").budget(Budget::exact(10_000)))
        .expect("child");
    let inner = outer
        .child_with(ContextOptions::new("inner").budget(Budget::exact(1 << 30)))
        .expect("child");
    let room = 10_000 - outer.usage().total().live_bytes;
    let l = layout(room as usize);
    let p = inner
        .try_allocate(l, Scope::Object)
        .expect("exactly the room there is");
    match inner.try_allocate(layout(8), Scope::Object) {
        Err(HostError::OverBudget {
            context,
            short_by: 8,
            leased_elsewhere: 0,
        }) => assert_eq!(context, outer.id()),
        other => panic!("{other:?}"),
    }
    // SAFETY: a live block of this allocator, with its layout and scope.
    unsafe { HostAllocator::deallocate(&inner, p, l, Scope::Object) };
    let p = inner
        .try_allocate(l, Scope::Object)
        .expect("a freed block is refunded to the byte");
    // SAFETY: a live block of this allocator, with its layout and scope.
    unsafe { HostAllocator::deallocate(&inner, p, l, Scope::Object) };
    assert_eq!(outer.budget().expect("set").high, 10_000);
}

#[test]
fn m23_a_limit_is_inherited_by_new_children_and_theirs() {
    let root = root();
    for budget in [Budget::exact(20_000), Budget::limit(20_000)] {
        let limited = root
            .child_with(ContextOptions::new("limited").budget(budget))
            .expect("child");
        let child = limited.child("child").expect("child");
        let grandchild = child.child("grandchild").expect("child");
        for context in [&child, &grandchild] {
            assert_eq!(context.budget(), None, "no budget of its own");
            match context.try_allocate(layout(20_000), Scope::Object) {
                Err(HostError::OverBudget { context, .. }) => assert_eq!(context, limited.id()),
                other => panic!("{other:?}"),
            }
            let block = context
                .try_allocate(layout(10_000), Scope::Object)
                .expect("there is room");
            assert!(limited.budget().expect("set").charged >= 10_000);
            // SAFETY: a live block of this allocator, with its layout and scope.
            unsafe { context.free(block, layout(10_000), Scope::Object) };
        }
    }
}

#[test]
fn m23_a_leased_budget_is_hard_and_refunds_are_exact() {
    let limit: u64 = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
    let root = root();
    let limited = root
        .child_with(ContextOptions::new("limited").budget(Budget::limit(limit)))
        .expect("child");
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
