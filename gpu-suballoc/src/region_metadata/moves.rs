//! Two places change in one step: the records' lock is held while the pools' is taken, never the other way round.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::resource_description::ResourceDescription;
use super::root_state::{MoveOutcome, MoveResult, RootState};
use super::{RegionMetadata, RemovedRoot, RootView};
use crate::device::ResourceHandle;
use crate::id::{RegionKey, RegionPlace};

#[derive(Clone, Copy, Debug)]
pub(crate) struct MovingRoot {
    pub(crate) key: RegionKey,
    pub(crate) view: RootView,
    pub(crate) tag: u64,
    pub(crate) description: Option<ResourceDescription>,
}

impl RegionMetadata {
    pub(crate) fn movable(&self, at: RegionPlace) -> Option<(MovingRoot, u32)> {
        let state = self.state.lock();
        let root = state.table.root_at(at)?;
        (root.state == RootState::Live).then(|| {
            let moving = MovingRoot {
                key: root.key(at.slot),
                view: root.view(),
                tag: root.detail.as_ref().map_or(0, RegionDetail::tag),
                description: state.kinds.get(root.description.into()).copied(),
            };
            (moving, u32::from(root.maps))
        })
    }

    /// The root's uses are noted until [`end_move`](Self::end_move).
    pub(crate) fn begin_move(&self, key: RegionKey) -> bool {
        let mut state = self.state.lock();
        (state.table.root_mut(key)).is_some_and(|root| root.maps == 0 && root.state.begin_move())
    }

    /// `exchange` moves the root to `to` within this lock, and says whether it did. Returns the resource to destroy,
    /// too.
    pub(crate) fn end_move(
        &self,
        key: RegionKey,
        outcome: MoveOutcome,
        (to, second): (RegionPlace, Option<ResourceHandle>),
        exchange: impl Fn() -> bool,
    ) -> (MoveResult, Option<ResourceHandle>) {
        let mut state = self.state.lock();
        let Some(root) = state.table.root_mut(key) else {
            return (MoveResult::Stayed, second);
        };
        let is_used = root.is_used();
        let result = root.state.end_move(outcome, is_used, &mut || exchange());
        if result != MoveResult::Moved {
            return (result, second);
        }
        (root.block, root.link) = (to.block, to.node);
        let former = root.resource();
        root.set_resource(second);
        (result, former)
    }

    /// The move [ended](Self::end_move) with its removal; the caller destroys it.
    pub(crate) fn removed_by_move(&self, key: RegionKey) -> Option<RemovedRoot> {
        let state = self.state.lock();
        let root = state.table.get(key.slot)?;
        (root.is_root() && root.state == RootState::BeingRemoved).then(|| root.removed(key.slot))
    }
}
