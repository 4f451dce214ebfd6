//! The examples end without an error and say what their first lines promise.

use testkit::{Finished, skip};

/// What an example prints.
fn run(name: &str) -> Option<Finished> {
    let done = testkit::example(name)?.run();
    done.assert_code(0);
    Some(done)
}

#[test]
fn tracked_application_has_the_drivers_memory_and_its_own_in_one_tree() {
    let Some(done) = run("tracked_application") else {
        return;
    };
    if done.stdout.contains("SKIPPED") {
        return skip("driver", "tracked_application", &done.stdout);
    }
    for said in [
        "application",
        "instance",
        "gpu-suballoc",
        "vertices",
        "staging",
        "nothing is left",
    ] {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
    assert!(!done.stderr.contains("was dropped"), "{done}");
}
