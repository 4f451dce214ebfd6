//! `--guard` and `--fail`: a whole workload under each guard, what is planted found and named, back ends that are
//! denied, memory that is refused.

#![cfg(target_os = "linux")]

mod denied;
mod planted;

use std::path::Path;

use denied::{GUARD_MARKERS, OUT_OF_REACH, USERFAULTFD, deny};
use fake_driver::Harm;
use planted::{PLANTED, planted, run_planted};
use serde_json::Value;
use testkit::{Child, Finished, skip};
use vk_report::report::{GuardReport, GuardRun};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const SEED: &str = "4711";

/// Runs the program with `--json`; what it said, and the report.
fn steward(args: &[&str]) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let child = Child::new(STEWARD).args(args).args([Path::new("--json"), &json]);
    let child =
        testkit::swiftshader().into_iter().fold(child, |child, manifest| child.env("VK_ADD_DRIVER_FILES", manifest));
    let done = child.run();
    let report = std::fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    (done, report)
}

/// `drive` on one driver, with the same seed always.
fn drive(driver: &str, more: &[&str]) -> (Finished, Value) {
    let args = [&["drive", "--driver", driver, "--seed", SEED, "--no-coverage"], more].concat();
    steward(&args)
}

/// Whether a driver of that name is there; a skip where not.
fn is_there(driver: &str, test: &str) -> bool {
    let (listed, drivers) = steward(&["drivers"]);
    let id = if driver == "lavapipe" { "MESA_LLVMPIPE" } else { "GOOGLE_SWIFTSHADER" };
    let there = drivers.as_array().is_some_and(|all| all.iter().any(|one| one["id"] == id));
    if !there {
        skip(driver, test, &format!("`steward drivers` lists no {driver}: {}", listed.stderr.trim()));
    }
    there
}

fn guard_of(report: &Value) -> GuardRun {
    serde_json::from_value(report["guard"].clone()).expect("a guard in the report")
}

/// What does not depend on the moment at which a thread of the driver frees something.
fn results(report: &Value) -> Value {
    let phases = report["phases"].as_array().expect("phases");
    let taken = |phase: &Value| ["name", "commands", "blocks", "bytes"].map(|field| phase[field].clone());
    serde_json::json!({
        "source": report["source"],
        "phases": phases.iter().map(taken).collect::<Vec<_>>(),
        "leftovers": report["leftovers"],
    })
}

/// Every block of the driver has pages of its own, nothing is reported, and the results are those without a guard.
fn a_whole_workload(driver: &str, test: &str, modes: &[&str]) {
    if !is_there(driver, test) {
        return;
    }
    let (plain, unguarded) = drive(driver, &["--rounds", "2"]);
    plain.assert_code(0);
    assert_eq!(unguarded["guard"], Value::Null);
    for mode in modes {
        let (done, report) = drive(driver, &["--rounds", "2", "--guard", mode]);
        done.assert_code(0);
        assert_eq!(results(&report), results(&unguarded), "{mode}");
        let guard = guard_of(&report);
        let blocks = guard.callback_blocks;
        assert!(blocks > 1000, "{mode}: {blocks} blocks would prove little");
        // A block that is reallocated counts anew.
        let of_phases: u64 =
            report["phases"].as_array().expect("phases").iter().filter_map(|phase| phase["blocks"].as_u64()).sum();
        assert!((of_phases..of_phases + 10).contains(&blocks), "{of_phases} of {blocks}");
        assert_eq!((guard.guarded, guard.unguarded, guard.cookies, guard.passed_on), (blocks, 0, 0, 0), "{guard}");
        assert_eq!((guard.reports, guard.told.len()), (0, 0), "{done}");
        let line = format!("guarded = callback blocks = {blocks}, unguarded = 0");
        assert!(done.stdout.contains(&line) && done.stdout.contains("reports: none"), "{done}");
        println!("{driver}, {}", guard.to_string().replace('\n', "; "));
        assert!(
            guard.stacks > 0 && guard.whole_stacks * 100 >= guard.stacks * 95,
            "stacks that reach their command: {guard}"
        );
        // The same layers, and a mistake: then the guard speaks.
        assert_eq!(planted(mode, Harm::Overrun).reports, 1);
    }
}

