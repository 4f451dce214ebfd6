//! `steward check` on the drivers that are here, and on the bundled traces: what is found, what it is compared with,
//! exit codes.
//!
//! What a driver does is pinned by the bundled expectations, each with its cause; the tests here say the findings that
//! are known from the drivers' sources once more, so that an emptied file would not pass.

mod all_drivers;
mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
/// More than two rounds, so that what happens between rounds is seen more than once.
const ROUNDS: u64 = 5;

fn steward(args: &[&str]) -> Child {
    let child = Child::new(STEWARD).args(args);
    match testkit::swiftshader() {
        Some(manifest) => child.env("VK_ADD_DRIVER_FILES", manifest),
        None => child,
    }
}

/// A check, its exit and its data; or a skip where the driver, or a version of it that something is known of, is not
/// there.
fn checked(test: &str, driver: &str, args: &[&str]) -> Option<(Finished, Value)> {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("check.json");
    let done = steward(&["check", "--driver", driver]).args(args).args([Path::new("--json"), &json]).run();
    if done.code == Some(2) {
        skip(driver, test, done.stderr.lines().next().unwrap_or_default());
        return None;
    }
    let data: Value = serde_json::from_str(&fs::read_to_string(&json).expect("JSON")).expect("JSON");
    if data["expectations"].is_null() {
        skip(driver, test, &format!("nothing is known of {}", data["driver"]));
        return None;
    }
    Some((done, data))
}

/// All findings: those that were expected, notes, and those that were not.
fn findings(data: &Value) -> Vec<Value> {
    let list = |of: &str| data[of].as_array().expect("a list").clone();
    let mut all: Vec<_> = list("expected").into_iter().map(|known| known["finding"].clone()).collect();
    all.extend(list("notes"));
    all.extend(
        list("differences").into_iter().map(|difference| difference["finding"].clone()).filter(|row| !row.is_null()),
    );
    all
}

/// What was printed, in one line.
fn flat(done: &Finished) -> String {
    done.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The findings of one kind, by owner, command and scope: level, count and bytes.
fn of_kind<'v>(rows: &'v [Value], kind: &str) -> BTreeMap<[&'v str; 3], (&'v str, u64, u64)> {
    let rows = rows.iter().filter(|row| row["kind"] == kind);
    let of = |row: &'v Value, name: &str| row[name].as_str().expect("text");
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    rows.map(|row| {
        let place = [of(row, "owner"), of(row, "command"), of(row, "scope")];
        (place, (of(row, "level"), number(row, "count"), number(row, "bytes")))
    })
    .collect()
}

#[test]
fn each_driver_does_what_is_known_of_it_in_any_number_of_rounds() {
    const TEST: &str = "each_driver_does_what_is_known_of_it_in_any_number_of_rounds";
    for driver in ["lavapipe", "swiftshader"] {
        for rounds in ["1", "2", "7"] {
            let Some((done, data)) = checked(TEST, driver, &["--rounds", rounds]) else {
                break;
            };
            done.assert_code(0);
            assert_eq!(
                (&data["as_expected"], data["differences"].as_array().map(Vec::len)),
                (&true.into(), Some(0)),
                "{done}"
            );
            assert!(done.stdout.contains("\nresult: as expected: "), "{done}");
            // Notes too have a cause, each of them.
            assert_eq!(data["notes"], Value::Array(Vec::new()), "{done}");
        }
    }
}

/// A2 of the contract: every submit's block goes on the queue's own thread.
#[test]
fn v22_v23_lavapipe_frees_each_submit_on_a_thread_that_never_issued_a_command() {
    const TEST: &str = "v22_v23_lavapipe_frees_each_submit_on_a_thread_that_never_issued_a_command";
    let rounds = ROUNDS.to_string();
    let Some((done, data)) = checked(TEST, "lavapipe", &["--rounds", &rounds]) else {
        return;
    };
    let rows = findings(&data);
    let freed = of_kind(&rows, "FreedOnForeignThread");
    // Two submits a round, and what the second keeps of the semaphore that it waits for: of 200, 208 and 120 bytes; and
    // the four of a defragmentation, of 168 bytes each.
    let each = ["VkDevice", "vkQueueSubmit", "device"];
    assert_eq!(freed.get(&each), Some(&("violation", 3 * ROUNDS + 4, (200 + 208 + 120) * ROUNDS + 4 * 168)), "{done}");
    assert_eq!(freed[&["VkDevice", "vkGetQueryPoolResults", "device"]].1, ROUNDS, "{done}");
    for command in ["vkCreateComputePipelines", "vkCreateGraphicsPipelines"] {
        // What the last round destroyed goes with the device, unless the thread was quick.
        let count = freed[&["VkDevice", command, "object"]].1;
        assert!((2 * (ROUNDS - 1)..=2 * ROUNDS).contains(&count), "{command}: {count}\n{done}");
    }
    assert!(freed.keys().all(|[owner, ..]| *owner == "VkDevice"), "{done}");
    let said =
        format!(", taken in vkQueueSubmit, on a thread that has never issued a command; {} times ", 3 * ROUNDS + 4);
    assert!(flat(&done).contains(&said), "{done}");
    assert!(!flat(&done).contains("driver thread"), "{done}");
    for never in
        ["AskedOnForeignThread", "AskedBetweenCommands", "FreedBetweenCommands", "CommandBlockLeft", "FreedUnknown"]
    {
        assert!(of_kind(&rows, never).is_empty(), "{never}\n{done}");
    }
}

