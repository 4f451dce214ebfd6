//! Several drivers on one page.

use super::names::with_names;
use crate::support::full_report::full;
use crate::support::parts::{PARTS, part, text_of};
use vk_report::report::Report;
use vk_steward::expectations::CheckSummary;
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{CheckedDriver, Failed, ReportOrList, html, html_of_checks};

#[test]
fn several_drivers_stand_side_by_side() {
    let mut one = full(&TRACES[0]);
    one.peak_bytes = 3 << 20;
    let two = with_names(full(&TRACES[0]), "another");
    let all = [one, two].map(|report| ReportOrList::Report(Box::new(report)));
    let page = html(&all).expect("a page");
    let matrix = text_of(part(&page, "matrix"));
    for said in ["a driver 1.2 another another", "Peak 3.00 MiB", "violations 1 \u{2013}", "VkCommandPool"] {
        assert!(matrix.contains(said), "{said}: {matrix}");
    }
    assert!(!matrix.contains("Result"), "nothing was checked: {matrix}");
    let alone = html(&all[..1]).expect("a page");
    assert!(!alone.contains("id=\"matrix\""), "one driver has nothing beside it");
}

#[test]
fn checks_stand_side_by_side_with_what_each_was_compared_with() {
    let driver = |report: Report, check| CheckedDriver { report: ReportOrList::Report(Box::new(report)), check };
    let check = |differences: &[&str], expectations: Option<&str>| CheckSummary {
        is_as_expected: differences.is_empty(),
        expectations: expectations.map(str::to_owned),
        known: 7,
        differences: differences.iter().map(|one| (*one).to_owned()).collect(),
    };
    let failed = CheckedDriver {
        report: ReportOrList::Failed(Failed {
            format: Report::FORMAT.into(),
            driver: "third".into(),
            error: "it crashed".into(),
            leaks: None,
        }),
        check: None,
    };
    let page = html_of_checks(&[
        driver(full(&TRACES[0]), Some(check(&[], Some("a file")))),
        driver(with_names(full(&TRACES[0]), "another"), Some(check(&["<one>", "two"], None))),
        failed,
    ])
    .expect("a page");
    let matrix = text_of(part(&page, "matrix"));
    for said in [
        "Result as expected 2 differences no report",
        "Compared with a file nothing no report",
        "Known findings 7 7 no report",
    ] {
        assert!(matrix.contains(said), "{said}: {matrix}");
    }
    assert!(text_of(part(&page, "check")).contains("Everything is as expected."));
    let second = part(&page, "driver-2-check");
    assert!(text_of(second).contains("Not as expected.") && second.contains("&#60;one&#62;"));
    assert!(text_of(&page).contains("There is no report: it crashed"));
}

#[test]
fn several_drivers_have_a_section_each() {
    let one = |name: &str| ReportOrList::Report(Box::new(with_names(full(&TRACES[0]), name)));
    let failed =
        Failed { format: Report::FORMAT.into(), driver: "third".into(), error: "it crashed".into(), leaks: None };
    let page = html(&[one("first"), one("second"), ReportOrList::Failed(failed)]).expect("a page");
    let ids: Vec<&str> = page.match_indices(" id=\"").filter_map(|(at, _)| page[at + 5..].split('"').next()).collect();
    let all = ids.len();
    assert_eq!(ids.into_iter().collect::<std::collections::BTreeSet<_>>().len(), all, "an id is there once");
    for (id, _) in PARTS {
        assert!(text_of(part(&page, id)).len() > 30 && text_of(part(&page, &format!("driver-2-{id}"))).len() > 30);
    }
    assert!(text_of(&page).contains("There is no report: it crashed"));
    for (at, _) in page.match_indices("href=\"#") {
        let target = page[at + 7..].split('"').next().expect("a target");
        assert!(page.contains(&format!(" id=\"{target}\"")), "{target}");
    }
    assert!(text_of(&html(&[]).expect("a page")).contains("No driver was run"));
}

#[test]
fn kinds_that_have_no_line_side_by_side_are_counted_and_summed() {
    let mut report = full(&TRACES[0]);
    let one = report
        .contexts
        .iter()
        .find(|row| !row.group && row.live_bytes > 0)
        .expect("a context that holds something")
        .clone();
    report.contexts.retain(|row| row.group);
    for number in 0..20 {
        let mut row = one.clone();
        row.name = format!("VkKind{number}x");
        row.live_bytes = 1024 * (100 - number);
        report.contexts.push(row);
    }
    let entry = || ReportOrList::Report(Box::new(report.clone()));
    let page = html(&[entry(), entry()]).expect("a page");
    let side = page.split("id=\"matrix\"").nth(1).expect("side by side");
    let side = side.split("</section>").next().expect("its end");
    assert!(side.contains("VkKind15x") && !side.contains("VkKind16x"));
    // 84 + 83 + 82 + 81 times 1024.
    let text = text_of(side);
    let more = "4 more kinds 337\u{202f}920 337\u{202f}920";
    assert!(text.contains(more), "{text}");
}
