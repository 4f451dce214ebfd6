//! `--write-expect`: writes down what was found, as what `--expect` may find.

#![forbid(unsafe_code)]

use std::path::Path;

use super::reports::{LayerReport, Reports};
use crate::expectations::fit;
use crate::program::{ProgramError, check};
use vk_accounts::report::Unjudged;

/// Writes the file. Returns why it was not written, if it was not.
pub(super) fn write(reports: &Reports, file: &Path) -> Result<Option<String>, ProgramError> {
    let read: Vec<_> = reports
        .json()
        .filter_map(|json| LayerReport::read(json)?.check)
        .collect();
    let not_written = |why: &str| Ok(Some(format!("{} was not written: {why}", file.display())));
    if read.is_empty() {
        return not_written("no report came");
    }
    if let Some(state) = reports.states.first() {
        return not_written(state);
    }
    // It would be incomplete.
    let lost = read.iter().map(|check| check.lost).sum();
    if let Some(unjudged) = Unjudged::live(lost) {
        return not_written(&unjudged.to_string());
    }
    // Causes are kept, from the file or else from what is known of the drivers.
    let known = match check::written_before(file)? {
        Some(before) => before,
        None => reports
            .known()
            .map(|known| known.expectations)
            .unwrap_or_default(),
    };
    let drivers = reports.drivers();
    let driver = match drivers.as_slice() {
        [one] => one,
        // Any.
        _ => "*",
    };
    let findings: Vec<_> = read.into_iter().map(|check| check.findings).collect();
    let fitted = fit(driver, &findings, &known).all_sometimes();
    let summary = check::write_file(file, &fitted)?;
    super::complain(&summary);
    Ok(None)
}
