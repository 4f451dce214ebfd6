//! The states of a root: who may free it, and what a move does to that.
//!
//! ```text
//!   Live -- begin_move --> Moving -- map, crop ----------------> MovingUsed          stays where it is
//!                            |  \--- free_when_unused, in use -> MovingPendingFree   stays, and waits on
//!                            |  \--- free ---------------------> MovingFreed         the end waits for end_move: the device may copy
//!                            v
//!                        end_move: Live with the new resource, as it was, or gone
//! ```
//!
//! Each step is made under the records' lock. Loom runs these steps beside the two locks (`testkit/models`).

#![forbid(unsafe_code)]

/// How far the life of a root has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootState {
    /// Somebody's.
    Live,
    /// Given back while in use: goes with the last crop or mapping.
    PendingFree,
    /// Nobody's, kept with its buffer for the next exact fit.
    Reusable,
    /// Being taken apart by one call.
    BeingRemoved,
    /// Somebody's, and being copied to another place.
    Moving,
    /// As [`Moving`](Self::Moving), and mapped or cropped since.
    MovingUsed,
    /// As [`PendingFree`](Self::PendingFree), and being copied.
    MovingPendingFree,
    /// Given back, and being copied: goes when that ends.
    MovingFreed,
}

/// When resource and place of a root that was given back are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "at `Now` the caller frees them"]
pub(crate) enum RemovalTime {
    /// By the caller, at once.
    Now,
    /// By the end of the move: the device may be reading them.
    WithMove,
    /// By the end of the last crop or mapping.
    WhenUnused,
}

/// What is to become of a root at the end of its move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveEnding {
    /// It lies at the new place, with this resource.
    Commit { resource: u64 },
    /// It stays.
    Keep,
    /// It goes.
    Destroy,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedMove {
    /// It lies at the new place, with this resource.
    Moved { resource: u64 },
    /// It is where it was.
    Stayed,
    /// It was freed, now or `meanwhile`: resource and place are the caller's to free.
    Removed { meanwhile: bool },
}

impl RootState {
    /// Somebody's.
    pub(crate) const fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Moving | Self::MovingUsed)
    }

    /// Goes with the last crop or mapping.
    pub(crate) const fn is_pending_free(self) -> bool {
        matches!(self, Self::PendingFree | Self::MovingPendingFree)
    }

    /// Somebody uses it: if it is being moved, it stays.
    pub(crate) fn note_use(&mut self) {
        if *self == Self::Moving {
            *self = Self::MovingUsed;
        }
    }

    /// Uses are noted from now on. False where it is not at rest.
    pub(crate) fn begin_move(&mut self) -> bool {
        let is_at_rest = *self == Self::Live;
        if is_at_rest {
            *self = Self::Moving;
        }
        is_at_rest
    }

    /// Its owner gives it back, while crops or mappings use it or not. `None` where it is nobody's.
    pub(crate) fn begin_removal(&mut self, is_used: bool) -> Option<RemovalTime> {
        if !self.is_live() {
            return None;
        }
        let is_moving = *self != Self::Live;
        let (state, time) = match (is_moving, is_used) {
            (false, false) => (Self::BeingRemoved, RemovalTime::Now),
            (false, true) => (Self::PendingFree, RemovalTime::WhenUnused),
            (true, false) => (Self::MovingFreed, RemovalTime::WithMove),
            (true, true) => (Self::MovingPendingFree, RemovalTime::WhenUnused),
        };
        *self = state;
        Some(time)
    }

    /// The last crop or mapping of a root that [is pending](Self::is_pending_free) has ended.
    pub(crate) fn end_last_use(&mut self) -> RemovalTime {
        if *self == Self::MovingPendingFree {
            *self = Self::MovingFreed;
            RemovalTime::WithMove
        } else {
            *self = Self::BeingRemoved;
            RemovalTime::Now
        }
    }

    /// Ends a move. `exchange` changes the place, and says whether it did; it is called for [`MoveEnding::Commit`] alone, and not where
    /// somebody used the root meanwhile. `None` where no move was begun.
    pub(crate) fn end_move(
        &mut self,
        ending: MoveEnding,
        is_used: bool,
        exchange: &mut dyn FnMut() -> bool,
    ) -> Option<EndedMove> {
        let (state, ended) = match (*self, ending) {
            (Self::MovingFreed, _) => (Self::BeingRemoved, EndedMove::Removed { meanwhile: true }),
            (Self::MovingPendingFree, _) => (Self::PendingFree, EndedMove::Stayed),
            (Self::Moving, MoveEnding::Commit { resource }) => {
                let ended = if exchange() {
                    EndedMove::Moved { resource }
                } else {
                    EndedMove::Stayed
                };
                (Self::Live, ended)
            }
            (Self::Moving | Self::MovingUsed, MoveEnding::Destroy) if !is_used => {
                (Self::BeingRemoved, EndedMove::Removed { meanwhile: false })
            }
            (Self::Moving | Self::MovingUsed, _) => (Self::Live, EndedMove::Stayed),
            _ => return None,
        };
        *self = state;
        Some(ended)
    }
}
