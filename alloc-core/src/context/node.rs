//! ```text
//!   0  read by every operation: backing {allocator, its functions, its type}, tag base, flags, scopes, root; which parts are in use
//!  48  rarely written: name, label, tree links, budget {limit, charged, high, slice, kind}
//! 160  references; sums of ended children
//! 328  foreign memory, by kind (see `account::foreign`)
//! 448  five rows of 64 bytes: the account of one scope (see `account::row`); the locks of a root's tree; owned values
//! ```
//! The system's allocators are slower above an alignment of 16.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::backing::{Abandoned, Backing, DynAllocator};
use crate::account::{AccountRow, Counts, ForeignCells, ForeignKind, ForeignUsage, ScopeUsage, evict};
use crate::error::ContextId;
use crate::requester::with_identity;
use crate::scope::Scope;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Lock, Ordering, Relaxed as _};

pub(crate) const CLOSED: u8 = 1;
pub(crate) const BUDGETED: u8 = 2;
pub(crate) const ABANDONED: u8 = 4;
/// Handles or children keep the record.
pub(crate) const ORPHANED: u8 = 8;
/// The values were removed to be destroyed.
pub(crate) const DRAINED: u8 = 16;
/// Never changes, as [`OWNS_BACKING`].
pub(crate) const TRACKS_REQUESTER: u8 = 32;
/// The backing lies in front of the root and is dropped with it.
pub(crate) const OWNS_BACKING: u8 = 64;

/// A bit of `parts_in_use`, as the next two, beside a bit for each scope.
pub(crate) const FOREIGN: u8 = 1 << Scope::COUNT;
pub(super) const GONE: u8 = 2 << Scope::COUNT;
pub(super) const BUDGETS: u8 = 4 << Scope::COUNT;

#[repr(C, align(16))]
pub(crate) struct ContextNode {
    pub(super) backing: Backing,
    tag_base: u64,
    flags: AtomicU8,
    pub(crate) scope: Scope,
    /// The scope of the record's own block.
    pub(crate) home: Scope,
    /// Sums read no other parts of the account.
    parts_in_use: AtomicU8,
    /// `None` for the root itself.
    pub(super) root: Option<NonNull<ContextNode>>,
    pub(crate) name: &'static str,
    pub(crate) label: Option<NonNull<[u8]>>,
    pub(crate) tree: TreeLinks,
    pub(crate) budget: BudgetCell,
    pub(crate) references: AtomicUsize,
    pub(crate) closed_children: ClosedSums,
    pub(crate) foreign: ForeignCells,
    rows: [AccountRow; Scope::COUNT],
    /// A root alone uses its locks.
    pub(crate) tree_lock: Lock,
    pub(crate) budget_lock: Lock,
    /// Null, or a `ValueTable`, which `owned::table` alone reads and sets.
    pub(crate) owned: AtomicPtr<u8>,
}

// SAFETY: atomics alone are written; links under the root's tree lock; the backing is `Sync`.
unsafe impl Sync for ContextNode {}
// SAFETY: whichever thread drops the last reference frees the node.
unsafe impl Send for ContextNode {}

/// Written under the root's tree lock.
#[derive(Default)]
pub(crate) struct TreeLinks {
    pub(crate) parent: AtomicPtr<ContextNode>,
    pub(crate) children: NodeList,
    pub(crate) next: AtomicPtr<ContextNode>,
    pub(crate) prev: AtomicPtr<ContextNode>,
}

/// Siblings, or the roots of the process, under the root's tree lock or the roots'.
#[derive(Default)]
pub(crate) struct NodeList {
    pub(super) newest: AtomicPtr<ContextNode>,
    pub(super) oldest: AtomicPtr<ContextNode>,
}

impl NodeList {
    pub(super) const fn new() -> Self {
        Self { newest: AtomicPtr::new(core::ptr::null_mut()), oldest: AtomicPtr::new(core::ptr::null_mut()) }
    }
}

/// Written under the root's budget lock. A `limit` of `u64::MAX` is none.
#[derive(Default)]
pub(crate) struct BudgetCell {
    pub(crate) limit: AtomicU64,
    pub(crate) charged: AtomicU64,
    pub(crate) high: AtomicU64,
    pub(crate) slice: AtomicU64,
    /// A `BudgetKind`.
    pub(crate) kind: AtomicU8,
}

