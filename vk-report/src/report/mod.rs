//! The report of a run as data; `text` formats it for people, serde for programs.

#![deny(unsafe_code)]

mod by_scope;
mod call_sites;
mod columns;
mod courses;
mod coverage;
mod device_memory;
mod drill_down;
mod environment;
mod finding;
mod folded;
mod guard;
mod json;
mod known;
mod leaks;
#[expect(unsafe_code, reason = "its callbacks stand between a driver and a bridge")]
pub mod origins;
mod phase;
mod program;
mod rows;
mod sample;
mod source;
mod text;
mod unjudged;
mod vulkan_memory;

use serde::{Deserialize, Serialize};

pub use by_scope::ByScope;
pub use call_sites::{BlockSum, CallSite, CallSites};
pub use columns::{Cell, Column};
pub use courses::{CourseRow, Courses};
pub use coverage::{Coverage, CoverageRun};
pub use device_memory::{Defragmentation, DeviceMemory};
pub use drill_down::DrillDown;
pub use environment::{ActiveLayer, DiskCache, LoaderFile, RunEnvironment};
pub use finding::FindingRow;
pub use folded::FoldedPhases;
pub use guard::{FailRun, GuardReport, GuardRun, Refusal, Refusals};
pub use json::{json, write_json};
pub use known::KnownFindings;
pub use leaks::{Growth, LeakCount, LeakFrame, LeakObject, LeakPeak, LeakStack, Leaks, PeakStack};
pub use phase::{Counts, Phase, PhaseStart, numbered, title_of};
pub use program::{
    CheckLimits, DeviceAccounts, DriverMemory, InstanceAccounts, KindAccounts, LiveAndPeak, PhaseStarts,
    ProgramAccounts,
};
pub use rows::{ContextRow, HEADER_BYTES, Leftover};
pub use sample::{Sample, Sampler};
pub use source::Source;
pub use text::{Text, one_line, paragraph, steers};
pub use unjudged::Unjudged;
pub use vulkan_memory::{VulkanMemory, VulkanMemoryRow};

/// The result of one run or one replay. `--json` writes it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::FORMAT`].
    pub format: String,
    /// Where the requests came from.
    pub source: Source,
    /// The phases in the order they ran.
    pub phases: Vec<Phase>,
    /// The contexts, parents before children.
    pub contexts: Vec<ContextRow>,
    /// The phase at whose end the contexts held most; their `live` columns are of that moment.
    pub fullest_phase: String,
    /// The most bytes live at once.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
    /// The phase in which the most was live.
    pub peak_phase: String,
    /// What was not given back.
    pub leftovers: Vec<Leftover>,
    /// What was wrong, or worth telling.
    pub findings: Vec<FindingRow>,
    /// Which of the findings are known of the driver; `None` without expectations for it.
    #[serde(default)]
    pub known_findings: Option<KnownFindings>,
    /// The loader, the layers and the caches of the run; `None` for a trace.
    #[serde(default)]
    pub environment: Option<RunEnvironment>,
    /// Callback coverage; `None` if it was not requested.
    #[serde(default)]
    pub callback_coverage: Option<Coverage>,
    /// A guard's results; `None` without a guard.
    #[serde(default)]
    pub guard: Option<GuardRun>,
    /// The planned refusals; `None` without a plan.
    #[serde(default)]
    pub fail: Option<FailRun>,
    /// Device memory; `None` if nothing was sub-allocated.
    #[serde(default)]
    pub device_memory: Option<DeviceMemory>,
    /// A defragmentation; `None` if none was run.
    #[serde(default)]
    pub defragmentation: Option<Defragmentation>,
    /// Of a program: the device memory that it allocated, by device.
    #[serde(default)]
    pub vulkan_memory: Option<Vec<VulkanMemory>>,
    /// The leak list, by call stack; `None` if it was not requested.
    #[serde(default)]
    pub leaks: Option<Leaks>,
    /// The call sites of blocks; `None` where they are unknown, as for programs.
    #[serde(default)]
    pub call_sites: Option<CallSites>,
    /// Live bytes in the order of time.
    #[serde(default)]
    pub timeline: Vec<Sample>,
    /// Events that were not judged; `None` if all were.
    #[serde(default)]
    pub unjudged: Option<Unjudged>,
    /// What the source cannot tell.
    pub limits: Vec<String>,
    /// Of a program: what the layer alone knows.
    #[serde(default)]
    pub program: Option<ProgramAccounts>,
}

impl Report {
    /// The name of this form of report, in its `format` field.
    pub const FORMAT: &str = "steward report 4";

    /// The failures of a guarded run, or of one with planned refusals, each a sentence: the guard's findings, leftovers
    /// or a wrong end after a refusal, or a plan that no request met.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let reports = self.guard.as_ref().map_or(0, |guard| guard.reports);
        let reported = (reports > 0).then(|| format!("the guard found {reports} mistake{}", text::plural(reports)));
        let of_fail = self.fail.iter().flat_map(|fail| {
            let (plan, after) = (&fail.plan, "after a refusal on purpose");
            let unmet = (!fail.met_its_plan()).then(|| format!("nothing that was asked for met the plan {plan}"));
            let names: Vec<_> = self.leftovers.iter().map(|left| left.context.as_str()).collect();
            let left =
                (!names.is_empty()).then(|| format!("{after} blocks of {} were never given back", names.join(", ")));
            let ended = fail.ended.as_ref().filter(|_| !fail.ended_as_it_should());
            let ended = ended.map(|ended| {
                format!("{after} the workload ended with something else than ERROR_OUT_OF_HOST_MEMORY: {ended}")
            });
            [unmet, left, ended]
        });
        std::iter::once(reported).chain(of_fail).flatten().collect()
    }

    /// True where there are no [`Report::faults`].
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults().is_empty()
    }

    /// Whether a violation or suspect is not known of the driver.
    #[must_use]
    pub fn has_unknown_findings(&self) -> bool {
        match &self.known_findings {
            Some(known) => known.unknown > 0,
            None => self.findings.iter().any(|row| row.level != FindingRow::NOTE),
        }
    }

    /// Notes for the reader of the numbers: events that were not judged, and limits of the source.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.unjudged.iter().map(ToString::to_string).chain(self.limits.iter().cloned())
    }

    /// The report of a replay, with its exact peak.
    #[must_use]
    pub fn of_trace(source: Source, phases: Vec<Phase>, peak_bytes: u64) -> Self {
        Self {
            format: Self::FORMAT.to_owned(),
            source,
            peak_bytes,
            peak_slack: 0,
            peak_phase: phase::fullest(&phases),
            phases,
            contexts: Vec::new(),
            fullest_phase: String::new(),
            leftovers: Vec::new(),
            findings: Vec::new(),
            known_findings: None,
            environment: None,
            callback_coverage: None,
            guard: None,
            fail: None,
            device_memory: None,
            defragmentation: None,
            vulkan_memory: None,
            leaks: None,
            call_sites: None,
            timeline: Vec::new(),
            unjudged: None,
            limits: Vec::new(),
            program: None,
        }
    }
}
