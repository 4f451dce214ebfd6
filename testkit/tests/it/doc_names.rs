//! The names in the documents exist: a code span that is a path ends a path of the tree, and the words of `Type::item`
//! or `module::item` occur together in one source file or its path.

use std::collections::HashSet;

use crate::common::files;

#[test]
fn every_name_in_a_document_exists() {
    let files = files();
    let count: usize = documents(&files).map(|(_, text)| spans(text).count()).sum();
    assert!(count > 300, "the documents' code spans were found: {count}");
    println!("{count} code spans");
    let stale = stale_names(&files);
    assert!(stale.is_empty(), "{stale:#?}");
}

/// What a newcomer reads first stays short enough to be read.
#[test]
fn the_first_documents_stay_short() {
    let files = files();
    for (path, most) in [("README.md", 180), ("ARCHITECTURE.md", 220)] {
        let (_, text) = files.iter().find(|(name, _)| name == path).expect("it is there");
        let lines = text.lines().count();
        assert!((most / 2..=most).contains(&lines), "{path}: {lines} lines");
        let wide = text.lines().find(|line| line.chars().count() > 120);
        assert_eq!(wide, None, "{path} is read in narrow windows");
    }
}

fn documents(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let is_document = |path: &str| {
        ["ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&path)
            || path.ends_with("README.md")
            || path.starts_with("docs/") && path.ends_with(".md")
    };
    files.iter().filter(move |(path, _)| is_document(path)).map(|(path, text)| (path.as_str(), text.as_str()))
}

/// The code spans of a document with their lines, without those in code blocks.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    let lines = (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines.flat_map(|(number, line)| {
        let parts = line.split('`').skip(1).step_by(2);
        parts.map(move |span| (number, span))
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// `path:line` and span of each name that is not in the tree.
fn stale_names(files: &[(String, String)]) -> Vec<String> {
    let named: HashSet<&str> = documents(files)
        .flat_map(|(_, text)| spans(text))
        .filter(|(_, span)| span.contains("::"))
        .flat_map(|(_, span)| words(span))
        .collect();
    let sources: Vec<HashSet<&str>> = files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let in_code = code.flat_map(words).filter_map(|word| named.get(word));
            let path = path.replace('-', "_");
            let in_path = words(&path).filter_map(|word| named.get(word));
            in_code.chain(in_path).copied().collect()
        })
        .collect();
    let is_path = |span: &str| {
        let end = format!("/{span}");
        files.iter().any(|(path, _)| path == span || path.ends_with(&end))
    };
    let is_name = |span: &str| {
        let words: Vec<&str> = words(span).collect();
        sources.iter().any(|source| words.iter().all(|word| source.contains(word)))
    };
    let mut stale = Vec::new();
    for (document, text) in documents(files) {
        for (line, span) in spans(text) {
            let name = span.split('(').next().unwrap_or(span);
            let in_tree = if is_plain_path(name) {
                is_path(name)
            } else if is_plain_name(name) {
                is_name(name)
            } else {
                true
            };
            if !in_tree {
                stale.push(format!("{document}:{line} `{span}`"));
            }
        }
    }
    stale
}

/// `file.rs` or `path/file.rs`.
fn is_plain_path(span: &str) -> bool {
    span.ends_with(".rs") && span.chars().all(|letter| letter.is_alphanumeric() || "/._-".contains(letter))
}

/// `Type::item`, `module::item` or `Type::{item, item}`.
fn is_plain_name(span: &str) -> bool {
    span.contains("::") && span.chars().all(|letter| letter.is_alphanumeric() || ":_{}, <>".contains(letter))
}

#[test]
fn a_name_that_is_not_in_the_tree_is_found() {
    let found = |document: &str| {
        let tree = [
            ("docs/design/a.md", document),
            ("my-crate/src/table.rs", "impl Table {\n// fn gone\nfn get() {}\n}"),
            ("other/src/lib.rs", "fn take() {}"),
        ];
        stale_names(&tree.map(|(path, text)| (path.to_owned(), text.to_owned()))).len()
    };
    for right in ["`Table::{get}`", "`src/table.rs`", "Table::gone", "```\n`Table::gone`\n```"] {
        assert_eq!(found(right), 0, "{right}");
    }
    for wrong in ["`Table::take`", "`Table::gone`", "`able.rs`"] {
        assert_eq!(found(wrong), 1, "{wrong}");
    }
}

/// A reader outside of the workspace pastes the lines for Cargo.toml and the sample.
#[test]
fn what_a_readmes_samples_import_is_among_its_dependencies() {
    let files = files();
    let mut readmes = 0;
    for (path, text) in documents(&files) {
        let dependencies: String = code_blocks(text, "toml").collect();
        if path.ends_with("README.md") && !dependencies.is_empty() {
            readmes += 1;
            let lacking = lacking_imports(text, &dependencies);
            assert!(lacking.is_empty(), "{path}: {lacking:?}");
        }
    }
    assert!(readmes > 5, "{readmes}");
    let lacking = |dependencies| lacking_imports("```rust\nuse a_b::c;\n```\n", dependencies);
    assert_eq!(lacking("a-c = 1\n"), ["a-b"]);
    assert_eq!(lacking("a-b = 1\n"), [""; 0]);
}

/// Crates that the samples of `text` use and `dependencies` does not name.
fn lacking_imports(text: &str, dependencies: &str) -> Vec<String> {
    let samples: String = code_blocks(text, "rust").collect();
    let imports = samples.lines().filter_map(|line| line.strip_prefix("use "));
    let crates = imports.filter_map(|path| path.split("::").next());
    crates
        .filter(|name| !["std", "core"].contains(name))
        .map(|name| name.replace('_', "-"))
        .filter(|name| !dependencies.contains(&format!("{name} = ")))
        .collect()
}

/// The blocks of code in a language.
fn code_blocks<'text>(text: &'text str, language: &str) -> impl Iterator<Item = &'text str> {
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}
