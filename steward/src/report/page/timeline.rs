//! ```text
//!  top  +-------------------------------+
//!       |        ____   - - peak        |   x: each phase has a minimum and a share by its events
//!       |   ____/ object \___           |   y: bytes
//!       |  / instance        \____      |
//!     0 +--+------+----------+----------+
//!        phase 1   phase 2    phase 3
//! ```

#![forbid(unsafe_code)]

use alloc_core::Scope;

use vk_report::report::{Phase, Sample};

/// The scopes from the bottom of the stack to its top, the longest-lived first.
pub(super) const STACK: [Scope; 5] = [Scope::Instance, Scope::Device, Scope::Cache, Scope::Object, Scope::Command];
const NARROWEST: f64 = 72.0;
const LINES: u64 = 6;

/// Where a drawing lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Timeline {
    /// The outlines of scopes with bytes, from the bottom up: closed polygons.
    pub(super) bands: Vec<(Scope, Vec<(f64, f64)>)>,
    pub(super) phases: Vec<PhaseSpan>,
    pub(super) grid: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PhaseSpan {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) peak: f64,
}

/// Draws into `into`, whose y grows downwards. Without samples, uses the ends of phases.
pub(super) fn timeline(phases: &[Phase], samples: &[Sample], into: Rect) -> Timeline {
    let ends: Vec<Sample>;
    let mut samples = samples;
    if samples.is_empty() {
        ends = at_ends(phases);
        samples = &ends;
    }
    let highest = samples
        .iter()
        .map(|sample| sample.live_by_scope.sum())
        .chain(phases.iter().map(|phase| phase.peak_bytes))
        .max();
    let Some(highest) = highest.filter(|_| !phases.is_empty()) else {
        return Timeline::default();
    };
    let step = grid_step(highest);
    // Some space above the highest.
    let top = (highest as f64 * 1.08).max(1.0);
    let y = |bytes: f64| into.y + into.h * (1.0 - bytes / top);
    let grid = (0..=LINES).map(|line| line.saturating_mul(step)).filter(|bytes| *bytes as f64 <= top);
    let columns = Columns::new(phases.len(), samples, into);
    let places: Vec<(f64, &Sample)> = samples.iter().map(|sample| (columns.x(sample), sample)).collect();
    let mut below = vec![0.0; places.len()];
    let mut bands = Vec::new();
    for scope in STACK {
        if places.iter().all(|(_, sample)| sample.live_by_scope.get(scope) == 0) {
            continue;
        }
        let above: Vec<f64> = places
            .iter()
            .zip(&below)
            .map(|((_, sample), below)| below + sample.live_by_scope.get(scope) as f64)
            .collect();
        let outline = |heights: &[f64]| -> Vec<(f64, f64)> {
            places.iter().zip(heights).map(|((x, _), bytes)| (*x, y(*bytes))).collect()
        };
        let mut points = outline(&above);
        points.extend(outline(&below).into_iter().rev());
        bands.push((scope, points));
        below = above;
    }
    let spans = phases.iter().zip(&columns.0);
    let spans = spans.map(|(phase, column)| PhaseSpan {
        left: column.left,
        right: column.right,
        peak: y(phase.peak_bytes as f64),
    });
    Timeline { bands, phases: spans.collect(), grid: grid.map(|bytes| (y(bytes as f64), bytes)).collect() }
}

fn at_ends(phases: &[Phase]) -> Vec<Sample> {
    let ends = phases.iter().enumerate();
    let ends =
        ends.map(|(index, phase)| Sample { at: index as u64 + 1, phase: index, live_by_scope: phase.live_by_scope });
    std::iter::once(Sample::default()).chain(ends).collect()
}

/// The smallest power of two that reaches `highest` in [`LINES`] steps.
fn grid_step(highest: u64) -> u64 {
    let least = highest.div_ceil(LINES).max(1);
    least.checked_next_power_of_two().unwrap_or(1 << 63)
}

struct Columns(Vec<Column>);

#[derive(Clone, Copy, Default)]
struct Column {
    left: f64,
    right: f64,
    begin: u64,
    end: u64,
}

impl Columns {
    fn new(count: usize, samples: &[Sample], into: Rect) -> Self {
        let mut columns = vec![Column::default(); count];
        for sample in samples {
            if let Some(column) = columns.get_mut(sample.phase) {
                column.end = column.end.max(sample.at);
            }
        }
        let mut begin = samples.first().map_or(0, |sample| sample.at);
        for column in &mut columns {
            (column.begin, column.end) = (begin, column.end.max(begin));
            begin = column.end;
        }
        let steps: f64 = columns.iter().map(|column| (column.end - column.begin) as f64).sum();
        let least = NARROWEST.min(into.w / count.max(1) as f64);
        let shared = into.w - least * count as f64;
        let mut left = into.x;
        for column in &mut columns {
            let share = if steps > 0.0 { (column.end - column.begin) as f64 / steps } else { 1.0 / count as f64 };
            column.left = left;
            left += least + shared * share;
            column.right = left;
        }
        Self(columns)
    }

