//! `--meter`: the meter of the heap is loaded into the program, beside the layer, which measures the callback coverage of the driver.

#![forbid(unsafe_code)]

use std::env;
use std::process::Command;

use super::complain;
use crate::callback_coverage::Preload;

/// Has the program load the meter, for as long as what is returned is kept. `None` where it cannot be: then that is said, and the program
/// runs without.
pub(super) fn preload(command: &mut Command) -> Option<Preload> {
    if env::var_os("LD_PRELOAD").is_some_and(|libraries| !libraries.is_empty()) {
        complain(
            "callback coverage is not measured: LD_PRELOAD is set, and the meter must be the only library that it names",
        );
        return None;
    }
    match Preload::new() {
        Ok(preload) => {
            preload.load_into(command);
            command.env("VK_STEWARD_MEMORY_METER", "true");
            Some(preload)
        }
        Err(error) => {
            complain(&format!("callback coverage is not measured: {error}"));
            None
        }
    }
}