/// By scope; written under the root's tree lock.
#[derive(Default)]
pub(crate) struct ClosedSums([ClosedSum; Scope::COUNT]);

#[derive(Default)]
struct ClosedSum {
    total_bytes: AtomicU64,
    total_blocks: AtomicU64,
    /// Nothing can free these blocks any more.
    lost_bytes: AtomicU64,
    lost_blocks: AtomicU64,
}

impl ClosedSums {
    pub(super) fn add(&self, scope: Scope, gone: &ScopeUsage) {
        if let Some(sum) = self.0.get(scope.index()) {
            for (cell, by) in [
                (&sum.total_bytes, gone.total_bytes),
                (&sum.total_blocks, gone.total_blocks),
                (&sum.lost_bytes, gone.live_bytes),
                (&sum.lost_blocks, gone.live_blocks),
            ] {
                cell.set(cell.get().wrapping_add(by));
            }
        }
    }

    /// `live_*` are the lost bytes and blocks.
    pub(super) fn sum(&self, scope: Scope) -> ScopeUsage {
        let sum = self.0.get(scope.index()).map(|sum| ScopeUsage {
            live_bytes: sum.lost_bytes.get(),
            live_blocks: sum.lost_blocks.get(),
            total_bytes: sum.total_bytes.get(),
            total_blocks: sum.total_blocks.get(),
            ..ScopeUsage::default()
        });
        sum.unwrap_or_default()
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ContextNode>() == 784);

static SERIALS: AtomicU64 = AtomicU64::new(1);

impl ContextNode {
    pub(crate) const LAYOUT: Layout = Layout::new::<Self>();

    pub(crate) fn new(
        backing: Backing,
        scope: Scope,
        home: Scope,
        name: &'static str,
        label: Option<NonNull<[u8]>>,
        root: Option<NonNull<Self>>,
    ) -> Self {
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the type's invariant: the new node has the backing.
        let flags = if unsafe { backing.get() }.traits().tracks_requester { TRACKS_REQUESTER } else { 0 };
        Self {
            backing,
            tag_base: serial << 3,
            flags: AtomicU8::new(flags),
            scope,
            home,
            parts_in_use: AtomicU8::new(0),
            root,
            references: AtomicUsize::new(1),
            tree: TreeLinks::default(),
            name,
            label,
            budget: BudgetCell { limit: AtomicU64::new(u64::MAX), ..BudgetCell::default() },
            closed_children: ClosedSums::default(),
            foreign: ForeignCells::default(),
            rows: [const { AccountRow::new() }; Scope::COUNT],
            tree_lock: Lock::new(),
            budget_lock: Lock::new(),
            owned: AtomicPtr::default(),
        }
    }

    /// Identifies the row for ever, also when the address is used again.
    #[inline]
    pub(crate) fn tag(&self, scope: Scope) -> u64 {
        self.tag_base | scope as u64
    }

    pub(crate) fn id(&self) -> ContextId {
        ContextId::from_raw(self.tag_base >> 3).unwrap_or(ContextId::FIRST)
    }

    #[inline]
    pub(crate) fn row(&self, scope: Scope) -> &AccountRow {
        let [command, object, cache, device, instance] = &self.rows;
        match scope {
            Scope::Command => command,
            Scope::Object => object,
            Scope::Cache => cache,
            Scope::Device => device,
            Scope::Instance => instance,
        }
    }

    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags.get()
    }

    pub(crate) fn set_flags(&self, flags: u8) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_budgeted(&self) -> bool {
        self.flags() & BUDGETED != 0
    }

    #[inline]
    pub(crate) fn tracks_requester(&self) -> bool {
        self.flags() & TRACKS_REQUESTER != 0
    }

    #[inline]
    pub(crate) fn with_requester<R>(&self, call: impl FnOnce(&DynAllocator) -> R) -> R {
        if self.tracks_requester() {
            with_identity(self.id(), self.name, self.label(), || call(self.backing()))
        } else {
            call(self.backing())
        }
    }

    #[inline]
    pub(crate) fn backing<'a>(&self) -> &'a DynAllocator {
        if self.flags() & ABANDONED != 0 {
            return &Abandoned;
        }
        // SAFETY: the invariant of `Backing`: the node was not abandoned.
        unsafe { self.backing.get() }
    }