#[test]
fn lavapipe_runs_whole_under_fence_and_strict() {
    a_whole_workload("lavapipe", "lavapipe_runs_whole_under_fence_and_strict", &["fence", "strict"]);
}

#[test]
fn swiftshader_runs_whole_under_strict() {
    if testkit::swiftshader().is_some() {
        a_whole_workload("swiftshader", "swiftshader_runs_whole_under_strict", &["strict"]);
    } else {
        skip("swiftshader", "swiftshader_runs_whole_under_strict", "STEWARD_SWIFTSHADER names no manifest");
    }
}

/// A child runs the fake driver with something planted in it; each is a process of its own, since pages are left as a
/// stopped access found them.
#[test]
fn gv24_what_is_planted_is_named_with_owner_scope_command_and_stacks() {
    if Child::is_child(PLANTED) {
        return run_planted();
    }
    for mode in ["fence", "strict", "cookie"] {
        for harm in Harm::ALL {
            let guard = planted(mode, *harm);
            assert_eq!((guard.reports, guard.told.len()), (1, 1), "{mode}, {harm:?}: {guard}");
            let GuardReport { kind, owner, scope, command, found_in, text } = &guard.told[0];
            assert_eq!([owner, scope, command], ["VkDeviceMemory", "command", "vkMapMemory"], "{text}");
            let at_once = match (harm, mode) {
                (Harm::FreedTwice, _) => true,
                (Harm::Overrun, mode) => mode != "cookie",
                (Harm::LateWrite, mode) => mode == "strict",
            };
            let (expected, found) = match harm {
                Harm::Overrun => ("overflow", "vkMapMemory"),
                Harm::LateWrite => ("use-after-free", if at_once { "vkUnmapMemory" } else { "" }),
                Harm::FreedTwice => ("double-free", "vkUnmapMemory"),
            };
            assert!(kind.contains(expected), "{kind}: {text}");
            assert_eq!(found_in, found, "{mode}, {harm:?}: {text}");
            for said in ["VkDeviceMemory", "vkMapMemory", "64 bytes", "stack of the allocation"] {
                assert!(text.contains(said), "{mode}, {harm:?} does not say {said}: {text}");
            }
            let second = match harm {
                Harm::Overrun if at_once => "stack of the access",
                Harm::Overrun => "stack of where it was found",
                Harm::LateWrite | Harm::FreedTwice => "stack of the free",
            };
            assert!(text.contains(second), "{mode}, {harm:?} does not say {second}: {text}");
            // Stacks come down to the driver: to what was planted, and not only to callbacks of ours.
            let third = if at_once && *harm == Harm::LateWrite { "stack of the access" } else { second };
            for stack in ["stack of the allocation", second, third] {
                let frames = stack_in(text, stack);
                assert!(frames.contains("FakeDriver>::harm"), "{mode}, {harm:?}, {stack}: {text}");
            }
        }
    }
}

/// The frames below the line that begins so, with the functions that they are in.
fn stack_in(text: &str, heading: &str) -> String {
    let below = text.lines().skip_while(|line| !line.trim_start().starts_with(heading)).skip(1);
    below.take_while(|line| line.starts_with("    ")).collect::<Vec<_>>().join("\n")
}

/// The filter is asserted to answer EPERM; the program starts under it.
#[test]
fn a_denied_userfaultfd_is_said_and_the_next_best_serves() {
    const NAME: &str = "a_denied_userfaultfd_is_said_and_the_next_best_serves";
    if Child::is_child(NAME) {
        deny(&[USERFAULTFD]);
        let (done, report) = drive("lavapipe", &["--guard=strict"]);
        done.assert_code(0);
        let guard = guard_of(&report);
        assert!(guard.is_whole() && guard.reports == 0, "{guard}");
        assert!(!guard.back_end.starts_with("userfaultfd") && guard.back_end != "cookies", "{guard}");
        let denied: Vec<_> = guard.not_offered.iter().filter(|reason| reason.contains("EPERM")).collect();
        assert_eq!(denied.len(), 2, "{:?}", guard.not_offered);
        assert!(done.stdout.contains("not offered: userfaultfd-move: "), "{done}");
        return;
    }
    if is_there("lavapipe", NAME) {
        Child::this_test(NAME).run().assert_code(0);
    }
}

