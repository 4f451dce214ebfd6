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
    /// The region is at the old place: by its outcome, because it was mapped or cropped during the pass, or because no second resource was
    /// created for its resource.
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

    /// Returns `None` where the root is nobody's.
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

    /// Ends a move. `exchange` changes the place, and says whether it did; it is called for [`MoveOutcome::Copied`] alone, unless somebody
    /// used the root meanwhile. What was freed or destroyed is the caller's to free.
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
