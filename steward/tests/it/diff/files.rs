//! Files that are no reports, or reports of another version.

use serde_json::{Value, json};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReadError, ReportOrList};

use crate::support::full_report::full;

fn malformed(text: &[u8]) -> (usize, usize, String, String) {
    match ReportOrList::parse("a file", text) {
        Err(ReadError::Malformed { line, column, path, reason, .. }) => (line, column, path, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cut_files_name_the_place_where_they_end() {
    let text = serde_json::to_string_pretty(&full(&TRACES[0])).expect("JSON");
    assert!(ReportOrList::parse("whole", text.as_bytes()).is_ok());
    for end in (0..text.len()).step_by(997).chain([1, text.len() - 1]) {
        let cut = &text[..end];
        let (line, column, _, reason) = malformed(cut.as_bytes());
        let last = (cut.lines().count().max(1), cut.rsplit('\n').next().map_or(0, str::len));
        // Where the text ends with a line feed the place is behind it or before it.
        let fits = (line, column) == last || cut.ends_with('\n') || cut.is_empty();
        assert!(
            fits && line.abs_diff(last.0) <= 1 && reason.starts_with("EOF"),
            "{line}:{column} {reason}, cut at {last:?}"
        );
    }
}

#[test]
fn wrong_fields_are_named_with_line_and_path() {
    let report = full(&TRACES[0]);
    let value = serde_json::to_value(&report).expect("JSON");
    for (path, wrong, named) in [
        ("/phases/3/live_by_scope/cache", json!(-4), "phases[3].live_by_scope.cache"),
        ("/contexts/0/name", json!(7), "contexts[0].name"),
        ("/findings/2/count", json!("many"), "findings[2].count"),
        ("/findings/0", json!(9), "findings[0]"),
        ("/callback_coverage/with_loader/mapped_bytes", json!(0.5), "callback_coverage.with_loader.mapped_bytes"),
        ("/timeline/1/at", Value::Null, "timeline[1].at"),
        ("/source/seed", json!(1_u64 << 40), "source.seed"),
        ("/source/kind", json!("cloud"), "source"),
        ("/leftovers", json!({}), "leftovers"),
    ] {
        for list in [false, true] {
            let mut bad = value.clone();
            *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = wrong.clone();
            let bad = if list { json!([value, bad]) } else { bad };
            let text = serde_json::to_string_pretty(&bad).expect("JSON");
            let (line, column, found, reason) = malformed(text.as_bytes());
            let expected = if list { format!("[1].{named}") } else { named.to_owned() };
            assert_eq!(found, expected, "{reason}");
            // The place is that of the value, or for a kind that is not known the end of what it is the kind of.
            let there = text.lines().nth(line - 1).unwrap_or_else(|| panic!("line {line}"));
            assert!(column >= 1 && column <= there.len() + 1, "{line}:{column} {there}");
            let field = named
                .rsplit('.')
                .next()
                .expect("a name")
                .trim_end_matches(|c: char| c == ']' || c == '[' || c.is_numeric());
            assert!(
                named == "source" || there.contains(field) || matches!(named, "findings[0]"),
                "{line}:{column} {there:?}, not {field}"
            );
            assert!(!list || line > text.lines().count() / 2, "line {line}: the second of two is below the first");
        }
    }
    let mut missing = value;
    missing["phases"][0].as_object_mut().expect("an object").remove("bytes");
    let (_, _, path, reason) = malformed(missing.to_string().as_bytes());
    assert_eq!((path.as_str(), reason.as_str()), ("phases[0]", "missing field `bytes`"));
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    for (text, said) in [
        ("{}", "without a `format`"),
        ("7", "no object"),
        ("[1]", "[0] is no object"),
        (r#"{"format":"steward report 3"}"#, r#""steward report 3""#),
        (r#"{"format":"steward check 1"}"#, r#""steward check 1""#),
        (r#"[{"format":"steward report 5"}]"#, r#"[0] is "steward report 5""#),
    ] {
        let error = ReportOrList::parse("a file", text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with("a file") && error.contains(said) && error.contains("steward report 4"), "{error}");
    }
    assert_eq!(malformed(b"{\n \"format\": \xff}").0, 2);
    assert_eq!(malformed(b"{\"format\": \"steward report 4\"} trailing").0, 1);
    assert_eq!(malformed(r#"{"format": 2}"#.as_bytes()).2, "format");
}
