//! The manifests of drivers that the Vulkan loader reads, in its order.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*, *Driver discovery*.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use vk_report::files;

use crate::input;
use crate::os::{manifests, paths, variable};

const MAX_MANIFEST: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IcdManifest {
    pub(super) path: PathBuf,
    pub(super) stem: String,
    /// The driver's library as the manifest names it: absolute, relative to the manifest, or a bare name.
    pub(super) library_path: String,
}

/// Every manifest is listed once. Files that are no manifests are ignored, as the loader does.
pub(super) fn find_all() -> Vec<IcdManifest> {
    let mut found: Vec<IcdManifest> = Vec::new();
    for place in places(&variable) {
        for path in files_at(&place) {
            let known = |other: &IcdManifest| other.path == path || same_file(&other.path, &path);
            if !found.iter().any(known) {
                found.extend(parse(&path));
            }
        }
    }
    found
}

fn narrowed(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<(&'static str, OsString)> {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().find_map(|name| Some((name, variable(name)?)))
}

pub(super) fn narrowed_by() -> Option<(String, String)> {
    let (name, value) = narrowed(&variable)?;
    Some((name.to_owned(), value.to_string_lossy().into_owned()))
}

/// Files and directories to read, in order. `variable` returns values that are not empty.
fn places(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some((_, named)) = narrowed(variable) {
        return paths(&named);
    }
    let added = variable("VK_ADD_DRIVER_FILES").unwrap_or_default();
    let mut places = paths(&added);
    places.extend(manifests::drivers(variable));
    places
}

/// A layer that has a library.
pub(crate) struct AnnouncedLayer {
    pub(crate) manifest: PathBuf,
    pub(crate) name: String,
    pub(crate) library: PathBuf,
}

/// No driver is announced.
pub(crate) fn has_none() -> bool {
    find_all().is_empty()
}

/// Where the loader finds them.
pub(crate) fn layers() -> Vec<AnnouncedLayer> {
    let named = ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH", "VK_IMPLICIT_LAYER_PATH"];
    let named = named.into_iter().filter_map(variable);
    let mut places: Vec<_> = named.flat_map(|list| paths(&list)).collect();
    places.extend(manifests::layers(&variable));
    let files = places.iter().flat_map(|place| files_at(place));
    files.flat_map(|file| layers_of(&file)).collect()
}

fn layers_of(file: &Path) -> Vec<AnnouncedLayer> {
    #[derive(serde::Deserialize)]
    struct LayerManifest {
        layer: Option<Layer>,
        #[serde(default)]
        layers: Vec<Layer>,
    }
    #[derive(serde::Deserialize)]
    struct Layer {
        name: String,
        library_path: Option<PathBuf>,
    }
    let read = read(file).ok();
    let read = read.and_then(|text| serde_json::from_slice::<LayerManifest>(&text).ok());
    let Some(LayerManifest { layer, layers }) = read else {
        return Vec::new();
    };
    let with_library = |layer: Layer| {
        Some(AnnouncedLayer { manifest: file.to_owned(), name: layer.name, library: layer.library_path? })
    };
    let all = layer.into_iter().chain(layers);
    all.filter_map(with_library).collect()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    input::within(files::open(path)?, MAX_MANIFEST)
}

/// Files are sorted by name: indices must not change from run to run.
fn files_at(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(place) else {
        return vec![place.to_owned()];
    };
    let is_json = |path: &PathBuf| path.extension() == Some(OsStr::new("json"));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_json).collect();
    files.sort();
    files
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

pub(super) fn parse(path: &Path) -> Result<IcdManifest, String> {
    #[derive(serde::Deserialize)]
    struct File {
        #[serde(rename = "ICD")]
        icd: Icd,
    }
    #[derive(serde::Deserialize)]
    struct Icd {
        library_path: String,
    }
    let bytes = read(path).map_err(|error| error.to_string())?;
    let file: File = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(IcdManifest { path: path.to_owned(), stem, library_path: file.icd.library_path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_newer_variable_wins_and_replaces_the_search() {
        let set = [("VK_ICD_FILENAMES", "/old.json"), ("VK_DRIVER_FILES", "/a.json:/b"), ("VK_ADD_DRIVER_FILES", "/c")];
        assert_eq!(places(&with(&set)), [PathBuf::from("/a.json"), "/b".into()]);
        assert_eq!(places(&with(&set[..1])), [PathBuf::from("/old.json")]);
        let added = places(&with(&set[2..]));
        assert!(added.len() > 1 && added.first() == Some(&"/c".into()));
    }

    #[test]
    fn manifests_are_read_by_name_and_other_files_passed_over() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        fs::write(at("b_icd.x86_64.json"), r#"{"file_format_version": "1.0.0", "ICD": {"library_path": "libb.so"}}"#)?;
        fs::write(at("a_icd.json"), r#"{"ICD": {"library_path": "/lib/a.so", "api_version": "1.3.0"}}"#)?;
        fs::write(at("broken.json"), "{")?;
        fs::write(at("layer.json"), r#"{"layer": {}}"#)?;
        fs::write(at("readme.txt"), r#"{"ICD": {"library_path": "no"}}"#)?;
        let found: Vec<_> = files_at(directory.path()).iter().filter_map(|path| parse(path).ok()).collect();
        let names: Vec<_> = found.iter().map(|each| (each.stem.as_str(), each.library_path.as_str())).collect();
        assert_eq!(names, [("a_icd", "/lib/a.so"), ("b_icd.x86_64", "libb.so")]);
        assert!(same_file(&at("a_icd.json"), &directory.path().join("./a_icd.json")));
        assert_eq!(files_at(&at("absent.json")), [at("absent.json")]);
        assert!(parse(&at("absent.json")).is_err());
        Ok(())
    }
}
