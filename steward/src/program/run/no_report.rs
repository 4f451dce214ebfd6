#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use super::reports::Reports;
use super::search_path::installed_manifests;
use crate::drivers;
use crate::os::executable::why_variables_are_ignored;
use crate::os::{ended_by, signal_name};

pub(super) fn no_report(program: &Path, status: ExitStatus) -> String {
    let program = program.display();
    match ended_by(status) {
        Some(signal) => format!(
            "no report: {program} was ended by {}, and had created no instance through the Vulkan loader",
            signal_name(signal)
        ),
        None => format!(
            "no report: {program} created no instance through the Vulkan loader, ended without running its exit handlers, or could write no file, as the layer has said then; a program may \
             also open drivers itself, clear its environment, have raised privileges, become another user (sudo, su, setpriv) or have another \
             folder for temporary files (a sandbox), in which it does not find the layer: then call `steward run` as that user, behind what \
             changes it; or be left out by the setting `match`{}",
            causes()
        ),
    }
}

fn causes() -> String {
    let mut causes = String::new();
    let mut variables: Vec<_> = env::vars_os().collect();
    variables.sort();
    for (name, value) in variables {
        let (name, value) = (name.display(), value.display());
        let effect = match &*name.to_string() {
            "VK_LOADER_LAYERS_DISABLE" | "VK_LOADER_LAYERS_ALLOW" => "may switch the layer off",
            "VK_STEWARD_MEMORY_MATCH" => "leaves other programs out",
            "VK_DRIVER_FILES" | "VK_ICD_FILENAMES" | "VK_LOADER_DRIVERS_SELECT" | "VK_LOADER_DRIVERS_DISABLE" => {
                "may leave no driver"
            }
            _ => continue,
        };
        causes += &format!("; {name} is set ({value}), and {effect}");
    }
    if let Some(why) = why_variables_are_ignored() {
        causes += &format!("; {why}");
    }
    if drivers::has_none() {
        causes += "; no manifest of a driver is installed, and without a driver there is no instance";
    }
    for manifest in installed_manifests() {
        causes += &format!("; {} names the layer, too, and perhaps another library", manifest.display());
    }
    causes
}

pub(super) fn other_libraries(reports: &Reports, expected: &Path) -> Vec<String> {
    // The run's folder may have a link to it.
    let real = |file: &Path| fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut lines = Vec::new();
    for report in reports.of_layer() {
        let program = report.program.as_ref();
        let Some(what) = program.and_then(|program| program.library.as_ref()) else {
            continue;
        };
        if real(Path::new(what)) == real(expected) {
            continue;
        }
        let line = format!(
            "the loader has loaded the layer from {what}, and not from {}: another manifest of its name is in its way{}",
            expected.display(),
            manifests()
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn manifests() -> String {
    let manifests: Vec<_> = installed_manifests().map(|file| file.display().to_string()).collect();
    if manifests.is_empty() {
        return String::new();
    }
    format!(" ({}); `steward layer uninstall --user` removes that of a user", manifests.join(", "))
}