#[test]
fn where_nothing_is_lent_cookies_serve_and_the_report_says_so() {
    const NAME: &str = "where_nothing_is_lent_cookies_serve_and_the_report_says_so";
    if Child::is_child(NAME) {
        deny(&[USERFAULTFD, GUARD_MARKERS, OUT_OF_REACH]);
        let (done, report) = drive("lavapipe", &["--guard=fence"]);
        done.assert_code(0);
        let guard = guard_of(&report);
        let all = guard.callback_blocks + guard.own_blocks;
        assert_eq!(
            (guard.back_end.as_str(), guard.guarded, guard.cookies, guard.unguarded),
            ("cookies", 0, all, all),
            "{guard}"
        );
        assert_eq!((guard.reports, guard.not_offered.len()), (0, 4), "{guard}");
        assert!(
            done.stdout.contains("guard: fence, but nothing here makes pages untouchable: cookies serve instead"),
            "{done}"
        );
        assert!(done.stdout.contains("not offered: mprotect: "), "{done}");
        // Asked for, it is refused.
        let (done, _) = drive("lavapipe", &["--guard=fence", "--guard-back-end=mprotect"]);
        done.assert_code(2);
        assert!(done.stderr.contains("mprotect"), "{done}");
        return;
    }
    if is_there("lavapipe", NAME) {
        Child::this_test(NAME).run().assert_code(0);
    }
}

#[test]
fn every_back_end_that_is_offered_runs_the_workload() {
    const NAME: &str = "every_back_end_that_is_offered_runs_the_workload";
    if !is_there("lavapipe", NAME) {
        return;
    }
    let offered = debug_guard::BackEnds::probe();
    let (_, unguarded) = drive("lavapipe", &[]);
    for back_end in
        debug_guard::BackEnd::ALL.iter().copied().filter(|back_end| *back_end != debug_guard::BackEnd::Cookies)
    {
        let (done, report) = drive("lavapipe", &["--guard=strict", &format!("--guard-back-end={back_end}")]);
        if let Some(refusal) = offered.refusal(back_end) {
            println!("NOT OFFERED {back_end}: {refusal}");
            done.assert_code(2);
            assert!(done.stderr.contains(back_end.name()), "{done}");
            continue;
        }
        done.assert_code(0);
        let guard = guard_of(&report);
        assert!(guard.is_whole() && guard.reports == 0, "{guard}");
        assert_eq!((guard.back_end.as_str(), results(&report)), (back_end.name(), results(&unguarded)));
    }
}

#[test]
fn cookies_and_samples_run_the_workload_and_say_what_they_are() {
    if !is_there("lavapipe", "cookies_and_samples_run_the_workload_and_say_what_they_are") {
        return;
    }
    let (_, unguarded) = drive("lavapipe", &[]);
    let (done, report) = drive("lavapipe", &["--guard=cookie"]);
    done.assert_code(0);
    let guard = guard_of(&report);
    assert_eq!(
        (guard.cookies, guard.guarded, guard.reports),
        (guard.callback_blocks + guard.own_blocks, 0, 0),
        "{guard}"
    );
    assert_eq!(results(&report), results(&unguarded));
    assert!(done.stdout.contains("guard: cookie\n"), "{done}");
    let (done, report) = drive("lavapipe", &["--guard=sampled=1"]);
    done.assert_code(0);
    let guard = guard_of(&report);
    assert_eq!((guard.mode.as_str(), guard.reports), ("sampled=1", 0));
    assert!(guard.guarded > 0 && guard.guarded <= guard.callback_blocks + guard.own_blocks, "{guard}");
    assert_eq!(results(&report), results(&unguarded));
}

