//! In SAFETY comments, *a reference* keeps a node alive: its owner (`Context`), handles, and its children have one.
//! Releasing the last one evicts the node from every thread's table, adds its sums to its parent's, and frees its
//! memory to the parent, or for a root to the backing itself.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::backing::{Backing, root_layout};
use super::node::{ABANDONED, BUDGETED, BUDGETS, ContextNode, OWNS_BACKING, STUCK, TRACKS_REQUESTER, retain};
use super::tree;
use crate::budget::{Budget, BudgetKind};
use crate::error::HostError;
use crate::fork::watch_forks;
use crate::host::HostAllocator;
use crate::owned::NodeBlock;
use crate::rejected::Rejected;
use crate::requester::with_identity;
use crate::scope::Scope;
use crate::sync::{Ordering, Relaxed as _};
use crate::unwind::{Defer, run_to_end};

/// # Safety
/// The allocator behind `backing` lives until the node is gone or abandoned.
pub(super) unsafe fn make_root(
    backing: Backing,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, HostError> {
    // SAFETY: this function's contract.
    let (block, node) = unsafe { begin_root(backing, ContextNode::LAYOUT, options) }?;
    Ok(finish_root(place(block, node)))
}

pub(super) fn make_owned_root<A: HostAllocator + Sync>(
    allocator: A,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, Rejected<A, HostError>> {
    let Some((layout, offset)) = root_layout::<A>() else {
        return Err(Rejected::new(allocator, HostError::TooLarge));
    };
    // SAFETY: the allocator lives here until it moves, and the node gets another backing then.
    let begun = unsafe { begin_root(Backing::of(&allocator), layout, options) };
    let (block, mut node) = match begun {
        Ok(begun) => begun,
        Err(error) => return Err(Rejected::new(allocator, error)),
    };
    let home = block.cast::<A>();
    // SAFETY: the new block begins with room for the allocator.
    unsafe { home.write(allocator) };
    node.backing = Backing::at(home);
    node.set_flags(OWNS_BACKING);
    // SAFETY: `root_layout`: within the block.
    let behind = unsafe { block.add(offset) };
    Ok(finish_root(place(behind, node)))
}

/// # Safety
/// The allocator lives as long as the node has it.
unsafe fn begin_root(
    backing: Backing,
    layout: Layout,
    options: &ContextOptions<'_>,
) -> Result<(NonNull<u8>, ContextNode), HostError> {
    let scope = options.scope.unwrap_or(Scope::Instance);
    let mut node = ContextNode::new(backing, scope, scope, options.name, None, None);
    let label_bytes = options.label.map_or(0, str::len) as u64;
    let own_bytes = (layout.size() as u64).saturating_add(label_bytes);
    if let Some(short_by) = options
        .budget
        .filter(|budget| budget.kind != BudgetKind::Soft)
        .and_then(|budget| own_bytes.checked_sub(budget.limit))
        .filter(|short| *short > 0)
    {
        return Err(HostError::OverBudget { context: node.id(), short_by, leased_elsewhere: 0 });
    }
    let block = node
        .with_requester(|backing| backing.allocate(layout, scope))
        .map_err(|_| node.backing().refusal(layout, scope))?;
    // Freed also where the label's request unwinds.
    let unused = Defer(|| {
        // SAFETY: just allocated with this layout and scope.
        node.with_requester(|backing| unsafe { backing.deallocate(block, layout, scope) });
    });
    let label = copy_label(options.label, |layout| node.with_requester(|backing| backing.allocate(layout, scope)))
        .map_err(|refused| node.backing().refusal(refused, scope))?;
    core::mem::forget(unused);
    node.label = label;
    if let Some(budget) = options.budget {
        set_budget(&node, budget, None);
        node.budget.charged.set(own_bytes);
        node.budget.high.set(own_bytes);
    }
    Ok((block, node))
}

fn finish_root(node: NonNull<ContextNode>) -> NonNull<ContextNode> {
    // SAFETY: just placed.
    let this = unsafe { node.as_ref() };
    let (alloc_bytes, alloc_blocks) = this.record();
    let counts = crate::account::Counts { alloc_bytes, alloc_blocks, ..crate::account::Counts::default() };
    this.count_directly(this.scope, &counts);
    tree::list_root(node);
    watch_forks();
    node
}

/// # Safety
/// The allocator in `options`, if any, lives until the node is gone or abandoned. The caller holds a reference on
/// `above`.
pub(super) unsafe fn make_child(
    above: NonNull<ContextNode>,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, HostError> {
    // SAFETY: the caller's reference.
    let parent = unsafe { above.as_ref() };
    let home = parent.scope;
    let block = parent.allocate(ContextNode::LAYOUT, home).map_err(|_| parent.refusal(ContextNode::LAYOUT, home))?;
    // Freed also where the label's request unwinds.
    let unused = NodeBlock { node: parent, block, layout: ContextNode::LAYOUT };
    let label = copy_label(options.label, |layout| parent.allocate(layout, home))
        .map_err(|layout| parent.refusal(layout, home))?;
    core::mem::forget(unused);
    let node = ContextNode::new(
        options.backing.unwrap_or(parent.backing),
        options.scope.unwrap_or(home),
        home,
        options.name,
        label,
        Some(parent.root.unwrap_or(above)),
    );
    let node = place(block, node);
    // SAFETY: just placed.
    let this = unsafe { node.as_ref() };
    if parent.is_budgeted() {
        this.set_flags(BUDGETED);
        this.budget.slice.set(parent.slice());
    }
    if let Some(budget) = options.budget {
        set_budget(this, budget, parent.is_budgeted().then(|| parent.slice()));
    }
    tree::link(retain(above), node);
    Ok(node)
}

fn set_budget(node: &ContextNode, budget: Budget, above: Option<u64>) {
    if budget.limit == u64::MAX {
        return;
    }
    node.root().note(BUDGETS);
    node.budget.kind.set(budget.kind as u8);
    node.set_flags(BUDGETED);
    node.budget.limit.set(budget.limit);
    node.budget.slice.set(above.map_or(budget.slice(), |slice| slice.min(budget.slice())));
}

#[inline]
fn place(block: NonNull<u8>, node: ContextNode) -> NonNull<ContextNode> {
    let at = block.cast::<ContextNode>();
    // SAFETY: the block is new and has this layout.
    unsafe { at.write(node) };
    at
}

type BlockResult = Result<NonNull<u8>, allocator_api2::alloc::AllocError>;

fn copy_label(
    label: Option<&str>,
    allocate: impl FnOnce(Layout) -> BlockResult,
) -> Result<Option<NonNull<[u8]>>, Layout> {
    let Some(label) = label.filter(|label| !label.is_empty()) else {
        return Ok(None);
    };
    let layout = Layout::for_value(label);
    let block = allocate(layout).map_err(|_| layout)?;
    // SAFETY: the block is new and holds `label.len()` bytes.
    unsafe { core::ptr::copy_nonoverlapping(label.as_ptr(), block.as_ptr(), label.len()) };
    Ok(Some(NonNull::slice_from_raw_parts(block, label.len())))
}

/// # Safety
/// The caller owns one reference, and does not use the node after this.
#[inline]
pub(super) unsafe fn release(node: NonNull<ContextNode>) {
    // SAFETY: this function's contract.
    if unsafe { is_last(node) } {
        // SAFETY: the last reference was just released.
        unsafe { end_all(node) };
    }
}

/// If true, the caller must end the node.
///
/// # Safety
/// As [`release`].
unsafe fn is_last(node: NonNull<ContextNode>) -> bool {
    // SAFETY: the reference that is being released.
    let references = unsafe { &node.as_ref().references };
    if references.get() >= STUCK || references.fetch_sub(1, Ordering::Release) != 1 {
        return false;
    }
    // A load, and not a fence, which the thread sanitizer does not see.
    references.load(Ordering::Acquire);
    true
}

/// A loop, not recursion, also ends parents without references.
///
/// # Safety
/// The node has no reference.
#[cold]
unsafe fn end_all(node: NonNull<ContextNode>) {
    let mut ending = Some(node);
    run_to_end(|| {
        let Some(node) = ending else { return false };
        // SAFETY: not yet freed.
        crate::owned::destroy_leftovers(unsafe { node.as_ref() });
        ending = None;
        // SAFETY: the node has no reference.
        let parent = unsafe { end(node) };
        // SAFETY: the ended node's reference on its parent.
        ending = parent.filter(|parent| unsafe { is_last(*parent) });
        true
    });
}

/// Returns the parent, whose reference the caller must release.
///
/// # Safety
/// The node has no reference and owns no value.
unsafe fn end(node: NonNull<ContextNode>) -> Option<NonNull<ContextNode>> {
    // SAFETY: not yet freed.
    let this = unsafe { node.as_ref() };
    crate::owned::free_table(this);
    this.evict_entries();
    let label = this.label;
    let Some(parent) = tree::unlink(this) else {
        // The node lies in the memory that is freed.
        let (backing, scope, flags) = (this.backing, this.scope, this.flags());
        let (id, name) = (this.id(), this.name);
        free_parts(node, label, |block, layout| {
            let free = || {
                if flags & ABANDONED != 0 {
                    return;
                }
                if flags & OWNS_BACKING != 0 && block == node.cast() {
                    // SAFETY: `OWNS_BACKING`: the allocator lies at the beginning of the node's block, which is not
                    // used after this.
                    unsafe { backing.free_root(scope) };
                } else {
                    // SAFETY: the root was not abandoned, and its allocator lives.
                    let allocator = unsafe { backing.get() };
                    // SAFETY: a root's parts come from the backing, with these layouts and this scope.
                    unsafe { allocator.deallocate(block, layout, scope) };
                }
            };
            // The label is already freed.
            if flags & TRACKS_REQUESTER != 0 { with_identity(id, name, None, free) } else { free() }
        });
        return None;
    };
    let scope = this.home;
    // SAFETY: the ended node's reference on its parent.
    let home = unsafe { parent.as_ref() };
    free_parts(node, label, |block, layout| {
        // SAFETY: the parts come from the parent, or from a former one with the same allocator, with these layouts and
        // this scope.
        unsafe { home.deallocate(block, layout, scope) };
    });
    Some(parent)
}

fn free_parts(node: NonNull<ContextNode>, label: Option<NonNull<[u8]>>, mut free: impl FnMut(NonNull<u8>, Layout)) {
    if let Some(label) = label
        && let Ok(layout) = Layout::array::<u8>(label.len())
    {
        free(label.cast(), layout);
    }
    free(node.cast(), ContextNode::LAYOUT);
}

/// Options of a new context. What is not set is inherited from the parent.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ContextOptions<'a> {
    name: &'static str,
    label: Option<&'a str>,
    scope: Option<Scope>,
    budget: Option<Budget>,
    pub(super) backing: Option<Backing>,
}

impl<'a> ContextOptions<'a> {
    /// A context called `name`; names need not be unique.
    pub const fn new(name: &'static str) -> Self {
        Self { name, label: None, scope: None, budget: None, backing: None }
    }

    /// A second name, copied into memory of the parent. An empty label is none.
    pub const fn label(mut self, label: &'a str) -> Self {
        self.label = Some(label);
        self
    }

    /// The scope of requests that name none ([`Scope::Instance`] for a root).
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// A limit on this context and all below it. [`Budget::limit`]`(u64::MAX)` is no limit.
    pub const fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Uses `allocator` instead of the parent's, except for the context's own record. A root ignores this option.
    pub fn allocator_static<A: HostAllocator + Sync>(mut self, allocator: &'static A) -> Self {
        self.backing = Some(Backing::of(allocator));
        self
    }

    /// As [`allocator_static`](Self::allocator_static), for an allocator that is not static.
    ///
    /// # Safety
    /// For every context created from these options (they can be copied), `allocator` is as
    /// [`Context::root`](crate::Context::root) asks of its backing, with [`try_close`](crate::Context::try_close) in
    /// the place of `close_root`.
    pub unsafe fn allocator<A: HostAllocator + Sync>(mut self, allocator: &A) -> Self {
        self.backing = Some(Backing::of(allocator));
        self
    }
}
