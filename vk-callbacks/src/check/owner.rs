#![forbid(unsafe_code)]

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use alloc_core::support::StateMutex;
use alloc_core::{Scope, ScopeUsage};

use super::finding::{CheckFinding, FindingKind};
use super::live_blocks::LiveBlocks;
use crate::command::{BracketCoverage, OwnerId};

/// An owner of callbacks, pinned in the checker's memory until the engine ends.
pub(crate) struct CallbackOwner<'t> {
    /// None if a log does not name the owner.
    pub(crate) id: Option<OwnerId>,
    pub(crate) kind: &'t str,
    /// Equal for callbacks that are compatible.
    pub(crate) group: u64,
    /// The user data of its watched callbacks; 0 where each object may have its own.
    user_data: AtomicUsize,
    /// The owner above; only in a log.
    pub(crate) parent: u64,
    pub(crate) objects: AtomicI64,
    pub(crate) objects_reported: AtomicBool,
    pub(crate) notified: AtomicBool,
    /// Creating commands that called the callbacks and whose object was not reported yet.
    creations: AtomicU32,
    /// Pools: successful commands that allocated objects from the pool.
    pub(crate) filled: AtomicU64,
    /// Pools: a command on the pool requested memory of scope object from any allocator.
    pub(crate) drawn: AtomicBool,
    records: bool,
    live_blocks: LiveBlocks,
    usage: Option<StateMutex<OwnerUsage>>,
    /// Notified internal memory in bytes, by scope; the sums of a group are in its oldest owner.
    internal: [AtomicU64; Scope::COUNT],
}

impl<'t> CallbackOwner<'t> {
    /// `known`: the group of identical callbacks.
    pub(crate) fn new(of: CheckedOwner, known: Option<u64>) -> CallbackOwner<'static> {
        let own = known.unwrap_or_else(|| own_group(of.id));
        let group = if of.group == 0 { own } else { u64::from(of.group) };
        CallbackOwner {
            usage: of.is_counted.then(|| StateMutex::new(OwnerUsage::default())),
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
            user_data: AtomicUsize::new(0),
            parent,
            objects: AtomicI64::new(0),
            objects_reported: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            creations: AtomicU32::new(0),
            filled: AtomicU64::new(0),
            drawn: AtomicBool::new(false),
            records: kind == "VkCommandPool",
            live_blocks: LiveBlocks::new(),
            usage: None,
            internal: [const { AtomicU64::new(0) }; Scope::COUNT],
        }
    }

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

    pub(crate) const fn number(&self) -> u32 {
        match self.id {
            Some(id) => id.get(),
            None => 0,
        }
    }

    pub(crate) fn user_data(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.user_data.load(Ordering::Acquire))
    }

    pub(crate) fn set_user_data(&self, user_data: usize) {
        self.user_data.store(user_data, Ordering::Release);
    }

    #[inline]
    pub(crate) const fn is_for_recording(&self) -> bool {
        self.records
    }

    #[inline]
    pub(crate) fn count_block(&self, thread: u64) {
        self.live_blocks.count(thread);
    }

    #[inline]
    pub(crate) fn discount_block(&self, thread: u64) {
        self.live_blocks.discount(thread);
    }

    #[inline]
    pub(crate) fn move_block(&self, thread: u64, record: impl FnOnce()) {
        self.live_blocks.move_block(thread, record);
    }

    #[inline]
    pub(crate) fn change_usage(&self, scope: Option<Scope>, old: Option<u64>, new: Option<u64>) {
        if let Some(usage) = &self.usage {
            usage.lock().change(scope, old, new);
        }
    }

    pub(crate) fn usage(&self) -> Option<OwnerUsage> {
        self.usage.as_ref().map(|usage| usage.lock().read())
    }

    /// Several owners with one number may have counted blocks of one another: if none has a block, there is none.
    pub(crate) fn may_hold_blocks(&self) -> bool {
        self.live_blocks.any()
    }

    pub(crate) fn count_internal_allocation(&self, scope: Scope, bytes: u64) {
        if let Some(cell) = self.internal.get(scope.index()) {
            cell.fetch_add(bytes, Ordering::Release);
        }
    }

    /// False if more is freed than was allocated; the sum is 0 then.
    pub(crate) fn count_internal_free(&self, scope: Scope, bytes: u64) -> bool {
        let Some(cell) = self.internal.get(scope.index()) else {
            return true;
        };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken.saturating_sub(bytes)));
        before.is_ok_and(|taken| taken >= bytes)
    }

    pub(crate) fn internal_outstanding(&self, scope: Scope) -> u64 {
        self.internal.get(scope.index()).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// The first call of a creating command, before its block is recorded.
    pub(crate) fn begin_creation(&self) {
        self.creations.fetch_add(1, Ordering::AcqRel);
    }

    /// The object of that command was reported, or never will be.
    pub(crate) fn count_created(&self) {
        let _ = self.creations.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |creations| creations.checked_sub(1));
    }

    /// A thread that reads a record first and calls this then sees an object that another thread creates: it was
    /// counted before the record, and is counted as an object before it stops being one in creation.
    pub(crate) fn has_no_objects(&self) -> bool {
        self.creations.load(Ordering::Acquire) == 0 && self.objects.load(Ordering::Acquire) <= 0
    }

    /// Objects that are never reported might need the notified memory for ever.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_no_objects()
            && (self.objects_reported.load(Ordering::Acquire) || !self.notified.load(Ordering::Acquire))
    }
}

