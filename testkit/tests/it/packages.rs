//! What a published package says of itself and holds, where the registry only warns; `.ci/run published` finds the
//! rest.

use std::process::Command;

use crate::common::{metadata, root};

#[test]
fn a_package_is_described_and_holds_its_licences_and_no_tests() {
    let metadata = metadata();
    let published = metadata.packages.iter().filter(|p| p.publish.is_none());
    let mut names = 0;
    for package in published {
        let name = package.name.as_str();
        let is_described = package.description.as_ref().is_some_and(|d| d.len() < 200)
            && package.license.as_deref() == Some("MIT OR Apache-2.0")
            && package.readme().is_some()
            && package.rust_version.is_some()
            && (1..=5).contains(&package.keywords.len())
            && (1..=5).contains(&package.categories.len());
        assert!(is_described, "{name}: {package:?}");
        let mut list = Command::new(env!("CARGO"));
        list.args(["package", "--list", "--allow-dirty", "--offline", "-p", name]);
        let listed = list.current_dir(root()).output().expect("cargo runs");
        let listed = String::from_utf8_lossy(&listed.stdout);
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            // Copies, not links: a link is a file of one line where git makes none.
            let copy = std::fs::read(package.manifest_path.with_file_name(licence));
            let original = std::fs::read(root().join(licence)).expect("readable");
            assert_eq!(copy.ok(), Some(original), "{name}: {licence}");
            assert!(listed.lines().any(|file| file == licence), "{name}");
        }
        // They import testkit, which is in no registry.
        let test = listed.lines().find(|file| file.starts_with("tests/"));
        assert_eq!(test, None, "{name}");
        names += 1;
    }
    assert!(names >= 9, "{names} packages");
}

#[test]
fn the_documentation_of_a_package_names_its_features_and_is_built_with_them() {
    let metadata = metadata();
    let mut named = 0;
    for package in metadata.packages.iter().filter(|p| p.publish.is_none()) {
        let name = package.name.as_str();
        let library = package.manifest_path.with_file_name("src").join("lib.rs");
        let text = std::fs::read_to_string(library).expect("readable");
        let said: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        let built = &package.metadata["docs"]["rs"];
        assert_eq!(built["rustdoc-args"][1], "docsrs", "{name}");
        let has_default = package.features.contains_key("default");
        assert!(!has_default || built["all-features"] == true, "{name}");
        for feature in package.features.keys().filter(|name| *name != "default") {
            assert!(said.contains(&format!("`{feature}`")), "{name}: {feature}");
            named += 1;
        }
    }
    assert!(named > 5, "{named} features");
}
