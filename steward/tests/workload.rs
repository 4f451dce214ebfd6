//! The workload on live drivers: lavapipe, SwiftShader and the reference driver, which the loader opens. A process each, with one thread, because the loader's environment
//! is set here.
//!
//! Each test prints `ok`, `SKIPPED <test>: <reason>` or `FAILED`; with `STEWARD_REQUIRE=lavapipe,swiftshader` a skip for want of
//! the driver fails, with `STEWARD_REQUIRE=validation` one for want of the layer. `STEWARD_SWIFTSHADER=<manifest>` names a
//! SwiftShader that the loader does not find by itself.

#[path = "workload/commands.rs"]
mod commands;
#[path = "support/driver_shim.rs"]
mod driver_shim;
#[path = "workload/loader.rs"]
mod loader;
#[path = "support/manifest.rs"]
mod manifest;
#[path = "support/plain_callbacks.rs"]
mod plain_callbacks;
#[path = "workload/results.rs"]
mod results;

use std::process::{Command, ExitCode};

use commands::{phases_come_in_their_order, v43_v44_each_object_that_is_created_is_destroyed};
use loader::{
    list_only, listing_leaves_the_environment_as_it_was, select,
    without_a_loader_there_is_an_error_with_a_remedy,
};
use manifest::Manifest;
use results::{
    a_wrong_seed_is_a_mismatch_and_everything_is_destroyed,
    device_memory_is_what_the_sub_allocator_says,
    df12_a_defragmentation_frees_blocks_and_keeps_contents, every_result_is_right_in_every_round,
    the_validation_layer_is_silent_after_it_was_heard,
    v42_every_block_is_given_back_to_its_kinds_callbacks,
};
use vk_steward::drivers::Selected;

/// `Err` is what is missing and the reason for a skip; a failure panics.
type Outcome = Result<(), (&'static str, String)>;
type Test = (&'static str, fn(&Selected) -> Outcome);

const TESTS: [Test; 9] = [
    (
        "every_result_is_right_in_every_round",
        every_result_is_right_in_every_round,
    ),
    ("phases_come_in_their_order", phases_come_in_their_order),
    (
        "v43_v44_each_object_that_is_created_is_destroyed",
        v43_v44_each_object_that_is_created_is_destroyed,
    ),
    (
        "device_memory_is_what_the_sub_allocator_says",
        device_memory_is_what_the_sub_allocator_says,
    ),
    (
        "df12_a_defragmentation_frees_blocks_and_keeps_contents",
        df12_a_defragmentation_frees_blocks_and_keeps_contents,
    ),
    (
        "a_wrong_seed_is_a_mismatch_and_everything_is_destroyed",
        a_wrong_seed_is_a_mismatch_and_everything_is_destroyed,
    ),
    (
        "v42_every_block_is_given_back_to_its_kinds_callbacks",
        v42_every_block_is_given_back_to_its_kinds_callbacks,
    ),
    (
        "listing_leaves_the_environment_as_it_was",
        listing_leaves_the_environment_as_it_was,
    ),
    (
        "rd6_the_validation_layer_is_silent_after_it_was_heard",
        rd6_the_validation_layer_is_silent_after_it_was_heard,
    ),
];

/// Drivers that the tests run on where they are installed.
const DRIVERS: [&str; 3] = ["lavapipe", "swiftshader", REFERENCE];
/// Not the one that the program is linked with: its shared library, by the path of its manifest.
const REFERENCE: &str = "reference_icd";
/// As the only argument: list the drivers, print the error and exit with 2.
const LIST_ONLY: &str = "list-drivers-in-a-child";
/// As the first argument: run the tests on the driver that comes next.
const ON_DRIVER: &str = "on-driver-in-a-child";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [LIST_ONLY] => list_only(),
        [ON_DRIVER, driver, ref wanted @ ..] => on_driver(driver, wanted),
        ref wanted => {
            without_a_loader_there_is_an_error_with_a_remedy();
            // A process each: choosing a driver narrows the loader to it for good.
            let reference = Manifest::new();
            let reference = reference.path.to_str().expect("a plain path");
            let passed = DRIVERS.map(|driver| {
                let driver = if driver == REFERENCE {
                    reference
                } else {
                    driver
                };
                let added =
                    testkit::swiftshader().map(|manifest| ("VK_ADD_DRIVER_FILES", manifest));
                child()
                    .envs(added)
                    .arg(ON_DRIVER)
                    .arg(driver)
                    .args(wanted)
                    .status()
            });
            let passed = passed
                .iter()
                .all(|status| status.as_ref().is_ok_and(std::process::ExitStatus::success));
            if passed {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn child() -> Command {
    Command::new(std::env::current_exe().expect("a test knows its file"))
}

fn on_driver(driver: &str, wanted: &[&str]) -> ExitCode {
    let selected = select(driver);
    let driver = if driver.contains('/') {
        REFERENCE
    } else {
        driver
    };
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(**part)) {
            continue;
        }
        let run = || match &selected {
            Ok(selected) => test(selected),
            Err(error) => Err((
                driver,
                error
                    .to_string()
                    .split(';')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )),
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => println!("test {driver}::{name} ... ok"),
            Ok(Err((what, reason))) => {
                println!("SKIPPED {driver}::{name}: {reason}");
                failed += u32::from(is_required(what));
            }
            Err(_) => {
                println!("test {driver}::{name} ... FAILED");
                failed += 1;
            }
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn is_required(what: &str) -> bool {
    std::env::var("STEWARD_REQUIRE")
        .is_ok_and(|required| required.split(',').any(|each| each.trim() == what))
}

/// The tests of rows are read from this file.
fn rd6_the_validation_layer_is_silent_after_it_was_heard(driver: &Selected) -> Outcome {
    the_validation_layer_is_silent_after_it_was_heard(driver)
}
