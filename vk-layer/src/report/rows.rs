//! What both forms of the report show, read from the accounts.

#![forbid(unsafe_code)]

use alloc_core::{HostError, TryVec};
use vk_accounts::report::ByScope;
use vk_callbacks::CheckFinding;
use vk_callbacks::check::FindingKind;
use vk_callbacks::command::BracketCoverage;

use crate::accounts::{Accounts, KindAccount, KindOwner, checker};
use crate::count::get;
use crate::device_memory::MemoryCount;
use crate::foreign::ForeignOwner;
use crate::hooks::{coverage, has_live_instance};
use crate::record::{Own, own};

/// One kind of object of one instance or device. Bytes contain the 16 in front of each block.
#[derive(Default)]
pub(super) struct KindRow {
    pub(super) kind: &'static str,
    pub(super) live_bytes: u64,
    pub(super) live_by_scope: ByScope,
    pub(super) live_blocks: u64,
    pub(super) peak_bytes: u64,
    /// How far the peak may be off.
    pub(super) peak_slack: u64,
    pub(super) total_bytes: u64,
    pub(super) total_blocks: u64,
    pub(super) objects_created: u64,
    pub(super) objects_alive: u64,
    pub(super) foreign_commands: u64,
}

impl KindRow {
    fn new(kind: &'static str, account: &KindAccount) -> Self {
        let created = account.created.get();
        let foreign = account.foreign().and_then(ForeignOwner::usage_by_scope);
        let usage = account.owner().map(KindOwner::usage);
        let live_by_scope = ByScope::of(|scope| {
            let own = usage
                .as_ref()
                .map_or(0, |usage| usage.scope(scope).live_bytes);
            let foreign = foreign.as_ref();
            own + foreign.map_or(0, |usage| usage.scope(scope).live_bytes)
        });
        let own = usage.map(|usage| usage.total());
        let foreign = account.foreign().map(ForeignOwner::usage);
        // Of both together the peak is an upper bound.
        let sum = own.unwrap_or_default().plus(&foreign.unwrap_or_default());
        Self {
            kind,
            live_by_scope,
            live_bytes: sum.live_bytes,
            live_blocks: sum.live_blocks,
            peak_bytes: sum.peak_bytes,
            peak_slack: sum.peak_slack,
            total_bytes: sum.total_bytes,
            total_blocks: sum.total_blocks,
            objects_created: created,
            objects_alive: created.saturating_sub(account.ended.get()),
            foreign_commands: get(&account.foreign_commands),
        }
    }

    /// The rows of an instance or device, in the order of the table of commands.
    pub(super) fn all(accounts: &Accounts) -> impl Iterator<Item = Self> {
        accounts
            .known_kinds()
            .map(|(kind, account)| Self::new(kind, account))
    }
}

/// A heap or type of device memory that was used, by its index.
pub(super) struct MemoryRow {
    pub(super) index: usize,
    pub(super) live_bytes: u64,
    pub(super) live_blocks: u64,
    pub(super) peak_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) total_blocks: u64,
    pub(super) refusals: u64,
}

impl MemoryRow {
    pub(super) fn all(counts: &[MemoryCount]) -> impl Iterator<Item = Self> {
        let rows = counts.iter().enumerate();
        rows.filter_map(|(index, count)| {
            Some(Self {
                index,
                ..Self::of(count)?
            })
        })
    }

    /// Without an index; `None` where nothing was counted.
    pub(super) fn of(count: &MemoryCount) -> Option<Self> {
        let row = Self {
            index: 0,
            live_bytes: get(&count.live_bytes),
            live_blocks: get(&count.live_blocks),
            peak_bytes: get(&count.peak_bytes),
            total_bytes: get(&count.total_bytes),
            total_blocks: get(&count.total_blocks),
            refusals: get(&count.refusals),
        };
        (row.total_blocks != 0 || row.refusals != 0).then_some(row)
    }
}

/// What the checker found until now.
pub(super) struct Findings {
    pub(super) rows: TryVec<CheckFinding<'static>, Own>,
    /// Callbacks between bracketed commands, where others have no bracket: they prove nothing.
    pub(super) between_commands: u64,
    /// Observations that there was no memory for.
    pub(super) lost: u64,
}

impl Findings {
    /// `None` where nothing is checked.
    pub(super) fn new() -> Result<Option<Self>, HostError> {
        let Some(checker) = checker() else {
            return Ok(None);
        };
        // Where an instance lives its objects hold what they hold: it is not the end.
        let all = if has_live_instance() {
            checker.findings(own())?
        } else {
            checker.findings_at_end(own())?
        };
        let mut rows = TryVec::new_in(own());
        let mut between_commands = 0_u64;
        let is_partial = coverage() == BracketCoverage::Partial;
        for finding in &all {
            if is_partial && is_between_commands(finding.kind) {
                between_commands = between_commands.saturating_add(finding.count);
            } else {
                rows.try_push(*finding).map_err(|refused| refused.error)?;
            }
        }
        Ok(Some(Self {
            rows,
            between_commands,
            lost: checker.lost(),
        }))
    }
}

const fn is_between_commands(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::AskedBetweenCommands
            | FindingKind::FreedBetweenCommands
            | FindingKind::NotifiedBetweenCommands
            | FindingKind::AskedOnForeignThread
            | FindingKind::FreedOnForeignThread
            | FindingKind::NotifiedOnForeignThread
    )
}
