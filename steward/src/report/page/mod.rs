//! One self-contained page: a treemap of contexts, a timeline, device memory, findings, callback coverage, leftovers.
//!
//! ```text
//!  Report --treemap, timeline (geometry)--> view (strings) --templates/page.html--> text
//! ```
//!
//! No script and no reference to anything outside: the page's own policy forbids both. Text from drivers and files is cleaned by
//! `one_line` and escaped by the template.

#![forbid(unsafe_code)]

mod areas;
mod blocks;
mod drill_down;
mod findings;
mod growth;
mod guard;
mod label;
mod leaks;
mod matrix;
mod rounds;
mod section;
mod squarify;
mod tables;
mod timeline;
mod timeline_chart;
mod treemap;
mod vulkan;

use askama::Template;
pub(crate) use label::grouped;

use super::ReportOrList;
use crate::expectations::CheckSummary;
use matrix::Matrix;
use section::Section;
use vk_accounts::report::Report;

/// A page about one report or several.
#[derive(Template)]
#[template(path = "page.html")]
struct ReportPage {
    title: String,
    version: &'static str,
    /// The drivers side by side, where there are several.
    matrix: Option<Matrix>,
    sections: Vec<Section>,
}

/// The page about `entries`, one part a driver, as a complete HTML document.
///
/// # Errors
/// Never with the template as it is: it writes into memory.
pub fn html(entries: &[ReportOrList]) -> Result<String, askama::Error> {
    let sections = entries.iter().enumerate();
    let sections = sections.map(|(index, entry)| Section::new(index, entry));
    page(sections.collect(), matrix::matrix(entries))
}

/// The page about one report that was checked, with what came of that.
///
/// # Errors
/// As [`html`].
pub fn html_of_check(report: &Report, check: CheckSummary) -> Result<String, askama::Error> {
    page(vec![Section::of_check(report, check)], None)
}

fn page(sections: Vec<Section>, matrix: Option<Matrix>) -> Result<String, askama::Error> {
    let title = match sections.as_slice() {
        [one] => one.heading.clone(),
        all => format!("{} drivers", all.len()),
    };
    ReportPage {
        title,
        version: env!("CARGO_PKG_VERSION"),
        matrix,
        sections,
    }
    .render()
}
