//! What a hosted machine runs is what `.ci/run` offers: the workflow names steps that exist, and no command of its own but preparations.

use std::collections::BTreeSet;

use crate::common::text;

const WORKFLOW: &str = ".github/workflows/ci.yml";

/// Functions of the script that take no parameter, by name.
fn steps(script: &str) -> BTreeSet<&str> {
    let lines = script.lines();
    lines
        .filter_map(|line| line.split_once("() {"))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with(' '))
        .collect()
}

/// The steps that the workflow asks for: words behind `.ci/run`, and of each matrix.
fn asked(workflow: &str) -> BTreeSet<&str> {
    let of_matrix = workflow
        .lines()
        .filter_map(|line| line.trim().strip_prefix("step: ["))
        .flat_map(|list| list.trim_end_matches(']').split(", "));
    let named = workflow
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- run: .ci/run"))
        .flat_map(|words| words.split_whitespace())
        .filter(|word| !"${{ matrix.step }}".contains(word));
    of_matrix.chain(named).collect()
}

#[test]
fn the_workflow_asks_for_steps_that_exist() {
    let (script, workflow) = (text(".ci/run"), text(WORKFLOW));
    let (steps, asked) = (steps(&script), asked(&workflow));
    assert!(asked.len() >= 10 && asked.contains("fuzzing"), "{asked:?}");
    let missing: Vec<_> = asked.difference(&steps).collect();
    assert!(missing.is_empty(), "{WORKFLOW}: {missing:?}");
    assert!(workflow.contains("- run: .ci/run\n"), "the whole gate");
    // All of them can be named.
    let (_, list) = script.split_once("\nall=(").expect("the list");
    let (list, _) = list.split_once(')').expect("its end");
    let (_, lanes) = script.split_once("\nsteps=(").expect("the lanes");
    let (lanes, _) = lanes.split_once("\n# ---").expect("their end");
    let named: BTreeSet<_> = [list, lanes]
        .iter()
        .flat_map(|list| list.split(|one: char| !one.is_alphanumeric() && one != '_'))
        .collect();
    let unnamed: Vec<_> = asked.difference(&named).collect();
    assert!(unnamed.is_empty(), "`.ci/run` does not list {unnamed:?}");
}

#[test]
fn a_step_that_does_not_exist_is_found() {
    let script = "tools() {\n  local x\n}\nfuzzing() { cargo; }\n  inner() {\n";
    assert_eq!(steps(script), ["fuzzing", "tools"].into());
    let workflow = "        step: [fuzzing, gone]\n      - run: .ci/run tools ${{ matrix.step }}\n";
    assert_eq!(asked(workflow), ["fuzzing", "gone", "tools"].into());
}
