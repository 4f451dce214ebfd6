#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{
    ByScope, ContextRow, Counts, Courses, Leaks, Leftover, Phase, PhaseStart, Report, Source, VulkanMemory,
    VulkanMemoryRow,
};

/// What the layer knows of a process, beside what every report has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramAccounts {
    /// The layer's own file.
    pub library: Option<String>,
    /// The instances in the order of their creation.
    pub instances: Vec<InstanceAccounts>,
    /// Of all instances and devices; `None` before the first instance.
    pub all: Option<LiveAndPeak>,
    /// Kinds of objects that are neither counted nor judged since the layer panicked.
    pub passed_through: Vec<String>,
    /// What the checker did not judge; `None` without the checker.
    pub check: Option<CheckLimits>,
    /// What was wrong with the settings, one sentence each.
    pub settings: Vec<String>,
    /// Phases that had no room.
    pub lost_phases: u64,
    /// Whether the process is at its end.
    #[serde(default)]
    pub has_ended: bool,
    /// Bytes by which the process grew since its first instance, and which neither callbacks nor device memory account
    /// for, if they are many.
    #[serde(default)]
    pub unseen_growth: Option<u64>,
    /// Live bytes over time, by kind and heap.
    #[serde(default)]
    pub courses: Courses,
}

/// Charged bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveAndPeak {
    /// Bytes that are live.
    pub live_bytes: u64,
    /// The most of them at once; peaks through the program's own callbacks are added.
    pub peak_bytes: u64,
}

/// What was not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckLimits {
    /// Callbacks between bracketed commands, which prove nothing.
    pub between_commands: u64,
    /// Observations without room.
    pub lost: u64,
    /// Sets of callbacks that are not watched.
    pub unchecked_kinds: u64,
    /// Commands of which nothing is known.
    pub without_brackets: Vec<String>,
}

/// The accounts of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceAccounts {
    /// Whether it lives, or has left something.
    pub in_use: bool,
    /// Its kinds of objects that were used.
    pub kinds: Vec<KindAccounts>,
    /// Its devices in the order of their creation.
    pub devices: Vec<DeviceAccounts>,
}

/// The accounts of a device; its device memory is in [`Report::vulkan_memory`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAccounts {
    /// Whether it lives, or has left something.
    pub in_use: bool,
    /// Its kinds of objects that were used.
    pub kinds: Vec<KindAccounts>,
    /// The device, and the versions of its driver and of Vulkan.
    pub description: Option<String>,
}

/// A kind of object. Bytes are charged ones where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindAccounts {
    /// Its name.
    pub kind: String,
    /// Bytes that are live.
    pub live_bytes: u64,
    /// Blocks that are live.
    pub live_blocks: u64,
    /// The most bytes live at once.
    pub peak_bytes: u64,
    /// How far that may be above the truth.
    pub peak_slack: u64,
    /// Bytes ever allocated.
    pub total_bytes: u64,
    /// Blocks ever allocated.
    pub total_blocks: u64,
    /// Objects created.
    pub objects_created: u64,
    /// Of them, not destroyed.
    pub objects_alive: u64,
    /// Commands with callbacks of the program.
    pub foreign_commands: u64,
    /// `live_bytes` by scope.
    pub live_by_scope: ByScope,
    /// The same, requested bytes.
    pub requested_by_scope: ByScope,
    /// What was live at the end of [`Report::fullest_phase`].
    pub fullest_by_scope: ByScope,
}

/// What the driver allocates for itself, of a device that reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverMemory {
    /// Kinds of objects that were used, with their numbers; the index of each row is 0.
    pub kinds: Vec<(String, VulkanMemoryRow)>,
    /// Events by which the driver reported an end.
    pub free_events: u64,
    /// Events without room.
    pub lost_events: u64,
}

/// The phases of a process, each with the accounts at its beginning, and its peak with what that may be off.
#[derive(Clone, Debug, Default)]
pub struct PhaseStarts {
    /// In the order in which they began.
    pub starts: Vec<(PhaseStart, (u64, u64))>,
    /// Commands called until now.
    pub commands: u64,
    /// The accounts now.
    pub counts: Counts,
}

impl ProgramAccounts {
    /// The rows of all instances and devices.
    pub fn kinds(&self) -> impl Iterator<Item = &KindAccounts> {
        self.instances.iter().flat_map(|instance| {
            let of_devices = instance.devices.iter().flat_map(|device| &device.kinds);
            instance.kinds.iter().chain(of_devices)
        })
    }

