//! The workload on live drivers: lavapipe, SwiftShader and the reference driver, which the loader opens. A process
//! each, which sees one driver.
//!
//! Each test prints `ok`, `SKIPPED <test>: <reason>` or `FAILED`; with `STEWARD_REQUIRE=lavapipe,swiftshader` a skip
//! for want of the driver fails. `STEWARD_SWIFTSHADER=<manifest>` names a SwiftShader that the loader does not find by
//! itself.

#[path = "workload/commands.rs"]
mod commands;
#[path = "support/driver_shim.rs"]
mod driver_shim;
#[path = "workload/loader.rs"]
mod loader;
#[path = "support/manifest.rs"]
mod manifest;
#[path = "support/opened.rs"]
mod opened;
#[path = "workload/results.rs"]
mod results;

use std::process::{Command, ExitCode};

use commands::{phases_come_in_their_order, v43_v44_each_object_that_is_created_is_destroyed};
use loader::{
    a_child_sees_its_driver_alone, an_unknown_name_is_refused_with_those_that_are_known, list_only,
    without_a_loader_there_is_an_error_with_a_remedy,
};
use manifest::Manifest;
use results::{
    a_wrong_seed_is_a_mismatch_and_everything_is_destroyed, device_memory_is_what_the_sub_allocator_says,
    df12_a_defragmentation_frees_blocks_and_keeps_contents, every_result_is_right_in_every_round,
};
use vk_steward::drivers::OpenDriver;

/// `Err` is what is missing and the reason for a skip; a failure panics.
type Outcome = Result<(), (&'static str, String)>;
type Test = (&'static str, fn(&OpenDriver) -> Outcome);

const TESTS: [Test; 7] = [
    ("every_result_is_right_in_every_round", every_result_is_right_in_every_round),
    ("phases_come_in_their_order", phases_come_in_their_order),
    ("v43_v44_each_object_that_is_created_is_destroyed", v43_v44_each_object_that_is_created_is_destroyed),
    ("device_memory_is_what_the_sub_allocator_says", device_memory_is_what_the_sub_allocator_says),
    ("df12_a_defragmentation_frees_blocks_and_keeps_contents", df12_a_defragmentation_frees_blocks_and_keeps_contents),
    ("a_wrong_seed_is_a_mismatch_and_everything_is_destroyed", a_wrong_seed_is_a_mismatch_and_everything_is_destroyed),
    ("a_child_sees_its_driver_alone", a_child_sees_its_driver_alone),
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
    if let Some(code) = opened::as_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [LIST_ONLY] => list_only(),
        [ON_DRIVER, driver, ref wanted @ ..] => on_driver(driver, wanted),
        ref wanted => {
            without_a_loader_there_is_an_error_with_a_remedy();
            an_unknown_name_is_refused_with_those_that_are_known();
            let reference = Manifest::new();
            let reference = reference.path.to_str().expect("a plain path");
            let passed = DRIVERS.map(|driver| {
                let name = if driver == REFERENCE { reference } else { driver };
                match opened::select(name) {
                    Ok(selected) => {
                        let mut child = child();
                        for (name, value) in opened::environment(&selected) {
                            match value {
                                Some(value) => child.env(name, value),
                                None => child.env_remove(name),
                            };
                        }
                        let status = child.arg(ON_DRIVER).arg(driver).args(wanted).status();
                        status.is_ok_and(|status| status.success())
                    }
                    Err(reason) => {
                        println!("SKIPPED {driver}: {reason}");
                        !is_required(driver)
                    }
                }
            });
            if passed.iter().all(|passed| *passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn child() -> Command {
    Command::new(std::env::current_exe().expect("a test knows its file"))
}

fn on_driver(driver: &str, wanted: &[&str]) -> ExitCode {
    let opened = opened::opened();
    let wanted: Vec<_> = wanted.iter().filter(|argument| !argument.starts_with('-')).collect();
    let mut failed = 0;
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(**part)) {
            continue;
        }
        let run = || test(&opened);
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
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_required(what: &str) -> bool {
    std::env::var("STEWARD_REQUIRE").is_ok_and(|required| required.split(',').any(|each| each.trim() == what))
}
