#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::fmt;

use alloc_core::{Context, Scope};

/// Live blocks and bytes by scope. Bytes as charged: the requests, 16 in front of each, and the padding of alignments.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    scopes: [LiveScope; Scope::COUNT],
}

/// Blocks and bytes of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveScope {
    /// Blocks not yet freed.
    pub blocks: u64,
    /// Bytes of them, as charged.
    pub bytes: u64,
}

impl Live {
    /// The account of `context`, without `own` in its default scope.
    pub(crate) fn of(context: &Context, own: LiveScope) -> Self {
        let usage = context.usage();
        let mut scopes = Scope::ALL.map(|scope| {
            let used = usage.scope(scope);
            LiveScope { blocks: used.live_blocks, bytes: used.live_bytes }
        });
        if let Some(home) = scopes.get_mut(context.scope().index()) {
            home.blocks = home.blocks.saturating_sub(own.blocks);
            home.bytes = home.bytes.saturating_sub(own.bytes);
        }
        Self { scopes }
    }

    /// Those of `scope`.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> LiveScope {
        self.scopes.get(scope.index()).copied().unwrap_or_default()
    }

    /// All scopes together.
    #[must_use]
    pub fn total(&self) -> LiveScope {
        let add = |sum: LiveScope, one: &LiveScope| LiveScope {
            blocks: sum.blocks + one.blocks,
            bytes: sum.bytes + one.bytes,
        };
        self.scopes.iter().fold(LiveScope::default(), add)
    }

    /// True when nothing is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total().blocks == 0
    }
}

impl LiveScope {
    /// A root counts its own record and label in itself. None if the context has anything else, a child's record
    /// included.
    pub(super) fn of_unused(context: &Context) -> Option<Self> {
        let expected = match (context.parent(), context.label()) {
            (Some(_), _) => 0,
            (None, None) => 1,
            (None, Some(_)) => 2,
        };
        let held = context.usage().total();
        (held.live_blocks == expected).then_some(Self { blocks: held.live_blocks, bytes: held.live_bytes })
    }

    pub(super) const fn and(self, block: Layout) -> Self {
        Self { blocks: self.blocks + 1, bytes: self.bytes + block.size() as u64 }
    }
}

/// The scopes with live blocks alone: this is what a program prints whose `main` returns the error.
impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Scope::ALL.map(|scope| (scope, self.scope(scope)));
        f.debug_map().entries(held.into_iter().filter(|(_, held)| held.blocks > 0)).finish()
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let s = |count| if count == 1 { "" } else { "s" };
        write!(f, "{} block{} ({} byte{})", total.blocks, s(total.blocks), total.bytes, s(total.bytes))?;
        let held = Scope::ALL.into_iter().filter(|scope| self.scope(*scope).blocks > 0);
        for (i, scope) in held.enumerate() {
            write!(f, "{}{} {scope}", if i == 0 { ": " } else { ", " }, self.scope(scope).blocks)?;
        }
        Ok(())
    }
}