    fn limits(&self) -> Vec<String> {
        let settings = self.settings.iter().map(|line| format!("setting: {line}"));
        let passed = self
            .passed_through
            .iter()
            .map(|kind| format!("the layer panicked: since then {kind} is passed through, neither counted nor judged"));
        let unjudged = match &self.check {
            None => vec!["callbacks were not judged by Vulkan's rules".to_owned()],
            Some(check) => {
                let between = (check.between_commands > 0).then(|| {
                    format!(
                        "{} callbacks came between hooked commands, or on threads without one: counted, and not judged",
                        check.between_commands
                    )
                });
                let unchecked = (check.unchecked_kinds > 0).then(|| {
                    format!("{} sets of callbacks are not watched: there was no room for them", check.unchecked_kinds)
                });
                let without_brackets = (!check.without_brackets.is_empty()).then(|| {
                    format!(
                        "commands without brackets, since nothing is known of them: {}",
                        check.without_brackets.join(", ")
                    )
                });
                let all = between.into_iter().chain(unchecked);
                all.chain(without_brackets).collect()
            }
        };
        let lost_phases = (self.lost_phases > 0)
            .then(|| format!("{} more phases would have begun: what they had is in the last one", self.lost_phases));
        let unjudged = unjudged.into_iter().chain(lost_phases);
        settings.chain(passed).chain(unjudged).collect()
    }
}

impl PhaseStarts {
    fn phases(self) -> Vec<Phase> {
        let mut next = (self.commands, self.counts);
        let ends = self.starts.into_iter().rev().map(|(start, peak)| {
            let (commands, counts) = std::mem::replace(&mut next, (start.commands, start.counts));
            start.end(commands, &counts, peak)
        });
        let mut phases: Vec<_> = ends.collect();
        phases.reverse();
        phases
    }
}

impl Report {
    /// The report of a process: phases, contexts, leftovers, devices and limits, from its accounts. `memory` has a row
    /// for each device.
    #[must_use]
    pub fn of_program(
        mut source: Source,
        program: ProgramAccounts,
        mut memory: Vec<VulkanMemory>,
        phases: PhaseStarts,
    ) -> Self {
        let mut contexts = Vec::new();
        let mut leftovers = Vec::new();
        let mut of_device = memory.iter_mut();
        for (number, instance) in (1..).zip(&program.instances) {
            let instance_name = format!("instance {number}");
            contexts.push(ContextRow::group(&instance_name, 0));
            add_kinds(&instance.kinds, 1, (&mut contexts, &mut leftovers));
            for (number, device) in (1..).zip(&instance.devices) {
                let device_name = format!("device {number}");
                contexts.push(ContextRow::group(&device_name, 1));
                add_kinds(&device.kinds, 2, (&mut contexts, &mut leftovers));
                if let Some(memory) = of_device.next() {
                    memory.device = format!("{instance_name}, {device_name}");
                }
                if let Source::Program { devices, .. } = &mut source {
                    devices.extend(device.description.clone());
                }
            }
        }
        ContextRow::sum_groups(&mut contexts);
        let phases = phases.phases();
        let (mut peak_bytes, peak_slack) = peak(&phases);
        let mut limits = program.limits();
        if let Some(all) = program.all.filter(|_| phases.is_empty()) {
            peak_bytes = all.peak_bytes;
            limits.push("no phases: they could not be kept, or not be read".to_owned());
        }
        Self {
            peak_slack,
            contexts,
            leftovers,
            vulkan_memory: Some(memory),
            limits,
            program: Some(program),
            ..Self::of_trace(source, phases, peak_bytes)
        }
    }

    /// The stacks of a process that ended without a report: nothing else is in it.
    #[must_use]
    pub fn of_stacks(process: u64, commands: u64, leaks: &Leaks) -> Self {
        let source = Source::Program {
            executable: "a program".to_owned(),
            arguments: None,
            process: u32::try_from(process).unwrap_or_default(),
            commands,
            loader: None,
            layers: Vec::new(),
            layers_below: Vec::new(),
            devices: Vec::new(),
            drivers: Vec::new(),
        };
        Self { leaks: Some(leaks.clone()), ..Self::of_trace(source, Vec::new(), 0) }
    }
}

fn add_kinds(kinds: &[KindAccounts], depth: usize, (contexts, leftovers): (&mut Vec<ContextRow>, &mut Vec<Leftover>)) {
    for kind in kinds {
        contexts.push(ContextRow {
            name: kind.kind.clone(),
            depth,
            group: false,
            live_bytes: kind.fullest_by_scope.sum(),
            live_by_scope: kind.fullest_by_scope,
            peak_bytes: kind.peak_bytes,
            peak_slack: kind.peak_slack,
            total_blocks: kind.total_blocks,
            total_bytes: kind.total_bytes,
        });
        if kind.live_blocks > 0 {
            leftovers.push(Leftover {
                context: kind.kind.clone(),
                blocks: kind.live_blocks,
                bytes: kind.requested_by_scope.sum(),
                by_scope: kind.requested_by_scope,
            });
        }
    }
}

