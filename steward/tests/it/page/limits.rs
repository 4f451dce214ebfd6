//! Reports that are large, made up, or read back.

use super::page;
use crate::support::full_report::{empty, full, of_trace};
use crate::support::parts::{part, text_of};
use vk_report::report::{BlockSum, CallSite, CallSites, LeakFrame, Phase, Report, Sample};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{Failed, ReportOrList};

#[test]
fn many_phases_and_contexts_keep_the_page_small_and_what_is_left_out_is_said() {
    let mut report = full(&TRACES[0]);
    let context =
        report.contexts.iter().find(|row| !row.group && row.live_bytes > 0).expect("one that holds something").clone();
    let phase = report.phases[1].clone();
    report.phases = vec![phase; 5_000];
    report.contexts = vec![context; 2_000];
    report.timeline = (0..10_000).map(|at| Sample { at, phase: at as usize / 2, ..report.timeline[1] }).collect();
    let page = page(&report);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(text_of(part(&page, "timeline")).contains("4700 more are left out here"));
    assert!(text_of(part(&page, "contexts")).contains("1700 more are left out here"));
}

#[test]
fn the_largest_parts_below_a_context_are_shown_and_the_others_counted() {
    let site = |number: u64| CallSite {
        context: "VkDevice".to_owned(),
        command: format!("command {number}"),
        size_class: 64,
        stack: Some(0),
        live: BlockSum { blocks: 1, bytes: number },
        ..CallSite::default()
    };
    let frame = LeakFrame { functions: vec!["inner".to_owned(), "outer".to_owned()], ..LeakFrame::default() };
    let mut report = full(&TRACES[0]);
    report.call_sites = Some(CallSites {
        frames: vec![frame],
        stacks: vec![vec![0]],
        sites: (1..=43).map(site).collect(),
        ..CallSites::default()
    });
    let page = page(&report);
    let drawn = part(&page, "contexts");
    assert!(drawn.contains("--share:100.0%") && drawn.contains("<li>inner</li>\n<li>outer</li>"));
    let text = text_of(drawn);
    for said in ["command 43 43 B 1 block; 0 B in 0 blocks ever allocated", "command 4 4 B", "3 more are left out here"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("command 3 3 B"), "{text}");
}

/// Reports may be made up: phases without samples, samples without phases, contexts at any depth, numbers at their
/// limits.
#[test]
fn odd_reports_are_drawn_all_the_same() {
    let plain = full(&TRACES[0]);
    let mut odd = vec![plain.clone(); 4];
    odd[0].timeline.clear();
    odd[1].timeline = vec![Sample { at: u64::MAX, phase: usize::MAX, ..Sample::default() }];
    for (index, row) in odd[2].contexts.iter_mut().enumerate() {
        row.depth = usize::MAX - index;
        row.live_by_scope.object = u64::MAX;
        row.live_bytes = u64::MAX;
    }
    odd[3].phases =
        (0..300).map(|index| Phase { name: format!("p{index}"), peak_bytes: u64::MAX, ..Phase::default() }).collect();
    for report in odd {
        let page = page(&report);
        assert!(!page.contains("NaN") && !page.contains("\"inf") && !page.contains("\"-inf"), "numbers only");
        assert!(part(&page, "timeline").contains("<svg") && part(&page, "contexts").contains("<table"));
    }
}

#[test]
fn a_report_comes_back_from_json_as_it_was() {
    for report in TRACES.iter().map(of_trace).chain([full(&TRACES[0]), empty()]) {
        let entries =
            ReportOrList::parse("a file", serde_json::to_string(&report).expect("JSON").as_bytes()).expect("a report");
        assert_eq!(entries, [ReportOrList::Report(Box::new(report))]);
    }
    let failed = ReportOrList::Failed(Failed {
        format: Report::FORMAT.into(),
        driver: "a".into(),
        error: "b".into(),
        leaks: None,
    });
    let list = serde_json::to_string(&[&failed, &failed]).expect("JSON");
    assert_eq!(ReportOrList::parse("a file", list.as_bytes()).expect("reports"), [failed.clone(), failed]);
}
