//! What a context owns is destroyed with it: children before their parents, newer values before older, whatever destructors do.
//!
//! Runs under miri.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::witness::Witness;
use alloc_core::{
    Context, ContextHandle, ContextOptions, HostError, Owned, Scope, held_state_locks,
};

/// What was destroyed, in order.
#[derive(Clone, Default)]
struct OrderLog(Arc<Mutex<Vec<&'static str>>>);

impl OrderLog {
    fn note(&self, name: &'static str) {
        assert_eq!(
            held_state_locks(),
            0,
            "a destructor runs outside of any lock"
        );
        self.0.lock().unwrap().push(name);
    }
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Named(OrderLog, &'static str);

impl Drop for Named {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// Does something when it is destroyed.
struct Last<F: FnMut() + Send>(F);

impl<F: FnMut() + Send> Drop for Last<F> {
    fn drop(&mut self) {
        assert_eq!(held_state_locks(), 0);
        (self.0)();
    }
}

fn root(witness: &Witness) -> Context {
    // SAFETY: every test drops the root, and what is below it, before the witness.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Object)) }.unwrap()
}

#[test]
fn m3_freeing_destroys_what_is_below_and_unlinks_first() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let middle = root.child("middle").unwrap();
    let below = middle.child("below").unwrap();
    below.own(Named(log.clone(), "below")).unwrap();
    middle.own(Named(log.clone(), "middle")).unwrap();
    let kept = root.own(Named(log.clone(), "kept")).unwrap();
    drop(middle);
    assert_eq!(log.take(), ["below", "middle"]);
    assert!(below.is_closed() && below.own(1).is_err());
    // The owner of a context below has nothing left to destroy.
    drop(below);
    assert!(log.take().is_empty());
    let taken = root.get(kept).unwrap().1;
    assert_eq!(taken, "kept");
    // A value that frees itself finds that it is unlinked already.
    let own = Arc::new(Mutex::new(
        None::<(ContextHandle, Owned<Last<Box<dyn FnMut() + Send>>>)>,
    ));
    let (inner, notes) = (own.clone(), log.clone());
    let id = root
        .own(Last(Box::new(move || {
            let (home, id) = inner.lock().unwrap().take().unwrap();
            assert!(home.destroy(id).is_err() && home.get_mut(id).is_err());
            notes.note("itself");
        }) as Box<dyn FnMut() + Send>))
        .unwrap();
    *own.lock().unwrap() = Some((root.handle(), id));
    root.destroy(id).unwrap();
    assert_eq!(log.take(), ["itself"]);
    drop(root);
    assert_eq!(log.take(), ["kept"]);
    witness.assert_empty();
}

#[test]
fn m4_children_go_before_their_parent_and_the_newest_first() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let grandchild = child.child("grandchild").unwrap();
    let second = root.child("child2").unwrap();
    for (context, names) in [
        (&*root, ["root 1", "root 2"]),
        (&child, ["child 1", "child 2"]),
        (&grandchild, ["grand 1", "grand 2"]),
        (&second, ["2nd 1", "2nd 2"]),
    ] {
        for name in names {
            context.own(Named(log.clone(), name)).unwrap();
        }
    }
    // A place used again does not change the order, nor does a value that goes before the end.
    let hole = root.own(Named(log.clone(), "hole")).unwrap();
    root.own(Named(log.clone(), "root 3")).unwrap();
    root.destroy(hole).unwrap();
    root.own(Named(log.clone(), "root 4")).unwrap();
    assert_eq!(log.take(), ["hole"]);
    drop(root);
    let order = [
        "2nd 2", "2nd 1", "grand 2", "grand 1", "child 2", "child 1", "root 4", "root 3", "root 2",
        "root 1",
    ];
    assert_eq!(log.take(), order);
    drop((child, grandchild, second));
    assert!(log.take().is_empty());
    witness.assert_empty();
}

#[test]
fn m5_an_ending_context_gives_nothing_and_takes_nothing_over() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let (home, notes) = (child.handle(), log.clone());
    child
        .own(Last(move || {
            let closed = HostError::Closed { context: home.id() };
            let back = home.own(Named(notes.clone(), "comes back")).unwrap_err();
            assert_eq!(back.error, closed);
            drop(back);
            assert_eq!(home.own(()).unwrap_err().error, closed);
            assert_eq!(home.child("too late").unwrap_err(), closed);
            assert_eq!(
                home.try_allocate(std::alloc::Layout::new::<u64>(), Scope::Object),
                Err(closed)
            );
            // Elsewhere it is served.
            let parent = home.parent().unwrap();
            let id = parent.own(Named(notes.clone(), "in the parent")).unwrap();
            parent.destroy(id).unwrap();
        }))
        .unwrap();
    drop(child);
    assert_eq!(log.take(), ["comes back", "in the parent"]);
    drop(root);
    witness.assert_empty();
}

#[test]
fn m17_no_destructor_can_veto() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let (home, above) = (child.handle(), root.handle());
    let (id, owner) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let (mine, mine_too, notes) = (id.clone(), owner.clone(), log.clone());
    let value = child
        .own(Last(Box::new(move || {
            let id: Owned<Last<Box<dyn FnMut() + Send>>> = mine.lock().unwrap().unwrap();
            // Neither itself nor its context can be brought to safety any more.
            assert!(above.steal(&home, id).is_err());
            let mut context: Context = mine_too.lock().unwrap().take().unwrap();
            assert_eq!(
                context.reparent(&above).unwrap_err(),
                HostError::Closed { context: home.id() }
            );
            notes.note("gone");
        }) as Box<dyn FnMut() + Send>))
        .unwrap();
    *id.lock().unwrap() = Some(value);
    *owner.lock().unwrap() = Some(child);
    // With a handle in a value, the root's end is seen from outside.
    drop(root);
    assert_eq!(log.take(), ["gone"]);
    id.lock().unwrap().take();
    witness.assert_empty();
}

