//! What the shared libraries export is what the committed lists name, line by line.

use std::collections::BTreeSet;
use std::process::Command;

use crate::installed::{installed, package, succeed};

/// The names of a version script's node.
pub(crate) fn listed(map: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(package(map)).expect("the list");
    let global = text.split("global:").nth(1).and_then(|rest| rest.split("local:").next());
    let names = global.expect("names").split_whitespace();
    names.map(|name| name.trim_end_matches(';').to_owned()).collect()
}

#[test]
fn ca3_ca29_the_libraries_export_what_is_listed_and_need_nothing_of_mesa() {
    let Some(installed) = installed("ca3") else {
        return;
    };
    let exported = |library: &str, node: &str| -> BTreeSet<String> {
        let output = Command::new("nm").args(["-D", "--defined-only"]).arg(installed.path(library)).output();
        let output = output.expect("nm");
        succeed(&output, "nm");
        let text = String::from_utf8(output.stdout).expect("text");
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        names
            .filter(|name| *name != node)
            .map(|name| {
                let (name, version) = name.split_once("@@").expect("a version");
                assert_eq!(version, node, "{name}");
                name.to_owned()
            })
            .collect()
    };
    let steward = exported("lib/libsteward.so", "STEWARD_0");
    assert_eq!(steward, listed("steward.map"));
    assert!(steward.len() > 60 && steward.iter().all(|name| name.starts_with("steward_")));
    let ralloc = exported("lib/libsteward-ralloc.so", "STEWARD_RALLOC_0");
    assert_eq!(ralloc, listed("steward-ralloc.map"));
    assert!(ralloc.len() > 40 && ralloc.is_disjoint(&steward));
    // The alias library needs nothing but the other one and the C library.
    let output =
        Command::new("nm").args(["-D", "--undefined-only"]).arg(installed.path("lib/libsteward-ralloc.so")).output();
    let output = output.expect("nm");
    let needed = String::from_utf8(output.stdout).expect("text");
    for name in needed.lines().filter_map(|line| line.split_whitespace().last()) {
        let is_known = name.contains("@STEWARD_0") || name.contains("@GLIBC") || name.starts_with('_');
        assert!(is_known, "{name}");
    }
}
