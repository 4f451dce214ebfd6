//! Creating and ending nodes.
//!
//! A node is referenced by its owner (`Context`), by handles, and by its children. When the last reference is released, the node is
//! evicted from every thread's table, its sums are added to its parent's, and its memory is freed to the parent, or for a root to the
//! backing itself.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::backing::{Backing, Link, root_layout, root_offset};
use super::node::{BUDGETED, ContextNode, OWNS_BACKING};
use super::options::ContextOptions;
use super::tree;
use crate::budget::{Budget, BudgetKind};
use crate::error::HostError;
use crate::fork::watch_forks;
use crate::host::HostAllocator;
use crate::rejected::Rejected;
use crate::requester::with_identity;
use crate::scope::Scope;
use crate::sync::{Ordering, fence};

/// Creates a root. Its own memory comes from the backing and is counted in the root.
///
/// # Safety
/// The allocator behind `backing` lives until the node is gone or abandoned.
pub(super) unsafe fn make_root(
    backing: Backing,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, HostError> {
    // SAFETY: forwarded from this function's contract.
    let (block, node) = unsafe { begin_root(backing, ContextNode::LAYOUT, options) }?;
    Ok(finish_root(place(block, node)))
}

/// Creates a root that owns its allocator: both lie in one block of that allocator, the node behind the allocator.
pub(super) fn make_owned_root<A: HostAllocator + Sync>(
    allocator: A,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, Rejected<A, HostError>> {
    let Some(layout) = root_layout::<A>() else {
        return Err(Rejected::new(allocator, HostError::TooLarge));
    };
    // SAFETY: the allocator lives here until it moves, and then the node gets another link.
    let begun = unsafe { begin_root(Backing::of(&allocator), layout, options) };
    let (block, mut node) = match begun {
        Ok(begun) => begun,
        Err(error) => return Err(Rejected::new(allocator, error)),
    };
    let home = block.cast::<A>();
    // SAFETY: the new block begins with room for the allocator.
    unsafe { home.write(allocator) };
    // SAFETY: it lives there until the node is gone.
    node.backing = unsafe { Link::new(Backing::at(home.as_ptr())) };
    node.set_flags(OWNS_BACKING);
    // SAFETY: the node's place lies in the block, see the layout.
    let behind = unsafe { block.add(root_offset::<A>()) };
    Ok(finish_root(place(behind, node)))
}

/// Allocates a root's block of `layout`. Returns it with the node to be placed there.
///
/// # Safety
/// The allocator behind `backing` lives as long as the node has it.
unsafe fn begin_root(
    backing: Backing,
    layout: Layout,
    options: &ContextOptions<'_>,
) -> Result<(NonNull<u8>, ContextNode), HostError> {
    let scope = options.scope.unwrap_or(Scope::Instance);
    let label_bytes = options.label.map_or(0, str::len) as u64;
    let own_bytes = (layout.size() as u64).saturating_add(label_bytes);
    if let Some(short_by) = options
        .budget
        .filter(|budget| budget.kind != BudgetKind::Soft)
        .and_then(|budget| own_bytes.checked_sub(budget.limit))
        .filter(|short| *short > 0)
    {
        // The root does not exist; the error names the id that the root would have had.
        return Err(HostError::OverBudget {
            context: ContextNode::next_id(),
            short_by,
            leased_elsewhere: 0,
        });
    }
    // SAFETY: forwarded from this function's contract.
    let link = unsafe { Link::new(backing) };
    let mut node = ContextNode::new(link, scope, scope, options.name, None, None);
    let block = node.with_requester(|backing| backing.allocate(layout, scope));
    let block = block.map_err(|_| node.backing.refusal(layout, scope))?;
    node.label = match copy_label(options.label, |layout| {
        node.with_requester(|backing| backing.allocate(layout, scope))
    }) {
        Ok(label) => label,
        Err(refused) => {
            let error = node.backing.refusal(refused, scope);
            // SAFETY: the block was just taken with this layout and scope and holds nothing yet.
            node.with_requester(|backing| unsafe { backing.deallocate(block, layout, scope) });
            return Err(error);
        }
    };
    if let Some(budget) = options.budget {
        set_budget(&node, budget, None);
        node.budget.charged.store(own_bytes, Ordering::Relaxed);
        node.budget.high.store(own_bytes, Ordering::Relaxed);
    }
    Ok((block, node))
}

/// Counts a root's own record in it, and lists the root.
fn finish_root(node: NonNull<ContextNode>) -> NonNull<ContextNode> {
    // SAFETY: just placed.
    let this = unsafe { node.as_ref() };
    let (alloc_bytes, alloc_blocks) = this.record();
    let counts = crate::account::Counts {
        alloc_bytes,
        alloc_blocks,
        ..crate::account::Counts::default()
    };
    this.count_directly(this.scope, &counts);
    tree::list_root(node);
    watch_forks();
    node
}

/// Creates a child. Its memory comes from `above` and is counted there; a refusal leaves nothing behind.
///
/// # Safety
/// The allocator in `options`, if any, lives until the node is gone or abandoned.
/// The caller holds a reference on `above`.
pub(super) unsafe fn make_child(
    above: NonNull<ContextNode>,
    options: &ContextOptions<'_>,
) -> Result<NonNull<ContextNode>, HostError> {
    // SAFETY: the caller's reference keeps it alive.
    let parent = unsafe { above.as_ref() };
    let home = parent.scope;
    let block = parent
        .allocate(ContextNode::LAYOUT, home)
        .map_err(|_| parent.refusal(ContextNode::LAYOUT, home))?;
    let label =
        copy_label(options.label, |layout| parent.allocate(layout, home)).map_err(|layout| {
            let error = parent.refusal(layout, home);
            // SAFETY: the block was just taken with this layout and scope and holds nothing yet.
            unsafe { parent.deallocate(block, ContextNode::LAYOUT, home) };
            error
        })?;
    let backing = match options.backing {
        // SAFETY: forwarded from this function's contract.
        Some(backing) => unsafe { Link::new(backing) },
        None => parent.backing.inherit(),
    };
    let node = ContextNode::new(
        backing,
        options.scope.unwrap_or(home),
        home,
        options.name,
        label,
        Some(parent.root_ptr().unwrap_or(above)),
    );
    // The remaining fields are set in place, so that the compiler can build the long record there.
    let node = place(block, node);
    // SAFETY: just placed.
    let this = unsafe { node.as_ref() };
    if parent.is_budgeted() {
        this.set_flags(BUDGETED);
        this.budget.slice.store(parent.slice(), Ordering::Relaxed);
    }
    if let Some(budget) = options.budget {
        set_budget(this, budget, parent.is_budgeted().then(|| parent.slice()));
    }
    tree::link(retain(above), node);
    Ok(node)
}

fn set_budget(node: &ContextNode, budget: Budget, above: Option<u64>) {
    if budget.limit == u64::MAX {
        // No limit: inherited limits hold, and this one must cost nothing.
        return;
    }
    node.note_budget();
    node.budget.kind.store(budget.kind as u8, Ordering::Relaxed);
    node.set_flags(BUDGETED);
    node.budget.limit.store(budget.limit, Ordering::Relaxed);
    node.budget.slice.store(
        above.map_or(budget.slice(), |slice| slice.min(budget.slice())),
        Ordering::Relaxed,
    );
}

#[inline]
fn place(block: NonNull<u8>, node: ContextNode) -> NonNull<ContextNode> {
    let at = block.cast::<ContextNode>();
    // SAFETY: the block is new and has the layout of a `ContextNode`.
    unsafe { at.write(node) };
    at
}

type BlockResult = Result<NonNull<u8>, allocator_api2::alloc::AllocError>;

/// Copies a label into a block of its own. The error is the refused layout.
fn copy_label(
    label: Option<&str>,
    allocate: impl FnOnce(Layout) -> BlockResult,
) -> Result<Option<NonNull<[u8]>>, Layout> {
    let Some(label) = label.filter(|label| !label.is_empty()) else {
        return Ok(None);
    };
    let layout = Layout::for_value(label);
    let block = allocate(layout).map_err(|_| layout)?;
    // SAFETY: the block holds `label.len()` bytes and is new, so it does not overlap the label.
    unsafe { core::ptr::copy_nonoverlapping(label.as_ptr(), block.as_ptr(), label.len()) };
    Ok(Some(NonNull::slice_from_raw_parts(block, label.len())))
}

/// A saturated reference count: the node is never freed. Only leaking billions of references reaches it.
const STUCK: usize = usize::MAX / 2;

/// Acquires one more reference.
pub(super) fn retain(node: NonNull<ContextNode>) -> NonNull<ContextNode> {
    // SAFETY: the caller has a reference.
    let references = unsafe { &node.as_ref().references };
    if references.fetch_add(1, Ordering::Relaxed) >= STUCK {
        references.store(STUCK, Ordering::Relaxed);
    }
    node
}

/// Acquires one more reference to a linked node. False when the last one was already released. The tree lock is held.
pub(super) fn retain_living(node: &ContextNode) -> bool {
    let mut references = node.references.load(Ordering::Relaxed);
    while references != 0 {
        let more = if references >= STUCK {
            STUCK
        } else {
            references.saturating_add(1)
        };
        match node.references.compare_exchange_weak(
            references,
            more,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => return true,
            Err(now) => references = now,
        }
    }
    false
}

/// Releases a reference. The last one ends the node.
///
/// # Safety
/// The caller owns one reference, and does not use the node after this.
#[inline]
pub(super) unsafe fn release(node: NonNull<ContextNode>) {
    // SAFETY: forwarded.
    if unsafe { is_last(node) } {
        let mut cascade = Cascade { ending: Some(node) };
        cascade.run();
    }
}

/// Releases a reference. True when it was the last one: then the caller must end the node.
///
/// # Safety
/// As [`release`].
unsafe fn is_last(node: NonNull<ContextNode>) -> bool {
    // SAFETY: the reference that is being released keeps the node alive up to here.
    let references = unsafe { &node.as_ref().references };
    if references.load(Ordering::Relaxed) >= STUCK
        || references.fetch_sub(1, Ordering::Release) != 1
    {
        return false;
    }
    fence(Ordering::Acquire);
    true
}

/// Ends a node without references, then its parent if that was its last reference, and so on: a loop, not recursion.
struct Cascade {
    ending: Option<NonNull<ContextNode>>,
}

impl Cascade {
    #[cold]
    fn run(&mut self) {
        while let Some(node) = self.ending {
            // SAFETY: not yet freed.
            crate::owned::destroy_leftovers(unsafe { node.as_ref() });
            self.ending = None;
            // SAFETY: the node has no reference any more.
            let parent = unsafe { end(node) };
            // SAFETY: the ended node's reference on its parent.
            self.ending = parent.filter(|parent| unsafe { is_last(*parent) });
        }
    }
}

impl Drop for Cascade {
    /// Ends the remaining nodes after a destructor's panic.
    fn drop(&mut self) {
        self.run();
    }
}

/// Ends a node. Returns the parent, whose reference the caller must release.
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
        let owns_backing = this.flags() & OWNS_BACKING != 0;
        let (backing, scope, tracks_requester, id, name) = (
            this.backing.inherit(),
            this.scope,
            this.tracks_requester(),
            this.id(),
            this.name,
        );
        free_parts(node, label, |block, layout| {
            let free = || {
                if owns_backing && block == node.cast() {
                    // SAFETY: the node's block begins with its allocator, and is used no more.
                    unsafe { backing.free_root(scope) };
                } else {
                    // SAFETY: node and label of a root were taken from the backing with these layouts and this scope.
                    unsafe { backing.deallocate(block, layout, scope) };
                }
            };
            // Without the label, which is freed first.
            if tracks_requester {
                with_identity(id, name, None, free)
            } else {
                free()
            }
        });
        return None;
    };
    let scope = this.home;
    // SAFETY: the ended node's reference on its parent is still held; the caller releases it.
    let home = unsafe { parent.as_ref() };
    free_parts(node, label, |block, layout| {
        // SAFETY: node and label of a child were allocated with these layouts and this scope, from the parent or from a former parent
        // with the same allocator, whose charge has moved.
        unsafe { home.deallocate(block, layout, scope) };
    });
    Some(parent)
}

fn free_parts(
    node: NonNull<ContextNode>,
    label: Option<NonNull<[u8]>>,
    mut free: impl FnMut(NonNull<u8>, Layout),
) {
    if let Some(label) = label
        && let Ok(layout) = Layout::array::<u8>(label.len())
    {
        free(label.cast(), layout);
    }
    // Nothing in a node needs dropping.
    free(node.cast(), ContextNode::LAYOUT);
}
