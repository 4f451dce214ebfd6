//! One self-contained page: contexts, a timeline, device memory, findings, callback coverage, leftovers.
//!
//! ```text
//!  Report --timeline (geometry)--> view (strings) --templates/page.html--> text
//! ```
//!
//! The page's policy forbids scripts and outside references. The template escapes text from drivers and files.

#![forbid(unsafe_code)]

mod courses;
mod drill_down;
mod findings;
mod label;
mod leaks;
mod section;
mod tables;
mod timeline;
mod timeline_chart;

use askama::Template;

use super::{CheckedDriver, ReportOrList};
use label::filters;
use section::Section;
use vk_report::report::steers;

#[derive(Template)]
#[template(path = "page.html")]
struct ReportPage {
    title: String,
    version: &'static str,
    sections: Vec<Section>,
}

/// A complete HTML document about `entries`, one part a driver.
///
/// # Errors
/// As [`html_of_checks`].
pub fn html(entries: &[ReportOrList]) -> Result<String, askama::Error> {
    let unchecked = entries.iter().cloned().map(|report| CheckedDriver { report, check: None });
    html_of_checks(&unchecked.collect::<Vec<_>>())
}

/// The page about drivers, with the results of those that were checked.
///
/// # Errors
/// Never: it writes into memory.
pub fn html_of_checks(drivers: &[CheckedDriver]) -> Result<String, askama::Error> {
    let sections = drivers.iter().cloned().enumerate();
    let sections: Vec<_> = sections.map(|(index, driver)| Section::new(index, driver)).collect();
    let title = match sections.as_slice() {
        [one] => one.heading.clone(),
        all => format!("{} drivers", all.len()),
    };
    let page = ReportPage { title, version: env!("CARGO_PKG_VERSION"), sections };
    // Names and reasons come from drivers, files and the system: none of them may control or reorder the text behind
    // it.
    let is_kept = |one: char| one == '\n' || !steers(one);
    let shown = |one| if is_kept(one) { one } else { ' ' };
    Ok(page.render()?.chars().map(shown).collect())
}
