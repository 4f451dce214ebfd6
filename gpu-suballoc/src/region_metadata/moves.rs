//! Regions that are being moved: what their records say before, and how that ends (`root_state.rs` has the states).
//!
//! Two places change in one step: the records' lock is held while the pools' is taken, never the other way round.

#![forbid(unsafe_code)]

use super::record::RegionRecord;
use super::resource_description::ResourceDescription;
use super::root_state::{EndedMove, MoveEnding, RootState as Life};
use super::{RegionMetadata, RemovedRoot};
use crate::error::GpuMisuse;
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

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveEnd {
    /// It lies at the new place. This is the resource that it had.
    Moved { old_resource: u64 },
    /// It is where it was.
    Stayed,
    /// It was freed, now or meanwhile: resource and place are the caller's to free.
    Removed { root: RemovedRoot, meanwhile: bool },
}

impl RegionMetadata {
    /// The root of that number, if it still is the region's at that place, somebody's, and at rest. The number may be another root's since
    /// the place was looked at.
    pub(crate) fn movable(&self, number: u32, at: RegionSlot) -> Option<(MovingRoot, u32)> {
        let state = self.state.lock();
        let Some(RegionRecord::Root(root)) = state.table.get(number) else {
            return None;
        };
        (root.is_named(at) && root.state == Life::Live).then(|| {
            let moving = MovingRoot {
                key: root.key,
                resource: root.resource,
                content: root.content,
                asked: root.asked,
                tag: root.detail.as_ref().map_or(0, |detail| detail.tag()),
                description: state.kinds.get(root.kind).copied(),
            };
            (moving, u32::from(root.maps))
        })
    }

    /// How the resource of a root was made, while the root has this record.
    pub(crate) fn description(&self, number: u32, key: RegionSlot) -> Option<ResourceDescription> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) => {
                state.kinds.get(root.kind).copied()
            }
            _ => None,
        }
    }

    /// From now on what others do to this root is noted until [`end_move`](Self::end_move). False where it is mapped, or not at rest.
    pub(crate) fn begin_move(&self, number: u32, key: RegionSlot) -> bool {
        match self.state.lock().table.get_mut(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) && root.maps == 0 => {
                root.state.begin_move()
            }
            _ => false,
        }
    }

    /// Ends a move. `exchange` changes the place, within this lock, and says whether it did; it is called for
    /// [`MoveEnding::Commit`] alone, and not where somebody used the region meanwhile.
    pub(crate) fn end_move(
        &self,
        number: u32,
        key: RegionSlot,
        ending: MoveEnding,
        exchange: &mut dyn FnMut() -> bool,
    ) -> Result<MoveEnd, GpuMisuse> {
        let mut state = self.state.lock();
        let Some(RegionRecord::Root(root)) = state.table.get_mut(number) else {
            return Err(GpuMisuse::Stale);
        };
        if !root.is_named(key) {
            return Err(GpuMisuse::Stale);
        }
        let is_used = root.crops > 0 || root.maps > 0;
        let ended = root.state.end_move(ending, is_used, exchange);
        Ok(match ended.ok_or(GpuMisuse::Stale)? {
            EndedMove::Moved { resource } => MoveEnd::Moved {
                old_resource: core::mem::replace(&mut root.resource, resource),
            },
            EndedMove::Stayed => MoveEnd::Stayed,
            EndedMove::Removed { meanwhile } => MoveEnd::Removed {
                root: root.removed(number),
                meanwhile,
            },
        })
    }
}
