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

#[test]
fn h26_of_two_contexts_one_goes_with_exactly_its_own() {
    let Some(done) = run("two_contexts") else {
        return;
    };
    if done.stdout.contains("SKIPPED") {
        return skip("driver", "two_contexts", &done.stdout);
    }
    for said in [
        "first: 4 kernels compiled, 4 found in the cache\nsecond: 4 kernels compiled, 4 found in the cache\n",
        "\nfirst released: 4 kernels, 1 memory objects of ",
        "\nsecond goes on: its own kernels are found, 4 of first's compiled anew\n",
        "\nnothing is left\n",
    ] {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
}
