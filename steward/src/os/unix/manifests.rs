//! Where the loader finds manifests, beside those that variables name.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

const EXPLICIT: &str = "vulkan/explicit_layer.d";
const IMPLICIT: &str = "vulkan/implicit_layer.d";

/// In the loader's order. `variable` returns values that are not empty.
pub(crate) fn drivers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let roots = roots(variable).into_iter();
    roots.map(|root| root.join("vulkan/icd.d")).collect()
}

pub(crate) fn layers(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let roots = roots(variable).into_iter();
    roots
        .flat_map(|root| [EXPLICIT, IMPLICIT].map(|name| root.join(name)))
        .collect()
}

pub(crate) fn explicit_layers() -> impl Iterator<Item = PathBuf> {
    data_folders(EXPLICIT)
}

pub(crate) fn implicit_layers() -> impl Iterator<Item = PathBuf> {
    data_folders(IMPLICIT)
}

fn paths(list: &OsStr) -> impl Iterator<Item = PathBuf> {
    env::split_paths(list).filter(|path| !path.as_os_str().is_empty())
}

fn roots(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let below_home = |name: &str, usual: &str| {
        variable(name)
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| home.join(usual)))
            .into_iter()
    };
    let several = |name: &str, usual: &str| {
        paths(&variable(name).unwrap_or_else(|| usual.into())).collect::<Vec<_>>()
    };
    below_home("XDG_CONFIG_HOME", ".config")
        .chain(several("XDG_CONFIG_DIRS", "/etc/xdg"))
        .chain(["/usr/local/etc".into(), "/etc".into()])
        .chain(below_home("XDG_DATA_HOME", ".local/share"))
        .chain(several("XDG_DATA_DIRS", "/usr/local/share:/usr/share"))
        .collect()
}

fn data_folders(below: &'static str) -> impl Iterator<Item = PathBuf> {
    let of_user = |name, default: &str| {
        set(name)
            .or_else(|| Some(PathBuf::from(set("HOME")?).join(default).into_os_string()))
            .unwrap_or_default()
    };
    let of_system = |name, default: &str| set(name).unwrap_or_else(|| default.into());
    let lists = [
        of_user("XDG_CONFIG_HOME", ".config"),
        of_system("XDG_CONFIG_DIRS", "/etc/xdg"),
        "/etc".into(),
        of_user("XDG_DATA_HOME", ".local/share"),
        of_system("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
    ];
    let paths = lists
        .into_iter()
        .flat_map(|list| paths(&list).collect::<Vec<_>>());
    paths.map(move |path| path.join(below))
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| {
            set.iter()
                .find(|(set, _)| *set == name)
                .map(|(_, value)| value.into())
        }
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
        let found = drivers(&with(&[
            ("XDG_CONFIG_DIRS", "/x:/y"),
            ("XDG_DATA_DIRS", "/z"),
        ]));
        let expected = ["/x", "/y", "/usr/local/etc", "/etc", "/z"]
            .map(|root| Path::new(root).join("vulkan/icd.d"));
        assert_eq!(found, expected);
    }
}
