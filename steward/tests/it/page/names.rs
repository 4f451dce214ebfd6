//! What drivers and files are called.

use super::page;
use crate::support::full_report::full;
use crate::support::parts::text_of;
use vk_report::report::{Report, Source};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{Failed, ReportOrList, html};

/// Everything that a driver or a file can name.
pub(super) fn with_names(mut report: Report, name: &str) -> Report {
    report.source = Source::Driver {
        name: name.into(),
        version: name.into(),
        device: name.into(),
        seed: 1,
        rounds: 1,
        commands: 1,
        comparisons: 1,
        objects: Vec::new(),
    };
    report.contexts.iter_mut().for_each(|row| row.name = name.into());
    report.phases.iter_mut().for_each(|row| row.name = name.into());
    report.leftovers.iter_mut().for_each(|row| row.context = name.into());
    for row in &mut report.findings {
        for text in [
            &mut row.rule,
            &mut row.kind,
            &mut row.level,
            &mut row.sentence,
            &mut row.owner,
            &mut row.command,
            &mut row.scope,
        ] {
            *text = name.into();
        }
    }
    if let Some(guard) = &mut report.guard {
        (guard.mode, guard.back_end, guard.not_offered) = (name.into(), name.into(), vec![name.into()]);
        for told in &mut guard.told {
            (told.kind, told.text) = (name.into(), format!("{name}\n{name}"));
        }
    }
    if let Some(fail) = &mut report.fail {
        (fail.plan, fail.ended) = (name.into(), Some(name.into()));
        for first in &mut fail.first {
            (first.command, first.owner, first.scope) = (name.into(), name.into(), name.into());
        }
    }
    report.limits = vec![name.into()];
    report.fullest_phase = name.into();
    report.peak_phase = name.into();
    report
}

#[test]
fn names_are_no_markup() {
    let bad = "</title></style><script>alert(1)</script><b onclick='x' id=\"y\">&amp;\u{202e}\u{7}";
    let mut hostile = with_names(full(&TRACES[0]), bad);
    let shown = page(&hostile);
    hostile.callback_coverage.as_mut().expect("there is one").absent = Some(bad.into());
    let absent = page(&hostile);
    let failed = Failed { format: Report::FORMAT.into(), driver: bad.into(), error: bad.into(), leaks: None };
    let failed = html(&[ReportOrList::Failed(failed.clone()), ReportOrList::Failed(failed)]).expect("a page");
    hostile.source = Source::Trace { file: bad.into(), driver: bad.into(), no_driver: Some(bad.into()), lines: 1 };
    for page in [shown, absent, failed, page(&hostile)] {
        for markup in ["<script", "<b ", "</b>", "onclick='", "id=\"y\"", "&amp;amp;amp;", "\u{202e}", "\u{7}"] {
            assert!(!page.contains(markup), "{markup:?}");
        }
        assert_eq!(
            (page.matches("</style>").count(), page.matches("</title>").count() - page.matches("<title>").count()),
            (1, 0)
        );
        assert!(
            text_of(&page).contains("</title></style><script>alert(1)</script><b onclick='x' id=\"y\">&amp;"),
            "shown as it is"
        );
    }
}
