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

    /// The description of the resource of a root.
    pub(crate) fn description(&self, key: RegionKey) -> Option<ResourceDescription> {
        let mut state = self.state.lock();
        let kind = state.table.root_mut(key)?.header.kind;
        state.kinds.get(kind).copied()
    }

    /// Begins the moves of roots, whose uses are noted until [`end_moves`](Self::end_moves). `begun` is called within the lock for each that
    /// is live and not mapped.
    pub(crate) fn begin_moves<T>(
        &self,
        roots: &mut [T],
        key_of: impl Fn(&T) -> RegionKey,
        begun: impl Fn(&mut T),
    ) {
        let mut state = self.state.lock();
        for one in roots {
            if let Some(root) = state.table.root_mut(key_of(one))
                && root.header.maps == 0
                && root.header.state.begin_move()
            {
                begun(one);
            }
        }
    }

    /// Ends the moves of roots. `exchange` moves one within this lock, and returns its new place if it did; it is called for
    /// [`MoveEnding::Commit`], unless the root was used or freed meanwhile. `ended` is called for each within the lock.
    pub(crate) fn end_moves<T>(
        &self,
        roots: &mut [T],
        key_of: impl Fn(&T) -> (RegionKey, MoveEnding),
        mut exchange: impl FnMut(&T) -> Option<RegionPlace>,
        ended: impl Fn(&mut T, MoveEnd),
    ) {
        let mut state = self.state.lock();
        for one in roots {
            let (key, ending) = key_of(one);
            let Some(root) = state.table.root_mut(key) else {
                continue;
            };
            let (is_used, mut to) = (root.header.is_used(), None);
            let end = root.header.state.end_move(ending, is_used, &mut || {
                to = exchange(one);
                to.is_some()
            });
            if let Some(to) = to {
                (root.block, root.node) = (to.block, to.node);
            }
            let end = match end {
                Some(EndedMove::Moved { resource }) => MoveEnd::Moved {
                    old_resource: core::mem::replace(&mut root.resource, resource),
                },
                Some(EndedMove::Stayed) => MoveEnd::Stayed,
                Some(EndedMove::Removed { meanwhile }) => MoveEnd::Removed { meanwhile },
                None => continue,
            };
            ended(one, end);
        }
    }

    /// The root whose move [ended](Self::end_moves) with its removal, for the caller to destroy.
    pub(crate) fn removed_by_move(&self, key: RegionKey) -> Option<RemovedRoot> {
        self.state.lock().removed_root(key.slot)
    }
}
