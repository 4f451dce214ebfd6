//! Owned values from several threads at once: each is destroyed once, nobody ever reads another one, and accounts are
//! exact when all is quiet.
//!
//! Runs under miri.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};

use crate::scene::{charged, limited, root_over};
use crate::witness::Witness;
use alloc_core::{Budget, ContextHandle, HostError, Misuse, Owned, fold_thread};

const ROUNDS: u64 = if cfg!(miri) { 12 } else { 4000 };
const THREADS: u64 = 3;

/// Made and destroyed so many.
#[derive(Default)]
struct Census {
    made: AtomicU64,
    gone: AtomicU64,
}

struct ThreadValue {
    census: &'static Census,
    number: u64,
    /// Wrong once it was destroyed.
    check: u64,
}

impl ThreadValue {
    fn new(census: &'static Census, number: u64) -> Self {
        census.made.fetch_add(1, Relaxed);
        Self { census, number, check: !number }
    }
    fn assert_whole(&self) {
        assert_eq!(self.check, !self.number);
    }
}

impl Drop for ThreadValue {
    fn drop(&mut self) {
        self.assert_whole();
        self.check = self.number;
        self.census.gone.fetch_add(1, Relaxed);
    }
}

/// A small generator of its own for each thread.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn many_threads_own_hold_move_and_free() {
    static CENSUS: Census = Census { made: AtomicU64::new(0), gone: AtomicU64::new(0) };
    let witness = Witness::new();
    let root = root_over(&witness);
    let limited = limited(&root, Budget::limit(1 << 20));
    let contexts = [limited.child("one").unwrap(), limited.child("two").unwrap(), root.child("three").unwrap()];
    let ids: Mutex<Vec<Owned<ThreadValue>>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (contexts, ids) = (&contexts, &ids);
            scope.spawn(move || {
                let mut state = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let any = |state: &mut u64| {
                    let ids = ids.lock().unwrap();
                    let at = next(state) as usize % ids.len().max(1);
                    ids.get(at).copied()
                };
                for round in 0..ROUNDS {
                    let home = &contexts[next(&mut state) as usize % 3];
                    let id = any(&mut state);
                    let of =
                        |id: Owned<ThreadValue>| contexts.iter().find(|context| context.id() == id.context()).unwrap();
                    match (next(&mut state) % 8, id) {
                        (0 | 1, _) | (_, None) => {
                            let id = home.own(ThreadValue::new(&CENSUS, thread << 32 | round)).unwrap();
                            ids.lock().unwrap().push(id);
                        }
                        (2, Some(id)) => drop(of(id).remove(id)),
                        (3, Some(id)) => drop(of(id).destroy(id)),
                        (4 | 5, Some(id)) => match home.steal(of(id), id) {
                            Ok(id) => ids.lock().unwrap().push(id),
                            Err(error) => {
                                assert!(matches!(
                                    error,
                                    HostError::Misuse(Misuse::NotOwned | Misuse::Held | Misuse::SameContext)
                                ))
                            }
                        },
                        (6, Some(id)) => {
                            if let Ok(mut value) = of(id).get_mut(id) {
                                value.assert_whole();
                                value.number = value.number.rotate_left(1);
                                value.check = !value.number;
                            }
                        }
                        (_, Some(id)) => {
                            if let Ok(value) = of(id).get(id) {
                                value.assert_whole();
                            }
                        }
                    }
                }
                fold_thread();
            });
        }
    });
    fold_thread();
    let alive: usize = contexts.iter().map(|context| context.owned_values()).sum();
    assert_eq!(CENSUS.made.load(Relaxed) - CENSUS.gone.load(Relaxed), alive as u64);
    assert_eq!(charged(&limited), limited.subtree_usage().total().live_bytes);
    assert_eq!(root.subtree_usage().total().live_bytes, witness.bytes() as u64);
    drop(contexts);
    assert_eq!(CENSUS.made.load(Relaxed), CENSUS.gone.load(Relaxed));
    drop((limited, root));
    witness.assert_empty();
}

#[test]
fn an_ancestor_may_end_while_others_use_what_is_below() {
    static CENSUS: Census = Census { made: AtomicU64::new(0), gone: AtomicU64::new(0) };
    let witness = Witness::new();
    let root = root_over(&witness);
    for round in 0..if cfg!(miri) { 3 } else { 200 } {
        let top = root.child("top").unwrap();
        let middle = top.child("middle").unwrap();
        let below = middle.child("below").unwrap();
        let ids: Vec<_> = (0..8).map(|n| below.own(ThreadValue::new(&CENSUS, n)).unwrap()).collect();
        let (start, handle) = (Barrier::new(4), below.handle());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                // All of it, at some moment of the others' work.
                for _ in 0..round {
                    std::hint::spin_loop();
                }
                drop(top);
            });
            scope.spawn(|| {
                start.wait();
                drop((middle, below));
            });
            scope.spawn(|| {
                start.wait();
                for id in ids.iter().rev() {
                    if let Ok(value) = handle.get(*id) {
                        value.assert_whole();
                        std::thread::yield_now();
                        value.assert_whole();
                    }
                }
            });
            start.wait();
            for id in &ids {
                match root.steal(&handle, *id) {
                    Ok(id) => root.destroy(id).unwrap(),
                    Err(HostError::Misuse(Misuse::Held) | HostError::Closed { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                if let Err(back) = handle.own(ThreadValue::new(&CENSUS, 99)) {
                    assert!(matches!(back.error, HostError::Closed { .. }));
                }
            }
        });
        assert_eq!(CENSUS.made.load(Relaxed), CENSUS.gone.load(Relaxed), "all ended when the last of the threads had");
        drop(handle);
        assert_eq!((root.owned_values(), root.subtree_usage().total().live_blocks), (0, witness.blocks() as u64));
    }
    drop(root);
    witness.assert_empty();
}

#[test]
fn contexts_move_while_threads_allocate_in_them() {
    let witness = Witness::new();
    let root = root_over(&witness);
    let limited = |parent: &ContextHandle, bytes| limited(parent, Budget::limit(bytes));
    let above = limited(&root, 1 << 20);
    let (left, right) = (limited(&above, 1 << 18), limited(&above, 1 << 17));
    let mut moving = left.child("moving").unwrap();
    let below = moving.child("below").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2_u64)
            .map(|n| {
                let below = &below;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..ROUNDS {
                        kept.push(below.own([n; 40]).unwrap());
                        if round % 3 != 0 {
                            below.destroy(kept.swap_remove(round as usize % kept.len())).unwrap();
                        }
                        if kept.len() > 60 {
                            kept.drain(..).for_each(|id| below.destroy(id).unwrap());
                        }
                        assert!(below.parent().is_some());
                    }
                    fold_thread();
                })
            })
            .collect();
        let (done, moving, left, right) = (&done, &mut moving, &left, &right);
        let mover = scope.spawn(move || {
            let mut moves = 0;
            while !done.load(Relaxed) || moves < 4 {
                for parent in [right, left] {
                    moving.reparent(parent).unwrap();
                    moves += 1;
                }
                assert!(charged(left) <= 1 << 18);
            }
            fold_thread();
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
        mover.join().unwrap();
    });
    fold_thread();
    for context in [&above, &left, &right] {
        assert_eq!(charged(context), context.subtree_usage().total().live_bytes);
    }
    assert_eq!(root.subtree_usage().total().live_bytes, witness.bytes() as u64);
    drop((moving, below, left, right, above));
    assert_eq!(root.usage().total().live_blocks, 1);
    drop(root);
    witness.assert_empty();
}
