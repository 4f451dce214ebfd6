//! The same run twice, and a run that was recorded.

use super::*;

/// Two runs differ in nothing but the moment at which the driver's own threads free something.
#[test]
fn the_same_seed_gives_the_same_result() {
    if drivers("the_same_seed_gives_the_same_result", "lavapipe").is_none() {
        return;
    }
    let of = |seed: &str| json_of(&["drive", "--driver", "lavapipe", "--seed", seed, "--rounds", "2"]).1;
    let (one, two, other) = (of("77"), of("77"), of("78"));
    assert_eq!(one["source"], two["source"]);
    assert_ne!(one["source"], other["source"]);
    let taken = |report: &Value| -> Vec<_> {
        report["phases"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|phase| (phase["commands"].clone(), phase["blocks"].clone()))
            .collect()
    };
    assert_eq!(taken(&one), taken(&two));
    // Without a seed the clock gives one, and the report says which.
    let drawn = json_of(&["drive", "--driver", "lavapipe"]).1["source"]["seed"].to_string();
    let again = run(&["drive", "--driver", "lavapipe", "--seed", &drawn]);
    assert!(again.stdout.contains(&format!("with seed {drawn}:")), "{again}");
}

#[test]
fn a_recorded_run_replays_to_its_own_numbers() {
    if drivers("a_recorded_run_replays_to_its_own_numbers", "lavapipe").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["run.trace", "run.trace.gz"] {
        let file = folder.path().join(name);
        let file = file.to_str().expect("a plain path");
        let (done, live) = json_of(&["drive", "--driver", "lavapipe", "--rounds", "2", "--record", file]);
        done.assert_code(0);
        let packed = fs::read(file).expect("a trace").starts_with(&[0x1f, 0x8b]);
        assert_eq!(packed, name.ends_with(".gz"));
        let (done, replayed) = json_of(&["replay", file]);
        done.assert_code(0);
        assert!(done.stdout.contains("\nrecorded on: llvmpipe Mesa "), "{done}");
        let [live, replayed] = [live, replayed].map(|report| report["phases"].as_array().expect("a list").clone());
        assert_eq!(live.len(), replayed.len());
        for (live, replayed) in live.iter().zip(&replayed) {
            for same in ["name", "commands", "blocks_by_scope"] {
                assert_eq!(live[same], replayed[same], "{same} of {live}");
            }
        }
        // The driver's own threads free at a phase's end or just after it: sums, not phases. The bytes are
        // `live_witness`'s.
        let freed = |phases: &[Value]| phases.iter().filter_map(|phase| phase["freed"].as_u64()).sum::<u64>();
        assert_eq!(freed(&live), freed(&replayed));
    }
    let nowhere = folder.path().join("no such folder").join("run.trace");
    let done = steward(&["drive", "--rounds", "1", "--record"]).args([&nowhere]).run();
    assert_one_sentence(&done, &["run.trace cannot be written"]);
}