    pub(crate) fn shares_backing(&self, other: &Self) -> bool {
        (self.flags() | other.flags()) & ABANDONED == 0 && self.backing.is_same(other.backing)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.root.is_none()
    }

    pub(crate) fn root(&self) -> &ContextNode {
        // SAFETY: nodes have a reference on their parent: the root outlives its tree.
        self.root.map_or(self, |root| unsafe { root.as_ref() })
    }

    pub(crate) fn parent_ptr(&self) -> Option<NonNull<ContextNode>> {
        NonNull::new(self.tree.parent.get())
    }

    /// The parent changes only under both the root's tree lock and budget lock: the caller holds one of them, or has
    /// the only reference to the node.
    pub(crate) fn parent(&self) -> Option<&ContextNode> {
        // SAFETY: a linked node has a reference on its parent.
        unsafe { self.tree.parent.get().as_ref() }
    }

    pub(crate) fn label(&self) -> Option<&str> {
        let bytes = self.label?;
        // SAFETY: the label lives as long as the node, unwritten.
        let bytes = unsafe { bytes.as_ref() };
        core::str::from_utf8(bytes).ok()
    }

    pub(crate) fn record(&self) -> (u64, u64) {
        let label = self.label.map_or(0, |label| label.len() as u64);
        let record = if self.flags() & OWNS_BACKING == 0 { Self::LAYOUT } else { self.backing.root_layout() };
        ((record.size() as u64).saturating_add(label), 1 + u64::from(label > 0))
    }

    /// A reader that sees a count in the part must see this.
    pub(crate) fn note(&self, part: u8) {
        if !self.uses(part) {
            self.parts_in_use.fetch_or(part, Ordering::Relaxed);
        }
    }

    pub(crate) fn uses(&self, part: u8) -> bool {
        self.parts_in_use.get() & part != 0
    }

    pub(crate) fn note_scope(&self, scope: Scope) {
        self.note(1 << scope.index());
    }

    pub(crate) fn counts_in(&self, scope: Scope) -> bool {
        self.uses(1 << scope.index())
    }

    pub(crate) fn foreign_usage(&self) -> [ForeignUsage; ForeignKind::COUNT] {
        if self.uses(FOREIGN) { self.foreign.usage() } else { Default::default() }
    }

    pub(crate) fn folded_usage(&self, scope: Scope) -> ScopeUsage {
        if !self.counts_in(scope) {
            return ScopeUsage::default();
        }
        self.row(scope).folded()
    }

    pub(super) fn try_live_bytes(&self) -> Option<u64> {
        Scope::ALL.into_iter().try_fold(0_u64, |sum, scope| {
            let live = self.row(scope).try_lock()?.live_bytes();
            Some(sum.saturating_add_signed(live.max(0)))
        })
    }

    pub(super) fn lost_bytes(&self) -> u64 {
        Scope::ALL.into_iter().fold(0, |sum, scope| self.closed_children.sum(scope).live_bytes.saturating_add(sum))
    }

    /// No thread uses the node.
    pub(crate) fn evict_entries(&self) {
        if Scope::ALL.into_iter().any(|scope| self.counts_in(scope)) {
            evict(Scope::ALL.map(|scope| (self.row(scope), self.tag(scope))));
        }
    }

    #[cold]
    pub(crate) fn count_directly(&self, scope: Scope, counts: &Counts) {
        self.note_scope(scope);
        self.row(scope).touch_directly();
        let row = self.row(scope).lock();
        row.fold(counts);
    }
}

/// A node with so many references is never freed.
pub(super) const STUCK: usize = usize::MAX / 2;

pub(super) fn retain(node: NonNull<ContextNode>) -> NonNull<ContextNode> {
    // SAFETY: the caller has a reference.
    let references = unsafe { &node.as_ref().references };
    if references.fetch_add(1, Ordering::Relaxed) >= STUCK {
        references.set(STUCK);
    }
    node
}

/// False when the last reference was already released. The tree lock is held.
pub(super) fn retain_living(node: &ContextNode) -> bool {
    let mut references = node.references.get();
    while references != 0 {
        let more = if references >= STUCK { STUCK } else { references.saturating_add(1) };
        match node.references.compare_exchange_weak(references, more, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => references = now,
        }
    }
    false
}