/// Each with a guard below as well: what a refusal leaves is not only given back but left alone.
#[test]
fn a_refusal_is_named_with_its_command_and_nothing_is_left() {
    if !is_there("lavapipe", "a_refusal_is_named_with_its_command_and_nothing_is_left") {
        return;
    }
    for more in [&[][..], &["--guard=strict"]] {
        let (done, report) = drive("lavapipe", &[&["--fail=context=VkBuffer"], more].concat());
        done.assert_code(0);
        let fail = &report["fail"];
        assert_eq!((&fail["plan"], &fail["refused"]), (&"context=VkBuffer".into(), &1.into()), "{fail}");
        let first = &fail["first"][0];
        assert_eq!(
            [&first["command"], &first["owner"], &first["scope"]],
            ["vkCreateBuffer", "VkBuffer", "object"],
            "{first}"
        );
        assert!(first["serial"].as_u64() > Some(0) && first["bytes"].as_u64() > Some(16), "{first}");
        let ended = fail["ended"].as_str().expect("it ended early");
        assert_eq!(ended, "vkCreateBuffer answered ERROR_OUT_OF_HOST_MEMORY, as it must");
        assert_eq!(report["leftovers"], Value::Array(Vec::new()));
        assert!(done.stdout.contains("refused on purpose (context=VkBuffer): 1 of "), "{done}");
        assert!(done.stdout.contains("\n  in vkCreateBuffer, command "), "{done}");
        assert!(done.stdout.contains("leftovers: none"), "{done}");
    }
    // A plan that nothing meets changes nothing, says so, and is no success.
    let (done, report) = drive("lavapipe", &["--fail=nth=1000000000"]);
    done.assert_code(1);
    assert_eq!((&report["fail"]["refused"], &report["fail"]["ended"]), (&0.into(), &Value::Null));
    assert!(report["fail"]["requests"].as_u64() > Some(1000));
    assert!(done.stdout.contains("nothing that was asked for met the plan"), "{done}");
    let (_, unguarded) = drive("lavapipe", &[]);
    assert_eq!(results(&report), results(&unguarded));
}

#[test]
fn a_check_is_guarded_as_well() {
    if !is_there("lavapipe", "a_check_is_guarded_as_well") {
        return;
    }
    let (done, checked) = steward(&["check", "--driver", "lavapipe", "--rounds", "1", "--guard=strict"]);
    done.assert_code(0);
    let guard = guard_of(&checked);
    assert!(guard.is_whole() && guard.reports == 0 && checked["as_expected"] == true, "{done}");
    assert!(done.stdout.contains("\nguard: strict, with "), "{done}");
    let (done, checked) = steward(&["check", "--driver", "lavapipe", "--rounds", "1", "--fail=context=VkBuffer"]);
    done.assert_code(0);
    assert_eq!(checked["fail"]["refused"], 1);
    let (all, list) = steward(&["drive", "--driver", "all", "--no-coverage", "--guard=fence"]);
    assert!(list.as_array().is_some_and(|all| all.iter().any(|one| one["guard"]["unguarded"] == 0)), "{all}");
}

#[test]
fn what_cannot_be_guarded_is_refused_with_the_remedy() {
    for (args, code, said) in [
        (&["--guard=fnce"][..], 2, "expected fence, strict, cookie, sampled or sampled=N"),
        (&["--guard=sampled=0"], 2, "N from 1 to 4294967295"),
        (&["--fail=third"], 2, "expected nth=N"),
        (
            &["--guard=fence", "--guard-back-end=magic"],
            2,
            "expected userfaultfd-move, userfaultfd-copy, guard-markers, mprotect\n",
        ),
        (&["--guard-back-end=mprotect"], 2, "--guard <MODE>"),
        (&["replay", "lavapipe-workload", "--guard=fence"], 2, "unexpected argument '--guard' found"),
        (
            &["check", "--trace", "lavapipe-workload", "--fail=nth=1"],
            2,
            "'--trace <FILE>' cannot be used with '--fail <FAULT>'",
        ),
        (
            &["check", "--write-expect", "/dev/null", "--fail=nth=1"],
            2,
            "'--write-expect <FILE>' cannot be used with '--fail <FAULT>'",
        ),
    ] {
        let done = Child::new(STEWARD).args(args).run();
        done.assert_code(code);
        assert!(done.stderr.contains(said), "{args:?}: {done}");
    }
    // Without a driver Steward's own is guarded.
    let done = Child::new(STEWARD).args(["--guard=fence"]).env("STEWARD_LOADER", "/nonexistent/libvulkan.so").run();
    done.assert_code(0);
    assert!(done.stdout.starts_with("driver: reference") && done.stdout.contains("unguarded = 0"), "{done}");
}
