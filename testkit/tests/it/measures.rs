//! Names say one thing each, and in the words of the field: what no tool looks for.

use std::collections::BTreeMap;

use crate::common;

/// Memory is allocated and freed, references are acquired and released, faults are reported.
const FORBIDDEN_VERBS: [&str; 5] = ["take", "give", "tell", "hear", "ask"];
/// Words of conversation in the sub-allocator's texts, where the field has a term: allocate, free, request.
const FORBIDDEN_IN_TEXTS: [&str; 8] = ["wish", "give", "gives", "given", "take", "taken", "ask", "asked"];
/// A private type name may mean the same idea in so many places, those of tests, benches and testkit counted too.
const MAX_DEFINITIONS: usize = 3;

#[test]
fn one_name_has_one_meaning_and_the_words_are_the_fields() {
    let files = common::files();
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut faults, mut names) = (Vec::new(), 0);
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        let is_production = file.contains("/src/") && !file.contains("tests") && {
            let unpublished = ["testkit/", "benches/", "fuzz/"];
            !unpublished.iter().any(|folder| file.starts_with(folder))
        };
        let production = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
        for line in text.lines() {
            if let Some(("struct" | "enum" | "trait" | "union", name)) = defined(line) {
                types.entry(name).or_default().push(file);
            }
        }
        for line in production.lines().filter(|_| is_production) {
            names += usize::from(defined(line).is_some());
            if defined(line).is_some_and(|(_, name)| is_forbidden(name)) {
                faults.push(format!("{file}: {}", line.trim()));
            }
            let is_text = file.starts_with("gpu-suballoc/") && !line.trim().starts_with("//");
            let texts = line.split('"').skip(1).step_by(2).filter(|_| is_text);
            let mut words =
                texts.filter(|text| text.contains(' ')).flat_map(|text| text.split(|c: char| !c.is_alphabetic()));
            if words.any(|word| FORBIDDEN_IN_TEXTS.contains(&word)) {
                faults.push(format!("{file}: {}", line.trim()));
            }
        }
    }
    assert!(names > 3000, "{names} names were read");
    assert!(faults.is_empty(), "memory is allocated, limits are MAX_ or MIN_: {faults:#?}");
    types.retain(|_, files| files.len() > MAX_DEFINITIONS);
    assert!(types.is_empty(), "names with too many meanings: {types:#?}");
}

/// The kind and the name of what the line defines.
fn defined(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let modifiers = ["unsafe", "extern", "\"system\"", "\"C\"", "async"];
    let kind = words.find(|word| !word.starts_with("pub") && !modifiers.contains(word))?;
    let name = match (kind, words.next()?) {
        ("const", "fn") | ("const", "unsafe") => words.find(|word| *word != "fn")?,
        (_, name) => name,
    };
    let kinds = ["struct", "enum", "trait", "union", "fn", "const", "static", "mod"];
    let end = name.find(|c: char| c != '_' && !c.is_alphanumeric());
    let name = &name[..end.unwrap_or(name.len())];
    (kinds.contains(&kind) && !name.is_empty()).then_some((kind, name))
}

fn is_forbidden(name: &str) -> bool {
    let lower = name.to_lowercase();
    let limits = ["MOST_", "LEAST_", "LARGEST_"];
    limits.iter().any(|prefix| name.starts_with(prefix)) || lower.split('_').any(|word| FORBIDDEN_VERBS.contains(&word))
}

#[test]
fn names_and_verbs_are_recognised() {
    for (line, name) in [
        ("    pub(super) struct Card<'a> {", "Card"),
        ("pub const unsafe fn take_small(", "take_small"),
        ("static MOST_CHUNKS: usize = 3;", "MOST_CHUNKS"),
    ] {
        assert_eq!(defined(line).map(|(_, name)| name), Some(name));
    }
    assert_eq!(["// struct Text", "structure {"].map(defined), [None; 2]);
    assert!(["take_small", "TAKE", "MOST_CHUNKS"].iter().all(|name| is_forbidden(name)));
    assert!(!["mistake", "task", "MAX_CHUNKS"].iter().any(|name| is_forbidden(name)));
}
