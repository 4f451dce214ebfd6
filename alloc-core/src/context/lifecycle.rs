//! How nodes come to be and how they go.
//!
//! A node lives as long as anything refers to it: its owner (`Context`), handles, and its children, which refer to their
//! parent. When the last reference goes, the node is taken out of every thread's table, leaves its sums with its parent and
//! gives its memory back to where it came from: the parent, or for a root the backing itself.

use core::ptr::NonNull;

use super::backing::{Backing, Link};
use super::node::{BUDGETED, Node};
use super::options::ContextOptions;
use super::tree;
use crate::account::evict;
use crate::budget::Budget;
use crate::error::HostError;
use crate::origin::tell;
use crate::scope::Scope;
use crate::sync::{Ordering, fence};

/// Makes a root. Its own memory comes from the backing and is counted in itself.
///
/// # Safety
/// The allocator behind `backing` lives until the node is gone or abandoned.
pub(super) unsafe fn make_root(backing: Backing, options: &ContextOptions<'_>) -> Result<NonNull<Node>, HostError> {
    let scope = options.scope.unwrap_or(Scope::Instance);
    let label_bytes = options.label.map_or(0, str::len) as u64;
    let own_bytes = (Node::LAYOUT.size() as u64).saturating_add(label_bytes);
    if let Some(short_by) = options.budget.and_then(|budget| own_bytes.checked_sub(budget.limit)).filter(|short| *short > 0) {
        // The root does not exist; the id is the one that it would have had.
        return Err(HostError::OverBudget { context: Node::next_id(), short_by, leased_elsewhere: 0 });
    }
    // SAFETY: forwarded from this function's contract.
    let link = unsafe { Link::new(backing) };
    let mut node = Node::new(link, scope, scope, options.name, None);
    let block = node.ask(|backing| backing.allocate(Node::LAYOUT, scope));
    let block = block.map_err(|_| node.backing.refusal(Node::LAYOUT, scope))?;
    node.label = match copy_label(options.label, |layout| node.ask(|backing| backing.allocate(layout, scope))) {
        Ok(label) => label,
        Err(layout) => {
            let error = node.backing.refusal(layout, scope);
            // SAFETY: the block was just taken with this layout and scope and holds nothing yet.
            node.ask(|backing| unsafe { backing.deallocate(block, Node::LAYOUT, scope) });
            return Err(error);
        }
    };
    if let Some(budget) = options.budget {
        set_budget(&node, budget, None);
        node.budget.charged.store(own_bytes, Ordering::Relaxed);
        node.budget.high.store(own_bytes, Ordering::Relaxed);
    }
    let node = place(block, node);
    // SAFETY: just placed.
    let this = unsafe { node.as_ref() };
    let counts = crate::account::Counts {
        alloc_bytes: own_bytes,
        alloc_blocks: 1 + u64::from(label_bytes > 0),
        ..crate::account::Counts::default()
    };
    this.count_directly(scope, &counts);
    Ok(node)
}

/// Makes a child. Its memory comes from `parent` and is counted there; nothing is left behind when it is refused.
///
/// # Safety
/// The allocator in `options`, if any, lives until the node is gone or abandoned.
/// The caller holds a reference on `above`.
pub(super) unsafe fn make_child(above: NonNull<Node>, options: &ContextOptions<'_>) -> Result<NonNull<Node>, HostError> {
    // SAFETY: the caller's reference keeps it alive.
    let parent = unsafe { above.as_ref() };
    let home = parent.scope;
    let block = parent.allocate(Node::LAYOUT, home).map_err(|_| parent.refusal(Node::LAYOUT, home))?;
    let label = copy_label(options.label, |layout| parent.allocate(layout, home)).map_err(|layout| {
        let error = parent.refusal(layout, home);
        // SAFETY: the block was just taken with this layout and scope and holds nothing yet.
        unsafe { parent.deallocate(block, Node::LAYOUT, home) };
        error
    })?;
    let backing = match options.backing {
        // SAFETY: forwarded from this function's contract.
        Some(backing) => unsafe { Link::new(backing) },
        None => parent.backing.inherit(),
    };
    let mut node =
        Node::new(backing, options.scope.unwrap_or(home), home, options.name, Some(parent.root_ptr().unwrap_or(above)));
    node.label = label;
    if parent.is_budgeted() {
        node.set_flags(BUDGETED);
        node.budget.slice.store(parent.slice(), Ordering::Relaxed);
    }
    if let Some(budget) = options.budget {
        set_budget(&node, budget, parent.is_budgeted().then(|| parent.slice()));
    }
    let node = place(block, node);
    tree::link(retain(above), node);
    Ok(node)
}

fn set_budget(node: &Node, budget: Budget, above: Option<u64>) {
    if budget.limit == u64::MAX {
        // No limit at all: inherited ones hold, and nothing is to be paid for this one.
        return;
    }
    node.budget.exact.store(u8::from(budget.exact), Ordering::Relaxed);
    node.set_flags(BUDGETED);
    node.budget.limit.store(budget.limit, Ordering::Relaxed);
    node.budget.slice.store(above.map_or(budget.slice(), |slice| slice.min(budget.slice())), Ordering::Relaxed);
}

fn place(block: NonNull<u8>, node: Node) -> NonNull<Node> {
    let at = block.cast::<Node>();
    // SAFETY: the block has the layout of a `Node` and is nobody else's.
    unsafe { at.write(node) };
    at
}

