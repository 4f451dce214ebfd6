//! The drawing of the timeline: an axis, a stack of bands, phases with names.

#![forbid(unsafe_code)]

use super::areas::unit;
use super::label::{fitted, grouped, tick};
use super::squarify::Rect;
use super::timeline::{PhaseSpan, timeline};
use vk_report::report::{Phase, Report, Sample, one_line};
use vk_report::units::bytes;

/// The drawing in its units: the axis' labels on the left, names of phases below.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 372.0;
/// With slanted names.
const HIGHER: f64 = 412.0;
/// Characters of a slanted name.
const SLANTED: usize = 13;
const PLOT: Rect = Rect {
    x: 68.0,
    y: 22.0,
    w: 924.0,
    h: 300.0,
};
/// A character of a label: 15 units high on a narrow screen, with the widest of the usual fonts.
const WIDE: f64 = 8.4;

/// The width of a slanted name.
const ROOM: f64 = 17.0;
/// The free space beside a name.
const GAP: f64 = 6.0;

/// One timeline.
pub(super) struct Course {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: String,
    pub(super) right: String,
    pub(super) floor: String,
    pub(super) ceiling: String,
    pub(super) about: String,
    /// Names of phases are slanted and numbered, because they do not fit side by side.
    pub(super) slanted: bool,
    pub(super) bands: Vec<Band>,
    pub(super) grid: Vec<Tick>,
    pub(super) phases: Vec<Span>,
    pub(super) peak: Option<Peak>,
}

/// The outline of one scope.
pub(super) struct Band {
    pub(super) scope: &'static str,
    pub(super) points: String,
}

/// A line of the grid.
pub(super) struct Tick {
    pub(super) y: String,
    /// The baseline of its label.
    pub(super) foot: String,
    pub(super) text: String,
}

/// A phase.
pub(super) struct Span {
    pub(super) left: String,
    pub(super) right: String,
    pub(super) width: String,
    pub(super) middle: String,
    /// The height of its peak.
    pub(super) peak: String,
    pub(super) shaded: bool,
    pub(super) number: usize,
    /// It is wide enough to differ from its neighbours.
    pub(super) wide: bool,
    /// Its number fits.
    pub(super) numbered: bool,
    /// Its name, cut to fit.
    pub(super) name: String,
    pub(super) title: String,
}

/// The place of the peak.
pub(super) struct Peak {
    pub(super) x: String,
    pub(super) label_y: String,
    pub(super) anchor: &'static str,
    pub(super) text: String,
}

/// The drawing; none without phases.
pub(super) fn course(report: &Report, phases: &[Phase], samples: &[Sample]) -> Option<Course> {
    let drawn = timeline(phases, samples, PLOT);
    if drawn.phases.is_empty() {
        return None;
    }
    let points = |points: &[(f64, f64)]| -> Vec<String> {
        points
            .iter()
            .map(|(x, y)| format!("{},{}", unit(*x), unit(*y)))
            .collect()
    };
    let bands = drawn.bands.iter().map(|(scope, outline)| Band {
        scope: scope.name(),
        points: points(outline).join(" "),
    });
    let grid = drawn.grid.iter().map(|(y, bytes)| Tick {
        y: unit(*y),
        foot: unit(y + 4.5),
        text: tick(*bytes),
    });
    let fits = |(phase, span): (&Phase, &PhaseSpan)| {
        let name = one_line(&phase.name);
        fitted(&name, span.right - span.left - GAP, WIDE).is_some_and(|shown| shown == name)
    };
    let slanted = !phases.iter().zip(&drawn.phases).all(fits);
    // If not every name fits, every n-th is shown.
    let narrowest = drawn.phases.iter().map(|span| span.right - span.left);
    let narrowest = narrowest.fold(f64::INFINITY, f64::min).max(0.1);
    let every = (ROOM / narrowest).ceil().max(1.0) as usize;
    let spans = phases.iter().zip(&drawn.phases).enumerate();
    let spans = spans.map(|(index, (phase, span))| Span {
        left: unit(span.left),
        right: unit(span.right),
        width: unit(span.right - span.left),
        middle: unit((span.left + span.right) / 2.0),
        peak: unit(span.peak),
        shaded: index % 2 == 1 && span.right - span.left >= 3.0,
        number: index + 1,
        wide: span.right - span.left >= 3.0,
        numbered: !slanted,
        name: name(phase, index, slanted && index % every != 0, slanted),
        title: title(phase),
    });
    let most = phases.iter().map(|phase| phase.peak_bytes).max();
    let highest = phases
        .iter()
        .zip(&drawn.phases)
        .find(|(phase, _)| Some(phase.peak_bytes) == most);
    let peak = highest.map(|(phase, span)| {
        let (anchor, x) = if span.left > PLOT.x + 0.8 * PLOT.w {
            ("end", span.right)
        } else {
            ("start", span.left + 3.0)
        };
        let about = if phase.peak_slack == 0 { "" } else { "about " };
        Peak {
            x: unit(x),
            label_y: unit(span.peak - 7.0),
            anchor,
            text: format!("peak {about}{}", bytes(phase.peak_bytes)),
        }
    });
    Some(Course {
        width: WIDTH,
        height: if slanted { HIGHER } else { HEIGHT },
        left: unit(PLOT.x),
        right: unit(PLOT.x + PLOT.w),
        floor: unit(PLOT.y + PLOT.h),
        ceiling: unit(PLOT.y),
        about: format!(
            "Live bytes over {} phases, at most {}",
            phases.len(),
            bytes(report.peak_bytes)
        ),
        slanted,
        bands: bands.collect(),
        grid: grid.collect(),
        phases: spans.collect(),
        peak,
    })
}

/// A name, cut to fit; none in an omitted phase.
fn name(phase: &Phase, index: usize, left_out: bool, slanted: bool) -> String {
    let name = one_line(&phase.name);
    match slanted {
        true if left_out => String::new(),
        true => fitted(&format!("{} {name}", index + 1), SLANTED as f64, 1.0).unwrap_or_default(),
        false => name,
    }
}

fn title(phase: &Phase) -> String {
    format!(
        "{}: {} commands, {} live at its end, peak {} ({} bytes)",
        one_line(&phase.name),
        phase.commands,
        bytes(phase.live_bytes),
        bytes(phase.peak_bytes),
        grouped(phase.peak_bytes)
    )
}
