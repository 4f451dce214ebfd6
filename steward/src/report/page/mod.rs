//! One self-contained page: a treemap of contexts, a timeline, device memory, findings, callback coverage, leftovers.
//!
//! ```text
//!  Report --treemap, timeline (geometry)--> view (strings) --templates/page.html--> text
//! ```
//!
//! The page's policy forbids scripts and outside references. `one_line` cleans text from drivers and files; the template escapes it.

#![forbid(unsafe_code)]

mod areas;
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

use super::{CheckedDriver, ReportOrList};
use matrix::Matrix;
use section::Section;

/// A page about one report or several.
#[derive(Template)]
#[template(path = "page.html")]
struct ReportPage {
    title: String,
    version: &'static str,
    /// The drivers side by side, if there are several.
    matrix: Option<Matrix>,
    sections: Vec<Section>,
}

/// A complete HTML document about `entries`, one part a driver.
///
/// # Errors
/// Never: it writes into memory.
pub fn html(entries: &[ReportOrList]) -> Result<String, askama::Error> {
    let sections = entries.iter().enumerate();
    let sections = sections.map(|(index, entry)| Section::new(index, entry));
    page(sections.collect(), matrix::matrix(entries, &[]))
}

/// The page about checked drivers, with their results.
///
/// # Errors
/// As [`html`].
pub fn html_of_checks(drivers: &[CheckedDriver]) -> Result<String, askama::Error> {
    let sections = drivers.iter().enumerate().map(|(index, driver)| {
        let section = Section::new(index, &driver.report);
        match &driver.check {
            Some(check) => section.checked(check.clone()),
            None => section,
        }
    });
    let (entries, checks): (Vec<_>, Vec<_>) = drivers
        .iter()
        .map(|driver| (driver.report.clone(), driver.check.as_ref()))
        .unzip();
    page(sections.collect(), matrix::matrix(&entries, &checks))
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
