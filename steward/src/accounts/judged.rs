//! What the checker found, as rows of the report.

use alloc_core::{Context, HostError};
use vk_callbacks::Checker;

use crate::report::FindingRow;

/// Ends the check and says what it found; the list lies in `records` meanwhile.
pub(super) fn rows(checker: &Checker<'_>, records: &Context) -> Result<Vec<FindingRow>, HostError> {
    checker.finish();
    let mut rows: Vec<_> = checker.findings(records)?.iter().map(FindingRow::from).collect();
    let lost = checker.lost();
    if lost > 0 {
        let sentence = format!("{lost} findings were lost, because the checker was refused memory");
        rows.push(FindingRow { level: FindingRow::NOTE.to_owned(), sentence, count: lost, ..FindingRow::default() });
    }
    Ok(rows)
}
