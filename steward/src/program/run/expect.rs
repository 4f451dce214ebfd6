//! `--expect`: compares the findings of a run with the known ones of the driver. For a user's program only unexpected findings are differences:
//! missing ones and counts are not compared.

#![forbid(unsafe_code)]

use serde::Deserialize;
use vk_accounts::report::{FindingRow, Unjudged};

use super::reports::Reports;
use crate::expectations::{Expectations, compare};
use crate::program::ProgramError;
use crate::program::check;

/// The used part of a layer's report.
#[derive(Deserialize)]
struct LayerReport {
    check: Option<LayerCheck>,
}

#[derive(Deserialize)]
struct LayerCheck {
    findings: Vec<FindingRow>,
    lost: u64,
}

/// The file, or the bundled one, of this name.
pub(super) fn read(name: &str) -> Result<Expectations, ProgramError> {
    check::expectations_named(name).map(|(_, known)| known)
}

/// A line for every difference. A run that was not judged is a difference.
pub(super) fn unexpected(known: &Expectations, reports: &Reports) -> Vec<String> {
    if reports.json.is_empty() {
        return vec!["--expect: there is no report to compare".to_owned()];
    }
    let lines = reports.json.iter().flat_map(|report| {
        let Ok(report) = serde_json::from_str::<LayerReport>(report) else {
            return vec!["--expect: a report cannot be read".to_owned()];
        };
        let Some(check) = report.check else {
            return vec!["--expect: callbacks were not checked".to_owned()];
        };
        let unjudged = Unjudged::live(check.lost);
        let verdict = compare(known, (&check.findings, unjudged), None);
        verdict
            .differences
            .iter()
            .map(ToString::to_string)
            .collect()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ly43_what_is_not_expected_is_a_line() {
        let known = "driver = \"d\"\n[[finding]]\nrule = \"V29\"\nkind = \"CacheAsObject\"\nowner = \"VkPipelineCache\"\n\
                     command = \"vkCreatePipelineCache\"\nscope = \"object\"\ncause = \"known\"\n";
        let known = Expectations::parse(known).expect("right");
        let row = |rule: &str, level: &str| {
            serde_json::json!({
                "rule": rule, "kind": "CacheAsObject", "level": level, "owner": "VkPipelineCache",
                "command": "vkCreatePipelineCache", "scope": "object", "sentence": "s", "count": 3, "bytes": 0, "first_serial": 1,
            })
        };
        let report = |rows: &[serde_json::Value], lost: u64| {
            serde_json::json!({ "check": { "findings": rows, "lost": lost } }).to_string()
        };
        let lines = |json: Vec<String>| {
            unexpected(
                &known,
                &Reports {
                    texts: Vec::new(),
                    json,
                    refusals: Vec::new(),
                },
            )
        };
        let expected = report(&[row("V29", "violation"), row("V5", "note")], 0);
        assert_eq!(lines(vec![expected.clone()]), [""; 0]);
        assert_eq!(lines(vec![report(&[], 0)]), [""; 0], "nothing is missed");
        for (unexpected, said) in [
            (report(&[row("V30", "violation")], 0), "not expected: V30"),
            (report(&[], 2), "not all was judged"),
            ("{\"check\":null}".to_owned(), "not checked"),
            ("{".to_owned(), "cannot be read"),
        ] {
            let lines = lines(vec![expected.clone(), unexpected]);
            assert!(
                lines.len() == 1 && lines[0].contains(said),
                "{said}: {lines:?}"
            );
        }
        assert_eq!(lines(Vec::new()).len(), 1, "no report");
    }
}
