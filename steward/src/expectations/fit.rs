#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::by_place::{ByPlace, KeyedFinding as _};
use super::file::{Expectations, Expected};
use vk_report::report::FindingRow;

/// The expectations of `driver`, from runs of 0, 1, 2, .. rounds. Notes are legal: only those that `known` has are
/// kept.
///
/// Counts that follow the rounds are stored. Other counts depend on timing, as do findings that some runs did not show.
/// Causes come from `known`.
#[must_use]
pub fn fit(driver: &str, runs: &[Vec<FindingRow>], known: &Expectations) -> Expectations {
    let mut findings: Vec<Expected> = Vec::new();
    let known = ByPlace::new(&known.findings);
    let by_place: Vec<_> = runs.iter().map(ByPlace::new).collect();
    let mut fitted = ByPlace::<FindingRow>::new([]);
    for row in runs.iter().flatten() {
        let known = known.find(row);
        if row.level == FindingRow::NOTE && known.is_none() || fitted.find(row).is_some() {
            continue;
        }
        fitted.insert(row);
        let counts: Vec<u64> = by_place.iter().map(|run| run.find(row).map_or(0, |seen| seen.count)).collect();
        let (cause, loader) = known.map(|known| (known.cause.clone(), known.loader)).unwrap_or_default();
        findings.push(Expected { cause, loader, ..expected(row, &counts) });
    }
    sort(&mut findings);
    Expectations { driver: driver.to_owned(), findings }
}

impl Expectations {
    /// Adds the findings of `known` that the runs need not show: those that the loader causes need the loader, or
    /// another version of it, and those that come sometimes may need another program.
    #[must_use]
    pub fn with_unseen_of(mut self, known: &Self) -> Self {
        let there: HashSet<_> = self.findings.iter().map(|one| one.key()).collect();
        let unseen = known.findings.iter().filter(|one| (one.loader || one.sometimes) && !there.contains(&one.key()));
        let unseen = unseen.map(|one| Expected { sometimes: true, per_round: None, per_run: None, ..one.clone() });
        let unseen: Vec<_> = unseen.collect();
        self.findings.extend(unseen);
        sort(&mut self.findings);
        self
    }
}

impl Expectations {
    /// The same findings, none of which must be seen: a program need not do what shows them.
    #[must_use]
    pub fn all_sometimes(mut self) -> Self {
        for one in &mut self.findings {
            one.sometimes = true;
            (one.per_round, one.per_run, one.from_round) = (None, None, 1);
        }
        self
    }
}

fn sort(findings: &mut [Expected]) {
    findings.sort_by_key(|one| {
        let [rule, kind, owner, command, scope] = one.key().map(str::to_owned);
        let number: String = rule.chars().filter(char::is_ascii_digit).take(2).collect();
        (number.parse().unwrap_or(0u32), kind, command, owner, scope)
    });
}

fn expected(row: &FindingRow, counts: &[u64]) -> Expected {
    let Some(first) = counts.iter().position(|count| *count > 0) else {
        return Expected::of(row);
    };
    let seen = counts.get(first..).unwrap_or_default();
    let one = Expected { from_round: u32::try_from(first).unwrap_or(u32::MAX), ..Expected::of(row) };
    let each = seen.first().copied().unwrap_or_default();
    if seen.contains(&0) {
        return Expected { sometimes: true, ..Expected::of(row) };
    }
    // One number fits any rule.
    if seen.len() < 2 {
        return one;
    }
    if seen.iter().all(|count| *count == each) {
        return Expected { per_run: Some(each), ..one };
    }
    if (1..).zip(seen).all(|(round, count)| *count == each.saturating_mul(round)) {
        return Expected { per_round: Some(each), ..one };
    }
    // A number for each round and some more after the last one. Two numbers fit any line.
    let step = seen.get(1).and_then(|second| second.checked_sub(each));
    if let Some((step, more)) = step.and_then(|step| Some((step, each.checked_sub(step)?)))
        && seen.len() > 2
        && (1..).zip(seen).all(|(round, count)| *count == step.saturating_mul(round).saturating_add(more))
    {
        return Expected { per_round: Some(step), per_run: Some(more), ..one };
    }
    one
}

