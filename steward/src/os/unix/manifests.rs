//! Where the loader finds manifests, beside those that variables name.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

use crate::os::paths;

const EXPLICIT: &str = "vulkan/explicit_layer.d";
const IMPLICIT: &str = "vulkan/implicit_layer.d";
const LOCAL: &str = "/usr/local/etc";

/// In the loader's order. `variable` returns values that are not empty.
pub(crate) fn drivers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let roots = roots(variable).into_iter();
    roots.map(|root| root.join("vulkan/icd.d")).collect()
}

pub(crate) fn layers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let roots = roots(variable).into_iter();
    roots.flat_map(|root| [EXPLICIT, IMPLICIT].map(|name| root.join(name))).collect()
}

pub(crate) fn explicit_layers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    // Many a loader does not look there, and what is named to it must not be more than it finds itself.
    let roots = roots(variable).into_iter();
    let roots = roots.filter(|root| root.as_os_str() != LOCAL);
    roots.map(|root| root.join(EXPLICIT)).collect()
}

fn roots(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let below_home = |name: &str, usual: &str| {
        variable(name).map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(usual))).into_iter()
    };
    let several = |name: &str, usual: &str| paths(&variable(name).unwrap_or_else(|| usual.into()));
    below_home("XDG_CONFIG_HOME", ".config")
        .chain(several("XDG_CONFIG_DIRS", "/etc/xdg"))
        .chain([LOCAL.into(), "/etc".into()])
        .chain(below_home("XDG_DATA_HOME", ".local/share"))
        .chain(several("XDG_DATA_DIRS", "/usr/local/share:/usr/share"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_usual_places_come_in_the_loaders_order() {
        let set = [("HOME", "/h"), ("XDG_DATA_HOME", "/d")];
        let expected = [
            "/h/.config/vulkan/icd.d",
            "/etc/xdg/vulkan/icd.d",
            "/usr/local/etc/vulkan/icd.d",
            "/etc/vulkan/icd.d",
            "/d/vulkan/icd.d",
            "/usr/local/share/vulkan/icd.d",
            "/usr/share/vulkan/icd.d",
        ];
        assert_eq!(drivers(&with(&set)), expected.map(PathBuf::from));
    }

    #[test]
    fn without_a_home_the_systems_places_remain() {
        let found = drivers(&with(&[("XDG_CONFIG_DIRS", "/x:/y"), ("XDG_DATA_DIRS", "/z")]));
        let expected = ["/x", "/y", "/usr/local/etc", "/etc", "/z"].map(|root| Path::new(root).join("vulkan/icd.d"));
        assert_eq!(found, expected);
    }
}
