//! What is published may be used under MIT or Apache-2.0: so may all that it is built from.

use std::collections::BTreeSet;

use crate::common::root;
use crate::packages::published;
use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};

/// Licences that demand no more than a notice.
const PERMISSIVE: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// True if one may choose `PERMISSIVE` licences alone. An expression of SPDX; `/` is the old way to write `OR`.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let fine = any_of(&mut words);
    fine && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> bool {
    let mut fine = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        fine |= all_of(words);
    }
    fine
}

fn all_of(words: &mut Words<'_>) -> bool {
    let mut fine = one(words);
    while words.next_if_eq(&"AND").is_some() {
        fine &= one(words);
    }
    fine
}

fn one(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => any_of(words) && words.next() == Some(")"),
        Some(licence) => {
            // An exception permits more and demands nothing.
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            PERMISSIVE.contains(&licence)
        }
        None => false,
    }
}

#[test]
fn expressions_are_read() {
    for fine in [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
    ] {
        assert!(is_permissive(fine), "{fine}");
    }
    for not in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR Apache-2.0) AND MPL-2.0",
        "(MIT",
        "MIT MIT",
    ] {
        assert!(!is_permissive(not), "{not}");
    }
}

#[test]
fn every_dependency_of_a_published_package_has_a_permissive_licence() {
    let target = "x86_64-unknown-linux-gnu"; // what this tree is built for, and so downloaded
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--offline", "--filter-platform", target].map(str::to_owned))
        .exec()
        .expect("cargo metadata knows the dependencies");
    let resolve = metadata.resolve.as_ref().expect("a lock file");
    let mut reached: BTreeSet<&PackageId> = BTreeSet::new();
    let mut next: Vec<&PackageId> = published(&metadata)
        .values()
        .map(|package| &package.id)
        .collect();
    while let Some(id) = next.pop() {
        if !reached.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id);
        for dependency in &node.expect("a resolved package").deps {
            let built_in =
                |kind: &cargo_metadata::DepKindInfo| kind.kind != DependencyKind::Development;
            if dependency.dep_kinds.iter().any(built_in) {
                next.push(&dependency.pkg);
            }
        }
    }
    let mut seen = 0;
    for package in metadata.packages.iter().filter(|p| reached.contains(&p.id)) {
        let licence = package.license.as_deref().unwrap_or_default();
        assert!(
            is_permissive(licence),
            "{} {}: {licence:?}",
            package.name,
            package.version
        );
        seen += 1;
    }
    assert!(seen > 40, "{seen} packages were read");
}
