//! Contexts, trees of them and their values, whose backing calls back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use alloc_core::{Allocator, Budget, Context, ContextHandle, ContextOptions, HostError, Scope, TryVec, fold_thread};

use super::{Hooked, REENTRANT, ReentrantCall, assert_nothing_live, layout};

/// A context for the hook to use.
fn in_hook(context: &Context, mut act: impl FnMut(ReentrantCall, &ContextHandle) + 'static) -> Hooked {
    let (handle, act) = (context.handle(), RefCell::new(move |call, handle: &ContextHandle| act(call, handle)));
    Hooked::new(move |call| act.borrow_mut()(call, &handle))
}

/// The hook opens rows of other contexts, one of which evicts the thread's entry for the asking one, settles, and takes
/// and frees blocks of the very context.
#[test]
fn a_context_whose_backing_reenters_at_every_request_counts_and_charges_exactly() {
    for budget in [None, Some(Budget::exact(1 << 20)), Some(Budget::limit(1 << 20)), Some(Budget::limit(8000))] {
        let options = ContextOptions::new("root").scope(Scope::Object);
        let root =
            Context::root_static(&REENTRANT, budget.map_or(options, |budget| options.budget(budget))).expect("memory");
        let record = root.usage().total();
        let mut others: Vec<_> = (0..3).map(|_| root.child("other").expect("memory")).collect();
        // A thread's table has 64 entries: this one's take the places of the root's.
        others.push(loop {
            let other = root.child("other").expect("memory");
            if other.id().get() % 64 == root.id().get() % 64 {
                break other;
            }
        });
        let with_children = root.usage().total();
        let handles: Vec<_> = others.iter().map(|other| other.handle()).collect();
        let turn = Cell::new(0);
        let hooked = in_hook(&root, move |_, root| {
            let mut list = TryVec::<u64, &ContextHandle>::new_in(root);
            list.try_extend_from_slice(&[5; 9]).unwrap_or_default();
            // Now: a free would open the root's entry again.
            drop(list);
            for other in &handles {
                for scope in Scope::ALL.into_iter().take(if cfg!(miri) { 2 } else { Scope::COUNT }) {
                    if let Ok(block) = other.try_allocate(layout(24), scope) {
                        // SAFETY: the block just taken.
                        unsafe { other.free(block, layout(24), scope) };
                    }
                }
            }
            turn.set(turn.get() + 1);
            if turn.get() % 3 == 0 {
                fold_thread();
            }
            assert!(root.usage().total().live_bytes > 0);
        });
        let mut list = TryVec::<u64, &Context>::new_in(&root);
        for value in 0..if cfg!(miri) { 20 } else { 200 } {
            list.try_push(value).expect("there is room");
        }
        assert_eq!(root.usage().total().live_bytes, with_children.live_bytes + 8 * list.capacity() as u64);
        drop(list);
        let zeroed = Allocator::allocate_zeroed(&&root, layout(64)).expect("there is room");
        // SAFETY: the block just taken.
        let less = unsafe { Allocator::shrink(&&root, zeroed.cast(), layout(64), layout(16)) };
        assert_eq!(root.usage().total().live_bytes, with_children.live_bytes + 16);
        // SAFETY: the same block.
        unsafe { Allocator::deallocate(&&root, less.expect("less").cast(), layout(16)) };
        for call in [ReentrantCall::Allocate, ReentrantCall::Free, ReentrantCall::Grow, ReentrantCall::Shrink] {
            assert!(hooked.times(call) > 0, "{call:?} did not call back");
        }
        drop(hooked);
        drop(others);
        let after = root.usage().total();
        assert_eq!((after.live_bytes, after.live_blocks), (record.live_bytes, record.live_blocks));
        fold_thread();
        if let Some(budget) = root.budget() {
            assert_eq!(budget.charged, record.live_bytes, "{budget:?}");
        }
        root.close_root().expect("nothing is left");
        assert_nothing_live();
    }
}