#[test]
fn a_destructor_may_free_its_siblings() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let ids: Vec<_> = ["one", "two", "three"]
        .map(|name| child.own(Named(log.clone(), name)).unwrap())
        .into();
    let (home, ids) = (child.handle(), ids);
    child
        .own(Last(move || {
            // Older siblings are still there: to be read, freed, taken; each is destroyed once.
            assert_eq!(home.get(ids[0]).unwrap().1, "one");
            home.destroy(ids[1]).unwrap();
            assert!(home.destroy(ids[1]).is_err());
            drop(home.remove(ids[2]).unwrap());
        }))
        .unwrap();
    let newest = child.own(Named(log.clone(), "newest")).unwrap();
    assert!(child.get(newest).is_ok());
    drop(child);
    assert_eq!(log.take(), ["newest", "two", "three", "one"]);
    drop(root);
    witness.assert_empty();
}

#[test]
fn a_destructor_may_drop_handles_and_close_contexts() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let below = child.child("below").unwrap();
    below.own(Named(log.clone(), "below")).unwrap();
    let beside = root.child("beside").unwrap();
    beside.own(Named(log.clone(), "beside")).unwrap();
    let handles = [child.handle(), below.handle(), beside.handle()];
    let mut contexts = Some((below, beside, handles));
    let notes = log.clone();
    child
        .own(Last(move || {
            drop(contexts.take());
            notes.note("closer");
        }))
        .unwrap();
    drop(child);
    assert_eq!(log.take(), ["below", "beside", "closer"]);
    assert!(root.close_root().is_ok());
    witness.assert_empty();
}

#[test]
fn a_panic_in_a_destructor_stops_nothing() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let below = child.child("below").unwrap();
    below.own(Named(log.clone(), "below, older")).unwrap();
    below.own(Last(|| panic!("on purpose"))).unwrap();
    below.own(Named(log.clone(), "below, newer")).unwrap();
    child.own(below).unwrap();
    child.own(Named(log.clone(), "child")).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| drop(child))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
    assert_eq!(log.take(), ["below, newer", "below, older", "child"]);

    // The same of a single value, of a cleared context, and of the last hold.
    let id = root.own(Last(|| panic!("alone"))).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| root.destroy(id))).is_err());
    assert_eq!(root.owned_values(), 0);
    root.own(Named(log.clone(), "cleared")).unwrap();
    root.own(Last(|| panic!("clear"))).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| root.clear())).is_err());
    assert_eq!((root.owned_values(), log.take()), (0, vec!["cleared"]));
    let child = root.child("held").unwrap();
    let handle = child.handle();
    let id = child.own(Last(|| panic!("held"))).unwrap();
    let hold = handle.get_mut(id).unwrap();
    drop(child);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(hold))).is_err());
    drop(handle);
    // A hold that was forgotten: the value goes with the record.
    let child = root.child("forgotten").unwrap();
    let id = child.own(Last(|| panic!("forgotten"))).unwrap();
    std::mem::forget(child.get_mut(id).unwrap());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(child))).is_err());
    assert!(root.close_root().is_ok());
    witness.assert_empty();
}

#[test]
fn a_hold_that_a_destructor_takes_may_outlive_it() {
    let (witness, log) = (Witness::new(), OrderLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let oldest = child.own(Named(log.clone(), "oldest")).unwrap();
    child.own(Named(log.clone(), "middle")).unwrap();
    let handle = child.handle();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // The hold's lifetime is that of a handle outside; the destructor knows it by a pointer that is good for as long.
        struct Address(*const ContextHandle);
        // SAFETY: the address of something `Sync`.
        unsafe impl Send for Address {}
        impl Address {
            fn get(&self) -> &'static ContextHandle {
                // SAFETY: the handle outlives the scope, and all holds are dropped within it.
                unsafe { &*self.0 }
            }
        }
        let (address, notes) = (Address(&raw const handle), log.clone());
        child
            .own(Last(move || {
                send.send(address.get().get(oldest).unwrap()).unwrap();
                notes.note("holder");
            }))
            .unwrap();
        let other = scope.spawn(move || {
            let hold = receive.recv().unwrap();
            std::thread::yield_now();
            let name = hold.1;
            drop(hold);
            name
        });
        drop(child);
        assert_eq!(other.join().unwrap(), "oldest");
    });
    let order = log.take();
    assert_eq!((order.len(), order[0]), (3, "holder"), "{order:?}");
    drop((handle, root));
    witness.assert_empty();
}
