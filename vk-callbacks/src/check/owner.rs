//! Whose callbacks are watched: a list that only grows, each entry pinned in the checker's memory.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use alloc_core::Scope;

use super::block::BlockRecord;
use super::finding::CheckFinding;
use super::kind::FindingKind;
use super::null_frees::NullFrees;
use super::options::CheckedOwner;
use super::owner_usage::{OwnerUsage, UsageCounters};
use crate::command::OwnerId;

/// One set of callbacks.
pub(crate) struct CallbackOwner<'t> {
    /// None where a log does not say whose.
    pub(crate) id: Option<OwnerId>,
    pub(crate) kind: &'t str,
    /// Equal for callbacks that are compatible.
    pub(crate) group: u64,
    /// The owner it lies below; only a log says so.
    pub(crate) parent: u64,
    /// Objects made with them less objects ended.
    pub(crate) objects: AtomicI64,
    /// An object made with them was told of.
    pub(crate) objects_reported: AtomicBool,
    /// Internal memory was notified through them.
    pub(crate) notified: AtomicBool,
    /// Creating commands that asked them and whose objects nobody has told of yet.
    making: AtomicU32,
    /// Of a pool: successful commands that made objects from it.
    pub(crate) filled: AtomicU64,
    /// Of a pool: a command on it asked for memory of scope object, of anybody.
    pub(crate) drawn: AtomicBool,
    /// Frees of NULL that are in no row of findings.
    pub(crate) null_frees: NullFrees,
    /// They are a command pool's: commands that record may use them.
    records: bool,
    /// Blocks that came through them and are live: counted before they are on record and after they are gone, so never too few.
    live_blocks: AtomicU64,
    /// Bytes and blocks by scope, where that was asked for.
    usage: Option<UsageCounters>,
    /// Of a judge: the head of the [list](super::block_lists) of blocks that came through them; the oldest owner of a group has it.
    pub(crate) held: AtomicU32,
    /// Internal memory that was notified, in bytes, by scope; of a group, its oldest owner has the sums.
    internal: [AtomicU64; Scope::COUNT],
}

impl<'t> CallbackOwner<'t> {
    /// `known`: the group of the very same callbacks.
    pub(crate) fn new(of: CheckedOwner, known: Option<u64>) -> CallbackOwner<'static> {
        let own = known.unwrap_or_else(|| own_group(of.id));
        let group = if of.group == 0 {
            own
        } else {
            u64::from(of.group)
        };
        CallbackOwner {
            usage: of.is_counted.then(UsageCounters::new),
            ..CallbackOwner::with(Some(of.id), of.kind, group, 0)
        }
    }

    pub(crate) fn of_log(id: Option<OwnerId>, kind: &'t str, parent: u64) -> Self {
        Self::with(id, kind, id.map_or(0, own_group), parent)
    }

    fn with(id: Option<OwnerId>, kind: &'t str, group: u64, parent: u64) -> Self {
        Self {
            id,
            kind,
            group,
            parent,
            objects: AtomicI64::new(0),
            objects_reported: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            making: AtomicU32::new(0),
            filled: AtomicU64::new(0),
            drawn: AtomicBool::new(false),
            null_frees: NullFrees::new(),
            records: kind == "VkCommandPool",
            live_blocks: AtomicU64::new(0),
            usage: None,
            held: AtomicU32::new(0),
            internal: [const { AtomicU64::new(0) }; Scope::COUNT],
        }
    }

    /// The finding about a pool whose children requested no memory (V34).
    pub(crate) fn finding_never_drawn(&self) -> Option<CheckFinding<'t>> {
        let filled = self.filled.load(Ordering::Relaxed);
        let never = filled > 0 && !self.drawn.load(Ordering::Relaxed);
        never.then(|| CheckFinding {
            owner: self.id,
            owner_kind: self.kind,
            count: filled,
            ..CheckFinding::one(FindingKind::PoolNeverAsked)
        })
    }

    /// The number of its id, 0 for none.
    pub(crate) const fn number(&self) -> u32 {
        match self.id {
            Some(id) => id.get(),
            None => 0,
        }
    }

    /// Whether commands that record may use them.
    #[inline]
    pub(crate) const fn is_for_recording(&self) -> bool {
        self.records
    }

    /// A block will be on record.
    #[inline]
    pub(crate) fn count_block(&self) {
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// A block is gone from the record, or did not come there.
    #[inline]
    pub(crate) fn discount_block(&self) {
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// A block has come on record.
    #[inline]
    pub(crate) fn count_usage(&self, block: &BlockRecord<'_>) {
        if let Some(usage) = &self.usage {
            usage.count(block.scope(), block.size());
        }
    }

    /// It is gone.
    #[inline]
    pub(crate) fn discount_usage(&self, block: &BlockRecord<'_>) {
        if let Some(usage) = &self.usage {
            usage.discount(block.scope(), block.size());
        }
    }

    /// It has another size now.
    #[inline]
    pub(crate) fn resize_usage(&self, block: &BlockRecord<'_>, size: u64) {
        if let Some(usage) = &self.usage {
            usage.resize(block.scope(), block.size(), size);
        }
    }

    /// What was counted; none where nobody asked for it.
    pub(crate) fn usage(&self) -> Option<OwnerUsage> {
        self.usage.as_ref().map(UsageCounters::read)
    }

    /// Some block that came through them may be live. Of several owners with one number each may have counted what another did: together
    /// they are right, and where none has anything to say there is no block.
    pub(crate) fn may_hold_blocks(&self) -> bool {
        self.live_blocks.load(Ordering::Acquire) != 0
    }

    pub(crate) fn count_internal_allocation(&self, scope: Scope, bytes: u64) {
        if let Some(cell) = self.internal.get(scope.index()) {
            cell.fetch_add(bytes, Ordering::Release);
        }
    }

    /// False when less was taken than is given back; then nothing is left.
    pub(crate) fn count_internal_free(&self, scope: Scope, bytes: u64) -> bool {
        let Some(cell) = self.internal.get(scope.index()) else {
            return true;
        };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            Some(taken.saturating_sub(bytes))
        });
        before.is_ok_and(|taken| taken >= bytes)
    }

    /// What was taken of the scope and not given back.
    pub(crate) fn internal_outstanding(&self, scope: Scope) -> u64 {
        self.internal
            .get(scope.index())
            .map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// A creating command asks them for the first time. Before what it takes is put on record.
    pub(crate) fn making(&self) {
        self.making.fetch_add(1, Ordering::AcqRel);
    }

    /// What that command made has been told, or nobody will.
    pub(crate) fn count_created(&self) {
        let _ = self
            .making
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |making| {
                making.checked_sub(1)
            });
    }

    /// No object that was made with them lives, and none is being made. Who looks at a record first and asks then is not misled by
    /// one that another thread is making: it counted before the record came, and the object counts before it does no more.
    pub(crate) fn has_no_objects(&self) -> bool {
        self.making.load(Ordering::Acquire) == 0 && self.objects.load(Ordering::Acquire) <= 0
    }

    /// What was notified through them is nobody's any more: that of objects which nobody tells of could be there for as long as it likes.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_no_objects()
            && (self.objects_reported.load(Ordering::Acquire)
                || !self.notified.load(Ordering::Acquire))
    }
}

/// A group that no application declared.
fn own_group(id: OwnerId) -> u64 {
    1 << 32 | u64::from(id.get())
}
