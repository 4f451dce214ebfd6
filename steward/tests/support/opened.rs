//! A driver in a child of a test: the parent selects it, and the child, which sees it alone, opens it.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use vk_steward::drivers::{self, OpenDriver, Selected};
use vk_steward::program;

const VARIABLE: &str = "STEWARD_TEST_DRIVER";

/// Call it first in `main`: the program asks drivers in children of its own executable, which is the test's here.
/// `None` in any other process.
pub(crate) fn as_asked() -> Option<ExitCode> {
    if let Some(manifest) = testkit::swiftshader() {
        // SAFETY: this is the first thing that the only thread does.
        unsafe { env::set_var("VK_ADD_DRIVER_FILES", manifest) };
    }
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    program::run_as_child(&words).map(|ran| match ran {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => panic!("{error}"),
    })
}

/// The driver of that name; `Err` is why there is none.
pub(crate) fn select(name: &str) -> Result<Selected, String> {
    drivers::select(Some(name)).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })
}

/// What the child's environment has to be.
pub(crate) fn environment(selected: &Selected) -> Vec<(String, Option<OsString>)> {
    let mut child = Command::new("");
    selected.narrow(&mut child);
    child.env(VARIABLE, serde_json::to_string(selected).expect("data"));
    let variables = child.get_envs().map(|(name, value)| {
        let name = name.to_str().expect("a plain name");
        (name.to_owned(), value.map(ToOwned::to_owned))
    });
    variables.collect()
}

/// The driver of the parent's choice.
pub(crate) fn opened() -> OpenDriver {
    let selected = env::var(VARIABLE).expect("the parent sets it");
    let selected: Selected = serde_json::from_str(&selected).expect("the parent's");
    // SAFETY: an installed driver, whose library has run where it showed its device.
    unsafe { selected.open() }.expect("it was there")
}