impl Expected {
    pub(super) fn of(row: &FindingRow) -> Self {
        let [rule, kind, owner, command, scope] = row.key().map(str::to_owned);
        Self { rule, kind, owner, command, scope, from_round: 1, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_follow_the_rounds_are_written_and_others_are_not() {
        let row = FindingRow { rule: "V22".into(), ..FindingRow::default() };
        let all = |counts: &[u64]| {
            let Expected { per_round, per_run, from_round, sometimes, .. } = expected(&row, counts);
            (per_round, per_run, from_round, sometimes)
        };
        assert_eq!(all(&[0, 3, 6, 9, 12]), (Some(3), None, 1, false));
        assert_eq!(all(&[0, 0, 2, 4, 6]), (Some(2), None, 2, false));
        assert_eq!(all(&[5, 5, 5, 5]), (None, Some(5), 0, false));
        assert_eq!(all(&[0, 5, 5, 5]), (None, Some(5), 1, false));
        assert_eq!(all(&[0, 3, 7, 9, 12]), (None, None, 1, false));
        assert_eq!(all(&[0, 5, 8, 11]), (Some(3), Some(2), 1, false));
        assert_eq!(all(&[0, 5, 8]), (None, None, 1, false));
        assert_eq!(all(&[0, 2, 7, 12]), (None, None, 1, false));
        assert_eq!(all(&[0, 1, 0, 1]), (None, None, 1, true));
        assert_eq!(all(&[0, 0, 0, 1]), (None, None, 3, false));
    }

    #[test]
    fn a_fit_expects_what_it_came_from_and_keeps_the_causes() {
        let row = |rule: &str, level: &str, count| FindingRow {
            rule: rule.into(),
            level: level.into(),
            count,
            ..FindingRow::default()
        };
        let run = |rounds: u64| {
            let all = [row("V30", "violation", 2 * rounds), row("V4", "suspect", 1), row("V7", "note", 1)];
            all.into_iter().filter(|row| row.count > 0).collect()
        };
        let runs: Vec<_> = (0..=4).map(run).collect();
        let known = Expectations::parse("driver = \"d\"\n[[finding]]\nrule = \"V30\"\nkind = \"\"\ncause = \"seen\"\n")
            .expect("right");
        let fitted = fit("d 1", &runs, &known);
        let told: Vec<_> = fitted.findings.iter().map(|one| (one.rule.as_str(), one.cause.as_str())).collect();
        assert_eq!(told, [("V4", ""), ("V30", "seen")]);
        for (rounds, run) in (0..).zip(&runs) {
            assert!(super::super::compare(&fitted, (run, None), Some(rounds)).differences.is_empty(), "{rounds}");
        }
        let known = Expectations::parse("driver = \"d\"\n[[finding]]\nrule = \"V7\"\nkind = \"\"\ncause = \"odd\"\n")
            .expect("right");
        assert!(
            fit("d 1", &runs, &known).findings.iter().any(|one| (one.rule.as_str(), one.per_run) == ("V7", Some(1)))
        );
        assert!(!super::super::compare(&fitted, (&runs[2], None), Some(3)).differences.is_empty());
    }

    #[test]
    fn what_the_loader_does_is_kept_where_it_is_not_seen_and_excuses_nobody_else() {
        let known = "driver = \"d\"\n[[finding]]\nrule = \"V28\"\nkind = \"\"\nper_run = 1\nloader = true\ncause = \"the loader\"\n";
        let known = Expectations::parse(known).expect("right");
        let row =
            FindingRow { rule: "V28".into(), level: FindingRow::VIOLATION.into(), count: 1, ..FindingRow::default() };
        let (seen, unseen) = (vec![vec![row.clone()], vec![row.clone()]], vec![Vec::new(), Vec::new()]);
        let through = fit("d", &seen, &known).with_unseen_of(&known);
        assert_eq!(
            (through.findings.len(), through.findings[0].loader, through.findings[0].per_run),
            (1, true, Some(1))
        );
        let direct = fit("d", &unseen, &known.clone().without_loader()).with_unseen_of(&known);
        let [kept] = direct.findings.as_slice() else { panic!("{direct:?}") };
        assert_eq!((kept.loader, kept.sometimes, kept.per_run, kept.cause.as_str()), (true, true, None, "the loader"));
        // Seen without a loader it is the driver's, and nobody has said why.
        let drivers = fit("d", &seen, &known.clone().without_loader()).with_unseen_of(&known);
        let [own] = drivers.findings.as_slice() else { panic!("{drivers:?}") };
        assert_eq!((own.loader, own.cause.as_str()), (false, ""));
        let difference =
            |known: &Expectations| super::super::compare(known, (&seen[0], None), Some(1)).differences.len();
        assert_eq!((difference(&known), difference(&known.without_loader())), (0, 1));
    }
}
