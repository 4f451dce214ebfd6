//! The workspace as its tests see it.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand};

/// The library crates: no allocation of their own, ever.
pub(crate) const LIBRARIES: [&str; 4] = ["alloc-core", "vk-callbacks", "gpu-suballoc", "debug-guard"];

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace is there")
}

/// The packages of the workspace, without their dependencies.
pub(crate) fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata describes the workspace")
}

/// The text of `path`, which is relative to the root.
pub(crate) fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of the repository, relative to the root, with their text; files that are not text are left out.
///
/// What git tracks or would track; without git or outside a checkout, all files that are not build output.
pub(crate) fn files() -> Vec<(String, String)> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output();
    let names = match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => {
            let mut names = Vec::new();
            walk(&root, &root, &mut names);
            names
        }
    };
    names
        .into_iter()
        // What a link points to is in the list itself.
        .filter(|name| !root.join(name).is_symlink())
        .filter_map(|name| std::fs::read_to_string(root.join(&name)).ok().map(|text| (name, text)))
        .collect()
}

fn walk(root: &Path, dir: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if !["target", ".git", "corpus", "artifacts"].iter().any(|skip| name == *skip) {
                walk(root, &path, names);
            }
        } else if let Ok(relative) = path.strip_prefix(root) {
            names.push(relative.to_string_lossy().into_owned());
        }
    }
}

/// The lints that a library's face denies in `#![cfg_attr(not(test), deny(..))]`.
pub(crate) fn denied(face: &str) -> Vec<&str> {
    let list = face.split_once("deny(").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    list.split(',').map(str::trim).filter(|lint| !lint.is_empty()).collect()
}
