#![forbid(unsafe_code)]

use super::label::{fitted, grouped, tick, unit};
use super::timeline::{PhaseSpan, Rect, timeline};
use vk_report::report::{Phase, Report, Sample};
use vk_report::units::bytes;

/// The drawing is 1000 units wide, with the axis' labels on the left and names of phases below.
const HEIGHT: f64 = 372.0;
const HIGHER: f64 = 412.0;
const SLANTED: usize = 13;
const PLOT: Rect = Rect { x: 68.0, y: 22.0, w: 924.0, h: 300.0 };
const WIDE: f64 = 8.4;

const ROOM: f64 = 17.0;
const GAP: f64 = 6.0;

pub(super) struct Course {
    pub(super) height: f64,
    pub(super) about: String,
    /// Names of phases are slanted and numbered, because they do not fit side by side.
    pub(super) slanted: bool,
    pub(super) bands: Vec<(&'static str, String)>,
    pub(super) grid: Vec<(f64, String)>,
    pub(super) phases: Vec<Span>,
    pub(super) peak: Peak,
}

pub(super) struct Span {
    pub(super) place: PhaseSpan,
    pub(super) width: f64,
    pub(super) name: String,
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
    let width = |span: &PhaseSpan| span.right - span.left;
    let fits = |(phase, span): (&Phase, &PhaseSpan)| {
        fitted(&phase.name, width(span) - GAP, WIDE).is_some_and(|shown| shown == phase.name)
    };
    let slanted = !phases.iter().zip(&drawn.phases).all(fits);
    // If not every name fits, every n-th is shown.
    let narrowest = drawn.phases.iter().map(width).fold(f64::INFINITY, f64::min);
    let every = (ROOM / narrowest.max(0.1)).ceil().max(1.0) as usize;
    let name = |index: usize, phase: &Phase| match slanted {
        true if !index.is_multiple_of(every) => String::new(),
        true => {
            let name = format!("{} {}", index + 1, phase.name);
            fitted(&name, SLANTED as f64, 1.0).unwrap_or_default()
        }
        false => phase.name.clone(),
    };
    let spans = phases.iter().zip(&drawn.phases).enumerate();
    let spans = spans.map(|(index, (phase, span))| Span {
        place: *span,
        width: width(span),
        name: name(index, phase),
        title: title(phase),
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
        height: if slanted { HIGHER } else { HEIGHT },
        about: format!("Live bytes over {} phases, at most {}", phases.len(), bytes(report.peak_bytes)),
        slanted,
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
