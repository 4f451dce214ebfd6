//! Contexts that are used, and released by number: once, and only when nobody uses them.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;

use super::device_context::DeviceContextId;
use super::error::ContextError;
use super::register::ContextRegister;
use crate::harness::{Mutant, holds_and_catches, mutant};

/// The value of a device's handle, which comes again.
const DEVICE: u64 = 7;

/// A context on it.
struct Context {
    number: u64,
    /// Read by users, written at the end: loom reports what is not ordered.
    lives: UnsafeCell<bool>,
}

// SAFETY: loom watches over the cell.
unsafe impl Sync for Context {}
// SAFETY: loom watches over the cell.
unsafe impl Send for Context {}

/// What [`ContextTable`] does around the register. The references are counted by loom's `Arc`.
struct Table {
    register: ContextRegister<Arc<&'static Context>, ()>,
}

impl Table {
    /// Never freed, so that a mutant cannot do real harm.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self { register: ContextRegister::new() }))
    }

    fn acquires(&self, number: u64) -> DeviceContextId {
        let id = DeviceContextId(if mutant() == Mutant::ByHandle { DEVICE } else { number });
        let context: &'static Context = Box::leak(Box::new(Context { number, lives: UnsafeCell::new(true) }));
        assert!(self.register.put(id, Arc::new(context)).is_ok(), "there is room");
        id
    }

    /// True where it was there.
    fn uses(&self, id: DeviceContextId) -> bool {
        let Ok(shared) = self.register.get(id) else {
            return false;
        };
        let context: &'static Context = *shared;
        let counted = (mutant() != Mutant::Uncounted).then_some(shared);
        // SAFETY: loom panics where the end is not ordered with this.
        context.lives.with(|lives| assert!(unsafe { *lives }, "what is used is there"));
        drop(counted);
        true
    }

    /// Which one went; with `refused` it is not released after all.
    fn releases(&self, id: DeviceContextId, refused: bool) -> Result<u64, ContextError> {
        let context = self.register.close(id, |context| Arc::get_mut(context).is_some())?;
        if refused {
            self.register.settle(id, Some(context));
            return Ok(0);
        }
        context.lives.with_mut(|lives| {
            assert!(
                // SAFETY: loom panics where the end is not ordered with other uses.
                unsafe { core::mem::replace(&mut *lives, false) },
                "each ends once"
            )
        });
        self.register.settle(id, None);
        Ok(context.number)
    }
}

/// One uses it, two release it: one of those at most succeeds, and nobody's context goes under him.
fn used_and_released_twice() {
    let table = Table::new();
    let id = table.acquires(1);
    let user = spawn(move || table.uses(id));
    let other = spawn(move || table.releases(id, false));
    let mine = table.releases(id, false);
    user.join().expect("the user ends");
    let theirs = other.join().expect("the other one ends");
    assert!(mine.is_err() || theirs.is_err(), "it goes once");
    if mine.is_err() && theirs.is_err() {
        assert_eq!(table.releases(id, false), Ok(1), "nobody uses it any more");
    }
    assert_eq!(table.releases(id, false), Err(ContextError::Released));
    assert!(!table.uses(id));
}

#[test]
fn who_uses_a_context_has_it_until_he_leaves() {
    holds_and_catches(Mutant::Uncounted, used_and_released_twice);
}

#[test]
fn two_who_release_are_told_apart_by_the_lock() {
    holds_and_catches(Mutant::NoLocks, used_and_released_twice);
}

/// Released twice, while another context is acquired on a device of the same handle: that one stays.
#[test]
fn a_second_release_never_ends_the_context_that_has_the_handle_now() {
    holds_and_catches(Mutant::ByHandle, || {
        let table = Table::new();
        let first = table.acquires(1);
        let late = spawn(move || table.releases(first, false));
        let mine = table.releases(first, false);
        let second = table.acquires(2);
        assert!(table.uses(second), "it was acquired, and not released");
        let late = late.join().expect("the late one ends");
        assert!([mine, late].iter().all(|gone| matches!(gone, Ok(1) | Err(_))), "the first alone goes");
        assert_ne!(mine.is_ok(), late.is_ok(), "once");
        assert!(table.uses(second));
        assert_eq!(table.releases(second, false), Ok(2));
    });
}

/// A release that is refused (something is outstanding) leaves the context to its users.
#[test]
fn a_refused_release_leaves_it_as_it_was() {
    holds_and_catches(Mutant::NoLocks, || {
        let table = Table::new();
        let id = table.acquires(1);
        let refused = spawn(move || table.releases(id, true));
        let user = spawn(move || table.uses(id));
        // Told that it is in use, at most.
        table.uses(id);
        user.join().expect("the user ends");
        assert!(matches!(refused.join().expect("it ends"), Ok(0) | Err(ContextError::InUse)));
        assert!(table.uses(id));
        assert_eq!(table.releases(id, false), Ok(1));
    });
}
