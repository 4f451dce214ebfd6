//! Findings and the honour ratio in the terminal.

use crate::support::full_report::{empty, full};
use vk_accounts::report::{FindingRow, Honour};
use vk_steward::bundled::TRACES;

#[test]
fn findings_are_counted_and_listed_when_asked_for() {
    let report = full(&TRACES[0]);
    let short = report.to_string();
    assert!(
        short.contains(
            "\nfindings: 1 violation, 1 suspect, 1 note (--findings lists them, `steward check` says which are known)\n"
        ),
        "{short}"
    );
    assert!(!short.contains("what V22 is about"), "{short}");
    let long = report.text(true).to_string();
    assert!(
        long.contains("\nfindings: 1 violation, 1 suspect, 1 note\n"),
        "{long}"
    );
    let places = [
        "  violation V22 what V22 is about\n",
        "  suspect   V29 what",
        "  note      V30 what",
    ]
    .map(|line| long.find(line).expect(line));
    assert!(places.is_sorted(), "the worst first: {long}");
    let nothing = empty().to_string();
    assert!(nothing.ends_with("\nfindings: none\n"), "{nothing}");
}

#[test]
fn what_no_sentence_says_stands_below_it_and_long_ones_are_wrapped() {
    let mut report = full(&TRACES[0]);
    for row in &mut report.findings {
        row.kind.clear();
        row.sentence = "a\u{1b}[2Jword ".repeat(40);
    }
    report.findings.push(FindingRow {
        level: "rumour".into(),
        sentence: "heard".into(),
        ..FindingRow::default()
    });
    let text = report.text(true).to_string();
    assert!(
        text.contains("1 note, 1 other\n") && text.contains("\n  rumour        heard\n"),
        "{text}"
    );
    assert!(
        text.contains("\n                callbacks of VkFence, vkQueueSubmit, scope object, 12345 times, 1.17 MiB\n"),
        "{text}"
    );
    for line in text.lines() {
        assert!(
            line.chars().count() <= 120 && !line.chars().any(char::is_control),
            "{line:?}"
        );
    }
}

#[test]
fn the_honour_ratio_has_both_terms_or_a_reason() {
    let mut report = full(&TRACES[0]);
    let text = report.to_string();
    let lines = "honour ratio, bytes through callbacks of all that the driver took:\n  \
                 with the loader      10.0 %  3.90 KiB through callbacks in 100 calls\n                               \
                 35.1 KiB past them in 250 calls: 31.2 KiB in commands, 3.90 KiB in its own threads\n  \
                 without the loader   20.0 %  3.90 KiB through callbacks in 100 calls\n                               \
                 15.6 KiB past them in 250 calls: 11.7 KiB in commands, 3.90 KiB in its own threads\n";
    // What is not as expected is the last word.
    let (_, behind) = text.split_once(lines).expect("the ratio");
    assert!(
        behind.starts_with(
            "not as expected: the guard found 1 mistake\nnot as expected: after a refusal"
        ),
        "{text}"
    );
    report.honour = Some(Honour {
        absent: Some("there is no\nmeter".into()),
        ..Honour::default()
    });
    let text = report.to_string();
    assert!(
        text.contains("\nhonour ratio: not measured: there is no meter\nnot as expected: "),
        "{text}"
    );
}
