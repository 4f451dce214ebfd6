//! Each published package is whole: what it says of itself, the files that it holds, and the order in which packages can be published.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::common::{metadata, root};
use cargo_metadata::{DependencyKind, Metadata, Package};

/// The packages that go to the registry, by name.
pub(crate) fn published(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    let published: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_none() && package.publish.is_none())
        .map(|package| (package.name.as_str(), package))
        .collect();
    assert!(published.len() >= 9, "{:?}", published.keys());
    published
}

/// What cargo would put into the package.
fn listed(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "-p"])
        .arg(package)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{package}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_package_holds_its_readme_its_licences_and_no_tests() {
    let metadata = metadata();
    for (name, package) in published(&metadata) {
        let files = listed(name);
        for file in [
            "Cargo.toml",
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "README.md",
            "src/lib.rs",
        ] {
            assert!(files.contains(file), "{name} lacks {file}: {files:?}");
        }
        // Copies, not links: a link is a file of one line where git makes none.
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = |path: &std::path::Path| std::fs::read_to_string(path).expect("readable");
            let copy = package.manifest_path.with_file_name(licence);
            assert_eq!(
                text(copy.as_std_path()),
                text(&root().join(licence)),
                "{name}: its {licence} is another than the root's"
            );
        }
        // They import testkit, which is in no registry.
        let test = files.iter().find(|file| file.starts_with("tests/"));
        assert_eq!(test, None, "{name}");
    }
    // What the build script compiles and what the program embeds.
    let program = listed("vk-steward");
    for file in ["meter.rs", "templates/page.html", "shaders/hash.comp.spv"] {
        assert!(program.contains(file), "vk-steward lacks {file}");
    }
}

#[test]
fn a_package_says_all_that_a_registry_wants() {
    let metadata = metadata();
    for (name, package) in published(&metadata) {
        let description = package.description.as_deref().unwrap_or_default();
        assert!(
            (30..200).contains(&description.len()),
            "{name}: {description:?}"
        );
        assert_eq!(
            package.license.as_deref(),
            Some("MIT OR Apache-2.0"),
            "{name}"
        );
        assert!(package.readme().is_some(), "{name}");
        assert!(package.rust_version.is_some(), "{name}");
        assert_eq!(
            package.documentation.as_deref(),
            Some(format!("https://docs.rs/{name}").as_str())
        );
        // The registry's own limits.
        assert!((1..=5).contains(&package.keywords.len()), "{name}");
        assert!(
            package.keywords.iter().all(|keyword| keyword.len() <= 20),
            "{name}"
        );
        assert!((1..=5).contains(&package.categories.len()), "{name}");
        let arguments = package.metadata["docs"]["rs"]["rustdoc-args"].as_array();
        let arguments = arguments
            .into_iter()
            .flatten()
            .filter_map(|word| word.as_str());
        assert_eq!(
            arguments.collect::<Vec<_>>(),
            ["--cfg", "docsrs"],
            "{name}: the documentation names the feature of each item"
        );
        let face = std::fs::read_to_string(package.manifest_path.with_file_name("src/lib.rs"))
            .expect("a library");
        assert!(
            face.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"),
            "{name}"
        );
    }
}

#[test]
fn packages_can_be_published_one_after_the_other() {
    let metadata = metadata();
    let published = published(&metadata);
    let ours: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    // What the registry must have before it accepts the package. A dependency for tests counts if it has a version.
    let wants = |package: &Package| -> BTreeSet<String> {
        package
            .dependencies
            .iter()
            .filter(|dependency| ours.contains(dependency.name.as_str()))
            .filter(|dependency| {
                dependency.kind != DependencyKind::Development
                    || dependency.req != cargo_metadata::semver::VersionReq::STAR
            })
            .map(|dependency| dependency.name.clone())
            .collect()
    };
    let mut left: BTreeMap<&str, BTreeSet<String>> = published
        .iter()
        .map(|(name, package)| (*name, wants(package)))
        .collect();
    for (name, wants) in &left {
        for wanted in wants {
            assert!(
                published.contains_key(wanted.as_str()),
                "{name} depends on {wanted}, which is not published"
            );
        }
    }
    let mut order = Vec::new();
    while !left.is_empty() {
        let Some(next) = left
            .iter()
            .find(|(_, wants)| {
                wants
                    .iter()
                    .all(|wanted| !left.contains_key(wanted.as_str()))
            })
            .map(|(name, _)| *name)
        else {
            panic!(
                "these depend on each other, a dependency for tests by its path alone does not count: {left:?}"
            );
        };
        left.remove(next);
        order.push(next);
    }
    assert_eq!(order.first(), Some(&"alloc-core"));
    println!("order: {}", order.join(", "));
}
