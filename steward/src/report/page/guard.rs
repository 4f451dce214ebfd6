//! A guard's reports and refused requests on the page.

#![forbid(unsafe_code)]

use super::label::grouped;
use super::section::Figure;
use vk_report::report::{GuardReport, GuardRun, Report, one_line};

/// A report of the guard.
pub(super) struct GuardSection {
    pub(super) title: String,
    pub(super) text: String,
}

/// The terminal's lines as paragraphs, apart from reports.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let guard = report.guard.as_ref().map(|guard| {
        GuardRun {
            told: Vec::new(),
            ..guard.clone()
        }
        .to_string()
    });
    let fail = report.fail.as_ref().map(ToString::to_string);
    let both = guard.into_iter().chain(fail).collect::<String>();
    both.lines().map(|line| one_line(line.trim())).collect()
}

pub(super) fn guard_section(report: &Report) -> Vec<GuardSection> {
    let one = |told: &GuardReport| GuardSection {
        title: one_line(&told.kind),
        text: told
            .text
            .lines()
            .map(one_line)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    report
        .guard
        .iter()
        .flat_map(|guard| &guard.told)
        .map(one)
        .collect()
}

/// The figures at the top of the page.
pub(super) fn figure(guard: &GuardRun) -> Figure {
    let value = match guard.reports {
        0 => "no reports".to_owned(),
        1 => "1 report".to_owned(),
        more => format!("{} reports", grouped(more)),
    };
    let detail = format!(
        "{}, {} blocks",
        one_line(&guard.mode),
        grouped(guard.callback_blocks)
    );
    Figure {
        name: "Guard",
        value,
        detail,
        bad: guard.reports > 0,
    }
}
