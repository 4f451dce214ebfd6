//! Moves of regions: their records at the begin and the end (`root_state.rs` has the states).
//!
//! Two places change in one step: the records' lock is held while the pools' is taken, never the other way round.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::record::RootRecord;
use super::resource_description::ResourceDescription;
use super::root_state::{EndedMove, MoveEnding, RootState};
use super::{RegionMetadata, RemovedRoot};
use crate::id::RegionSlot;
use crate::region::RegionContent;

/// A root whose move was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovingRoot {
    /// Its name: the block in it may be an older one.
    pub(crate) key: RegionSlot,
    pub(crate) resource: u64,
    pub(crate) content: RegionContent,
    /// Bytes that were requested; 0 where that was not noted.
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
    /// The root in slot `number` and its mappings, if it is live, not moving, and still the region at that place.
    pub(crate) fn movable(&self, number: u32, at: RegionSlot) -> Option<(MovingRoot, u32)> {
        let state = self.state.lock();
        let root = state.table.root(number, at)?;
        let header = &root.header;
        (header.state == RootState::Live).then(|| {
            let moving = MovingRoot {
                key: root.key,
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
    pub(crate) fn description(&self, number: u32, key: RegionSlot) -> Option<ResourceDescription> {
        let state = self.state.lock();
        let root = state.table.root(number, key)?;
        state.kinds.get(root.header.kind).copied()
    }

    /// Begins the moves of roots, whose uses are noted until [`end_moves`](Self::end_moves). `begun` is called within the lock for each that
    /// is live and not mapped.
    pub(crate) fn begin_moves<T>(
        &self,
        roots: &mut [T],
        root_of: impl Fn(&T) -> (u32, RegionSlot),
        begun: impl Fn(&mut T),
    ) {
        let mut state = self.state.lock();
        for one in roots {
            let (number, key) = root_of(one);
            if let Some(RootRecord { header, .. }) = state.table.root_mut(number, key)
                && header.maps == 0
                && header.state.begin_move()
            {
                begun(one);
            }
        }
    }

    /// Ends the moves of roots. `exchange` changes the place of one within this lock, and returns whether it did; it is called for
    /// [`MoveEnding::Commit`], unless the root was used or freed meanwhile. `ended` is called for each within the lock.
    pub(crate) fn end_moves<T>(
        &self,
        roots: &mut [T],
        root_of: impl Fn(&T) -> (u32, RegionSlot, MoveEnding),
        mut exchange: impl FnMut(&T) -> bool,
        ended: impl Fn(&mut T, MoveEnd),
    ) {
        let mut state = self.state.lock();
        for one in roots {
            let (number, key, ending) = root_of(one);
            let Some(root) = state.table.root_mut(number, key) else {
                continue;
            };
            let is_used = root.header.is_used();
            let end = root
                .header
                .state
                .end_move(ending, is_used, &mut || exchange(one));
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
    pub(crate) fn removed_by_move(&self, number: u32, key: RegionSlot) -> Option<RemovedRoot> {
        self.state.lock().removed_root(number, key)
    }
}
