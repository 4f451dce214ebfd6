//! One region and the room that is reserved for it: what `RegionMetadata` and `Pools` do around the states.

use loom::cell::UnsafeCell;

use super::root_state::{MoveOutcome, MoveResult, RemovalTime, RootState};
use crate::harness::{Mutant, mutant};
use crate::sync::StateMutex;

/// Where the region lies, and where room is reserved for it. Resource 0 is bound to the one, resource 1 to the other.
const OLD: usize = 0;
const NEW: usize = 1;

/// What the records' lock guards.
struct MovedRecord {
    /// `None`: the region is bare.
    state: Option<RootState>,
    resource: usize,
    maps: u32,
}

/// What the pool's lock guards.
struct Places {
    place: usize,
    is_live: bool,
    /// The word of its range.
    has_record: bool,
}

pub(super) struct MovedRegion {
    record: StateMutex<MovedRecord>,
    places: StateMutex<Places>,
    /// Whether a place and its resource are there: read by who uses them, written by who frees them. Loom reports what
    /// is not ordered.
    lives: [UnsafeCell<bool>; 2],
}

// SAFETY: loom watches over the cells.
unsafe impl Sync for MovedRegion {}
// SAFETY: loom watches over the cells.
unsafe impl Send for MovedRegion {}

/// How a free went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    Yes,
    Stale,
    Mapped,
}

impl MovedRegion {
    /// Never freed, so that a mutant cannot do real harm.
    pub(super) fn new(has_record: bool) -> &'static Self {
        Box::leak(Box::new(Self {
            record: StateMutex::new(MovedRecord {
                state: has_record.then_some(RootState::Live),
                resource: OLD,
                maps: 0,
            }),
            places: StateMutex::new(Places { place: OLD, is_live: true, has_record }),
            lives: [(); 2].map(|()| UnsafeCell::new(true)),
        }))
    }

    fn uses(&self, place: usize) {
        // SAFETY: loom panics where the end is not ordered with this.
        self.lives[place].with(|lives| assert!(unsafe { *lives }, "what is used is there"));
    }

    fn ends(&self, place: usize) {
        self.lives[place].with_mut(|lives| {
            assert!(
                // SAFETY: loom panics where the end is not ordered with other uses.
                unsafe { core::mem::replace(&mut *lives, false) },
                "each is freed once"
            );
        });
    }

    /// A record for a bare region, before its move: the word of its range says whether it is still there.
    pub(super) fn attaches_record(&self) -> bool {
        self.record.lock().state = Some(RootState::Live);
        let is_bare = |places: &Places| places.is_live && !places.has_record;
        let mut was_bare = false;
        if mutant() == Mutant::TornExchanges {
            was_bare = is_bare(&self.places.lock());
        }
        let mut places = self.places.lock();
        if mutant() != Mutant::TornExchanges {
            was_bare = is_bare(&places);
        }
        if was_bare {
            places.has_record = true;
        }
        drop(places);
        if !was_bare {
            self.record.lock().state = None;
        }
        was_bare
    }

    /// A pass with one move. True where the region was moved.
    pub(super) fn moves(&self, outcome: MoveOutcome) -> bool {
        let begun = {
            let mut record = self.record.lock();
            let is_mapped = record.maps > 0;
            record.state.as_mut().is_some_and(|state| !is_mapped && state.begin_move())
        };
        if !begun {
            self.ends(NEW);
            return false;
        }
        // The device copies.
        self.uses(OLD);
        self.uses(NEW);
        let ended = if mutant() == Mutant::LocksCrosswise {
            let places = self.places.lock();
            let ended = self.ends_move(outcome, &mut || true);
            drop(places);
            if ended == MoveResult::Moved {
                self.places.lock().place = NEW;
            }
            ended
        } else {
            self.ends_move(outcome, &mut || {
                let mut places = self.places.lock();
                places.place = NEW;
                places.is_live
            })
        };
        match ended {
            MoveResult::Moved => self.ends(OLD),
            MoveResult::Stayed => self.ends(NEW),
            MoveResult::Destroyed | MoveResult::Freed => {
                self.places.lock().is_live = false;
                self.ends(OLD);
                self.ends(NEW);
            }
        }
        ended == MoveResult::Moved
    }

    fn ends_move(&self, outcome: MoveOutcome, exchange: &mut dyn FnMut() -> bool) -> MoveResult {
        let mut record = self.record.lock();
        let is_used = record.maps > 0;
        let state = record.state.as_mut().expect("its move was begun");
        let ended = state.end_move(outcome, is_used, exchange);
        if ended == MoveResult::Moved {
            record.resource = NEW;
        }
        ended
    }

    /// Place and resource, as whoever asks by id learns them.
    pub(super) fn reads(&self) {
        let record = self.record.lock();
        if !record.state.is_some_and(RootState::is_live) {
            return;
        }
        let resource = record.resource;
        let place = if mutant() == Mutant::ReadsApart {
            drop(record);
            self.places.lock().place
        } else {
            self.places.lock().place
        };
        assert_eq!(resource, place, "the resource is bound where the region lies");
    }

    /// Maps, uses and unmaps the region. False where it is stale.
    pub(super) fn maps(&self) -> bool {
        {
            let mut record = self.record.lock();
            let Some(state) = record.state.as_mut().filter(|state| state.is_live()) else {
                return false;
            };
            if mutant() != Mutant::UnnotedUse {
                state.note_use();
            }
            record.maps += 1;
        }
        let place = self.places.lock().place;
        self.uses(place);
        self.unmaps();
        true
    }

    fn unmaps(&self) {
        let mut record = self.record.lock();
        record.maps -= 1;
        let is_last = record.maps == 0;
        let state = record.state.as_mut().expect("it has one");
        if is_last && state.is_pending_free() {
            let time = state.end_last_use();
            drop(record);
            self.frees_at(time);
        }
    }

    /// Frees the region, or with `wait` lets the last mapping do so.
    pub(super) fn frees(&self, wait: bool) -> Freed {
        {
            let mut places = self.places.lock();
            if !places.is_live {
                return Freed::Stale;
            }
            if !places.has_record {
                places.is_live = false;
                drop(places);
                self.ends(OLD);
                return Freed::Yes;
            }
        }
        let mut record = self.record.lock();
        let is_used = record.maps > 0;
        if is_used && !wait {
            return Freed::Mapped;
        }
        let time = record.state.as_mut().and_then(|state| state.begin_removal(is_used));
        drop(record);
        let Some(time) = time else {
            return Freed::Stale;
        };
        self.frees_at(time);
        Freed::Yes
    }

    fn frees_at(&self, time: RemovalTime) {
        let at_once = mutant() == Mutant::FreesAtOnce && time == RemovalTime::WithMove;
        if time == RemovalTime::Now || at_once {
            let place = {
                let mut places = self.places.lock();
                places.is_live = false;
                places.place
            };
            self.ends(place);
        }
    }

    /// How many places are there at the end; the region's is one of them.
    pub(super) fn left(&self) -> usize {
        // SAFETY: loom panics where a write is not ordered with this.
        let lives = [OLD, NEW].map(|at| self.lives[at].with(|lives| unsafe { *lives }));
        let places = self.places.lock();
        assert!(!places.is_live || lives[places.place]);
        lives.into_iter().filter(|lives| *lives).count()
    }
}

/// The region lies at the new place, with the resource that is bound there.
pub(super) const COMMIT: MoveOutcome = MoveOutcome::Copied;
