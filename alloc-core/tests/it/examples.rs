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
fn budgets_names_whose_budget_was_short() {
    let Some(done) = example("budgets") else {
        return;
    };
    for said in [
        "4000 more numbers: the budget of \"optimise\" is short of ",
        "2500 more numbers: the budget of \"compiler\" is short of ",
        "; the 1000 numbers are as they were",
        "nothing is left",
    ] {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
}

#[test]
fn collections_shows_what_a_context_holds() {
    let Some(done) = example("collections") else {
        return;
    };
    for said in [
        "the frame: 1000 lists in ",
        "shader 2, light: 1000 words",
        "total: ",
        "one shader less: ",
        "nothing is left",
    ] {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
}
