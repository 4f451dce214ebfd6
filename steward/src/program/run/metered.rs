#![forbid(unsafe_code)]

use std::env;
use std::path::Path;
use std::process::Command;

use super::complain;
use crate::callback_coverage::Preload;
use crate::os::executable;

/// Keep the returned value until the program has ended. If this fails, it is reported and the program runs without the
/// meter.
pub(super) fn preload(command: &mut Command, folder: &Path) -> Option<Preload> {
    if env::var_os("LD_PRELOAD").is_some_and(|libraries| !libraries.is_empty()) {
        complain(
            "callback coverage is not measured: LD_PRELOAD is set, and the meter must be the only library that it names",
        );
        return None;
    }
    if let Some(reason) = executable::why_no_meter(Path::new(command.get_program())) {
        complain(&format!("callback coverage is not measured: {reason}"));
        return None;
    }
    match Preload::new_in(folder) {
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
