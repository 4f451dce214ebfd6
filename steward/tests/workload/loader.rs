//! Choosing a driver, and what is said where there is none.

use std::process::ExitCode;

use vk_steward::drivers::{self, DriverError, OpenDriver};

use super::{LIST_ONLY, Outcome, child};

pub(crate) fn list_only() -> ExitCode {
    match drivers::list() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn an_unknown_name_is_refused_with_those_that_are_known() {
    match drivers::select(Some("no such driver")) {
        Err(error @ DriverError::UnknownName { .. }) => {
            let text = error.to_string();
            let listing = drivers::list().expect("a loader");
            let mut known = listing.drivers.iter();
            assert!(known.len() > 0 && known.all(|driver| text.contains(&driver.device_name)), "{text}");
        }
        // A machine without a driver.
        Err(_) => {}
        Ok(selected) => panic!("{selected:?} is called that"),
    }
}

pub(crate) fn a_child_sees_its_driver_alone(driver: &OpenDriver) -> Outcome {
    let listing = drivers::list().unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = listing.drivers.iter().map(|driver| driver.title()).collect();
    assert_eq!(names, [driver.info().title()]);
    Ok(())
}

/// A file that is no library stands in the loader's way; a process of its own, because libraries are found once.
pub(crate) fn without_a_loader_there_is_an_error_with_a_remedy() {
    let directory = tempfile::tempdir().expect("a directory for a file");
    std::fs::write(directory.path().join("libvulkan.so.1"), "not a library").expect("the file is written");
    let output = child().arg(LIST_ONLY).env("LD_LIBRARY_PATH", directory.path()).output().expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("there is no Vulkan loader (") && text.contains("install libvulkan1"), "{text}");
    assert_eq!(output.status.code(), Some(2));
    println!("test without_a_loader_there_is_an_error_with_a_remedy ... ok");
}
