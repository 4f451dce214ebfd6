//! What `pfnReallocation` must do, as one pure function.
//!
//! Vulkan specification, `PFN_vkReallocationFunction`:
//!
//! | original | size | what happens | row |
//! |---|---|---|---|
//! | NULL | 0 | nothing, answer NULL | V13, V14 |
//! | NULL | n | as `pfnAllocation` | V13 |
//! | ours | 0 | as `pfnFree`, answer NULL | V14, V17 |
//! | not ours | any | of another bridge: reallocated there; else nothing is touched, answer NULL; counted | V11 |
//! | ours | n, too large | refused, the old block stays | V16 |
//! | ours | n | resized, content up to the smaller size kept | V12 |
//! | ours | n, other alignment | counted; the block keeps its alignment | V15 |
//! | ours | n, other scope | counted; the block keeps its scope | V28 to V32 |

#![forbid(unsafe_code)]

use alloc_core::Scope;

use crate::header::{HeaderError, HeaderPlan, Mode};
use crate::raw::RawScope;

/// The old block of a reallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Original {
    /// NULL.
    Null,
    /// A live block of this bridge.
    Ours(OriginalBlock),
    /// A pointer whose header is not this bridge's.
    NotOurs,
}

/// The header of a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OriginalBlock {
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) scope: Scope,
}

/// The action of a reallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing; the answer is NULL.
    Nothing,
    /// Allocate a new block; its arguments are checked there, as for any allocation.
    Allocate,
    /// Free the old block; the answer is NULL.
    Free,
    /// Resize from one plan to another. `ignored` are arguments that were ignored.
    Resize {
        old: HeaderPlan,
        new: HeaderPlan,
        size: usize,
        ignored: IgnoredArguments,
    },
    /// The answer is NULL and the old block stays.
    Refuse(HeaderError),
    /// The pointer is not this bridge's: the block's own bridge answers, or the answer is NULL and nothing is touched.
    RefuseNotOurs,
}

/// Arguments that differ from the block's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredArguments {
    pub(crate) alignment: bool,
    pub(crate) scope: bool,
}

/// The rule table.
#[inline]
pub(crate) fn decide(
    original: Original,
    size: usize,
    align: usize,
    scope: RawScope,
    mode: Mode,
) -> Action {
    let block = match (original, size) {
        (Original::Null, 0) => return Action::Nothing,
        (Original::Null, _) => return Action::Allocate,
        (Original::NotOurs, _) => return Action::RefuseNotOurs,
        (Original::Ours(_), 0) => return Action::Free,
        (Original::Ours(block), _) => block,
    };
    let ignored = IgnoredArguments {
        alignment: align != block.align,
        scope: scope != block.scope.as_raw().cast_signed(),
    };
    match (
        HeaderPlan::new(block.size, block.align, mode),
        HeaderPlan::new(size, block.align, mode),
    ) {
        (Ok(old), Ok(new)) => Action::Resize {
            old,
            new,
            size,
            ignored,
        },
        // The old plan was valid when the block was allocated; only a header that is not this bridge's can fail here.
        (Err(_), _) => Action::RefuseNotOurs,
        (_, Err(refusal)) => Action::Refuse(refusal),
    }
}

#[cfg(test)]
mod tests;
