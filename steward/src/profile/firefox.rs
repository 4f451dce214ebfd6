//! The Firefox Profiler's processed format: a sample for each allocation and free, markers for phases and commands, and
//! a counter of live bytes for each scope. Its view "Retained Memory" shows blocks that were not freed.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::time::SystemTime;

use alloc_core::Scope;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, Frame, FrameFlags, FrameInfo, GraphColor, MarkerTiming, ProcessHandle, Profile,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use vk_report::report::origins::{CommandSpan, EventLog};
use vk_report::report::{Phase, Report};

use self::counters::ScopeCounters;
use self::markers::SpanMarker;
use super::sites::ProfileSite;
use super::{ProfileInput, process, title};

mod counters;
mod markers;

const SCOPES: [(Scope, CategoryColor, GraphColor); 5] = [
    (Scope::Instance, CategoryColor::Blue, GraphColor::Blue),
    (Scope::Device, CategoryColor::Yellow, GraphColor::Yellow),
    (Scope::Cache, CategoryColor::Purple, GraphColor::Purple),
    (Scope::Object, CategoryColor::LightBlue, GraphColor::Teal),
    (Scope::Command, CategoryColor::Red, GraphColor::Red),
];

struct ProcessWriter<'p> {
    profile: &'p mut Profile,
    process: ProcessHandle,
    /// The viewer matches a free with its allocation within one thread, so that all samples are on this one.
    main: ThreadHandle,
    categories: &'p HashMap<&'static str, CategoryHandle>,
}

pub(super) fn firefox(input: ProfileInput<'_>) -> Result<String, serde_json::Error> {
    let mut profile = Profile::new("Steward", SystemTime::now().into(), SamplingInterval::from_millis(1));
    profile.set_os_name(std::env::consts::OS);
    // Functions already have names.
    profile.set_symbolicated(true);
    let mut categories = HashMap::new();
    for (scope, color, _) in SCOPES {
        categories.insert(scope.name(), profile.add_category(&scope_label(scope), color));
    }
    let mut counters = ScopeCounters::default();
    for report in input.reports {
        let process = profile.add_process(&title(report), process(report), at(0));
        let main = profile.add_thread(process, super::process(report), at(0), true);
        profile.set_thread_name(main, "host memory");
        profile.set_thread_show_markers_in_timeline(main, true);
        profile.add_initial_visible_thread(main);
        let mut writer = ProcessWriter { profile: &mut profile, process, main, categories: &categories };
        let sites = super::sites::of(report);
        match input.events.filter(|_| report.call_sites.is_some()) {
            Some(events) => writer.run(report, &sites, events, &mut counters),
            None => writer.alive(&sites),
        }
    }
    counters.label(&serde_json::to_string(&profile)?)
}

fn scope_label(scope: Scope) -> String {
    format!("scope {}", scope.name())
}

fn at(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(nanoseconds)
}

impl ProcessWriter<'_> {
    fn run(&mut self, report: &Report, sites: &[ProfileSite], events: &EventLog, counters: &mut ScopeCounters) {
        let stacks: Vec<_> = sites.iter().map(|site| self.stack(site)).collect();
        for change in events.blocks.iter().filter(|change| change.bytes != 0) {
            let stack = stacks.get(change.site).copied().flatten();
            self.profile.add_allocation_sample(self.main, at(change.at), stack, change.block, change.bytes);
        }
        self.phases(&report.phases, &events.phase_ends);
        self.commands(&events.commands);
        let ends = [
            events.blocks.last().map(|change| change.at),
            events.commands.last().map(|command| command.end),
            events.phase_ends.last().copied(),
        ];
        let end = at(ends.into_iter().flatten().max().unwrap_or(0));
        counters.add(self.profile, self.process, (sites, events), end);
        self.profile.set_process_end_time(self.process, end);
        self.profile.set_thread_end_time(self.main, end);
    }

    fn alive(&mut self, sites: &[ProfileSite]) {
        for (number, site) in (1..).zip(sites) {
            let stack = self.stack(site);
            let bytes = i64::try_from(site.left.bytes).unwrap_or(i64::MAX);
            self.profile.add_allocation_sample(self.main, at(0), stack, number, bytes);
        }
    }

    fn stack(&mut self, site: &ProfileSite) -> Option<StackHandle> {
        let category = self.categories.get(&*site.scope).copied();
        let category = category.unwrap_or(CategoryHandle::OTHER);
        let frames = site.frames.iter().rev().map(ToString::to_string);
        let frames: Vec<_> = site
            .labels
            .iter()
            .cloned()
            .chain(frames)
            .map(|text| FrameInfo {
                frame: Frame::Label(self.profile.intern_string(&text)),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        self.profile.intern_stack_frames(self.main, frames.into_iter())
    }

    fn phases(&mut self, phases: &[Phase], ends: &[u64]) {
        let mut begin = 0;
        for (phase, end) in phases.iter().zip(ends) {
            let marker = SpanMarker::phase(self.profile, phase);
            let timing = MarkerTiming::Interval(at(begin), at(*end));
            self.profile.add_marker(self.main, timing, marker);
            begin = *end;
        }
    }

    fn commands(&mut self, commands: &[CommandSpan]) {
        let mut threads: HashMap<u64, ThreadHandle> = HashMap::new();
        for command in commands {
            let number = u32::try_from(command.thread).unwrap_or(u32::MAX);
            let thread = *threads.entry(command.thread).or_insert_with(|| {
                let thread = self.profile.add_thread(self.process, number, at(0), false);
                self.profile.set_thread_name(thread, &format!("commands of thread {number}"));
                self.profile.set_thread_show_markers_in_timeline(thread, true);
                self.profile.add_initial_visible_thread(thread);
                thread
            });
            let marker = SpanMarker::command(self.profile, command);
            let timing = MarkerTiming::Interval(at(command.begin), at(command.end));
            self.profile.add_marker(thread, timing, marker);
        }
    }
}
