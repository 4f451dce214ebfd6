//! Where the loader finds manifests, beside those that variables name: the registry lists the files.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

use super::registry::{Hive, listed, of_adapters};

const EXPLICIT: &str = "ExplicitLayers";
const IMPLICIT: &str = "ImplicitLayers";

/// Those of display adapters, which the loader takes first, and those that are listed.
pub(crate) fn drivers(_: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut files = of_adapters();
    files.extend(listed(Hive::Machine, "Drivers"));
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
    let hives = [Hive::Machine, Hive::User].into_iter();
    hives.flat_map(move |hive| listed(hive, key))
}