#[test]
fn v29_lavapipe_asks_for_a_pipeline_cache_with_scope_object() {
    let test = "v29_lavapipe_asks_for_a_pipeline_cache_with_scope_object";
    let Some((done, data)) = checked(test, "lavapipe", &["--rounds", "3"]) else {
        return;
    };
    let rows = findings(&data);
    let asked = of_kind(&rows, "CacheAsObject");
    // Two caches a round, 120 bytes each.
    let expected = [(["VkPipelineCache", "vkCreatePipelineCache", "object"], ("violation", 6, 720))];
    assert_eq!(asked, BTreeMap::from(expected), "{done}");
}

/// What is counted by reference draws on the device's allocator, and so do descriptor sets.
#[test]
fn v30_v34_lavapipe_passes_over_the_allocators_of_objects_and_pools() {
    let test = "v30_v34_lavapipe_passes_over_the_allocators_of_objects_and_pools";
    let Some((done, data)) = checked(test, "lavapipe", &["--rounds", "3"]) else {
        return;
    };
    let rows = findings(&data);
    let counts = |kind| -> Vec<_> {
        let all = of_kind(&rows, kind).into_iter();
        all.map(|([owner, command, scope], (level, count, _))| {
            assert_eq!((owner, scope, level), ("VkDevice", "object", "violation"), "{command}\n{done}");
            (command, count)
        })
        .collect()
    };
    let objects = [
        ("vkCreateComputePipelines", 6),
        ("vkCreateDescriptorUpdateTemplate", 3),
        ("vkCreateGraphicsPipelines", 6),
        ("vkCreatePipelineLayout", 6),
    ];
    assert_eq!(counts("ObjectLessSpecific"), objects);
    assert_eq!(counts("PoolPassedOver"), [("vkAllocateDescriptorSets", 6)]);
    // Set layouts have scope DEVICE, which any command may take: a note.
    let layouts = of_kind(&rows, "DeviceScopeInCreate");
    assert_eq!(layouts[&["VkDevice", "vkCreateDescriptorSetLayout", "device"]].0, "note");
    assert!(of_kind(&rows, "SizeZero").keys().any(|[_, command, _]| *command == "vkCmdPipelineBarrier"), "{done}");
}