/// Another phase's peak may have been higher than that one's at its lowest.
fn peak(phases: &[Phase]) -> (u64, u64) {
    let highest = phases.iter().map(|phase| phase.peak_bytes).max();
    let highest = highest.unwrap_or_default();
    let lowest = phases.iter().map(|phase| phase.peak_bytes.saturating_sub(phase.peak_slack)).max();
    (highest, highest.saturating_sub(lowest.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str, (live, blocks): (u64, u64), (peak, total): (u64, u64)) -> KindAccounts {
        let live_by_scope = ByScope { object: live, ..ByScope::default() };
        KindAccounts {
            kind: kind.to_owned(),
            live_bytes: live,
            live_blocks: blocks,
            peak_bytes: peak,
            total_bytes: total,
            total_blocks: total / 40,
            live_by_scope,
            requested_by_scope: live_by_scope,
            fullest_by_scope: live_by_scope,
            ..KindAccounts::default()
        }
    }

    #[test]
    fn lc8_ly33_the_accounts_of_a_process_are_a_report_with_kinds_that_no_table_has() {
        let device = DeviceAccounts {
            kinds: vec![kind("VkUnheardOfEXT", (40, 1), (80, 80))],
            description: Some("llvmpipe, driver 0.0.1".to_owned()),
            ..DeviceAccounts::default()
        };
        let instance = InstanceAccounts {
            kinds: vec![kind("VkInstance", (0, 0), (100, 120))],
            devices: vec![device],
            ..InstanceAccounts::default()
        };
        let program = ProgramAccounts {
            instances: vec![instance],
            settings: vec!["a line".to_owned()],
            ..ProgramAccounts::default()
        };
        let memory = VulkanMemory { lost_blocks: 2, ..VulkanMemory::default() };
        let start = |name: &str, commands, peak| {
            let start = PhaseStart { name: name.to_owned(), commands, counts: Counts::default() };
            (start, peak)
        };
        let without_memory =
            ProgramAccounts { all: Some(LiveAndPeak { live_bytes: 40, peak_bytes: 180 }), ..program.clone() };
        let phases = PhaseStarts {
            starts: vec![start("run", 0, (180, 80)), start("mark", 4, (130, 0))],
            commands: 9,
            counts: Counts::default(),
        };
        let Report { source, .. } = Report::of_stacks(7, 9, &Leaks::default());
        let none = PhaseStarts::default();
        let unphased = Report::of_program(source.clone(), without_memory, Vec::new(), none);
        assert_eq!(unphased.peak_bytes, 180, "it is known without phases");
        assert!(unphased.limits[2].starts_with("no phases"));
        let report = Report::of_program(source, program, vec![memory], phases);
        let rows = report.contexts.iter().map(|row| (&*row.name, row.depth));
        let expected = [("instance 1", 0), ("VkInstance", 1), ("device 1", 1), ("VkUnheardOfEXT", 2)];
        assert!(rows.eq(expected), "{:?}", report.contexts);
        let sums = (report.contexts[0].total_bytes, report.contexts[2].live_bytes);
        assert_eq!(sums, (200, 40));
        let Source::Program { devices, .. } = &report.source else {
            panic!("{:?}", report.source);
        };
        assert_eq!(devices[..], ["llvmpipe, driver 0.0.1"]);
        let left = report.leftovers.iter();
        let left = left.map(|left| (&*left.context, left.blocks, left.by_scope.object));
        assert!(left.eq([("VkUnheardOfEXT", 1, 40)]));
        let phases = report.phases.iter();
        let phases = phases.map(|phase| (&*phase.name, phase.commands));
        assert!(phases.eq([("run", 4), ("mark", 5)]));
        let peak = (report.peak_bytes, report.peak_slack, &*report.peak_phase);
        assert_eq!(peak, (180, 50, "run"), "the other phase had 130 for sure");
        let memory = report.vulkan_memory.as_deref().expect("a list");
        assert_eq!((&*memory[0].device, memory[0].lost_blocks), ("instance 1, device 1", 2));
        assert_eq!(report.limits.len(), 2, "{:?}", report.limits);
        let json = super::super::json(&report).expect("JSON");
        assert_eq!(serde_json::from_str::<Report>(&json).expect("itself"), report);
    }
}
