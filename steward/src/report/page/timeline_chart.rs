#![forbid(unsafe_code)]

use super::label::{grouped, tick, unit};
use super::timeline::{PhaseSpan, Rect, timeline};
use vk_report::report::{Phase, Report, Sample};
use vk_report::units::bytes;

/// The drawing is 1000 units wide, with the axis' labels on the left and names of phases below.
const PLOT: Rect = Rect { x: 68.0, y: 22.0, w: 924.0, h: 300.0 };
const WIDE: f64 = 8.4;
const GAP: f64 = 6.0;
const NUMBER: f64 = 17.0;

pub(super) struct Course {
    pub(super) about: String,
    pub(super) bands: Vec<(&'static str, String)>,
    pub(super) grid: Vec<(f64, String)>,
    pub(super) phases: Vec<Span>,
    pub(super) peak: Peak,
}

pub(super) struct Span {
    pub(super) place: PhaseSpan,
    pub(super) width: f64,
    /// Empty where it does not fit below the phase: the table below has it by its number.
    pub(super) name: String,
    /// Its number does not run into the last one.
    pub(super) is_numbered: bool,
    pub(super) title: String,
}

pub(super) struct Peak {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) anchor: &'static str,
    pub(super) text: String,
}

pub(super) fn course(report: &Report, phases: &[Phase], samples: &[Sample]) -> Option<Course> {
    let drawn = timeline(phases, samples, PLOT);
    let mut free_from = PLOT.x;
    let spans = phases.iter().zip(&drawn.phases).map(|(phase, span)| {
        let (width, middle) = (span.right - span.left, f64::midpoint(span.left, span.right));
        let fits = phase.name.chars().count() as f64 * WIDE <= width - GAP;
        let is_numbered = middle >= free_from;
        if is_numbered {
            free_from = middle + NUMBER;
        }
        let name = if fits { phase.name.clone() } else { String::new() };
        Span { place: *span, width, name, is_numbered, title: title(phase) }
    });
    // Of several the first.
    let places = phases.iter().zip(&drawn.phases).rev();
    let (phase, span) = places.max_by_key(|(phase, _)| phase.peak_bytes)?;
    let (anchor, x) = if span.left > PLOT.x + 0.8 * PLOT.w { ("end", span.right) } else { ("start", span.left + 3.0) };
    let about = if phase.peak_slack == 0 { "" } else { "about " };
    let peak = Peak { x, y: span.peak - 7.0, anchor, text: format!("peak {about}{}", bytes(phase.peak_bytes)) };
    let point = |(x, y): &(f64, f64)| format!("{},{}", unit(*x), unit(*y));
    let bands = drawn.bands.iter().map(|(scope, outline)| {
        let points: Vec<_> = outline.iter().map(point).collect();
        (scope.name(), points.join(" "))
    });
    let grid = drawn.grid.iter().map(|(y, bytes)| (*y, tick(*bytes)));
    Some(Course {
        about: format!("Live bytes over {} phases, at most {}", phases.len(), bytes(report.peak_bytes)),
        bands: bands.collect(),
        grid: grid.collect(),
        phases: spans.collect(),
        peak,
    })
}

fn title(phase: &Phase) -> String {
    format!(
        "{}: {} commands, {} live at its end, peak {} ({} bytes)",
        phase.name,
        phase.commands,
        bytes(phase.live_bytes),
        bytes(phase.peak_bytes),
        grouped(phase.peak_bytes)
    )
}
