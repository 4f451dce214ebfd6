//! Moves of regions: their slots at the begin and the end (`root_state.rs` has the states).
//!
//! Two places change in one step: the records' lock is held while the pools' is taken, never the other way round.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::resource_description::ResourceDescription;
use super::root_state::{EndedMove, MoveEnding, RootState};
use super::{RegionMetadata, RemovedRoot};
use crate::id::{RegionKey, RegionPlace};
use crate::region::RegionContent;

/// A root that may move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovingRoot {
    pub(crate) key: RegionKey,
    pub(crate) resource: u64,
    pub(crate) content: RegionContent,
    /// Bytes that were requested.
    pub(crate) asked: u64,
    /// The user's.
    pub(crate) tag: u64,
    pub(crate) description: Option<ResourceDescription>,
}

/// The end of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveEnd {
    /// It is at the new place; the former resource.
    Moved { old_resource: u64 },
    /// It is where it was.
    Stayed,
    /// It was freed, now or meanwhile: resource and place are the caller's to free, see [`removed_by_move`](RegionMetadata::removed_by_move).
    Removed { meanwhile: bool },
}

impl RegionMetadata {
    /// The root at a place and the number of its mappings, if it is live and not moving.
    pub(crate) fn movable(&self, at: RegionPlace) -> Option<(MovingRoot, u32)> {
        let state = self.state.lock();
        let root = state.table.root_at(at)?;
        let header = &root.header;
        (header.state == RootState::Live).then(|| {
            let moving = MovingRoot {
                key: RegionKey {
                    slot: at.slot,
                    generation: header.generation,
                },
                resource: root.resource,
                content: header.content,
                asked: root.asked,
                tag: header.detail.as_ref().map_or(0, RegionDetail::tag),
                description: state.kinds.get(header.kind).copied(),
            };
            (moving, u32::from(header.maps))
        })
    }

    /// Begins the move of a root, whose uses are noted until [`end_move`](Self::end_move). False if it is not live, or mapped.
    pub(crate) fn begin_move(&self, key: RegionKey) -> bool {
        let mut state = self.state.lock();
        (state.table.root_mut(key))
            .is_some_and(|root| root.header.maps == 0 && root.header.state.begin_move())
    }

    /// Ends the move of a root. `exchange` moves it to `to` within this lock, and says whether it did; it is called for
    /// [`MoveEnding::Commit`], unless the root was used or freed meanwhile.
    pub(crate) fn end_move(
        &self,
        key: RegionKey,
        ending: MoveEnding,
        to: RegionPlace,
        exchange: impl Fn() -> bool,
    ) -> MoveEnd {
        let mut state = self.state.lock();
        let Some(root) = state.table.root_mut(key) else {
            return MoveEnd::Stayed;
        };
        let is_used = root.header.is_used();
        match root
            .header
            .state
            .end_move(ending, is_used, &mut || exchange())
        {
            Some(EndedMove::Moved { resource }) => {
                (root.block, root.node) = (to.block, to.node);
                MoveEnd::Moved {
                    old_resource: core::mem::replace(&mut root.resource, resource),
                }
            }
            Some(EndedMove::Removed { meanwhile }) => MoveEnd::Removed { meanwhile },
            Some(EndedMove::Stayed) | None => MoveEnd::Stayed,
        }
    }

    /// The root whose move [ended](Self::end_move) with its removal, for the caller to destroy.
    pub(crate) fn removed_by_move(&self, key: RegionKey) -> Option<RemovedRoot> {
        self.state.lock().removed_root(key.slot)
    }
}
