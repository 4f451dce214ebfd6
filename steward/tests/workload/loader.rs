//! Choosing a driver, and what is said where there is none.

use std::collections::BTreeMap;
use std::process::ExitCode;

use vk_steward::drivers::{self, DriverError, Selected};

use super::{LIST_ONLY, Outcome, child};

pub(crate) fn list_only() -> ExitCode {
    // SAFETY: one thread of our own, and there is no driver: the loader cannot be opened.
    match unsafe { drivers::list() } {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Also asks for a driver that does not exist, which must name those that do.
pub(crate) fn select(driver: &str) -> Result<Selected, DriverError> {
    if driver.contains('/') {
        // SAFETY: one thread of our own, and the driver has none.
        return unsafe { drivers::select(Some(driver)) };
    }
    // SAFETY: one thread of our own. The drivers that CI installs keep no thread after their instance that reads the environment.
    let nobody = unsafe { drivers::select(Some("no such driver")) };
    match nobody.map(|selected| selected.info().clone()) {
        Err(error @ DriverError::UnknownName { .. }) => {
            let DriverError::UnknownName { known, .. } = &error else {
                unreachable!("matched above")
            };
            let text = error.to_string();
            assert!(
                !known.is_empty()
                    && known
                        .iter()
                        .all(|driver| text.contains(&driver.device_name)),
                "{text}"
            );
        }
        Err(error) => return Err(error),
        Ok(info) => panic!("{info:?} is called that"),
    }
    // SAFETY: as above.
    unsafe { drivers::select(Some(driver)) }
}

pub(crate) fn listing_leaves_the_environment_as_it_was(driver: &Selected) -> Outcome {
    let before: BTreeMap<_, _> = std::env::vars_os().collect();
    // SAFETY: one thread of our own; as for `select`, the driver's that may be left do not read the environment.
    let listing = unsafe { drivers::list() }.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(std::env::vars_os().collect::<BTreeMap<_, _>>(), before);
    // The loader was narrowed to this driver when it was selected.
    let names: Vec<_> = listing
        .drivers
        .iter()
        .map(|driver| driver.title())
        .collect();
    assert_eq!(names, [driver.info().title()]);
    Ok(())
}

/// A file that is no library stands in the loader's way; a process of its own, because libraries are found once.
pub(crate) fn without_a_loader_there_is_an_error_with_a_remedy() {
    let directory = tempfile::tempdir().expect("a directory for a file");
    std::fs::write(directory.path().join("libvulkan.so.1"), "not a library")
        .expect("the file is written");
    let output = child()
        .arg(LIST_ONLY)
        .env("LD_LIBRARY_PATH", directory.path())
        .output()
        .expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("there is no Vulkan loader (") && text.contains("install libvulkan1"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(2));
    println!("test without_a_loader_there_is_an_error_with_a_remedy ... ok");
}
