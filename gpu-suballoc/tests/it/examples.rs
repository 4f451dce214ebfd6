//! The examples end without an error and say what their first lines promise. `cargo test` builds them; a run of one test alone may not have.

use testkit::{Child, Finished, skip};

/// Runs an example; none, with a reason printed, where it was not built.
fn example(name: &str) -> Option<Finished> {
    let this = std::env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("deps, in a folder");
    let file = folder.join("examples").join(name);
    if !file.exists() {
        skip("examples", name, "it was not built");
        return None;
    }
    let done = Child::new(file).run();
    done.assert_code(0);
    Some(done)
}

#[test]
fn tracked_application_has_the_drivers_memory_and_its_own_in_one_tree() {
    let Some(done) = example("tracked_application") else {
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