fn own_group(id: OwnerId) -> u64 {
    1 << 32 | u64::from(id.get())
}

/// Bytes and blocks of one owner, as requested. Exact while no callback of the owner runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    scopes: [ScopeUsage; Scope::COUNT],
    total: ScopeUsage,
}

impl OwnerUsage {
    /// The usage of this scope.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> ScopeUsage {
        self.scopes.get(scope.index()).copied().unwrap_or_default()
    }

    /// All scopes together, invalid ones included; its peak is that of the sum, and exact.
    #[must_use]
    pub const fn total(&self) -> ScopeUsage {
        self.total
    }

    /// Without `old` the block comes, without `new` it goes. As in an account, growing a block adds its growth to the
    /// total.
    fn change(&mut self, scope: Option<Scope>, old: Option<u64>, new: Option<u64>) {
        let grown = new.unwrap_or(0).saturating_sub(old.unwrap_or(0));
        let shrunk = old.unwrap_or(0).saturating_sub(new.unwrap_or(0));
        let (comes, goes) = (u64::from(old.is_none()), u64::from(new.is_none()));
        let of_scope = scope.and_then(|scope| self.scopes.get_mut(scope.index()));
        for usage in of_scope.into_iter().chain([&mut self.total]) {
            // A free that is counted before its allocation makes them negative for a moment.
            usage.live_bytes = usage.live_bytes.wrapping_add(grown).wrapping_sub(shrunk);
            usage.live_blocks = usage.live_blocks.wrapping_add(comes).wrapping_sub(goes);
            usage.peak_bytes = usage.peak_bytes.max(not_negative(usage.live_bytes));
            usage.total_bytes = usage.total_bytes.saturating_add(grown);
            usage.total_blocks = usage.total_blocks.saturating_add(comes);
        }
    }

    pub(super) fn read(&self) -> Self {
        let mut read = *self;
        for usage in read.scopes.iter_mut().chain([&mut read.total]) {
            usage.live_bytes = not_negative(usage.live_bytes);
            usage.live_blocks = not_negative(usage.live_blocks);
            usage.peak_blocks = usage.live_blocks;
        }
        read
    }
}

const fn not_negative(count: u64) -> u64 {
    if count > u64::MAX / 2 { 0 } else { count }
}

/// What a checker or a judge may assume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether every command of every thread runs in a bracket. A bracket that declares less lowers it for all.
    pub coverage: BracketCoverage,
    /// How the driver was opened.
    pub opened: Opened,
}

/// How the driver was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Through the loader: callbacks may be the loader's, a layer's or the driver's. Findings name "the
    /// implementation".
    ThroughLoader,
    /// Without the loader: findings name "the driver".
    Directly,
}

/// The weakest assumptions: some commands may run without a bracket, and a loader may be between.
impl Default for CheckOptions {
    fn default() -> Self {
        Self { coverage: BracketCoverage::Partial, opened: Opened::ThroughLoader }
    }
}

/// The owner of checked callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedOwner {
    /// The id in [`Owners`](crate::Owners): [`Bridge::owner`](crate::Bridge::owner), or [`OwnerId::fresh`].
    pub id: OwnerId,
    /// The kind of object that the callbacks are passed for (`VkPipeline`).
    pub kind: &'static str,
    /// Callbacks of one group are compatible: each frees and reallocates the blocks of the others (V42). 0: the group
    /// of identical callbacks if they are watched already, else a group of their own.
    pub group: u32,
    /// Bytes and blocks are counted by scope ([`Checker::usage`](crate::Checker::usage)).
    pub is_counted: bool,
}

impl CheckedOwner {
    /// Callbacks that are compatible with no others.
    #[must_use]
    pub const fn new(id: OwnerId, kind: &'static str) -> Self {
        Self { id, kind, group: 0, is_counted: false }
    }

    /// Counts usage by scope: for callbacks without a bridge. Costs some 20 ns a call.
    #[must_use]
    pub const fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }
}
