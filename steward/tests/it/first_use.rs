//! What somebody stumbles over who uses the program for the first time, where no other test has it.

use std::path::Path;

use debug_guard::Sampling;
use serde_json::Value;
use testkit::{Child, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const README: &str = include_str!("../../README.md");

#[test]
fn a_block_that_is_left_under_a_strict_guard_has_size_handle_growth_and_stack() {
    let test = "a_block_that_is_left_under_a_strict_guard_has_size_handle_growth_and_stack";
    let Some(manifest) = testkit::swiftshader() else {
        return skip("swiftshader", test, "STEWARD_SWIFTSHADER names no manifest");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = Child::new(STEWARD)
        .args(["drive", "--driver", "swiftshader", "--guard=strict"])
        .args(["--no-coverage", "--rounds", "3"])
        .args([Path::new("--json"), &json])
        .env("VK_ADD_DRIVER_FILES", manifest)
        .run();
    done.assert_code(0);
    for said in [
        "  1. V41: vkCreateDescriptorUpdateTemplate: 3 blocks of VkDescriptorUpdateTemplate (288 B)\n",
        "     oldest: 96 bytes for 0x",
        " a round, in 2 of 2\n",
    ] {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("JSON");
    let stacks = report["leaks"]["stacks"].as_array().expect("a list");
    assert_eq!(stacks.len(), 1, "{done}");
    let frames = stacks[0]["frames"].as_array().expect("a list");
    assert!(!frames.is_empty(), "{done}");
    // The text has the same, and its leftovers are the same bytes: without what stands in front of a block.
    for place in ["libvk_swiftshader.so", "VkLayer_steward_memory::hooks::"] {
        assert!(done.stdout.contains(place), "{place}: {done}");
    }
    let left = "VkDescriptorUpdateTemplate: 3 blocks, 288 requested bytes";
    assert!(done.stdout.contains(left), "{done}");
}

#[test]
fn help_says_how_many_blocks_of_each_call_site_are_guarded_at_first() {
    assert_eq!(Sampling::one_in(1000).first, 8);
    let help = Child::new(STEWARD).args(["drive", "--help"]).run();
    let words: Vec<_> = help.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("after its first eight"), "{help}");
}

/// A sample of the README shows lines of the output in their order; `..` says that lines are left out, and nothing else
/// does.
#[test]
fn the_readmes_sample_of_a_refusal_is_what_is_printed() {
    let test = "the_readmes_sample_of_a_refusal_is_what_is_printed";
    let command = "$ steward drive --driver lavapipe --fail=context=VkBuffer\n";
    let (_, sample) = README.split_once(command).expect("the sample");
    let (sample, _) = sample.split_once("```").expect("its end");
    let arguments = command.trim().split(' ').skip(2);
    let done = Child::new(STEWARD).args(arguments).run();
    if done.code == Some(2) {
        return skip("lavapipe", test, done.stderr.trim());
    }
    assert_eq!(missing_line(sample, &done.stdout), None, "{done}");
    let whole: Vec<_> = done.stdout.lines().collect();
    let [first, last] = [whole[0], whole[whole.len() - 1]];
    assert_eq!(missing_line(&format!("{first}\n..\n{last}\n"), &done.stdout), None);
    let unsaid = format!("{first}\n{last}\n");
    assert_eq!(missing_line(&unsaid, &done.stdout), Some(last.to_owned()));
}

/// The first line of the sample that the output does not have there. Numbers may differ: drivers have versions.
fn missing_line(sample: &str, output: &str) -> Option<String> {
    let without_numbers = |line: &str| line.replace(|one: char| one.is_ascii_digit(), "");
    let mut lines = output.lines();
    let mut anywhere = true;
    for line in sample.lines() {
        if line == ".." {
            anywhere = true;
            continue;
        }
        let wanted = without_numbers(line);
        let mut rest = lines.clone().map(without_numbers);
        let steps = match anywhere {
            true => rest.position(|one| one == wanted),
            false => rest.next().filter(|one| *one == wanted).map(|_| 0),
        };
        let Some(steps) = steps else {
            return Some(line.to_owned());
        };
        lines.nth(steps);
        anywhere = false;
    }
    None
}
