//! Moves of regions: their records at the begin and the end (`root_state.rs` has the states).
//!
//! Two places change in one step: the records' lock is held while the pools' is taken, never the other way round.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::record::RootRecord;
use super::resource_description::ResourceDescription;
use super::root_state::{EndedMove, MoveEnding, RootState};
use super::state::MetadataState;
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
    /// still exists. Neighbours in the list may move `together`: none of them begins if one is mapped, or not live.
    pub(crate) fn begin_moves<T>(
        &self,
        roots: &mut [T],
        together: impl Fn(&T, &T) -> bool,
        root_of: impl Fn(&T) -> (u32, RegionSlot),
        begun: impl Fn(&mut T),
    ) {
        let mut state = self.state.lock();
        for group in roots.chunk_by_mut(together) {
            let is_at_rest = |one: &T| {
                let (number, key) = root_of(one);
                (state.table.root(number, key)).is_none_or(|root| {
                    root.header.state == RootState::Live && root.header.maps == 0
                })
            };
            if group.len() > 1 && !group.iter().all(is_at_rest) {
                continue;
            }
            for one in group {
                let (number, key) = root_of(one);
                if let Some(RootRecord { header, .. }) = state.table.root_mut(number, key)
                    && header.maps == 0
                    && header.state.begin_move()
                {
                    begun(one);
                }
            }
        }
    }

    /// Ends the moves of roots. Those that move `together`, neighbours in the list, are all at their new places then, or none. `exchange`
    /// changes the places of such a group within this lock, and returns whether it did; it is called if one of them ends with
    /// [`MoveEnding::Commit`] and none was used meanwhile. `ended` is called for each within the lock, with whether the places changed.
    pub(crate) fn end_moves<T>(
        &self,
        roots: &mut [T],
        together: impl Fn(&T, &T) -> bool,
        root_of: impl Fn(&T) -> (u32, RegionSlot, MoveEnding),
        mut exchange: impl FnMut(&[T]) -> bool,
        ended: impl Fn(&mut T, MoveEnd, bool),
    ) {
        let mut state = self.state.lock();
        for group in roots.chunk_by_mut(together) {
            let is_single = group.len() == 1;
            let mut is_exchanged =
                !is_single && may_change(&state, group, &root_of) && exchange(group);
            for at in 0..group.len() {
                let Some((number, key, ending)) = group.get(at).map(&root_of) else {
                    break;
                };
                let Some(root) = state.table.root_mut(number, key) else {
                    continue;
                };
                let is_used = root.header.is_used();
                let end = root.header.state.end_move(ending, is_used, &mut || {
                    is_exchanged = is_exchanged || is_single && exchange(group);
                    is_exchanged
                });
                let end = match end {
                    Some(EndedMove::Moved { resource }) => MoveEnd::Moved {
                        old_resource: core::mem::replace(&mut root.resource, resource),
                    },
                    Some(EndedMove::Stayed) => MoveEnd::Stayed,
                    Some(EndedMove::Removed { meanwhile }) => MoveEnd::Removed { meanwhile },
                    None => continue,
                };
                if let Some(one) = group.get_mut(at) {
                    ended(one, end, is_exchanged);
                }
            }
        }
    }

    /// The root whose move [ended](Self::end_moves) with its removal, for the caller to destroy.
    pub(crate) fn removed_by_move(&self, number: u32, key: RegionSlot) -> Option<RemovedRoot> {
        self.state.lock().removed_root(number, key)
    }
}

/// Whether the place of these roots may change: each allows it, and one requests it.
fn may_change<T>(
    state: &MetadataState,
    group: &[T],
    root_of: impl Fn(&T) -> (u32, RegionSlot, MoveEnding),
) -> bool {
    let mut is_wanted = false;
    let is_let = group.iter().all(|one| {
        let (number, key, ending) = root_of(one);
        let Some(RootRecord { header, .. }) = state.table.root(number, key) else {
            return false;
        };
        is_wanted |=
            header.state == RootState::Moving && matches!(ending, MoveEnding::Commit { .. });
        header.state.lets_move(ending, header.is_used())
    });
    is_let && is_wanted
}
