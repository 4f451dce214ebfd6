#![forbid(unsafe_code)]

use alloc_core::HostError;
use vk_callbacks::CheckFinding;
use vk_callbacks::check::FindingKind;
use vk_callbacks::command::BracketCoverage;
use vk_report::report::{ByScope, FindingRow, HEADER_BYTES, KindAccounts, VulkanMemoryRow};

use crate::accounts::{KindAccount, KindOwner, checker};
use crate::count::get;
use crate::device_memory::MemoryCount;
use crate::foreign::ForeignOwner;
use crate::hooks::{coverage, has_live_instance};
use crate::record::own;

/// Bytes contain the 16 in front of each block of callbacks that replaced NULL.
pub(super) fn kind_row(kind: &str, account: &KindAccount, fullest_by_scope: ByScope) -> KindAccounts {
    let objects_created = account.created.get();
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
    KindAccounts {
        kind: kind.to_owned(),
        live_bytes: usage.live_bytes,
        live_blocks: usage.live_blocks,
        peak_bytes: usage.peak_bytes,
        peak_slack: usage.peak_slack,
        total_bytes: usage.total_bytes,
        total_blocks: usage.total_blocks,
        objects_created,
        objects_alive: objects_created.saturating_sub(account.ended.get()),
        foreign_commands: get(&account.foreign_commands),
        live_by_scope,
        requested_by_scope,
        fullest_by_scope,
    }
}

pub(super) fn memory_rows(counts: &[MemoryCount]) -> impl Iterator<Item = VulkanMemoryRow> {
    let rows = (0..).zip(counts);
    rows.filter_map(|(index, count)| memory_row(index, count))
}

pub(super) fn memory_row(index: u32, count: &MemoryCount) -> Option<VulkanMemoryRow> {
    let [live_bytes, live_blocks, peak_bytes, total_bytes, total_blocks, refusals, size] = count.numbers();
    (total_blocks != 0 || refusals != 0).then_some(VulkanMemoryRow {
        index,
        live_bytes,
        live_blocks,
        peak_bytes,
        total_bytes,
        total_blocks,
        refusals,
        size,
        budget: get(&count.budget),
    })
}

pub(super) struct Findings {
    pub(super) rows: Vec<FindingRow>,
    pub(super) between_commands: u64,
    pub(super) lost: u64,
}

impl Findings {
    pub(super) fn new() -> Result<Option<Self>, HostError> {
        let Some(checker) = checker() else {
            return Ok(None);
        };
        // An instance that lives holds what it holds: it is not the end.
        let all = if has_live_instance() { checker.findings(own())? } else { checker.findings_at_end(own())? };
        let is_partial = coverage() == BracketCoverage::Partial;
        let is_between = |finding: &&CheckFinding<'_>| is_partial && is_between_commands(finding.kind);
        let between = all.iter().filter(is_between);
        let rows = all.iter().filter(|finding| !is_between(finding));
        Ok(Some(Self {
            between_commands: between.fold(0, |sum, finding| finding.count.saturating_add(sum)),
            rows: rows.map(FindingRow::from).collect(),
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
