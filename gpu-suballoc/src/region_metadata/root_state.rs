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
//! Each step is made under the records' lock.

#![forbid(unsafe_code)]

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootState {
    Live,
    /// It was freed while in use: it goes with the last crop or mapping.
    PendingFree,
    /// It is kept with its buffer for the next exact fit.
    Reusable,
    /// One call is freeing it.
    BeingRemoved,
    Moving,
    /// It has been mapped or cropped since the move began.
    MovingUsed,
    MovingPendingFree,
    /// It was freed while it is copied: it goes when the move ends.
    MovingFreed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "at `Now` the caller frees them"]
pub(crate) enum RemovalTime {
    /// The caller frees them at once.
    Now,
    /// The end of the move frees them: the device may be reading them.
    WithMove,
    /// The end of the last crop or mapping frees them.
    WhenUnused,
}

/// The user's decision about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The contents are at the new place, and the device has finished with the old place.
    Copied,
    /// The region stays.
    Ignored,
    /// The region is no longer needed and is freed. If it has crops or mappings, it stays.
    Destroyed,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveResult {
    /// The region is at the new place; the old resource was destroyed and the old place freed.
    Moved,
    /// The region is at the old place: by its outcome, because it was mapped or cropped during the pass, or because it
    /// has no second resource.
    Stayed,
    /// The region was freed by its outcome.
    Destroyed,
    /// The region was freed by another call during the pass.
    Freed,
}

impl RootState {
    pub(crate) const fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Moving | Self::MovingUsed)
    }

    pub(crate) const fn is_pending_free(self) -> bool {
        matches!(self, Self::PendingFree | Self::MovingPendingFree)
    }

    /// A root that is being moved stays.
    pub(crate) fn note_use(&mut self) {
        if *self == Self::Moving {
            *self = Self::MovingUsed;
        }
    }

    pub(crate) fn begin_move(&mut self) -> bool {
        let is_at_rest = *self == Self::Live;
        if is_at_rest {
            *self = Self::Moving;
        }
        is_at_rest
    }

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

    pub(crate) fn end_last_use(&mut self) -> RemovalTime {
        if *self == Self::MovingPendingFree {
            *self = Self::MovingFreed;
            RemovalTime::WithMove
        } else {
            *self = Self::BeingRemoved;
            RemovalTime::Now
        }
    }

    /// `exchange` changes the place, and says whether it did; it is called for [`MoveOutcome::Copied`] alone, unless
    /// the root was used.
    pub(crate) fn end_move(
        &mut self,
        outcome: MoveOutcome,
        is_used: bool,
        exchange: &mut dyn FnMut() -> bool,
    ) -> MoveResult {
        let (state, result) = match (*self, outcome) {
            (Self::MovingFreed, _) => (Self::BeingRemoved, MoveResult::Freed),
            (Self::MovingPendingFree, _) => (Self::PendingFree, MoveResult::Stayed),
            (Self::Moving, MoveOutcome::Copied) if exchange() => (Self::Live, MoveResult::Moved),
            (Self::Moving | Self::MovingUsed, MoveOutcome::Destroyed) if !is_used => {
                (Self::BeingRemoved, MoveResult::Destroyed)
            }
            (Self::Moving | Self::MovingUsed, _) => (Self::Live, MoveResult::Stayed),
            // No move was begun.
            (state, _) => (state, MoveResult::Stayed),
        };
        *self = state;
        result
    }
}
