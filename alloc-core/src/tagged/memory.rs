//! The memory of blocks: allocated from and freed to their domain's context.

use super::domain::{DomainId, DomainRecord, Reference, is_counted, record_of};
use super::header::{Block, Plan};
use super::{Fill, tables, tree};
use crate::error::HostError;
use crate::sync::Relaxed as _;
use crate::threads::ThreadTable;

/// Allocates a block, neither linked nor counted.
///
/// # Safety
/// As [`DomainId::allocate`].
#[inline(always)]
pub(super) unsafe fn allocate(
    domain: DomainId,
    table: ThreadTable<'_>,
    size: usize,
    fill: Fill,
) -> Result<Block, HostError> {
    if u32::try_from(size).is_err() || fill == Fill::Zeros {
        // SAFETY: this function's contract: the domain stays during the call.
        return unsafe { allocate_otherwise(domain, size, fill) };
    }
    let plan = Plan::new(size)?;
    // SAFETY: this function's contract: the domain stays during the call.
    let record = unsafe { record_of(domain) }?;
    let (node, scope) = (record.context.node(), record.scope());
    let Ok(memory) = node.allocate_on(table, plan.layout, scope) else {
        return record.allocate_by_fallback(size, fill);
    };
    // SAFETY: that is the memory's layout.
    let block = unsafe { plan.block(memory) };
    // SAFETY: planned for this size, and new.
    unsafe { block.init(size, record.id()) };
    Ok(block)
}

/// As [`allocate`], for huge and zeroed blocks.
///
/// # Safety
/// As [`DomainId::allocate`].
#[inline(never)]
unsafe fn allocate_otherwise(
    domain: DomainId,
    size: usize,
    fill: Fill,
) -> Result<Block, HostError> {
    let plan = Plan::new(size)?;
    // SAFETY: this function's contract: the domain stays during the call.
    let record = unsafe { record_of(domain) }?;
    match record.allocate(&plan, size, fill) {
        Some(block) => Ok(block),
        None => record.allocate_by_fallback(size, fill),
    }
}

/// Frees the memory of one block, and releases its reference if it was [counted](is_counted).
///
/// # Safety
/// The block is live, has no children, is not linked, and is not used after this. If it was not counted, its former parent is a live block
/// of its domain.
pub(super) unsafe fn free(block: Block, was_counted: bool, table: ThreadTable<'_>) {
    let Some(place) = tables::domain(block.domain().get()) else {
        return; // a live block's domain is there
    };
    let _reference = was_counted.then(|| Reference(place));
    // SAFETY: a record is in the table until its last reference is released; this block's is released after this, or the former parent has one.
    let record = unsafe { place.as_ref() };
    // SAFETY: the record is that of the block's domain.
    unsafe { record.free(block, table) };
}

/// Frees the newest children of a block, as long as they have neither children nor a destructor.
///
/// # Safety
/// The block is live; its children are used no more.
pub(super) unsafe fn free_leaves(above: Block, table: ThreadTable<'_>) {
    // SAFETY: the block is one of the domain's, and outlives its children.
    let Ok(record) = (unsafe { record_of(above.domain()) }) else {
        return; // a live block's domain is there
    };
    while let Some(child) = tree::newest_child(above).filter(|child| child.is_plain_leaf()) {
        tree::remove_newest(above, child);
        if is_counted(child, Some(above)) {
            // SAFETY: live, without children, and no longer linked.
            unsafe { free(child, true, table) };
        } else {
            // SAFETY: live, without children, no longer linked, and of the parent's domain.
            unsafe { record.free(child, table) };
        }
    }
}

/// Whether the fallback may serve a request with this refusal. A closed domain allocates nothing more.
const fn is_for_a_fallback(error: HostError) -> bool {
    !matches!(error, HostError::Closed { .. })
}

/// Whether the block's domain has a fallback that may serve a request with this refusal.
pub(super) fn has_fallback(block: Block, error: HostError) -> bool {
    // SAFETY: the block is one of the domain's.
    let record = unsafe { record_of(block.domain()) };
    is_for_a_fallback(error) && record.is_ok_and(|record| record.fallback.is_some())
}

/// Resizes the memory of a block in place or elsewhere.
///
/// # Errors
/// The context's refusal; the block is as it was.
///
/// # Safety
/// The block is live, and of `old`; `new` has its header at the same place.
pub(super) unsafe fn resize(block: Block, old: &Plan, new: &Plan) -> Result<Block, HostError> {
    // SAFETY: the block is one of the domain's.
    let record = unsafe { record_of(block.domain()) }?;
    let node = record.context.node();
    // SAFETY: the block's memory is of this context, with the layout of its plan and the context's scope.
    let memory = unsafe { node.resize(block.memory(), old.layout, new.layout, record.scope()) };
    let memory = memory.map_err(|_| node.refusal(new.layout, record.scope()))?;
    // SAFETY: that is the memory's layout now.
    Ok(unsafe { new.block(memory) })
}

impl DomainRecord {
    /// `None` where the context refuses.
    #[inline]
    fn allocate(&self, plan: &Plan, size: usize, fill: Fill) -> Option<Block> {
        let (node, scope) = (self.context.node(), self.scope());
        let memory = match fill {
            Fill::Undefined => node.allocate(plan.layout, scope),
            Fill::Zeros => node.allocate_zeroed(plan.layout, scope),
        };
        let memory = memory.ok()?;
        // SAFETY: that is the memory's layout.
        let block = unsafe { plan.block(memory) };
        // SAFETY: planned for this size, and new.
        unsafe { block.init(size, self.id()) };
        Some(block)
    }

    /// Serves a request that the context has refused from the fallback, or returns the refusal.
    #[cold]
    #[inline(never)]
    fn allocate_by_fallback(&self, size: usize, fill: Fill) -> Result<Block, HostError> {
        let plan = Plan::new(size)?;
        let refusal = |record: &Self| record.context.node().refusal(plan.layout, record.scope());
        let error = refusal(self);
        let Some(fallback) = self.fallback.filter(|_| is_for_a_fallback(error)) else {
            return Err(error);
        };
        self.refused.set(1);
        // SAFETY: the domain keeps its fallback.
        let fallback = unsafe { fallback.as_ref() };
        fallback
            .allocate(&plan, size, fill)
            .ok_or_else(|| refusal(fallback))
    }

    /// # Safety
    /// As [`free`], for a block of this domain.
    #[inline]
    unsafe fn free(&self, block: Block, table: ThreadTable<'_>) {
        let Ok(plan) = Plan::new(block.size()) else {
            return; // it was planned when it was allocated
        };
        let (node, scope) = (self.context.node(), self.scope());
        // SAFETY: the block's memory is of this context, with the layout of its plan and the context's scope.
        unsafe { node.deallocate_on(table, block.memory(), plan.layout, scope) };
    }
}