    fn x(&self, sample: &Sample) -> f64 {
        let Some(column) = self.0.get(sample.phase).or(self.0.last()) else {
            return 0.0;
        };
        let steps = column.end - column.begin;
        let share = if steps == 0 { 1.0 } else { sample.at.saturating_sub(column.begin) as f64 / steps as f64 };
        column.left + (column.right - column.left) * share.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::Scope;

    use super::{Rect, Timeline, grid_step, timeline};
    use vk_report::report::{ByScope, Phase, Sample};

    const INTO: Rect = Rect { x: 70.0, y: 10.0, w: 900.0, h: 300.0 };

    fn phase(name: &str, instance: u64, object: u64, peak_bytes: u64) -> Phase {
        let live_by_scope = ByScope { instance, object, ..ByScope::default() };
        Phase { name: name.into(), live_by_scope, live_bytes: instance + object, peak_bytes, ..Phase::default() }
    }

    fn sample(at: u64, phase: usize, instance: u64, object: u64) -> Sample {
        Sample { at, phase, live_by_scope: ByScope { instance, object, ..ByScope::default() } }
    }

    fn check(drawn: &Timeline, phases: usize) {
        let (right, bottom) = (INTO.x + INTO.w, INTO.y + INTO.h);
        let within = |x: f64, y: f64| {
            assert!(x >= INTO.x - 1e-6 && x <= right + 1e-6, "x {x}");
            assert!(y >= INTO.y - 1e-6 && y <= bottom + 1e-6, "y {y}");
        };
        assert_eq!(drawn.phases.len(), phases);
        assert_eq!(drawn.phases.first().map_or(INTO.x, |span| span.left), INTO.x);
        assert!((drawn.phases.last().map_or(right, |span| span.right) - right).abs() < 1e-6);
        for pair in drawn.phases.windows(2) {
            assert_eq!(pair[0].right, pair[1].left);
        }
        for span in &drawn.phases {
            within(span.left, span.peak);
            assert!(span.right > span.left);
        }
        let mut floor = None;
        for (scope, points) in &drawn.bands {
            points.iter().for_each(|(x, y)| within(*x, *y));
            let (above, below) = points.split_at(points.len() / 2);
            assert!(above.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{scope}: time goes on");
            let below: Vec<_> = below.iter().rev().copied().collect();
            assert!(above.iter().zip(&below).all(|(above, below)| above.0 == below.0 && above.1 <= below.1));
            if let Some(floor) = floor.replace(above.to_vec()) {
                assert_eq!(floor, below, "{scope} stands on the one below");
            }
        }
        assert_eq!(drawn.grid.first().map(|line| line.1), Some(0));
        assert!(drawn.grid.len() >= 2 && drawn.grid.windows(2).all(|pair| pair[0].0 > pair[1].0));
    }

    #[test]
    fn bands_stack_and_phases_share_the_width() {
        let phases = [phase("one", 100, 0, 150), phase("two", 100, 50, 180), phase("three", 0, 0, 150)];
        let samples = [
            sample(0, 0, 0, 0),
            sample(3, 0, 120, 0),
            sample(10, 0, 100, 0),
            sample(10, 1, 100, 0),
            sample(11, 1, 100, 50),
            sample(100, 2, 0, 0),
        ];
        let drawn = timeline(&phases, &samples, INTO);
        check(&drawn, 3);
        assert_eq!(drawn.bands.iter().map(|band| band.0).collect::<Vec<_>>(), [Scope::Instance, Scope::Object]);
        let wide = |index: usize| drawn.phases[index].right - drawn.phases[index].left;
        assert!(wide(2) > 4.0 * wide(0) && wide(0) > wide(1) && wide(1) > 72.0, "{drawn:?}");
        let peak = drawn.phases[1].peak;
        assert!((peak - (INTO.y + INTO.h * (1.0 - 180.0 / (180.0 * 1.08)))).abs() < 1e-6, "{peak}");
        assert_eq!(drawn.grid.iter().map(|line| line.1).collect::<Vec<_>>(), [0, 32, 64, 96, 128, 160, 192]);
    }

    #[test]
    fn without_samples_the_ends_of_phases_are_drawn() {
        let phases = [phase("one", 100, 0, 150), phase("two", 100, 50, 180)];
        let drawn = timeline(&phases, &[], INTO);
        check(&drawn, 2);
        assert_eq!(drawn.bands[0].1.len(), 6);
    }

    #[test]
    fn odd_input_is_drawn_inside_or_not_at_all() {
        assert_eq!(timeline(&[], &[], INTO), Timeline::default());
        assert_eq!(timeline(&[], &[sample(1, 0, 1, 1)], INTO), Timeline::default());
        let nothing = [phase("one", 0, 0, 0)];
        check(&timeline(&nothing, &[], INTO), 1);
        let most = u64::MAX / 4;
        let phases = vec![phase("many", most, most, most * 2); 500];
        check(&timeline(&phases, &[sample(5, 0, most, 0), sample(5, 499, most, most)], INTO), 500);
        check(&timeline(&nothing, &[sample(3, 0, 9, 0), sample(3, 7, 9, 9)], INTO), 1);
    }

    #[test]
    fn the_grid_has_three_to_six_lines_above_the_floor() {
        for highest in [1, 5, 6, 1000, 1 << 20, 2_742_759, u64::MAX / 2, u64::MAX] {
            let step = grid_step(highest);
            assert!(step.is_power_of_two() && u128::from(step) * 6 >= u128::from(highest), "{highest}: {step}");
            assert!(step == 1 || u128::from(step / 2) * 6 < u128::from(highest), "{highest}: {step}");
        }
    }
}
