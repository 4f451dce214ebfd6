//! One compiles, another waits: both get it, or the error, or another try, whatever is released meanwhile.

use loom::cell::UnsafeCell;
use loom::thread::spawn;

use super::in_flight_compile::{DONE, FAILED, InFlightCompile, RETRY, RUNNING};
use super::key::ShaderKey;
use super::shelf::Shelf;
use crate::harness::{Mutant, holds_and_catches, mutant};
use crate::sync::{Lock, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The one flight of a shelf, and whether it is under way. What [`Core`] does with many.
struct Tower {
    shelf: &'static Shelf,
    flight: InFlightCompile<u32>,
    lock: Lock,
    flying: UnsafeCell<bool>,
}

// SAFETY: loom watches over the cell.
unsafe impl Sync for Tower {}
// SAFETY: as above.
unsafe impl Send for Tower {}

#[derive(Clone, Copy)]
enum Ends {
    Well,
    Badly,
    Unwinding,
}

impl Tower {
    /// Led by the calling thread, and joined by one other, which is still to come.
    fn new() -> &'static Self {
        let tower = Box::leak(Box::new(Self {
            shelf: Shelf::new(true),
            flight: InFlightCompile::default(),
            lock: Lock::new(),
            flying: UnsafeCell::new(true),
        }));
        tower.flight.begin(ShaderKey::of(1), 1, 0);
        tower
    }

    /// Lands; answers the entry.
    fn lands(&self, ends: Ends) -> Option<u32> {
        if matches!(ends, Ends::Badly) {
            self.flight.set_error(7);
        }
        let held = self.lock.lock();
        let mut made = None;
        let state = match ends {
            Ends::Well => {
                let found = self.flight.released.load(Relaxed) == 0;
                made = Some(self.shelf.makes(1, self.flight.users.load(Relaxed), found));
                self.flight.entry.store(made.expect("just made"), Relaxed);
                DONE
            }
            Ends::Badly => FAILED,
            Ends::Unwinding => RETRY,
        };
        // SAFETY: loom panics where another one is not ordered with this.
        self.flying.with_mut(|flying| unsafe { *flying = false });
        self.flight
            .users
            .store(self.flight.users.load(Relaxed) - 1, Relaxed);
        if mutant() != Mutant::SaysNothing {
            self.flight.state.store(state, Release);
        }
        drop(held);
        made
    }

    /// True where the flight is under way, and this thread waits for it now.
    fn joins(&self) -> bool {
        let _held = self.lock.lock();
        // SAFETY: as above.
        let flying = self.flying.with(|flying| unsafe { *flying });
        if flying {
            self.flight
                .users
                .store(self.flight.users.load(Relaxed) + 1, Relaxed);
        }
        flying
    }

    /// What it waited for: an entry that it holds, the compiler's error, or neither.
    fn waits(&self) -> Result<Option<u32>, u32> {
        while self.flight.state.load(Acquire) == RUNNING {
            loom::thread::yield_now();
        }
        let (state, entry) = (
            self.flight.state.load(Acquire),
            self.flight.entry.load(Relaxed),
        );
        let error = self.flight.error();
        let _held = self.lock.lock();
        self.flight
            .users
            .store(self.flight.users.load(Relaxed) - 1, Relaxed);
        match (state, error) {
            (DONE, _) => Ok(Some(entry)),
            (FAILED, error) => Err(error.expect("it is there when the state says so")),
            _ => Ok(None),
        }
    }

    fn uses(&self, entry: u32) {
        let held = Shelf::counted(entry);
        self.shelf.reads(held, 1);
        self.shelf.lets_go(held);
    }
}

/// Somebody deletes what was made as soon as it can be found.
fn made_while_another_deletes() {
    let tower = Tower::new();
    let waiter = spawn(move || {
        if tower.joins() {
            let made = tower.waits();
            tower.uses(made.expect("no error").expect("it was made"));
        }
    });
    let deleter = spawn(move || tower.shelf.deletes(1));
    let made = tower.lands(Ends::Well).expect("it was made");
    tower.uses(made);
    waiter.join().expect("the waiter ends");
    deleter.join().expect("the deleter ends");
    tower.shelf.deletes(1);
    assert_eq!(
        (tower.shelf.left(), tower.flight.users.load(Relaxed)),
        (0, 0)
    );
}

#[test]
fn who_waits_holds_what_was_made_whoever_deletes_it() {
    holds_and_catches(Mutant::CountsLate, made_while_another_deletes);
}

#[test]
fn who_waits_gets_the_error() {
    holds_and_catches(Mutant::SaysNothing, || {
        let tower = Tower::new();
        let waiter = spawn(move || {
            if tower.joins() {
                assert_eq!(tower.waits(), Err(7));
            }
        });
        let reader = spawn(move || assert!(tower.shelf.finds(0, 1).is_none(), "nothing was made"));
        assert_eq!(tower.lands(Ends::Badly), None);
        waiter.join().expect("the waiter ends");
        reader.join().expect("the reader ends");
        assert_eq!(
            (tower.shelf.left(), tower.flight.users.load(Relaxed)),
            (0, 0)
        );
    });
}

/// The leader unwinds; whoever waited leads.
#[test]
fn who_waits_goes_on_when_the_leader_unwinds() {
    holds_and_catches(Mutant::SaysNothing, || {
        let tower = Tower::new();
        let waiter = spawn(move || {
            if tower.joins() {
                assert_eq!(tower.waits(), Ok(None));
            }
            let made = tower.shelf.makes(1, 1, true);
            tower.uses(made);
        });
        let reader = spawn(move || {
            if let Some(held) = tower.shelf.finds(0, 1) {
                tower.shelf.reads(held, 1);
                tower.shelf.lets_go(held);
            }
        });
        // The entry that it reserved is free again.
        assert_eq!(tower.lands(Ends::Unwinding), None);
        waiter.join().expect("the waiter ends");
        reader.join().expect("the reader ends");
        assert_eq!(
            (tower.shelf.left(), tower.flight.users.load(Relaxed)),
            (1, 0)
        );
    });
}

/// The device goes while it is compiled for: both may use what was made, nobody finds it, the last of them destroys it.
#[test]
fn what_is_released_in_flight_goes_with_its_last_hold() {
    holds_and_catches(Mutant::Forgets, || {
        let tower = Tower::new();
        let waiter = spawn(move || {
            if tower.joins() {
                let made = tower.waits();
                tower.uses(made.expect("no error").expect("it was made"));
            }
        });
        let releaser = spawn(move || {
            {
                let _held = tower.lock.lock();
                tower.flight.released.store(1, Relaxed);
                // SAFETY: as in `joins`.
                let flying = tower.flying.with(|flying| unsafe { *flying });
                if flying {
                    return;
                }
            }
            // It was made before.
            tower.shelf.deletes(1);
        });
        let made = tower.lands(Ends::Well).expect("it was made");
        tower.uses(made);
        waiter.join().expect("the waiter ends");
        releaser.join().expect("the releaser ends");
        assert!(tower.shelf.finds(0, 1).is_none());
        assert_eq!(
            (tower.shelf.left(), tower.flight.users.load(Relaxed)),
            (0, 0)
        );
    });
}