#[test]
fn v41_swiftshader_leaves_the_entries_of_each_update_template() {
    let test = "v41_swiftshader_leaves_the_entries_of_each_update_template";
    let rounds = ROUNDS.to_string();
    let Some((done, data)) = checked(test, "swiftshader", &["--rounds", &rounds]) else {
        return;
    };
    let rows = findings(&data);
    let left = of_kind(&rows, "LiveAfterDestroy");
    // Three entries of 32 bytes.
    let place = ["VkDescriptorUpdateTemplate", "vkCreateDescriptorUpdateTemplate", "object"];
    assert_eq!(left, BTreeMap::from([(place, ("violation", ROUNDS, 96 * ROUNDS))]), "{done}");
    assert!(
        flat(&done).contains("live when vkDestroyDescriptorUpdateTemplate returned; never freed; 5 times "),
        "{done}"
    );
    let stacks = data["leaks"]["stacks"].as_array().expect("what was left");
    let [left] = &stacks[..] else {
        panic!("{stacks:?}");
    };
    assert_eq!(left["command"], "vkCreateDescriptorUpdateTemplate");
    assert_eq!((&left["rules"][0], &left["blocks"]["bytes"]), (&"V41".into(), &(96 * ROUNDS).into()));
    assert_eq!(left["oldest"][0]["bytes"], 96);
    assert!(left["oldest"][0]["handle"].as_str().is_some_and(|handle| handle.starts_with("0x")));
    assert!(left["frames"][0]["module"].as_str().is_some_and(|file| file.contains("swiftshader")), "{left}");
    // The driver has no unwind tables: its callers are found by frame pointers.
    let frames = left["frames"].as_array().expect("a stack");
    let caller = frames.iter().find(|frame| {
        let file = frame["module"].as_str().unwrap_or_default();
        !file.contains("swiftshader")
    });
    let caller = caller.map(|frame| frame["functions"].to_string());
    assert!(caller.is_some_and(|names| names.contains("VkLayer_steward_memory::hooks::")), "{left}");
    let growth = format!("\n     grows: +1 block (96 B) a round, in {0} of {0}\n", ROUNDS - 1);
    let head = format!(
        "\n  1. V41: vkCreateDescriptorUpdateTemplate: {ROUNDS} blocks of VkDescriptorUpdateTemplate (480 B)\n"
    );
    let (driver, caller) = ("libvk_swiftshader.so+0x", "VkLayer_steward_memory::hooks::");
    let places = ["violation V41: ", &head, &growth, driver, caller].map(|text| done.stdout.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{done}");
    for never in
        ["FreedOnForeignThread", "AskedOnForeignThread", "CacheAsObject", "ObjectLessSpecific", "PoolPassedOver"]
    {
        assert!(of_kind(&rows, never).is_empty(), "{never}\n{done}");
    }
}

#[test]
fn v34_swiftshader_never_asks_the_pools_of_its_command_buffers() {
    let test = "v34_swiftshader_never_asks_the_pools_of_its_command_buffers";
    let Some((done, data)) = checked(test, "swiftshader", &["--rounds", "3"]) else {
        return;
    };
    let rows = findings(&data);
    let silent = of_kind(&rows, "PoolNeverAsked");
    // Of each round one, and the four of a defragmentation.
    assert_eq!(silent[&["VkCommandPool", "", ""]], ("note", 3 + 4, 0), "{done}");
    let lavapipe = checked(test, "lavapipe", &["--rounds", "1"]);
    if let Some((done, data)) = lavapipe {
        assert!(of_kind(&findings(&data), "PoolNeverAsked").is_empty(), "{done}");
    }
}

/// With nobody between, each finding is the driver's own; what the loader did is gone.
#[test]
fn without_the_loader_the_findings_are_the_drivers() {
    const TEST: &str = "without_the_loader_the_findings_are_the_drivers";
    for driver in ["lavapipe", "swiftshader"] {
        let Some((done, loader)) = checked(TEST, driver, &["--rounds", "3"]) else {
            continue;
        };
        assert!(flat(&done).contains(": the implementation ") && !flat(&done).contains(": the driver "), "{done}");
        let Some((done, direct)) = checked(TEST, driver, &["--rounds", "3", "--direct"]) else {
            continue;
        };
        done.assert_code(0);
        assert!(flat(&done).contains(": the driver ") && !flat(&done).contains(": the implementation "), "{done}");
        let kinds = |data: &Value| -> Vec<String> {
            // Which of the layouts go on which thread is a matter of time.
            let steady = findings(data).into_iter().filter(|row| row["kind"] != "FreedOnForeignThread");
            steady.map(|row| format!("{} {}", row["kind"], row["command"])).collect()
        };
        let mut with = kinds(&loader);
        with.retain(|kind| kind != "\"CommandLessSpecific\" \"vkCreateDevice\"");
        assert_eq!(with, kinds(&direct), "{done}");
    }
}

/// What the loader is known to do is not expected of a driver that is opened without it, and a file that is written
/// keeps it.
#[test]
fn what_is_known_of_the_loader_excuses_no_driver_that_is_opened_directly() {
    const TEST: &str = "what_is_known_of_the_loader_excuses_no_driver_that_is_opened_directly";
    if checked(TEST, "swiftshader", &["--rounds", "1"]).is_none() {
        return;
    }
    let known = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/swiftshader-5.0.toml"))
        .expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("known.toml");
    let check = |more: &[&str]| steward(&["check", "--driver", "swiftshader"]).args(more).args([&file]).run();
    // As if the loader left the entries.
    fs::write(
        &file,
        known.replace(
            "cause = \"VkDescriptorUpdateTemplate.hpp",
            "loader = true\ncause = \"VkDescriptorUpdateTemplate.hpp",
        ),
    )
    .expect("a file");
    check(&["--expect"]).assert_code(0);
    let done = check(&["--direct", "--expect"]);
    done.assert_code(1);
    assert!(
        flat(&done).contains(" not expected: V41 LiveAfterDestroy, ") && done.stdout.ends_with(" 1 difference\n"),
        "{done}"
    );
    fs::write(&file, &known).expect("a file");
    check(&["--direct", "--expect"]).assert_code(0);
    check(&["--direct", "--write-expect"]).assert_code(0);
    let written = fs::read_to_string(&file).expect("a file");
    assert_eq!(written.matches("\nloader = true\n").count(), 1, "{written}");
    check(&["--expect"]).assert_code(0);
    check(&["--direct", "--expect"]).assert_code(0);
}

/// Each way of differing from a file, and what is wrong with files.
#[test]
fn what_differs_from_the_file_is_named_and_fails() {
    const TEST: &str = "what_differs_from_the_file_is_named_and_fails";
    if checked(TEST, "lavapipe", &["--rounds", "1"]).is_none() {
        return;
    }
    let known = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/lavapipe-22.3.toml"))
        .expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("known.toml");
    let check = |text: &str| {
        fs::write(&file, text).expect("a file");
        steward(&["check", "--driver", "lavapipe", "--expect"]).args([&file]).run()
    };
    check(&known).assert_code(0);
    let entries: Vec<&str> = known.split("\n\n").filter(|entry| entry.starts_with("[[finding]]")).collect();
    let cache = entries.iter().find(|entry| entry.contains("CacheAsObject")).expect("an entry");
    for (text, said) in [
        (
            known.replace(cache, ""),
            " not expected: V29 CacheAsObject, callbacks of VkPipelineCache, in vkCreatePipelineCache",
        ),
        (
            known.replace(cache, &cache.replace("per_round = 2", "per_round = 3")),
            " expected 12 times, and seen 8: V29 CacheAsObject",
        ),
        (
            format!("{known}\n[[finding]]\nrule = \"V7\"\nkind = \"BadAlignment\"\ncause = \"long ago\"\n"),
            " expected, and gone: V7 BadAlignment (known as: long ago)",
        ),
    ] {
        let done = check(&text);
        done.assert_code(1);
        assert!(done.stdout.contains("\nnot as expected:\n") && flat(&done).contains(said), "{said}\n{done}");
        assert!(done.stdout.ends_with("1 difference\n") && done.stderr.is_empty(), "{done}");
    }
    // The reader of the output does not change what was found.
    for (text, said) in [
        (known.replace("kind = ", "kin = "), ", line "),
        (known.replace("22.3.*", "21.*"), " is about the driver \"llvmpipe Mesa 21.*\", and this is \"llvmpipe Mesa "),
    ] {
        let done = check(&text);
        done.assert_code(2);
        assert!(
            done.stderr.contains(said) && done.stderr.lines().count() == 1 && done.stdout.is_empty(),
            "{said}\n{done}"
        );
    }
    let done = steward(&["check", "--driver", "lavapipe", "--expect", "nobody-knows"]).run();
    done.assert_code(2);
    assert!(done.stderr.contains("nobody-knows cannot be read (") && done.stderr.contains("lavapipe-22.3"), "{done}");
    let done = steward(&["check", "--driver", "all", "--expect", "lavapipe-22.3"]).run();
    done.assert_code(2);
}

#[test]
fn a_file_that_was_written_is_what_the_next_check_finds_and_keeps_causes() {
    const TEST: &str = "a_file_that_was_written_is_what_the_next_check_finds_and_keeps_causes";
    if checked(TEST, "swiftshader", &["--rounds", "1"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("written.toml");
    let write = || steward(&["check", "--driver", "swiftshader", "--write-expect"]).args([&file]).run();
    write().assert_code(0);
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("\nper_round = 1\n") && text.contains("ObjectBase"), "the bundled cause is kept:\n{text}");
    let mine = text.replace("ObjectBase", "my own words");
    fs::write(&file, &mine).expect("a file");
    write().assert_code(0);
    assert_eq!(fs::read_to_string(&file).expect("a file"), mine);
    let check =
        |rounds| steward(&["check", "--driver", "swiftshader", "--rounds", rounds, "--expect"]).args([&file]).run();
    check("1").assert_code(0);
    check("9").assert_code(0);
}

/// Without the checker the numbers are the same: it passes everything on as it came.
#[test]
fn without_the_checker_the_accounts_say_the_same() {
    const TEST: &str = "without_the_checker_the_accounts_say_the_same";
    let folder = tempfile::tempdir().expect("a folder");
    for driver in ["lavapipe", "swiftshader"] {
        if checked(TEST, driver, &["--rounds", "1"]).is_none() {
            continue;
        }
        let json = folder.path().join(format!("{driver}.json"));
        let run = |more: &[&str]| -> Value {
            let args = ["drive", "--driver", driver, "--seed", "5", "--rounds", "3", "--no-coverage", "--json"];
            steward(&args).args([&json]).args(more).run().assert_code(0);
            serde_json::from_str(&fs::read_to_string(&json).expect("JSON")).expect("JSON")
        };
        let (with, without) = (run(&[]), run(&["--no-check"]));
        assert!(with["findings"].as_array().is_some_and(|rows| rows.len() > 2), "{}", with["findings"]);
        assert_eq!(without["findings"], Value::Array(Vec::new()));
        assert_eq!(with["leftovers"], without["leftovers"]);
        let context = |report: &Value| -> Vec<_> {
            let rows = report["contexts"].as_array().expect("a list").iter();
            rows.map(|row| (row["name"].clone(), row["total_blocks"].clone(), row["total_bytes"].clone())).collect()
        };
        assert_eq!(context(&with), context(&without), "{driver}");
    }
}
