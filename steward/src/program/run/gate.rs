//! Why a run fails whose program ended with 0: `--exit-code` and `--expect`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use vk_accounts::report::Unjudged;
use vk_accounts::units::bytes;

use super::reports::{LayerReport, Reports};
use crate::expectations::{Expectations, compare};

/// What `--exit-code` fails on, besides findings: a process without a report, and what each program left alive.
pub(super) fn failures(reports: &Reports) -> Vec<String> {
    if !reports.has_json() {
        return vec!["--exit-code: no report came, so nothing was tested".to_owned()];
    }
    let unjudged = reports
        .states
        .iter()
        .map(|process| format!("--exit-code: {process}"));
    let left = reports
        .json()
        .filter_map(|report| left_alive(&LayerReport::read(report)?));
    unjudged.chain(left).collect()
}

/// What the program never destroyed, in one sentence.
fn left_alive(report: &LayerReport) -> Option<String> {
    let mut alive = BTreeMap::<&str, u64>::new();
    for row in report.kinds().filter(|row| row.objects_alive > 0) {
        *alive.entry(row.kind.as_str()).or_default() += row.objects_alive;
    }
    if alive.is_empty() {
        // Only then a block that is left is not the fault of a missing destruction, and without a check no rule names it.
        let blocks: u64 = report.kinds().map(|row| row.live_blocks).sum();
        return (report.check.is_none() && blocks > 0).then(|| {
            format!(
                "--exit-code: the driver never freed {blocks} block{}",
                plural(blocks)
            )
        });
    }
    let alive: Vec<_> = alive
        .iter()
        .map(|(kind, number)| format!("{number} {kind}"))
        .collect();
    let memory = match report.live_device_memory() {
        0 => String::new(),
        live => format!(", with {} of device memory", bytes(live)),
    };
    Some(format!(
        "--exit-code: never destroyed: {}{memory}",
        alive.join(", ")
    ))
}

const fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// A line for every finding that is not known. A run that was not judged has one, too. Missing findings and counts are no differences: the
/// program is not the workload, and need not do what a finding is about.
pub(super) fn unexpected(known: &Expectations, reports: &Reports) -> Vec<String> {
    if !reports.has_json() {
        return vec!["no report came, so nothing was compared with what is expected".to_owned()];
    }
    let lines = reports.json().flat_map(|report| {
        let Some(report) = LayerReport::read(report) else {
            return vec!["a report cannot be read, and not be compared".to_owned()];
        };
        let Some(check) = &report.check else {
            return vec!["callbacks were not checked, and not compared".to_owned()];
        };
        let unjudged = Unjudged::live(check.lost);
        let verdict = compare(known, (&check.findings, unjudged), None);
        let differences = verdict.differences.iter();
        differences.map(ToString::to_string).collect()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ly43_what_is_not_expected_is_a_line() {
        let known = "driver = \"d\"\n[[finding]]\nrule = \"V29\"\nkind = \"CacheAsObject\"\nowner = \"VkPipelineCache\"\n\
                     command = \"vkCreatePipelineCache\"\nscope = \"object\"\ncause = \"known\"\n";
        let known = Expectations::parse(known).expect("right");
        let row = |rule: &str, level: &str| {
            json!({
                "rule": rule, "kind": "CacheAsObject", "level": level, "owner": "VkPipelineCache",
                "command": "vkCreatePipelineCache", "scope": "object", "sentence": "s", "count": 3, "bytes": 0, "first_serial": 1,
            })
        };
        let report = |rows: &[Value], lost: u64| {
            json!({ "check": { "findings": rows, "lost": lost } }).to_string()
        };
        let lines = |json: Vec<String>| unexpected(&known, &Reports::of_json(json));
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

    #[test]
    fn what_is_left_alive_or_was_not_seen_is_a_failure() {
        let kind = |kind: &str, alive: u64, blocks: u64| json!({ "kind": kind, "objects_alive": alive, "live_blocks": blocks });
        let report = |of_instance: Vec<Value>, of_device: Vec<Value>, live: u64, check: bool| {
            let check = if check {
                json!({ "findings": [], "lost": 0 })
            } else {
                Value::Null
            };
            let heaps = json!([{ "live_bytes": live }]);
            let devices = json!([{ "kinds": of_device, "heaps": heaps }]);
            json!({ "instances": [{ "kinds": of_instance, "devices": devices }], "check": check })
                .to_string()
        };
        let clean = report(
            vec![kind("VkInstance", 0, 0)],
            vec![kind("VkBuffer", 0, 3)],
            0,
            true,
        );
        assert_eq!(
            failures(&Reports::of_json(vec![clean.clone()])),
            [""; 0],
            "rules judge what the driver left"
        );
        let left = report(
            vec![kind("VkInstance", 1, 4)],
            vec![kind("VkBuffer", 7, 7)],
            2048,
            true,
        );
        assert_eq!(
            failures(&Reports::of_json(vec![clean, left])),
            [
                "--exit-code: never destroyed: 7 VkBuffer, 1 VkInstance, with 2.00 KiB of device memory"
            ]
        );
        let unchecked = report(vec![], vec![kind("VkDevice", 0, 1)], 0, false);
        assert_eq!(
            failures(&Reports::of_json(vec![unchecked])),
            ["--exit-code: the driver never freed 1 block"]
        );
        assert!(failures(&Reports::default())[0].contains("no report came"));
        let killed = Reports {
            states: vec!["process 7 ended by SIGKILL: nothing was judged".to_owned()],
            ..Reports::of_json(vec!["{}".to_owned()])
        };
        assert_eq!(
            failures(&killed),
            ["--exit-code: process 7 ended by SIGKILL: nothing was judged"]
        );
    }
}
