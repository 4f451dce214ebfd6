//! The rows of a report, read from the accounts.

#![forbid(unsafe_code)]

use alloc_core::{HostError, ScopeUsage, TryVec};
use vk_callbacks::CheckFinding;
use vk_callbacks::check::FindingKind;
use vk_callbacks::command::BracketCoverage;
use vk_report::report::{ByScope, HEADER_BYTES, VulkanMemoryRow};

use crate::accounts::{Accounts, KindAccount, KindOwner, checker};
use crate::count::get;
use crate::device_memory::MemoryCount;
use crate::foreign::ForeignOwner;
use crate::hooks::{coverage, has_live_instance};
use crate::record::{Own, own};

/// One kind of object of one instance or device. Bytes contain the 16 in front of each block of callbacks that replaced NULL.
pub(super) struct KindRow<'a> {
    pub(super) account: &'a KindAccount,
    pub(super) kind: &'static str,
    pub(super) usage: ScopeUsage,
    pub(super) live_by_scope: ByScope,
    /// The same without those 16.
    pub(super) requested_by_scope: ByScope,
    pub(super) objects_created: u64,
    pub(super) objects_alive: u64,
    pub(super) foreign_commands: u64,
}

impl<'a> KindRow<'a> {
    fn new(kind: &'static str, account: &'a KindAccount) -> Self {
        let created = account.created.get();
        let foreign = account.foreign().and_then(ForeignOwner::usage_by_scope);
        let usage = account.owner().map(KindOwner::usage);
        let live = |header: u64| {
            ByScope::of(|scope| {
                let own = usage.as_ref().map(|usage| usage.scope(scope));
                let own = own.map_or(0, |own| {
                    let headers = own.live_blocks.saturating_mul(header);
                    own.live_bytes.saturating_sub(headers)
                });
                let foreign = foreign.as_ref().map(|usage| usage.scope(scope).live_bytes);
                own.saturating_add(foreign.unwrap_or(0))
            })
        };
        let (live_by_scope, requested_by_scope) = (live(0), live(HEADER_BYTES));
        let mut own = usage.map(|usage| usage.total());
        let exact = account.owner().and_then(KindOwner::exact_peak);
        if let Some((own, peak)) = own.as_mut().zip(exact) {
            (own.peak_bytes, own.peak_slack) = (peak, 0);
        }
        let foreign = account.foreign().map(ForeignOwner::usage);
        // Of both together the peak is an upper bound.
        let usage = own.unwrap_or_default().plus(&foreign.unwrap_or_default());
        Self {
            account,
            kind,
            usage,
            live_by_scope,
            requested_by_scope,
            objects_created: created,
            objects_alive: created.saturating_sub(account.ended.get()),
            foreign_commands: get(&account.foreign_commands),
        }
    }

    /// The rows of an instance or device, in the order of the table of commands.
    pub(super) fn all(accounts: &'a Accounts) -> impl Iterator<Item = Self> {
        accounts
            .known_kinds()
            .map(|(kind, account)| Self::new(kind, account))
    }
}

/// The heaps or types of device memory that were used, by their index.
pub(super) fn memory_rows(counts: &[MemoryCount]) -> impl Iterator<Item = VulkanMemoryRow> {
    let rows = (0..).zip(counts);
    rows.filter_map(|(index, count)| memory_row(index, count))
}

/// `None` where nothing was counted.
pub(super) fn memory_row(index: u32, count: &MemoryCount) -> Option<VulkanMemoryRow> {
    let [
        live_bytes,
        live_blocks,
        peak_bytes,
        total_bytes,
        total_blocks,
        refusals,
    ] = count.numbers();
    (total_blocks != 0 || refusals != 0).then_some(VulkanMemoryRow {
        index,
        live_bytes,
        live_blocks,
        peak_bytes,
        total_bytes,
        total_blocks,
        refusals,
    })
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
