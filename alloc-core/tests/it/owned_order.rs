//! What a context owns is destroyed with it: children before their parents, newer values before older, whatever
//! destructors do.
//!
//! Runs under miri.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::scene::{DropLog, Last, own, root_over};
use crate::witness::Witness;
use alloc_core::{Context, ContextHandle, HostError, Owned};

type Act = Last<Box<dyn FnMut() + Send>>;

#[test]
fn m3_a_value_that_frees_itself_is_unlinked_already() {
    let witness = Witness::new();
    let (root, log) = (root_over(&witness), DropLog::default());
    let own = Arc::new(Mutex::new(None::<(ContextHandle, Owned<Act>)>));
    let (inner, notes) = (own.clone(), log.clone());
    let act: Box<dyn FnMut() + Send> = Box::new(move || {
        let (home, id) = inner.lock().unwrap().take().unwrap();
        assert!(home.destroy(id).is_err() && home.get_mut(id).is_err());
        notes.note(1);
    });
    let id = root.own(Last(act)).unwrap();
    *own.lock().unwrap() = Some((root.handle(), id));
    root.destroy(id).unwrap();
    assert_eq!(log.take(), [1]);
    drop(root);
    witness.assert_empty();
}

/// Also of the last hold, when the context has ended.
#[test]
fn a_panic_in_a_destructor_stops_nothing() {
    let witness = Witness::new();
    let (root, log) = (root_over(&witness), DropLog::default());
    let child = root.child("child").unwrap();
    let below = child.child("below").unwrap();
    for number in 1..4 {
        own(&below, log.panicking(number, number == 2));
    }
    own(&child, below);
    own(&child, log.value(4));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(child))).is_err());
    assert_eq!(log.take(), [3, 2, 1, 4]);

    let child = root.child("held").unwrap();
    let handle = child.handle();
    let id = child.own(Last(|| panic!("held"))).unwrap();
    let hold = handle.get_mut(id).unwrap();
    drop(child);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(hold))).is_err());
    drop(handle);
    root.close_root().unwrap();
    witness.assert_empty();
}

#[test]
fn m17_no_destructor_can_veto() {
    let (witness, log) = (Witness::new(), DropLog::default());
    let root = root_over(&witness);
    let child = root.child("child").unwrap();
    let (home, above) = (child.handle(), root.handle());
    let (id, owner) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let (mine, mine_too, notes) = (id.clone(), owner.clone(), log.clone());
    let value = child
        .own(Last(Box::new(move || {
            let id: Owned<Act> = mine.lock().unwrap().unwrap();
            // Neither itself nor its context can be brought to safety any more.
            assert!(above.steal(&home, id).is_err());
            let mut context: Context = mine_too.lock().unwrap().take().unwrap();
            assert_eq!(context.reparent(&above).unwrap_err(), HostError::Closed { context: home.id() });
            notes.note(1);
        }) as Box<dyn FnMut() + Send>))
        .unwrap();
    *id.lock().unwrap() = Some(value);
    *owner.lock().unwrap() = Some(child);
    // With a handle in a value, the root's end is seen from outside.
    drop(root);
    assert_eq!(log.take(), [1]);
    id.lock().unwrap().take();
    witness.assert_empty();
}

#[test]
fn a_hold_that_a_destructor_takes_may_outlive_it() {
    let (witness, log) = (Witness::new(), DropLog::default());
    let root = root_over(&witness);
    let child = root.child("child").unwrap();
    let oldest = child.own(("oldest", log.value(1))).map_err(|back| back.error).unwrap();
    own(&child, log.value(2));
    let handle = child.handle();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // The hold's lifetime is that of a handle outside; the destructor knows it by a pointer that is good for as
        // long.
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
                notes.note(3);
            }))
            .unwrap();
        let other = scope.spawn(move || {
            let hold = receive.recv().unwrap();
            std::thread::yield_now();
            let name = hold.0;
            drop(hold);
            name
        });
        drop(child);
        assert_eq!(other.join().unwrap(), "oldest");
    });
    let order = log.take();
    assert_eq!((order.len(), order[0]), (3, 3), "{order:?}");
    drop((handle, root));
    witness.assert_empty();
}
