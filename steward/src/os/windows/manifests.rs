//! Where the loader finds manifests, beside those that variables name: the registry lists the files.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

use windows_registry::{CURRENT_USER, LOCAL_MACHINE};

use super::registry::{listed, of_adapters};

const EXPLICIT: &str = "ExplicitLayers";
const IMPLICIT: &str = "ImplicitLayers";

/// Those of display adapters, which the loader takes first, and those that are listed.
pub(crate) fn drivers(_: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut files = of_adapters();
    files.extend(listed(LOCAL_MACHINE, "Drivers"));
    files
}

pub(crate) fn layers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let explicit = explicit_layers(variable).into_iter();
    explicit.chain(of_both(IMPLICIT)).collect()
}

pub(crate) fn explicit_layers(_: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    of_both(EXPLICIT).collect()
}

fn of_both(key: &'static str) -> impl Iterator<Item = PathBuf> {
    let hives = [LOCAL_MACHINE, CURRENT_USER].into_iter();
    hives.flat_map(move |hive| listed(hive, key))
}
