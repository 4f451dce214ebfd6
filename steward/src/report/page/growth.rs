//! Growth, however small: each scope on its own axis.
//!
//! With rounds, shows the live bytes at each round's end: a driver that leaves a hundred bytes a round draws a staircase. Without, shows
//! live bytes over time on a logarithmic scale.

#![forbid(unsafe_code)]

use super::areas::unit;
use super::label::grouped;
use super::rounds::Folded;
use super::timeline::STACK;
use alloc_core::Scope;
use vk_report::report::{Growth, LeakCount, Phase, Sample};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 36.0;
/// The most points that are drawn: of neighbours only the lowest and the highest.
const POINTS: usize = 480;

/// The fewest steps between ends of rounds that show growth.
const MIN_STEPS: usize = 2;

/// The scopes that held blocks.
#[derive(Default)]
pub(super) struct GrowthRows {
    /// Columns and rows are ends of rounds.
    pub(super) by_round: bool,
    pub(super) rows: Vec<GrowthRow>,
}

/// One scope.
pub(super) struct GrowthRow {
    pub(super) scope: &'static str,
    pub(super) line: String,
    pub(super) lowest: String,
    pub(super) highest: String,
    pub(super) change: String,
    /// Most rounds end higher than the one before, and none lower.
    pub(super) grows: bool,
    /// A description for screen readers.
    pub(super) about: String,
}

/// From the folded phases and their samples.
pub(super) fn growth(folded: &Folded<'_>, samples: &[Sample]) -> GrowthRows {
    // The last round also destroys the device, so its end shows no growth.
    let ends = folded.rounds.start..folded.rounds.end.saturating_sub(1);
    let rounds = folded.phases.get(ends).unwrap_or_default();
    let by_round = rounds.len() >= 2;
    let row = |scope: &Scope| {
        let course: Vec<u64> = if by_round {
            rounds
                .iter()
                .map(|round: &Phase| round.live_by_scope.get(*scope))
                .collect()
        } else {
            samples
                .iter()
                .map(|sample| sample.live_by_scope.get(*scope))
                .collect()
        };
        let (lowest, highest) = (course.iter().min()?, course.iter().max()?);
        (*highest > 0).then(|| drawn(*scope, &course, (*lowest, *highest), by_round))
    };
    GrowthRows {
        by_round,
        rows: STACK.iter().filter_map(row).collect(),
    }
}

fn drawn(scope: Scope, course: &[u64], (lowest, highest): (u64, u64), by_round: bool) -> GrowthRow {
    let first = course.first().copied().unwrap_or_default();
    let last = course.last().copied().unwrap_or_default();
    let steps = course.len().saturating_sub(1);
    let count = |differs: fn(&[u64]) -> bool| {
        let steps = course.windows(2).filter(|pair| differs(pair));
        steps.count() as u64
    };
    // Like call stacks: a single step may be a cache that filled.
    let growth = Growth {
        grew: count(|pair| pair[1] > pair[0]),
        shrank: count(|pair| pair[1] < pair[0]),
        ..Growth::default()
    };
    let count = LeakCount {
        growth,
        ..LeakCount::default()
    };
    let grows = by_round && steps >= MIN_STEPS && count.is_growing(steps as u64);
    let change = match last.checked_sub(first) {
        Some(0) => "none".to_owned(),
        Some(more) => format!("+{}", grouped(more)),
        None => format!("\u{2212}{}", grouped(first.saturating_sub(last))),
    };
    let change = if grows {
        let each = last.saturating_sub(first) / (steps as u64).max(1);
        format!("{change}, {} a round", grouped(each))
    } else {
        change
    };
    let name = scope.name();
    let about = format!(
        "{name}: from {} to {} bytes, lowest {}, highest {}",
        grouped(first),
        grouped(last),
        grouped(lowest),
        grouped(highest)
    );
    GrowthRow {
        scope: name,
        line: line(course, lowest, highest, by_round),
        lowest: grouped(lowest),
        highest: grouped(highest),
        change,
        grows,
        about,
    }
}

/// From the lowest value at the bottom to the highest at the top.
fn line(course: &[u64], lowest: u64, highest: u64, linear: bool) -> String {
    let scaled = |bytes: u64| {
        let bytes = bytes as f64;
        if linear { bytes } else { bytes.ln_1p() }
    };
    let (low, high) = (scaled(lowest), scaled(highest));
    let y = |bytes: u64| {
        let share = if high > low {
            (scaled(bytes) - low) / (high - low)
        } else {
            0.5
        };
        2.0 + (HEIGHT - 4.0) * (1.0 - share)
    };
    let last = course.len().saturating_sub(1).max(1) as f64;
    let mut points = Vec::new();
    let mut before = None;
    for (index, bytes) in drawn_points(course) {
        let x = unit(index as f64 / last * WIDTH);
        // A staircase: the value holds until the next moment.
        if let Some(before) = before.replace(bytes) {
            points.push(format!("{x},{}", unit(y(before))));
        }
        points.push(format!("{x},{}", unit(y(bytes))));
    }
    points.join(" ")
}

