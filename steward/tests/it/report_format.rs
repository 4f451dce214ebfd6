//! REPORT-FORMAT.md lists the fields that reports have, and no others.

use std::collections::BTreeSet;

use crate::support::full_report::{empty, full, of_program, of_trace};
use serde_json::Value;
use vk_report::report::Report;
use vk_steward::replay::bundled::TRACES;

const TEXT: &str = include_str!("../../REPORT-FORMAT.md");

/// The fields of a value, with the way to them. A number by scope is one field.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.contains_key("instance") => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                fields(value, &path, found);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().for_each(|one| fields(one, &format!("{path}[]"), found))
        }
        Value::Array(list) if list.is_empty() => {}
        _ => drop(found.insert(path.to_owned())),
    }
}

fn documented() -> BTreeSet<String> {
    let (_, behind) = TEXT.split_once("<!-- fields:begin -->").expect("the mark");
    let (table, _) = behind.split_once("<!-- fields:end -->").expect("the mark");
    let name = |line: &str| line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name.to_owned());
    table.lines().filter_map(name).collect()
}

#[test]
fn every_field_is_documented_and_nothing_else_is() {
    let mut found = BTreeSet::new();
    for report in [full(&TRACES[0]), of_trace(&TRACES[0]), of_program()] {
        fields(&serde_json::to_value(report).expect("JSON"), "", &mut found);
    }
    // The same fields twice are written down once.
    assert!(found.iter().any(|path| path.starts_with("callback_coverage.with_loader.")));
    found.retain(|path| !path.starts_with("callback_coverage.with_loader."));
    found.extend(["callback_coverage.with_loader", "callback_coverage.without_loader"].map(str::to_owned));
    for same in [
        "vulkan_memory[].types[].",
        "vulkan_memory[].uses.",
        "program.instances[].devices[].kinds[].",
        "defragmentation.before.",
        "defragmentation.after.",
        "leaks.stacks[].objects.",
        "leaks.stacks[].blocks.",
        "leaks.peaks[].stacks[].frames[].",
        "call_sites.sites[].total.",
        "call_sites.sites[].live.",
        "call_sites.sites[].at_peak.",
        "call_sites.sites[].most.",
        "call_sites.sites[].left.",
    ] {
        assert!(found.iter().any(|path| path.starts_with(same)));
        found.retain(|path| !path.starts_with(same));
        found.insert(same.trim_end_matches(['.', '[', ']']).to_owned());
    }
    found.extend(["vulkan_memory", "defragmentation", "leaks", "call_sites", "program"].map(str::to_owned));
    let documented = documented();
    assert!(found.len() > 60, "{found:?}");
    assert_eq!(found.difference(&documented).collect::<Vec<_>>(), [""; 0], "not documented");
    assert_eq!(documented.difference(&found).collect::<Vec<_>>(), [""; 0], "documented, and not there");
}

/// What the exit code says.
#[test]
fn a_report_is_clean_unless_a_guard_found_something_or_a_refusal_left_something() {
    let mut report = full(&TRACES[0]);
    assert!(!report.is_clean(), "a guard's report");
    report.guard.as_mut().expect("there is one").reports = 0;
    assert!(!report.is_clean(), "refused, and something is left");
    let left = std::mem::take(&mut report.leftovers);
    assert!(!report.is_clean(), "ended otherwise than by what was refused");
    report.fail.as_mut().expect("there is one").ended =
        Some("vkCreateBuffer answered ERROR_OUT_OF_HOST_MEMORY: ..".into());
    assert!(report.is_clean());
    (report.fail, report.leftovers) = (None, left);
    assert!(report.is_clean(), "a leftover alone is the driver's own");
}

#[test]
fn names_of_formats_are_those_of_the_program() {
    assert!(TEXT.contains(&format!("`{}`", Report::FORMAT)));
    assert!(TEXT.contains(&format!("`{}`", vk_steward::diff::Diff::FORMAT)));
    assert_eq!(serde_json::to_value(empty()).expect("JSON")["format"], Report::FORMAT);
}
