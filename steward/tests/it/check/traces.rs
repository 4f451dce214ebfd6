//! Recorded runs, judged.

use super::*;

/// Without sources, what NVIDIA's driver did is in the trace that comes with the program.
#[test]
fn the_bundled_traces_are_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("check.json");
    let judged = |trace: &str| {
        let done = steward(&["check", "--trace", trace, "--json"]).args([&json]).run();
        done.assert_code(0);
        let data: Value = serde_json::from_str(&fs::read_to_string(&json).expect("JSON")).expect("JSON");
        (done, findings(&data))
    };
    let (done, rows) = judged("nvidia-580-workload");
    let wrong: Vec<_> = rows.iter().filter(|row| row["level"] != "note").map(|row| row["kind"].as_str()).collect();
    assert_eq!(wrong, [Some("CommandLessSpecific"), Some("CacheAsObject"), Some("PoolPassedOver")], "{done}");
    let expected = [(["VkPipelineCache", "vkCreatePipelineCache", "object"], ("violation", 6, 6 * 408))];
    assert_eq!(of_kind(&rows, "CacheAsObject"), BTreeMap::from(expected), "{done}");
    let expected = [(["VkDevice", "vkAllocateCommandBuffers", "object"], ("violation", 6, 6 * 152))];
    assert_eq!(of_kind(&rows, "PoolPassedOver"), BTreeMap::from(expected), "{done}");
    assert!(of_kind(&rows, "NullFree").len() > 20, "{done}");
    assert!(done.stdout.ends_with(" known findings\n"), "no note without a cause: {done}");

    let (done, rows) = judged("lavapipe-workload");
    let each = ["VkDevice", "vkQueueSubmit", "device"];
    // A trace does not say that all commands are in it.
    assert_eq!(of_kind(&rows, "FreedOnForeignThread").get(&each), Some(&("suspect", 3, 528)), "{done}");
    assert!(flat(&done).contains("on a thread that was not seen to call Vulkan; 3 times; first in line "), "{done}");

    for old in ["lavapipe-22.3", "nvidia-580-h200"] {
        let (done, rows) = judged(old);
        assert!(flat(&done).contains("what has to do with commands and threads is not judged"), "{done}");
        assert!(rows.iter().all(|row| row["level"] == "note"), "{done}");
    }
}

/// The same run, judged while it ran and by its trace.
#[test]
fn a_recorded_run_is_judged_as_the_live_one_was() {
    const TEST: &str = "a_recorded_run_is_judged_as_the_live_one_was";
    let folder = tempfile::tempdir().expect("a folder");
    let [trace, live, judged] = ["run.trace", "live.json", "judged.json"].map(|name| folder.path().join(name));
    let read = |file: &Path| -> Value { serde_json::from_str(&fs::read_to_string(file).expect("JSON")).expect("JSON") };
    for driver in ["lavapipe", "swiftshader"] {
        if checked(TEST, driver, &["--rounds", "1"]).is_none() {
            continue;
        }
        let drive = ["drive", "--driver", driver, "--rounds", "3", "--no-coverage", "--record"];
        steward(&drive).args([&trace]).args(["--json"]).args([&live]).run().assert_code(0);
        steward(&["replay"]).args([&trace]).args(["--json"]).args([&judged]).run().assert_code(0);
        let rows = |file: &Path| {
            let report = read(file);
            let rows = report["findings"].as_array().expect("a list").iter();
            let text = |row: &Value, of: &str| row[of].as_str().expect("text").to_owned();
            rows.map(|row| {
                (
                    ["kind", "owner", "command", "scope"].map(|of| text(row, of)),
                    [row["count"].clone(), row["bytes"].clone()],
                )
            })
            .collect::<BTreeMap<_, _>>()
        };
        let (live, judged) = (rows(&live), rows(&judged));
        assert!(live.len() > 2, "{live:?}");
        assert_eq!(live, judged, "{driver}");
    }
}

