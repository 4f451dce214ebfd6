#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use vk_report::report::{Report, VulkanMemory};
use vk_report::units::bytes;

use super::reports::Reports;
use crate::expectations::{Expectations, compare};

pub(super) fn failures(reports: &Reports) -> Vec<String> {
    if reports.processes.is_empty() && reports.unreadable.is_empty() {
        return vec!["--exit-code: no report came, so nothing was tested".to_owned()];
    }
    let unjudged = reports.states.iter().map(|process| format!("--exit-code: {process}"));
    let left = reports.of_layer().filter_map(left_alive);
    unjudged.chain(left).collect()
}

fn left_alive(report: &Report) -> Option<String> {
    let program = report.program.as_ref()?;
    let mut alive = BTreeMap::<&str, u64>::new();
    for row in program.kinds().filter(|row| row.objects_alive > 0) {
        let sum = alive.entry(row.kind.as_str()).or_default();
        *sum = sum.saturating_add(row.objects_alive);
    }
    if alive.is_empty() {
        // Only then a block that is left is not the fault of a missing destruction, and without a check no rule names
        // it.
        let blocks = program.kinds().map(|row| row.live_blocks);
        let blocks = blocks.fold(0, u64::saturating_add);
        return (program.check.is_none() && blocks > 0)
            .then(|| format!("--exit-code: the driver never freed {blocks} block{}", plural(blocks)));
    }
    let alive: Vec<_> = alive.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let devices = report.vulkan_memory.as_deref().unwrap_or_default();
    let memory = match VulkanMemory::live(devices) {
        (_, 0) => String::new(),
        (_, live) => format!(", with {} of device memory", bytes(live)),
    };
    Some(format!("--exit-code: never destroyed: {}{memory}", alive.join(", ")))
}

const fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// A run that was not judged has a line, too. Missing findings and counts are no differences: the program is not the
/// workload, and need not do what a finding is about.
pub(super) fn unexpected(known: &Expectations, reports: &Reports) -> Vec<String> {
    if reports.processes.is_empty() && reports.unreadable.is_empty() {
        return vec!["no report came, so nothing was compared with what is expected".to_owned()];
    }
    let lines = |report: &Report| {
        if report.program.as_ref().is_none_or(|of| of.check.is_none()) {
            return vec!["callbacks were not checked, and not compared".to_owned()];
        }
        let verdict = compare(known, (&report.findings, report.unjudged), None);
        let differences = verdict.differences.iter();
        differences.map(ToString::to_string).collect()
    };
    reports.of_layer().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use vk_report::report::{
        CheckLimits, DeviceAccounts, FindingRow, InstanceAccounts, KindAccounts, Leaks, ProgramAccounts, Unjudged,
        VulkanMemoryRow,
    };

    use super::*;

    fn report(program: ProgramAccounts) -> Report {
        Report { program: Some(program), ..Report::of_stacks(7, 9, &Leaks::default()) }
    }

    #[test]
    fn ly43_what_is_not_expected_is_a_line() {
        let known = "driver = \"d\"\n[[finding]]\nrule = \"V29\"\nkind = \"CacheAsObject\"\nowner = \"VkPipelineCache\"\n\
                     command = \"vkCreatePipelineCache\"\nscope = \"object\"\ncause = \"known\"\n";
        let known = Expectations::parse(known).expect("right");
        let row = |rule: &str, level: &str| FindingRow {
            rule: rule.to_owned(),
            kind: "CacheAsObject".to_owned(),
            level: level.to_owned(),
            owner: "VkPipelineCache".to_owned(),
            command: "vkCreatePipelineCache".to_owned(),
            scope: "object".to_owned(),
            sentence: "s".to_owned(),
            count: 3,
            ..FindingRow::default()
        };
        let checked = |findings: Vec<FindingRow>, lost: u64| Report {
            findings,
            unjudged: Unjudged::live(lost),
            ..report(ProgramAccounts { check: Some(CheckLimits::default()), ..ProgramAccounts::default() })
        };
        let lines = |all: Vec<Report>| unexpected(&known, &Reports::of(all));
        let expected = checked(vec![row("V29", "violation"), row("V5", "note")], 0);
        assert_eq!(lines(vec![expected.clone()]), [""; 0]);
        assert_eq!(lines(vec![checked(vec![], 0)]), [""; 0], "nothing is missed");
        for (unexpected, said) in [
            (checked(vec![row("V30", "violation")], 0), "not expected: V30"),
            (checked(vec![], 2), "not all was judged"),
            (report(ProgramAccounts::default()), "not checked"),
        ] {
            let lines = lines(vec![expected.clone(), unexpected]);
            assert!(lines.len() == 1 && lines[0].contains(said), "{said}: {lines:?}");
        }
        let unreadable = Reports { unreadable: vec!["a report cannot be read".to_owned()], ..Reports::default() };
        assert_eq!(unexpected(&known, &unreadable), [""; 0]);
        assert_eq!(failures(&unreadable), [""; 0]);
        assert_eq!(lines(Vec::new()).len(), 1, "no report");
    }

    #[test]
    fn what_is_left_alive_or_was_not_seen_is_a_failure() {
        let kind = |kind: &str, objects_alive: u64, live_blocks: u64| KindAccounts {
            kind: kind.to_owned(),
            objects_alive,
            live_blocks,
            ..KindAccounts::default()
        };
        let of = |of_instance: Vec<KindAccounts>, of_device: Vec<KindAccounts>, live_bytes: u64, check: bool| {
            let device = DeviceAccounts { kinds: of_device, ..DeviceAccounts::default() };
            let instance =
                InstanceAccounts { kinds: of_instance, devices: vec![device], ..InstanceAccounts::default() };
            let heap = VulkanMemoryRow { live_bytes, ..VulkanMemoryRow::default() };
            let memory = VulkanMemory { heaps: vec![heap], ..VulkanMemory::default() };
            Report {
                vulkan_memory: Some(vec![memory]),
                ..report(ProgramAccounts {
                    instances: vec![instance],
                    check: check.then(CheckLimits::default),
                    ..ProgramAccounts::default()
                })
            }
        };
        let clean = of(vec![kind("VkInstance", 0, 0)], vec![kind("VkBuffer", 0, 3)], 0, true);
        assert_eq!(failures(&Reports::of(vec![clean.clone()])), [""; 0], "rules judge what the driver left");
        let left = of(vec![kind("VkInstance", 1, 4)], vec![kind("VkBuffer", 7, 7)], 2048, true);
        assert_eq!(
            failures(&Reports::of(vec![clean, left])),
            ["--exit-code: never destroyed: 7 VkBuffer, 1 VkInstance, with 2.00 KiB of device memory"]
        );
        let unchecked = of(vec![], vec![kind("VkDevice", 0, 1)], 0, false);
        assert_eq!(failures(&Reports::of(vec![unchecked])), ["--exit-code: the driver never freed 1 block"]);
        assert!(failures(&Reports::default())[0].contains("no report came"));
        let killed = Reports {
            states: vec!["process 7 ended by SIGKILL: nothing was judged".to_owned()],
            ..Reports::of(vec![report(ProgramAccounts {
                check: Some(CheckLimits::default()),
                ..ProgramAccounts::default()
            })])
        };
        assert_eq!(failures(&killed), ["--exit-code: process 7 ended by SIGKILL: nothing was judged"]);
    }
}
