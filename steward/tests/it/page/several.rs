//! Several drivers on one page.

use super::names::with_names;
use crate::support::full_report::full;
use crate::support::parts::{PARTS, part, text_of};
use vk_report::report::Report;
use vk_steward::expectations::CheckSummary;
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{CheckedDriver, Failed, ReportOrList, html, html_of_checks};

#[test]
fn each_driver_has_the_result_of_its_check() {
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
