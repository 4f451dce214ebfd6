//! Words that must not mislead: which of several phases of one name, what the page shows large, what rules there are.

use crate::support::full_report::{empty, full};
use testkit::Child;
use vk_callbacks::Rule;
use vk_report::report::{FindingRow, Phase, Report};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReportOrList, html};

fn page(report: Report) -> String {
    html(&[ReportOrList::Report(Box::new(report))]).expect("a page")
}

#[test]
fn phases_of_one_name_are_told_apart() {
    let mut report = full(&TRACES[0]);
    let phase =
        |name: &str, live_bytes, peak_bytes| Phase { name: name.into(), live_bytes, peak_bytes, ..Phase::default() };
    report.phases = vec![phase("draw", 1, 9), phase("load", 2, 2), phase("draw", 3, 3), phase("draw", 3, 9)];
    (report.fullest_phase, report.peak_phase) = ("draw".into(), "draw".into());
    let text = report.to_string();
    assert!(text.contains("at the end of the phase \"draw #2\", when they held most"), "{text}");
    assert!(text.contains(" in the phase \"draw\"\n"), "{text}");
    let rows = ["\n  draw  ", "\n  load  ", "\n  draw #2  ", "\n  draw #3  "].map(|row| text.find(row).expect(row));
    assert!(rows.is_sorted(), "{text}");
    assert!(page(report.clone()).contains("the phase \u{201c}draw #2\u{201d}"), "the page says which");
    // One of a name has no number.
    report.phases.truncate(2);
    assert!(!report.to_string().contains('#'));
}

#[test]
fn the_page_shows_violations_large_and_notes_small() {
    let tile = |levels: &[&str]| {
        let row = |level: &&str| FindingRow { level: (*level).to_owned(), count: 7, ..FindingRow::default() };
        let page = page(Report { findings: levels.iter().map(row).collect(), ..empty() });
        let end = page.find("<dt>Findings</dt>").expect("a tile");
        let begin = page.get(..end).and_then(|before| before.rfind("<div")).expect("a tile");
        page.get(begin..).and_then(|tile| tile.split("</div>").next()).expect("a tile").to_owned()
    };
    let of = |value: &str, detail: &str| format!("<dt>Findings</dt><dd class=\"value\">{value}</dd><dd>{detail}</dd>");
    let mixed = tile(&["note", "violation", "note", "suspect", "violation", "note"]);
    assert_eq!(mixed, format!("<div class=\"bad\">{}", of("2 violations", "and 1 suspect, 3 notes")));
    assert_eq!(tile(&["note", "note"]), format!("<div>{}", of("2 notes", "of Vulkan's rules")));
    assert_eq!(tile(&[]), format!("<div>{}", of("none", "of Vulkan's rules")));
}

#[test]
fn all_rules_are_listed_with_their_words_and_places() {
    let steward = |args: &[&str]| Child::new(env!("CARGO_BIN_EXE_steward")).args(args).run();
    let text = steward(&["rules"]);
    text.assert_code(0);
    let data = steward(&["rules", "--json", "-"]);
    data.assert_code(0);
    let data: Vec<serde_json::Value> = serde_json::from_str(&data.stdout).expect("JSON");
    assert_eq!((data.len(), Rule::ALL.len()), (44, 44));
    for (rule, data) in Rule::ALL.iter().zip(&data) {
        assert!(text.stdout.contains(&format!("\n{:<3} {}\n", rule.to_string(), rule.text)), "{rule}\n{text}");
        assert!(text.stdout.contains(&format!("; {}\n", rule.reference)), "{rule}\n{text}");
        assert_eq!((data["rule"].as_str(), data["text"].as_str()), (Some(rule.to_string().as_str()), Some(rule.text)));
    }
    steward(&["rules", "--html", "x.html"]).assert_code(2);
}

#[test]
#[cfg(target_os = "linux")]
fn reports_of_other_programs_get_the_names_of_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("errors.txt");
    let steward = |args: &[&str]| Child::new(env!("CARGO_BIN_EXE_steward")).args(args).run();
    let path = file.to_str().expect("UTF-8");
    steward(&["symbols", path]).assert_code(2);

    let program = std::env::current_exe().expect("a path").display().to_string();
    let list = std::fs::read_to_string("/proc/self/maps").expect("a process can read its own list");
    let first = list.lines().find(|line| line.ends_with(&program)).expect("the program is mapped");
    let base =
        first.split_once('-').and_then(|(start, _)| usize::from_str_radix(start, 16).ok()).expect("a line begins so");
    let offset = reports_of_other_programs_get_the_names_of_functions as fn() as usize - base + 1;
    let module = serde_json::to_string(&program).expect("a string");
    let frame = format!(r#"{{"address":"0x1","module":{module},"offset":"{offset:#x}"}}"#);
    let report = format!(
        "before\n    #0  0x1 {program}+{offset:#x}\n{{\"debug_guard\":1,\"kind\":\"leak\",\"frames\":[{frame}]}}\nafter"
    );
    std::fs::write(&file, &report).expect("a file");
    let told = steward(&["symbols", path]);
    told.assert_code(0);
    assert!(told.stdout.starts_with("before\n    #0  0x1 /") && told.stdout.ends_with("\nafter"), "{told}");
    assert_eq!(told.stdout.matches("::reports_of_other_programs_get_the_names_of_functions").count(), 2, "{told}");
    let data = steward(&["symbols", path, "--json", "-"]);
    data.assert_code(0);
    let data: serde_json::Value = serde_json::from_str(&data.stdout).expect("JSON");
    assert_eq!((data.as_array().map(Vec::len), &data[0]["kind"]), (Some(1), &"leak".into()));
    steward(&["symbols", path, "--html", "x.html"]).assert_code(2);
}

/// The README's numbers are those of the program, which says why a rule cannot be judged.
#[test]
fn rules_that_cannot_be_judged_are_counted_and_say_why() {
    let done = Child::new(env!("CARGO_BIN_EXE_steward")).args(["rules"]).run();
    let text = &done.assert_code(0).stdout;
    let never = text.matches("; not seen: ").count();
    let (all, judged) = (Rule::ALL.len(), Rule::ALL.len() - never);
    assert!(never > 0 && text.contains(&format!(" {judged} of {all} are judged; ")), "{done}");
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!("against {all} rules ({judged} can be seen to be broken;")));
}
