//! The examples end without an error and say what their first lines promise.

use testkit::Finished;

/// What an example prints.
fn run(name: &str) -> Option<Finished> {
    let done = testkit::example(name)?.run();
    done.assert_code(0);
    Some(done)
}

#[test]
fn budgets_names_whose_budget_was_short() {
    let Some(done) = run("budgets") else {
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
    let Some(done) = run("collections") else {
        return;
    };
    for said in
        ["the frame: 1000 lists in ", "shader 2, light: 1000 words", "total: ", "one shader less: ", "nothing is left"]
    {
        assert!(done.stdout.contains(said), "{said}: {done}");
    }
}
