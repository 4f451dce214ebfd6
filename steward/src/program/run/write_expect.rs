#![forbid(unsafe_code)]

use std::path::Path;

use super::reports::Reports;
use crate::expectations::fit;
use crate::program::{ProgramError, check};
use vk_report::report::Report;

pub(super) fn write(reports: &Reports, file: &Path) -> Result<Option<String>, ProgramError> {
    let is_checked = |report: &&Report| {
        let program = report.program.as_ref();
        program.is_some_and(|program| program.check.is_some())
    };
    let read: Vec<_> = reports.of_layer().filter(is_checked).collect();
    let not_written = |why: &str| Ok(Some(format!("{} was not written: {why}", file.display())));
    if !reports.unreadable.is_empty() {
        // Why was said where it was read.
        return not_written("a report cannot be read");
    }
    if read.is_empty() {
        return not_written("no report came");
    }
    if let Some(state) = reports.states.first() {
        return not_written(state);
    }
    // It would be incomplete.
    if let Some(unjudged) = read.iter().find_map(|report| report.unjudged) {
        return not_written(&unjudged.to_string());
    }
    // Causes are kept, from the file or else from what is known of the drivers.
    let known = match check::written_before(file)? {
        Some(before) => before,
        None => reports.known().map(|known| known.expectations).unwrap_or_default(),
    };
    let drivers = reports.drivers();
    let driver = match drivers.as_slice() {
        [one] => one,
        _ => "*",
    };
    let findings: Vec<_> = read.iter().map(|report| report.findings.clone()).collect();
    let fitted = fit(driver, &findings, &known).all_sometimes();
    let summary = check::write_file(file, &fitted)?;
    super::complain(&summary);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use vk_report::report::{CheckLimits, Leaks, ProgramAccounts};

    use super::*;

    #[test]
    fn nothing_is_written_where_a_report_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("expect.toml");
        let checked = ProgramAccounts { check: Some(CheckLimits::default()), ..ProgramAccounts::default() };
        let report = Report { program: Some(checked), ..Report::of_stacks(7, 9, &Leaks::default()) };
        let mut reports = Reports::of(vec![report]);
        reports.unreadable = vec!["a report cannot be read".to_owned()];
        let why = write(&reports, &file).expect("no error").expect("a reason");
        assert!(why.ends_with("was not written: a report cannot be read"), "{why}");
        assert!(!file.exists());
        reports.unreadable.clear();
        assert_eq!(write(&reports, &file).expect("no error"), None);
        assert!(file.exists());
    }
}
