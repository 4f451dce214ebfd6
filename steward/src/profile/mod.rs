//! `--profile`: the origins of blocks, in formats of existing viewers.
//!
//! ```text
//!  CallSites, EventLog (a run, a replay) --+--> ProfileSite ..  --+--> firefox    https://profiler.firefox.com
//!  Leaks (a program with the layer) -------+                      +--> collapsed  flame graphs
//! ```

#![forbid(unsafe_code)]

mod collapsed;
mod firefox;
mod sites;

use std::path::Path;

use vk_report::report::origins::EventLog;
use vk_report::report::{Report, Source, one_line};

use sites::ProfileSite;

/// The viewer that a profile is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// The Firefox Profiler: allocations and frees in the order of time, with commands, phases and live bytes by scope.
    Firefox,
    /// One line a call site, for flame graphs.
    Collapsed,
}

impl ProfileFormat {
    /// By the name's ending: `.folded` and `.collapsed` are collapsed stacks; everything else is the Firefox
    /// Profiler's. In any case of letters.
    #[must_use]
    pub fn of(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let mut collapsed = [".folded", ".collapsed"].iter();
        if collapsed.any(|ending| name.ends_with(ending)) { Self::Collapsed } else { Self::Firefox }
    }
}

/// The data of a profile: one run, or the processes of a program.
#[derive(Clone, Copy, Debug)]
pub struct ProfileInput<'r> {
    /// One report for each process, with named functions. A report with call sites has all blocks of its run; other
    /// reports have the blocks that are live at the end.
    pub reports: &'r [Report],
    /// The events in the order of time, of one report with call sites.
    pub events: Option<&'r EventLog>,
}

/// A profile in the format, as text.
///
/// # Errors
/// Never: the data is valid, and is written into memory.
pub fn profile(input: ProfileInput<'_>, format: ProfileFormat) -> Result<String, serde_json::Error> {
    match format {
        ProfileFormat::Firefox => firefox::firefox(input),
        ProfileFormat::Collapsed => Ok(collapsed::collapsed(input)),
    }
}

impl ProfileInput<'_> {
    fn has_totals(&self) -> bool {
        self.reports.iter().all(|report| report.call_sites.is_some())
    }

    /// With several processes the outermost label is the process.
    fn sites(&self) -> Vec<ProfileSite> {
        let several = self.reports.len() > 1;
        let of = |report| {
            let mut sites = sites::of(report);
            if several {
                sites.iter_mut().for_each(|site| site.labels.insert(0, title(report)));
            }
            sites
        };
        self.reports.iter().flat_map(of).collect()
    }
}

fn title(report: &Report) -> String {
    one_line(&match &report.source {
        Source::Driver { name, version, .. } => format!("{name} {version}"),
        Source::Trace { file, .. } => file.clone(),
        Source::Program { executable, process, .. } => format!("{executable}, process {process}"),
    })
}

/// The process of a report; this program's if it ran the driver itself.
fn process(report: &Report) -> u32 {
    match report.source {
        Source::Program { process, .. } => process,
        _ => std::process::id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_says_the_format() {
        for (name, format) in [
            ("a.json", ProfileFormat::Firefox),
            ("a", ProfileFormat::Firefox),
            ("folded", ProfileFormat::Firefox),
            ("-", ProfileFormat::Firefox),
            ("x/a.folded", ProfileFormat::Collapsed),
            ("a.COLLAPSED", ProfileFormat::Collapsed),
            ("a.folded/a.json", ProfileFormat::Firefox),
        ] {
            assert_eq!(ProfileFormat::of(Path::new(name)), format, "{name}");
        }
    }
}
