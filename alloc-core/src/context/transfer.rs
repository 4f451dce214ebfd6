//! Moving what blocks are charged to, without touching the blocks.

use super::node::{CLOSED, Node};
use super::{Context, Handle};
use crate::adapters::HostSource;
use crate::error::{HostError, Misuse};

/// A context by reference or by handle: what memory can be charged to. Implemented for `&Context` and [`Handle`] only.
pub trait ContextRef: HostSource + sealed::Sealed {}

pub(crate) mod sealed {
    use super::{Context, Handle, Node};

    /// Access to the node; not for others to implement.
    pub trait Sealed {
        #[doc(hidden)]
        fn sealed_node(&self) -> NodeRef<'_>;
    }

    /// Opaque outside of this crate.
    #[derive(Clone, Copy)]
    pub struct NodeRef<'a>(pub(crate) &'a Node);

    impl Sealed for &Context {
        fn sealed_node(&self) -> NodeRef<'_> {
            NodeRef(self.node())
        }
    }
    impl Sealed for Handle {
        fn sealed_node(&self) -> NodeRef<'_> {
            NodeRef(self.node())
        }
    }
}

impl ContextRef for &Context {}
impl ContextRef for Handle {}

/// Charges `blocks` blocks of `bytes` bytes in all, taken from `from` in its default scope, to `to`. From then on they are given
/// back through `to`, in the same scope.
///
/// # Errors
/// Nothing was changed: [`Misuse::OtherBacking`], [`Misuse::OtherScope`], [`HostError::Closed`], [`HostError::OverBudget`].
pub(crate) fn transfer(from: &Node, to: &Node, blocks: u64, bytes: u64) -> Result<(), HostError> {
    if core::ptr::eq(from, to) || bytes == 0 {
        return Ok(());
    }
    if !from.backing.same_as(&to.backing) {
        return Err(HostError::Misuse(Misuse::OtherBacking));
    }
    if from.scope != to.scope {
        return Err(HostError::Misuse(Misuse::OtherScope));
    }
    if to.flags() & CLOSED != 0 {
        return Err(HostError::Closed { context: to.id() });
    }
    let reserved = if to.is_budgeted() {
        Some(to.reserve(to.scope, bytes).map_err(|_| to.budget_shortage(bytes).unwrap_or(HostError::TooLarge))?)
    } else {
        None
    };
    from.count_given(from.scope, bytes, blocks);
    match reserved {
        Some(reserved) => reserved.conclude(blocks, true),
        None => to.count_taken(to.scope, bytes, blocks),
    }
    Ok(())
}
