//! Clearing a context: what it owned when the call began is destroyed, and nothing that came later.
//!
//! Runs under miri.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::witness::Witness;
use alloc_core::{Context, ContextHandle, ContextOptions, Scope, held_state_locks};

/// Does something when it is destroyed.
struct Last<F: FnMut() + Send>(F);

impl<F: FnMut() + Send> Drop for Last<F> {
    fn drop(&mut self) {
        assert_eq!(held_state_locks(), 0);
        (self.0)();
    }
}

#[derive(Clone, Default)]
struct ClearLog(Arc<Mutex<Vec<&'static str>>>);

impl ClearLog {
    fn note(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }
    fn value(&self, name: &'static str) -> Last<impl FnMut() + Send + use<>> {
        let log = self.clone();
        Last(move || log.note(name))
    }
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn root(witness: &Witness) -> Context {
    // SAFETY: every test drops the root, and what is below it, before the witness.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Object)) }.unwrap()
}

/// Owns another value of its kind when it is destroyed, up to `left` times, which a clear that does not end would use up.
struct Again {
    context: ContextHandle,
    left: u32,
    destroyed: Arc<AtomicU32>,
}

impl Drop for Again {
    fn drop(&mut self) {
        self.destroyed.fetch_add(1, SeqCst);
        if let Some(left) = self.left.checked_sub(1)
            && !self.context.is_closed()
        {
            let again = Self {
                context: self.context.clone(),
                left,
                destroyed: self.destroyed.clone(),
            };
            self.context
                .own(again)
                .map(drop)
                .map_err(|refused| refused.error)
                .expect("the context is open");
        }
    }
}

#[test]
fn clear_returns_although_every_destructor_gives_the_context_another_value() {
    let witness = Witness::new();
    let root = root(&witness);
    let destroyed = Arc::new(AtomicU32::new(0));
    for _ in 0..20 {
        root.own(Again {
            context: root.handle(),
            left: 50,
            destroyed: destroyed.clone(),
        })
        .unwrap();
    }
    for turn in 1..=3 {
        root.clear();
        assert_eq!(
            (destroyed.load(SeqCst), root.owned_values()),
            (20 * turn, 20),
            "turn {turn}"
        );
    }
    drop(root);
    witness.assert_empty();
}

/// What was there goes in its order, around values that came later, were taken, are held, or went otherwise meanwhile.
#[test]
fn clear_destroys_what_was_there_and_keeps_what_came_later() {
    let (witness, log) = (Witness::new(), ClearLog::default());
    let root = root(&witness);
    let oldest = root.own(log.value("oldest")).unwrap();
    let held = root.own(log.value("held")).unwrap();
    let sibling = root.own(log.value("sibling")).unwrap();
    let (handle, notes) = (root.handle(), log.clone());
    root.own(Last(move || {
        notes.note("gives");
        handle.destroy(sibling).unwrap();
        for name in ["later", "later still"] {
            handle
                .own(notes.value(name))
                .map(drop)
                .map_err(|refused| refused.error)
                .unwrap();
        }
    }))
    .unwrap();
    root.own(log.value("newest")).unwrap();
    let hold = root.get_mut(held).unwrap();
    root.clear();
    assert_eq!(log.take(), ["newest", "gives", "sibling", "oldest"]);
    assert_eq!(root.owned_values(), 3);
    assert!(root.remove(oldest).is_err());
    drop(hold);
    assert_eq!(log.take(), [] as [&str; 0], "held, it stayed, and stays");
    root.clear();
    assert_eq!(log.take(), ["later still", "later", "held"]);
    drop(root);
    witness.assert_empty();
}

/// A clear within a clear destroys what the outer one has not come to, and what came in between.
#[test]
fn clear_within_a_clear_destroys_what_was_there_when_it_began_itself() {
    let (witness, log) = (Witness::new(), ClearLog::default());
    let root = root(&witness);
    let child = Arc::new(root.child("child").unwrap());
    child.own(log.value("oldest")).unwrap();
    let (context, notes) = (Arc::downgrade(&child), log.clone());
    child
        .own(Last(move || {
            let context = context.upgrade().expect("it is being cleared");
            notes.note("clears");
            context
                .own(notes.value("between"))
                .map(drop)
                .map_err(|refused| refused.error)
                .unwrap();
            context.clear();
            context
                .own(notes.value("later"))
                .map(drop)
                .map_err(|refused| refused.error)
                .unwrap();
        }))
        .unwrap();
    child.own(log.value("newest")).unwrap();
    child.clear();
    assert_eq!(log.take(), ["newest", "clears", "between", "oldest"]);
    assert_eq!(child.owned_values(), 1);
    drop((child, root));
    assert_eq!(log.take(), ["later"]);
    witness.assert_empty();
}

/// The context ends, on the same thread or on another, while it is being cleared.
#[test]
fn clear_of_a_context_that_ends_meanwhile_destroys_each_value_once() {
    for elsewhere in [false, true] {
        let (witness, log) = (Witness::new(), ClearLog::default());
        let root = root(&witness);
        let parent = root.child("parent").unwrap();
        let child = parent.child("child").unwrap();
        let parent = Arc::new(Mutex::new(Some(parent)));
        child.own(log.value("oldest")).unwrap();
        child.own(log.value("older")).unwrap();
        let (notes, owner) = (log.clone(), parent.clone());
        child
            .own(Last(move || {
                notes.note("ends");
                let parent = owner.lock().unwrap().take();
                if elsewhere {
                    thread::scope(|scope| scope.spawn(move || drop(parent)).join()).unwrap();
                } else {
                    drop(parent);
                }
                notes.note("ended");
            }))
            .unwrap();
        child.own(log.value("newest")).unwrap();
        child.clear();
        assert_eq!(
            log.take(),
            ["newest", "ends", "older", "oldest", "ended"],
            "elsewhere: {elsewhere}"
        );
        assert!(child.is_closed() && child.owned_values() == 0);
        drop((child, root));
        witness.assert_empty();
    }
}

/// Another thread has begun to end the context when the clear returns: each value goes once, whoever takes it.
#[test]
fn clear_returns_while_another_thread_ends_the_context() {
    let (witness, log) = (Witness::new(), ClearLog::default());
    let root = root(&witness);
    let child = root.child("child").unwrap();
    let handle = child.handle();
    let (began, owner, ender) = (
        Arc::new(Barrier::new(2)),
        Arc::new(Mutex::new(None)),
        Arc::new(Mutex::new(None)),
    );
    for name in ["oldest", "older", "old"] {
        handle.own(log.value(name)).unwrap();
    }
    let (notes, other) = (log.clone(), began.clone());
    handle
        .own(Last(move || {
            notes.note("first of the end");
            other.wait();
        }))
        .unwrap();
    let (place, thread) = (owner.clone(), ender.clone());
    handle
        .own(Last(move || {
            // The root's end closes the child and goes through its values.
            let ended: Option<Context> = place.lock().unwrap().take();
            *thread.lock().unwrap() = Some(thread::spawn(move || drop(ended)));
            began.wait();
        }))
        .unwrap();
    *owner.lock().unwrap() = Some(root);
    child.clear();
    drop(child);
    drop(handle);
    let ender = ender.lock().unwrap().take().expect("started");
    ender.join().expect("no panic");
    witness.assert_empty();
    let mut destroyed = log.take();
    assert_eq!(destroyed[0], "first of the end");
    // Both threads take values in turns.
    destroyed[1..].sort_unstable();
    assert_eq!(destroyed[1..], ["old", "older", "oldest"]);
}

/// Two threads clear, a third gives: every value goes once, and none that came before both began is left.
#[test]
fn clear_on_two_threads_beside_a_third_that_gives() {
    let rounds = if cfg!(miri) { 1 } else { 200 };
    let witness = Witness::new();
    let root = root(&witness);
    for _ in 0..rounds {
        let destroyed = Arc::new(AtomicU32::new(0));
        let value = || {
            let destroyed = destroyed.clone();
            Last(move || {
                destroyed.fetch_add(1, SeqCst);
            })
        };
        let before: Vec<_> = (0..20).map(|_| root.own(value()).unwrap()).collect();
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    root.clear();
                });
            }
            start.wait();
            for _ in 0..20 {
                root.own(value()).unwrap();
            }
        });
        assert!(before.into_iter().all(|id| root.get_mut(id).is_err()));
        let (gone, left) = (destroyed.load(SeqCst) as usize, root.owned_values());
        assert_eq!(gone + left, 40);
        root.clear();
        assert_eq!((destroyed.load(SeqCst), root.owned_values()), (40, 0));
    }
    drop(root);
    witness.assert_empty();
}

/// Where a destructor panics, the rest of what was there goes all the same, and nothing that came later.
#[test]
fn clear_goes_on_after_a_panic_to_the_same_end() {
    let (witness, log) = (Witness::new(), ClearLog::default());
    let root = root(&witness);
    root.own(log.value("oldest")).unwrap();
    let (handle, notes) = (root.handle(), log.clone());
    root.own(Last(move || {
        handle
            .own(notes.value("later"))
            .map(drop)
            .map_err(|refused| refused.error)
            .unwrap();
        panic!("on purpose")
    }))
    .unwrap();
    root.own(log.value("newest")).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| root.clear())).is_err());
    assert_eq!(
        (log.take(), root.owned_values()),
        (vec!["newest", "oldest"], 1)
    );
    drop(root);
    assert_eq!(log.take(), ["later"]);
    witness.assert_empty();
}
