#![forbid(unsafe_code)]

use super::label::{fitted, grouped};
use super::squarify::Rect;
use super::treemap::{Part, Treemap, treemap};
use vk_report::report::{ContextRow, Report};
use vk_report::units::{bytes, percent};

const WIDTH: f64 = 1000.0;
/// Rows with a smaller share than this are drawn a second time, larger, if there are several.
const SMALL: f64 = 0.015;
/// A character of a label: 15 units high on a narrow screen, with the widest of the usual fonts.
const WIDE: f64 = 8.4;
const BOLD: f64 = 9.7;

pub(super) struct Areas {
    pub(super) height: f64,
    pub(super) about: String,
    pub(super) boxes: Vec<Area>,
    pub(super) groups: Vec<Rect>,
}

pub(super) struct Area {
    pub(super) rect: Rect,
    pub(super) scope: &'static str,
    pub(super) title: String,
    pub(super) lines: Vec<AreaLabel>,
}

pub(super) struct AreaLabel {
    pub(super) y: f64,
    pub(super) text: String,
    pub(super) strong: bool,
}

/// The second treemap is of rows too small to see. There is none if nothing was live.
pub(super) fn areas(report: &Report) -> Vec<Areas> {
    let whole = draw(report, 430.0, |_| true);
    let all = whole.bytes;
    if all == 0 {
        return Vec::new();
    }
    let is_small = |row: &ContextRow| (row.live_bytes as f64) < SMALL * all as f64;
    let small = draw(report, 190.0, is_small);
    let about = format!("{} in all contexts", bytes(all));
    let mut drawn = vec![view(report, &whole, 430.0, about)];
    let rows = report.contexts.iter().filter(|row| !row.group && row.live_bytes > 0 && is_small(row)).count();
    if rows >= 3 && (small.bytes as f64) < 0.2 * all as f64 {
        let share = percent(small.bytes as f64 / all as f64);
        let about = format!("The {rows} smallest contexts, enlarged: {}, {share} of the above", bytes(small.bytes));
        drawn.push(view(report, &small, 190.0, about));
    }
    drawn
}

fn draw(report: &Report, height: f64, wanted: impl Fn(&ContextRow) -> bool) -> Treemap {
    treemap(&report.contexts, wanted, Rect { x: 0.0, y: 0.0, w: WIDTH, h: height })
}

fn view(report: &Report, map: &Treemap, height: f64, about: String) -> Areas {
    let name = |part: &Part| report.contexts.get(part.row).map_or("", |row| &row.name);
    let boxes = map.parts.iter();
    Areas {
        height,
        about,
        boxes: boxes.map(|part| area(part, name(part), map.bytes)).collect(),
        groups: map.groups.iter().map(|(_, rect)| *rect).collect(),
    }
}

fn area(part: &Part, name: &str, all: u64) -> Area {
    let (rect, short) = (part.rect, bytes(part.bytes));
    let share = percent(part.bytes as f64 / all as f64);
    let title = format!("{name}, scope {}: {short} ({} bytes), {share}", part.scope, grouped(part.bytes));
    let room = rect.w - 10.0;
    // Vulkan's names begin alike: a name that does not fit begins with the part that differs.
    let told_apart = fitted(name, room, BOLD)
        .filter(|text| text == name)
        .or_else(|| fitted(name.strip_prefix("Vk").unwrap_or(name), room, BOLD));
    // A cut number would be a wrong number.
    let whole = |text: &str| fitted(text, room, WIDE).filter(|shown| shown == text);
    let short = whole(&short);
    let share = whole(&share).filter(|_| short.is_some());
    let lines = [(20.0, told_apart, true), (38.0, short, false), (56.0, share, false)];
    let lines = lines.into_iter().filter_map(|(y, text, strong)| {
        let text = text.filter(|text| !text.is_empty() && rect.h >= y + 6.0)?;
        Some(AreaLabel { y: rect.y + y, text, strong })
    });
    Area { rect, scope: part.scope.name(), title, lines: lines.collect() }
}