/// All points, or if too many the lowest and the highest of neighbours, and the last one.
fn drawn_points(course: &[u64]) -> Vec<(usize, u64)> {
    let indexed: Vec<_> = course.iter().copied().enumerate().collect();
    if indexed.len() <= POINTS {
        return indexed;
    }
    let extremes = |near: &[(usize, u64)]| {
        let lowest = near.iter().min_by_key(|point| point.1).copied();
        let highest = near.iter().max_by_key(|point| point.1).copied();
        let mut both: Vec<_> = lowest.into_iter().chain(highest).collect();
        both.sort_unstable();
        both
    };
    let near = indexed.len().div_ceil(POINTS / 2);
    let mut drawn: Vec<_> = indexed.chunks(near).flat_map(extremes).collect();
    drawn.extend(indexed.last());
    drawn.dedup();
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::rounds::folded;
    use super::growth;
    use vk_report::report::{ByScope, Phase, Sample};

    fn phase(name: &str, instance: u64, object: u64) -> Phase {
        Phase {
            name: name.into(),
            live_by_scope: ByScope {
                instance,
                object,
                ..ByScope::default()
            },
            ..Phase::default()
        }
    }

    #[test]
    fn a_hundred_bytes_a_round_beside_megabytes_are_a_staircase() {
        let phases: Vec<_> = [1, 2, 3, 0]
            .into_iter()
            .flat_map(|round| {
                [
                    phase("use", 1 << 20, 99_999),
                    phase("teardown", 1 << 20, 112 * round),
                ]
            })
            .collect();
        let growth = growth(&folded(&phases), &[]);
        assert!(growth.by_round);
        let [instance, object] = &growth.rows[..] else {
            panic!("{} rows", growth.rows.len())
        };
        assert_eq!(
            (instance.scope, instance.grows, instance.change.as_str()),
            ("instance", false, "none")
        );
        assert_eq!((object.scope, object.grows), ("object", true));
        assert_eq!(object.change, "+224, 112 a round");
        assert_eq!(
            object.line, "0,34 120,34 120,18 240,18 240,2",
            "from the floor to the top"
        );
    }

    #[test]
    fn without_rounds_the_axis_is_logarithmic() {
        let sample = |object| Sample {
            live_by_scope: ByScope {
                object,
                ..ByScope::default()
            },
            ..Sample::default()
        };
        let growth = growth(
            &folded(&[phase("run", 0, 0)]),
            &[sample(0), sample(1023), sample((1 << 20) - 1)],
        );
        assert!(!growth.by_round && !growth.rows[0].grows);
        assert!(
            growth.rows[0].line.contains("120,18"),
            "half the height: {}",
            growth.rows[0].line
        );
    }

    #[test]
    fn the_highest_and_the_lowest_of_many_samples_are_drawn() {
        let sample = |object| Sample {
            live_by_scope: ByScope {
                object,
                ..ByScope::default()
            },
            ..Sample::default()
        };
        for at in [1, 500, 997, 998, 999] {
            let mut samples = vec![sample(100); 1000];
            samples[at] = sample(1 << 30);
            let growth = growth(&folded(&[phase("run", 0, 0)]), &samples);
            let line = &growth.rows[0].line;
            let high = line.split(' ').filter(|point| point.ends_with(",2"));
            assert!(high.count() >= 1, "{at}: {line}");
            // The step up begins at the bottom.
            assert!(at == 1 || line.contains(",34"), "{at}: {line}");
            assert!(line.split(' ').count() <= 2 * super::POINTS + 2);
        }
    }

    #[test]
    fn a_cache_that_fills_once_is_no_growth_and_a_leak_that_pauses_is() {
        let object = |ends: &[u64]| {
            let phases: Vec<_> = ends
                .iter()
                .flat_map(|end| [phase("use", 1, 1), phase("teardown", 1, *end)])
                .collect();
            let rows = growth(&folded(&phases), &[]).rows;
            let row = rows.into_iter().find(|row| row.scope == "object");
            let row = row.expect("a row");
            (row.grows, row.change)
        };
        // The end of the last round is that of the device.
        for (ends, grows, change) in [
            (&[100, 150, 0][..], false, "+50"),
            (&[100, 150, 150, 150, 0], false, "+50"),
            (&[100, 200, 300, 200, 400, 0], false, "+300"),
            (&[100, 200, 300, 0], true, "+200, 100 a round"),
            (
                &[100, 200, 300, 400, 400, 500, 600, 700, 800, 0],
                true,
                "+700, 87 a round",
            ),
        ] {
            assert_eq!(object(ends), (grows, change.to_owned()), "{ends:?}");
        }
    }
}