type BlockResult = Result<NonNull<u8>, allocator_api2::alloc::AllocError>;

/// Copies a label into a block of its own; the error is the layout that was refused.
fn copy_label(
    label: Option<&str>,
    allocate: impl FnOnce(core::alloc::Layout) -> BlockResult,
) -> Result<Option<NonNull<[u8]>>, core::alloc::Layout> {
    let Some(label) = label.filter(|label| !label.is_empty()) else { return Ok(None) };
    let layout = core::alloc::Layout::for_value(label);
    let block = allocate(layout).map_err(|_| layout)?;
    // SAFETY: the block holds `label.len()` bytes and is new, so it does not overlap the label.
    unsafe { core::ptr::copy_nonoverlapping(label.as_ptr(), block.as_ptr(), label.len()) };
    Ok(Some(NonNull::slice_from_raw_parts(block, label.len())))
}

/// From here on a count stands still: the node is never freed. Reached only by leaking references by the billion.
const STUCK: usize = usize::MAX / 2;

/// Takes one more reference.
pub(super) fn retain(node: NonNull<Node>) -> NonNull<Node> {
    // SAFETY: the caller has a reference.
    let references = unsafe { &node.as_ref().references };
    if references.fetch_add(1, Ordering::Relaxed) >= STUCK {
        references.store(STUCK, Ordering::Relaxed);
    }
    node
}

/// Takes one more reference of a linked node, unless its last one has gone already and it is about to end. The tree lock is held.
pub(super) fn retain_living(node: &Node) -> bool {
    let mut references = node.references.load(Ordering::Relaxed);
    while references != 0 {
        let more = if references >= STUCK { STUCK } else { references.saturating_add(1) };
        match node.references.compare_exchange_weak(references, more, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => references = now,
        }
    }
    false
}

/// Gives a reference back. The last one ends the node.
///
/// # Safety
/// The caller owns one reference, and does not use the node after this.
#[inline]
pub(super) unsafe fn release(node: NonNull<Node>) {
    // SAFETY: forwarded.
    if unsafe { is_last(node) } {
        let mut cascade = Cascade { ending: Some(node) };
        cascade.run();
    }
}

/// Gives a reference back; true when nobody refers to the node any more, so that it is the caller's to end.
///
/// # Safety
/// As [`release`].
unsafe fn is_last(node: NonNull<Node>) -> bool {
    // SAFETY: the reference that is being given back keeps the node alive up to here.
    let references = unsafe { &node.as_ref().references };
    if references.load(Ordering::Relaxed) >= STUCK || references.fetch_sub(1, Ordering::Release) != 1 {
        return false;
    }
    fence(Ordering::Acquire);
    true
}

/// A node without references, and after it perhaps its parent, and so on: a loop, not recursion.
struct Cascade {
    ending: Option<NonNull<Node>>,
}

impl Cascade {
    #[cold]
    fn run(&mut self) {
        while let Some(node) = self.ending {
            // SAFETY: not yet freed.
            crate::owned::destroy_leftovers(unsafe { node.as_ref() });
            self.ending = None;
            // SAFETY: nobody refers to the node any more.
            let parent = unsafe { end(node) };
            // SAFETY: the ended node's reference on its parent.
            self.ending = parent.filter(|parent| unsafe { is_last(*parent) });
        }
    }
}

impl Drop for Cascade {
    /// After a destructor's panic: the rest ends all the same.
    fn drop(&mut self) {
        self.run();
    }
}

/// Ends a node without references. Answers the parent, whose reference the caller must give back.
///
/// # Safety
/// Nobody refers to the node any more, and it owns no value.
unsafe fn end(node: NonNull<Node>) -> Option<NonNull<Node>> {
    // SAFETY: not yet freed.
    let this = unsafe { node.as_ref() };
    crate::owned::free_table(this);
    evict(Scope::ALL.map(|scope| (this.row(scope), this.tag(scope))));
    let label = this.label;
    let Some(parent) = tree::unlink(this) else {
        let (backing, scope, tells, id, name) = (this.backing.inherit(), this.scope, this.tells(), this.id(), this.name);
        free_parts(node, label, |block, layout| {
            // SAFETY: node and label of a root were taken from the backing with these layouts and this scope.
            let free = || unsafe { backing.deallocate(block, layout, scope) };
            // Without the label, which goes first.
            if tells { tell(id, name, None, free) } else { free() }
        });
        return None;
    };
    let scope = this.home;
    // SAFETY: the ended node's reference on its parent is still held; the caller gives it back.
    let home = unsafe { parent.as_ref() };
    free_parts(node, label, |block, layout| {
        // SAFETY: node and label of a child were taken with these layouts and this scope, from the parent or from one that draws
        // on the same allocator and has handed the charge on.
        unsafe { home.deallocate(block, layout, scope) };
    });
    Some(parent)
}

fn free_parts(node: NonNull<Node>, label: Option<NonNull<[u8]>>, mut free: impl FnMut(NonNull<u8>, core::alloc::Layout)) {
    if let Some(label) = label
        && let Ok(layout) = core::alloc::Layout::array::<u8>(label.len())
    {
        free(label.cast(), layout);
    }
    // Nothing in a node needs dropping.
    free(node.cast(), Node::LAYOUT);
}
