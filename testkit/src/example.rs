//! Examples of the package whose test runs, as `cargo test` built them beside it.

use crate::{Child, skip};

/// An example, ready to run. `None`, with the reason printed, where it was not built: a run of one test alone may not
/// have. `STEWARD_REQUIRE` with `examples` in it makes that a failure.
///
/// # Panics
/// When this is no test that cargo built.
#[must_use]
pub fn example(name: &str) -> Option<Child> {
    let this = std::env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("deps, in a folder");
    let file = folder.join("examples").join(name);
    if file.exists() {
        return Some(Child::new(file));
    }
    skip("examples", name, "it was not built");
    None
}
