//! Each planted defect against each kind of finding, live and from the log: the diagonal, and nothing beside it.

use std::collections::BTreeSet;

use fake_driver::{Defect, FakeProgram};
use vk_callbacks::check::FindingKind;

use super::checking::{FoundKinds, checked};
use super::recording::{judged, recorded};

/// What no log can show: a tap has no user data but its own, and hands out no struct that could be spoilt.
/// The judge knows them by what a checker writes down; each has its minimal log among the judge's tests.
const LIVE_ALONE: [Defect; 2] = [Defect::UnknownUserData, Defect::OldStructUsed];

const fn with(defect: Defect) -> FakeProgram {
    FakeProgram { defect: Some(defect), rounds: 1, habits: false }
}

#[test]
fn every_kind_of_finding_has_its_defect() {
    let planted: BTreeSet<FindingKind> = Defect::ALL.iter().map(|defect| defect.finding()).collect();
    assert_eq!(planted.len(), Defect::ALL.len(), "two defects for one kind");
    let without: Vec<_> = FindingKind::ALL.iter().filter(|kind| !planted.contains(kind)).collect();
    assert!(without.is_empty(), "kinds that nothing plants: {without:?}");
}

/// Prints a line for each defect, with all findings, and requires the planted kind alone.
fn assert_diagonal(by: &str, defects: impl Iterator<Item = Defect>, find: impl Fn(Defect) -> FoundKinds) {
    let (mut wrong, mut right) = (Vec::new(), 0);
    println!("{:<24} {:<8} found by the {by}, times, in words", "planted", "rule");
    for defect in defects {
        let found = find(defect);
        for (kind, (count, words)) in &found {
            let mark = if *kind == defect.finding() { "x" } else { kind.name() };
            println!("{:<24} {:<8} {mark} {count:>3}  {}", defect.to_string(), kind.to_string(), words.join(" | "));
        }
        if found.keys().eq([&defect.finding()]) {
            right += 1;
        } else {
            wrong.push((defect, found));
        }
    }
    println!("{right} defects, each found by the {by} as its own kind and no other");
    assert!(wrong.is_empty(), "not the one kind that was planted: {wrong:#?}");
}

#[test]
fn the_live_checker_finds_what_was_planted_and_nothing_else() {
    assert_diagonal("live checker", Defect::ALL.iter().copied(), |defect| checked(with(defect)).0);
}

#[test]
fn the_judge_finds_what_was_planted_and_nothing_else() {
    let logged = Defect::ALL.iter().copied().filter(|defect| !LIVE_ALONE.contains(defect));
    assert_diagonal("judge", logged, |defect| judged(&recorded(with(defect))));
}

#[test]
fn the_judge_finds_nothing_where_nothing_was_planted() {
    let log = recorded(FakeProgram { defect: None, rounds: 10, habits: false });
    assert!(log.lines().count() > 1000);
    assert_eq!(judged(&log), FoundKinds::new());
}
