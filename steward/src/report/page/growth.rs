//! What grows, however little: each scope on an axis of its own.
//!
//! With rounds, what is live at the end of each: a driver that leaves a hundred bytes a round is a staircase. Without, what was live over
//! time, logarithmically.

#![forbid(unsafe_code)]

use super::areas::unit;
use super::label::grouped;
use super::rounds::Folded;
use super::timeline::STACK;
use alloc_core::Scope;
use vk_accounts::report::{Phase, Sample};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 36.0;
/// More points than this are not told apart.
const POINTS: usize = 480;

/// Scopes that held anything.
#[derive(Default)]
pub(super) struct GrowthRows {
    /// Columns and rows are about ends of rounds.
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
    /// It is higher at the end of each round than of the one before.
    pub(super) grows: bool,
    /// The whole of it as a sentence, for those who do not see the line.
    pub(super) about: String,
}

/// From the folded phases and their samples.
pub(super) fn growth(folded: &Folded<'_>, samples: &[Sample]) -> GrowthRows {
    // The last one destroys the device as well, so that its end says nothing of rounds.
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
    let grew = course.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let grows = by_round && steps > 0 && grew == steps;
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
    let every = course.len().div_ceil(POINTS).max(1);
    let last = course.len().saturating_sub(1).max(1) as f64;
    let mut points = Vec::new();
    for (index, bytes) in course.iter().enumerate() {
        if index % every != 0 && index + 1 != course.len() {
            continue;
        }
        let x = unit(index as f64 / last * WIDTH);
        // A staircase: what was live stays so until the next moment.
        if let Some(before) = index
            .checked_sub(every)
            .and_then(|before| course.get(before))
        {
            points.push(format!("{x},{}", unit(y(*before))));
        }
        points.push(format!("{x},{}", unit(y(*bytes))));
    }
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::rounds::folded;
    use super::growth;
    use vk_accounts::report::{ByScope, Phase, Sample};

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
}