/// Events that the recorder had no memory for: that nothing was found proves nothing, and a second free behind them is
/// doubtful.
#[test]
fn a_trace_that_lacks_events_does_not_pass_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let [trace, json, page] = ["a.trace", "a.json", "a.html"].map(|name| folder.path().join(name));
    let read =
        |file: &Path| -> Value { serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON") };
    let head = "# steward host trace 2\n# driver: made up\no,1,0,VkBuffer\n";
    let good = "e,1,1,vkCreateBuffer\na,1,1,1,8,8,1\nl,1,0\ne,1,1,vkDestroyBuffer\nf,1,1,1\nl,1,0\n";
    let check = |body: &str| {
        let lines = head.lines().count() + body.lines().count();
        fs::write(&trace, format!("{head}{body}z,{lines}\n")).expect("a file");
        steward(&["check", "--trace"]).args([&trace]).args([Path::new("--json"), &json]).run()
    };
    check(good).assert_code(0);
    assert_eq!((&read(&json)["as_expected"], &read(&json)["differences"]), (&true.into(), &Value::Array(Vec::new())));
    let reason = "not all was judged: the trace lacks 3 events, for which its recorder had no memory";
    for body in [format!("x,3\n{good}"), format!("{good}x,2\nx,1\n")] {
        let done = check(&body);
        done.assert_code(1);
        assert!(done.stdout.contains(&format!("\nnot as expected:\n  {reason}\n")), "{done}");
        assert!(
            done.stdout.contains("\nresult: not as expected: ") && done.stdout.ends_with(" 1 difference\n"),
            "{done}"
        );
        let data = read(&json);
        assert_eq!(
            (&data["differences"][0]["what"], &data["differences"][0]["sentence"]),
            (&"unjudged".into(), &reason.into())
        );
    }
    // A block may have been taken anew by an event that is missing.
    let done = check(&format!("{good}x,1\ne,1,1,vkDestroyBuffer\nf,1,1,1\nl,1,0\n"));
    done.assert_code(1);
    assert!(
        flat(&done).contains("lacks 1 event, ") && flat(&done).contains("; 1 observation was left out, "),
        "{done}"
    );

    // Causes are not given up for a file that lacks what was not judged.
    let known = folder.path().join("known.toml");
    let write = || steward(&["check", "--trace"]).args([&trace]).args([Path::new("--write-expect"), &known]).run();
    let done = write();
    done.assert_code(1);
    assert!(done.stdout.contains("known.toml was not written") && !known.exists(), "{done}");

    let replay =
        steward(&["replay"]).args([&trace]).args([Path::new("--json"), &json, Path::new("--html"), &page]).run();
    replay.assert_code(0);
    assert!(replay.stdout.contains("\nnote: not all was judged: the trace lacks 1 event, "), "{replay}");
    let unjudged = &read(&json)["unjudged"];
    assert_eq!((&unjudged["events"], &unjudged["observations"]), (&1.into(), &1.into()), "{unjudged}");
    assert!(fs::read_to_string(&page).expect("a page").contains("not all was judged: the trace lacks 1 event, "));
}

/// A trace with a second free fails, whoever made it.
#[test]
fn v19_a_trace_that_breaks_a_rule_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.trace");
    let text = "# steward host trace 2\n# driver: made up\no,1,0,VkBuffer\ne,1,1,vkCreateBuffer\na,1,1,1,8,8,1\nl,1,0\n\
                e,1,1,vkDestroyBuffer\nf,1,1,1\nf,1,1,1\nl,1,0\nz,10\n";
    fs::write(&trace, text).expect("a file");
    let done = steward(&["check", "--trace"]).args([&trace]).run();
    done.assert_code(1);
    assert!(flat(&done).contains("not expected: V19 FreedTwice, callbacks of VkBuffer, in vkDestroyBuffer"), "{done}");
    fs::write(&trace, text.replacen("f,1,1,1\n", "", 1).replace("z,10", "z,9")).expect("a file");
    let done = steward(&["check", "--trace"]).args([&trace]).run();
    done.assert_code(0);
    assert!(done.stdout.ends_with("\nresult: as expected: no findings\n"), "{done}");
}

/// An application that was recorded without brackets: what depends on commands is not judged, and each leftover names
/// its line.
#[test]
fn a_trace_without_commands_shows_what_is_left_and_where_it_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("mine.trace");
    let text = "# steward host trace 2\n# driver: made up\no,1,0,VkBuffer\na,1,1,1,8,8,1\na,1,1,2,24,8,1\na,1,1,3,8,8,1\nf,1,1,1\nz,7\n";
    fs::write(&trace, text).expect("a file");
    let done = steward(&["check", "--trace"]).args([&trace]).run();
    done.assert_code(0);
    assert!(
        flat(&done).contains("it has no command: what has to do with commands and threads is not judged"),
        "{done}"
    );
    assert!(
        done.stdout.contains("2 blocks of VkBuffer (32 B)\n     oldest: 24 bytes in line 5, 8 bytes in line 6\n"),
        "{done}"
    );
}