/// The hook makes, leaves, claims, clears and ends contexts, and owns, takes and destroys values, of the context that
/// is asking.
#[test]
fn a_tree_whose_backing_reenters_at_every_request_ends_with_nothing_left() {
    struct CountedValue(Rc<Cell<i32>>);
    // SAFETY: the test has one thread.
    unsafe impl Send for CountedValue {}
    impl CountedValue {
        fn new(live: &Rc<Cell<i32>>) -> Self {
            live.set(live.get() + 1);
            Self(live.clone())
        }
    }
    impl Drop for CountedValue {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let live = Rc::new(Cell::new(0));
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object)).expect("memory");
    let hooked = in_hook(&root, {
        let (live, turn) = (live.clone(), Cell::new(0));
        move |_, root| {
            turn.set(turn.get() + 1);
            let Ok(child) = root.child_with(ContextOptions::new("within").label("a label")) else {
                return;
            };
            let value = child.own(CountedValue::new(&live)).map_err(|refused| refused.error);
            match turn.get() % 4 {
                0 => drop(root.own(child).map(drop)),
                1 => drop(value.and_then(|id| child.remove(id))),
                2 => child.clear(),
                _ => drop(value.and_then(|id| root.steal(&child, id))),
            }
            assert!(root.usage().total().live_bytes > 0);
        }
    });
    for _ in 0..if cfg!(miri) { 1 } else { 3 } {
        let mut child = root.child_with(ContextOptions::new("child").label("another label")).expect("memory");
        let middle = root.child("middle").expect("memory");
        child.reparent(&middle).expect("the same tree");
        let mut ids = Vec::new();
        for _ in 0..if cfg!(miri) { 10 } else { 20 } {
            // The table of the values grows while the hook uses others' tables.
            ids.push(child.own(CountedValue::new(&live)).expect("memory"));
        }
        drop(ids.pop().map(|id| child.remove(id)).expect("some are left"));
        ids.pop().map(|id| middle.steal(&child, id)).expect("some are left").expect("the same tree");
        middle.adopt(&root.child("empty").expect("memory")).expect("nothing moves");
        child.clear();
        assert_eq!(child.owned_values(), 0);
        drop(middle);
        drop(child);
    }
    assert!(hooked.times(ReentrantCall::Allocate) > 10 && hooked.times(ReentrantCall::Free) > 10);
    root.clear();
    drop(hooked);
    root.clear();
    assert_eq!(root.owned_values(), 0);
    root.close_root().expect("nothing is left");
    assert_eq!(live.get(), 0);
    assert_nothing_live();
}

/// The parent ends while the record of a new child is being allocated: the child is closed from its first moment.
#[test]
fn a_child_whose_parent_ends_while_its_backing_reenters_is_closed() {
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object)).expect("memory");
    let owner = root.child("parent").expect("memory");
    let parent = owner.handle();
    let owner = RefCell::new(Some(owner));
    let hooked = Hooked::new(move |_| drop(owner.take()));
    let child = parent.child("late").expect("the parent was open when it was asked");
    drop(hooked);
    assert!(parent.is_closed() && child.is_closed());
    assert_eq!(child.try_allocate(layout(8), Scope::Object), Err(HostError::Closed { context: child.id() }));
    assert!(child.own(7).is_err_and(|refused| refused.error == HostError::Closed { context: child.id() }));
    drop((child, parent));
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

/// The table of a context's values is made, and made larger, by requests during which the hook gives the context values
/// too.
#[test]
fn values_that_a_backing_gives_while_it_reenters_have_their_own_places() {
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object)).expect("memory");
    let inner = Rc::new(RefCell::new(Vec::new()));
    let hooked = in_hook(&root, {
        let (inner, number) = (inner.clone(), Cell::new(1000_u64));
        move |_, root| {
            number.set(number.get() + 1);
            if let Ok(id) = root.own(number.get()) {
                inner.borrow_mut().push((id, number.get()));
            }
        }
    });
    let outer: Vec<_> = (0..60_u64).map(|value| (root.own(value).expect("memory"), value)).collect();
    drop(hooked);
    let inner = inner.take();
    assert!(inner.len() >= 60 && root.owned_values() == inner.len() + outer.len());
    for (id, value) in outer.into_iter().chain(inner) {
        assert_eq!(root.remove(id), Ok(value));
    }
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

#[test]
fn a_picture_of_a_tree_that_grows_at_each_of_its_requests_ends() {
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root")).expect("memory");
    let more = Rc::new(RefCell::new(Vec::new()));
    let made = more.clone();
    let hook = in_hook(&root, move |call, root| {
        assert!(made.borrow().len() < 1000, "it does not end");
        if call == ReentrantCall::Allocate || call == ReentrantCall::Grow {
            let options = ContextOptions::new("more").label("a label");
            let child = root.child_with(options).expect("memory");
            made.borrow_mut().push(child);
        }
    });
    let seen = root.snapshot().expect("memory").nodes().len();
    drop(hook);
    assert_eq!(seen, 1 + more.borrow().len());
    assert!((2..20).contains(&seen), "{seen}");
    more.borrow_mut().clear();
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}
