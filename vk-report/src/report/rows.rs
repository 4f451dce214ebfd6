#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::ByScope;

/// The size of a bridge's header in front of a block.
pub const HEADER_BYTES: u64 = 16;

const MAX_STEPS: usize = 8;

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextRow {
    /// Its name.
    pub name: String,
    /// How far below the top.
    pub depth: usize,
    /// True for one that only groups others.
    pub group: bool,
    /// Bytes live at the fullest moment.
    pub live_bytes: u64,
    /// The same, scope by scope.
    pub live_by_scope: ByScope,
    /// The most bytes live at once in it, at any time.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
    /// Blocks ever allocated.
    pub total_blocks: u64,
    /// Bytes ever allocated.
    pub total_bytes: u64,
}

/// The blocks of one context that were never freed, in requested bytes, without a bridge's headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The context's name.
    pub context: String,
    /// Blocks.
    pub blocks: u64,
    /// Bytes.
    pub bytes: u64,
    /// The same, scope by scope.
    pub by_scope: ByScope,
}

impl ContextRow {
    /// How many steps it is set in where rows are shown: a file may say any depth.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.depth.min(MAX_STEPS)
    }

    /// A row for a context that only groups others; [`ContextRow::sum_groups`] fills it.
    #[must_use]
    pub fn group(name: &str, depth: usize) -> Self {
        Self { name: name.to_owned(), depth, group: true, ..Self::default() }
    }

    /// With the exact peak of all scopes together, where something knows it.
    #[must_use]
    pub fn with_peak(mut self, exact: Option<u64>) -> Self {
        if let Some(bytes) = exact {
            (self.peak_bytes, self.peak_slack) = (bytes, 0);
        }
        self
    }

    /// Puts into the row of each group the sums of what is below it; its peak is no sum.
    pub fn sum_groups(rows: &mut [Self]) {
        for index in 0..rows.len() {
            let Some((row, below)) = rows.get_mut(index..).and_then(<[Self]>::split_first_mut) else {
                return;
            };
            let below = below.iter().take_while(|part| part.depth > row.depth);
            for part in below.filter(|part| row.group && !part.group) {
                row.live_bytes = row.live_bytes.saturating_add(part.live_bytes);
                row.live_by_scope.add(&part.live_by_scope);
                row.total_blocks = row.total_blocks.saturating_add(part.total_blocks);
                row.total_bytes = row.total_bytes.saturating_add(part.total_bytes);
            }
        }
    }
}
