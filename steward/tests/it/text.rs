//! Findings and callback coverage in the terminal.

use crate::support::full_report::{empty, full};
use vk_report::report::{Coverage, FindingRow, KnownFindings, Phase};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReportOrList, html};

#[test]
fn findings_are_counted_and_listed_when_asked_for() {
    let mut report = full(&TRACES[0]);
    report.known_findings = None;
    let short = report.to_string();
    assert!(
        short.contains(
            "\nfindings: 1 violation, 1 suspect (--findings lists them, `steward check` says which are known)\n\
             notes: 1, legal (--findings lists them)\n"
        ),
        "{short}"
    );
    assert!(!short.contains("what V22 is about"), "{short}");
    let long = report.text(true).to_string();
    assert!(long.contains("\nfindings: 1 violation, 1 suspect\n"), "{long}");
    let places =
        ["  violation V22 what V22 is about\n", "  suspect   V29 what", "\nnotes: 1, legal\n", "  note      V30 what"]
            .map(|line| long.find(line).expect(line));
    assert!(places.is_sorted(), "the worst first: {long}");
    let nothing = empty().to_string();
    assert!(nothing.ends_with("\nfindings: none\n"), "{nothing}");
    // Legal ones are no findings.
    report.findings.retain(|row| row.level == FindingRow::NOTE);
    let notes = report.to_string();
    assert!(notes.contains("\nfindings: none\nnotes: 1, legal ("), "{notes}");
}

#[test]
fn findings_that_are_known_of_the_driver_are_said_to_be() {
    let mut report = full(&TRACES[0]);
    let mut words = |known, unknown| {
        report.known_findings = Some(KnownFindings { expectations: "lavapipe-22.3".into(), known, unknown });
        report.to_string()
    };
    let all = words(2, 0);
    assert!(all.contains("\nfindings: 1 violation, 1 suspect, all known of lavapipe 22.3 (--findings"), "{all}");
    let some = words(1, 1);
    assert!(some.contains("\nfindings: 1 violation, 1 suspect, 1 of them not known of lavapipe 22.3 ("), "{some}");
}

#[test]
fn what_no_sentence_says_stands_below_it_and_long_ones_are_wrapped() {
    let mut report = full(&TRACES[0]);
    for row in &mut report.findings {
        row.kind.clear();
        row.sentence = "a\u{1b}[2Jword ".repeat(40);
    }
    report.findings.push(FindingRow { level: "rumour".into(), sentence: "heard".into(), ..FindingRow::default() });
    let text = report.text(true).to_string();
    assert!(text.contains("1 suspect, 1 other") && text.contains("\n  rumour        heard\n"), "{text}");
    assert!(
        text.contains("\n                callbacks of VkFence, vkQueueSubmit, scope object, 12345 times, 1.17 MiB\n"),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 120 && !line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn callback_coverage_leads_with_one_figure_and_has_both_terms_or_a_reason() {
    let mut report = full(&TRACES[0]);
    let text = report.to_string();
    let lines = "callback coverage, requested bytes through callbacks of all that the driver requested:\n  \
                 without the loader   20.0 %  3.90 KiB through callbacks in 100 calls\n                               \
                 15.6 KiB past them in 250 calls: 11.7 KiB in commands, 3.90 KiB in its own threads\n                               \
                 9.76 KiB in 30 calls while its library was opened, and 1.00 MiB mapped: in neither\n  \
                 with the loader      10.0 %  3.90 KiB through callbacks in 100 calls\n                               \
                 35.1 KiB past them in 250 calls: 31.2 KiB in commands, 3.90 KiB in its own threads\n";
    let leading =
        "\ncallback coverage: 20.0 % of the requested bytes of the driver alone: 3.90 KiB of 19.5 KiB (below)\n";
    assert!(text.contains(leading), "{text}");
    // The page has the same figure.
    let entry = ReportOrList::Report(Box::new(report.clone()));
    let page = html(&[entry]).expect("a page");
    assert!(page.contains("<dt>Callback coverage</dt><dd class=\"value\">20.0 %</dd>"), "the tile");
    // What is not as expected is the last word.
    let (_, behind) = text.split_once(lines).expect("the ratio");
    assert!(
        behind.starts_with("not as expected: the guard found 1 mistake\nnot as expected: after a refusal"),
        "{text}"
    );
    report.callback_coverage = Some(Coverage { absent: Some("there is no\nmeter".into()), ..Coverage::default() });
    let text = report.to_string();
    assert!(text.contains("\ncallback coverage: not measured: there is no meter\nnot as expected: "), "{text}");
}

#[test]
fn many_rounds_are_folded_and_narrow_terminals_get_fewer_columns() {
    let mut report = full(&TRACES[0]);
    let phase = |name: &str| Phase { name: name.into(), commands: 1, bytes: 64, ..Phase::default() };
    report.phases = vec![phase("device")];
    for _ in 0..2000 {
        report.phases.extend(["load", "draw", "end"].map(phase));
    }
    let text = report.to_string();
    assert!(text.lines().count() < 150, "{}", text.lines().count());
    assert!(
        text.contains("\n  #4 to #2000      5991 ")
            && text.contains("\n  1997 rounds with 5991 phases are folded; --all-rounds shows them\n"),
        "{text}"
    );
    let whole = report.text(false).all_rounds(true).to_string();
    assert!(whole.lines().count() > 6000 && whole.contains("\n  end #2000 "));
    for width in [60, 80, 100] {
        let narrow = report.text(false).width(width).to_string();
        let tables = narrow.split("\npeak: ").next().unwrap_or_default();
        for line in tables.lines().filter(|line| line.starts_with("  load") || line.starts_with("  phase")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        assert_eq!(narrow.contains("left out for want of columns: "), width < 100, "{narrow}");
    }
}
