//! The report of a program that ran with the Vulkan layer, from what the layer wrote.

#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
    ByScope, ContextRow, Counts, Coverage, FailRun, FindingRow, GuardRun, Leaks, Leftover, Phase,
    PhaseStart, Report, Sample, Source, Unjudged, VulkanMemory, VulkanMemoryRow,
};

/// What the layer writes of one process.
#[derive(Deserialize)]
struct LayerReport {
    process: u32,
    commands: u64,
    executable: String,
    arguments: Option<Vec<String>>,
    instances: Vec<LayerInstance>,
    passed_through: Vec<String>,
    check: Option<LayerCheck>,
    settings: Vec<String>,
    guard: Option<GuardRun>,
    fail: Option<FailRun>,
    #[serde(alias = "honour")]
    callback_coverage: Option<Coverage>,
    leaks: Option<Leaks>,
    loader: Option<String>,
    #[serde(default)]
    layers: Vec<String>,
    /// Not the layer's: `steward run` adds it.
    #[serde(default)]
    drivers: Vec<String>,
    #[serde(default)]
    layers_below: Vec<String>,
    /// Each with the numbers that it began with.
    #[serde(default)]
    phases: Vec<LayerPhase>,
    #[serde(default)]
    lost_phases: u64,
    /// At whose end the kinds held most. A layer of an earlier version does not write it.
    fullest_phase: Option<String>,
    /// As the last phase ended.
    #[serde(default)]
    counts: Counts,
    #[serde(default)]
    timeline: Vec<Sample>,
}

#[derive(Deserialize)]
struct LayerPhase {
    name: String,
    commands: u64,
    counts: Counts,
    peak_bytes: u64,
    peak_slack: u64,
}

#[derive(Deserialize)]
struct LayerInstance {
    kinds: Vec<LayerKind>,
    devices: Vec<LayerDevice>,
}

#[derive(Deserialize)]
struct LayerDevice {
    kinds: Vec<LayerKind>,
    heaps: Vec<VulkanMemoryRow>,
    types: Vec<VulkanMemoryRow>,
    lost_blocks: u64,
    description: Option<String>,
}

#[derive(Deserialize)]
struct LayerKind {
    kind: String,
    live_by_scope: ByScope,
    /// Of what is live, without the header of each block. A layer of an earlier version does not write it.
    requested_by_scope: Option<ByScope>,
    /// What was live when all kinds held most, of the ends of phases. A layer of an earlier version does not write it.
    fullest_by_scope: Option<ByScope>,
    live_blocks: u64,
    peak_bytes: u64,
    #[serde(default)]
    peak_slack: u64,
    total_bytes: u64,
    total_blocks: u64,
}

#[derive(Default, Deserialize)]
struct LayerCheck {
    findings: Vec<FindingRow>,
    between_commands: u64,
    lost: u64,
    unchecked_kinds: u64,
}

/// The one phase of a program whose layer reported none.
const PHASE: &str = "run";

impl Report {
    /// The report of a process, from the JSON that the layer wrote of it.
    ///
    /// # Errors
    /// The text is no JSON, or lacks what the layer of this version writes.
    pub fn of_program(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<LayerReport>(json).map(Self::from)
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
        Self {
            leaks: Some(leaks.clone()),
            ..Self::of_trace(source, Vec::new(), 0)
        }
    }
}

impl From<LayerReport> for Report {
    fn from(layer: LayerReport) -> Self {
        let limits = layer.limits();
        let mut contexts = Vec::new();
        let mut leftovers = Vec::new();
        let mut vulkan_memory = Vec::new();
        let mut devices = Vec::new();
        for (number, instance) in (1..).zip(layer.instances) {
            let instance_name = format!("instance {number}");
            contexts.push(ContextRow::group(&instance_name, 0));
            add_kinds(&instance.kinds, 1, (&mut contexts, &mut leftovers));
            for (number, device) in (1..).zip(instance.devices) {
                let device_name = format!("device {number}");
                contexts.push(ContextRow::group(&device_name, 1));
                devices.extend(device.description);
                add_kinds(&device.kinds, 2, (&mut contexts, &mut leftovers));
                vulkan_memory.push(VulkanMemory {
                    device: format!("{instance_name}, {device_name}"),
                    heaps: device.heaps,
                    types: device.types,
                    lost_blocks: device.lost_blocks,
                });
            }
        }
        let mut phases = phases(layer.phases, layer.commands, &layer.counts);
        if phases.is_empty() {
            phases.push(phase(layer.commands, &contexts, &leftovers));
        }
        let (peak_bytes, peak_slack) = peak(&phases);
        ContextRow::sum_groups(&mut contexts);
        let source = Source::Program {
            executable: layer.executable,
            arguments: layer.arguments,
            process: layer.process,
            commands: layer.commands,
            loader: layer.loader,
            layers: layer.layers,
            layers_below: layer.layers_below,
            devices,
            drivers: layer.drivers,
        };
        let check = layer.check.unwrap_or_default();
        Self {
            peak_slack,
            contexts,
            fullest_phase: layer
                .fullest_phase
                .or_else(|| phases.last().map(|last| last.name.clone()))
                .unwrap_or_default(),
            timeline: layer.timeline,
            leftovers,
            findings: check.findings,
            callback_coverage: layer.callback_coverage,
            guard: layer.guard,
            fail: layer.fail,
            vulkan_memory: Some(vulkan_memory),
            leaks: layer.leaks,
            unjudged: Unjudged::live(check.lost),
            limits,
            ..Self::of_trace(source, phases, peak_bytes)
        }
    }
}

impl LayerReport {
    /// Notes on what the layer did not check or could not count.
    fn limits(&self) -> Vec<String> {
        let settings = self.settings.iter().map(|line| format!("setting: {line}"));
        let passed = self.passed_through.iter().map(|kind| {
            format!("the layer panicked: since then {kind} is passed through, neither counted nor judged")
        });
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
                    format!(
                        "{} sets of callbacks are not watched: there was no room for them",
                        check.unchecked_kinds
                    )
                });
                between.into_iter().chain(unchecked).collect()
            }
        };
        let lost_phases = (self.lost_phases > 0).then(|| {
            format!(
                "{} more phases would have begun: what they had is in the last one",
                self.lost_phases
            )
        });
        let unjudged = unjudged.into_iter().chain(lost_phases);
        settings.chain(passed).chain(unjudged).collect()
    }
}

/// Rows for the kinds of an instance or device, and what they have left.
fn add_kinds(
    kinds: &[LayerKind],
    depth: usize,
    (contexts, leftovers): (&mut Vec<ContextRow>, &mut Vec<Leftover>),
) {
    for kind in kinds {
        let fullest = kind.fullest_by_scope.unwrap_or(kind.live_by_scope);
        contexts.push(ContextRow {
            name: kind.kind.clone(),
            depth,
            group: false,
            live_bytes: fullest.sum(),
            live_by_scope: fullest,
            peak_bytes: kind.peak_bytes,
            peak_slack: kind.peak_slack,
            total_blocks: kind.total_blocks,
            total_bytes: kind.total_bytes,
        });
        if kind.live_blocks > 0 {
            let by_scope = kind.requested_by_scope.unwrap_or(kind.live_by_scope);
            leftovers.push(Leftover {
                context: kind.kind.clone(),
                blocks: kind.live_blocks,
                bytes: by_scope.sum(),
                by_scope,
            });
        }
    }
}

/// Each phase, from the numbers that it and the next one began with.
fn phases(rows: Vec<LayerPhase>, commands: u64, end: &Counts) -> Vec<Phase> {
    let mut next = (commands, *end);
    let ends = rows.into_iter().rev().map(|row| {
        let (commands, counts) = std::mem::replace(&mut next, (row.commands, row.counts));
        let start = PhaseStart {
            name: row.name,
            commands: row.commands,
            counts: row.counts,
        };
        start.end(commands, &counts, (row.peak_bytes, row.peak_slack))
    });
    let mut phases: Vec<_> = ends.collect();
    phases.reverse();
    phases
}

/// The highest peak, and how far it may be off: another phase's may have been higher than that one's at its lowest.
fn peak(phases: &[Phase]) -> (u64, u64) {
    let highest = phases.iter().map(|phase| phase.peak_bytes).max();
    let highest = highest.unwrap_or_default();
    let lowest = phases
        .iter()
        .map(|phase| phase.peak_bytes.saturating_sub(phase.peak_slack))
        .max();
    (highest, highest.saturating_sub(lowest.unwrap_or_default()))
}

/// All of it as one phase. How much was live at once is between the largest kind's peak and the sum of all.
fn phase(commands: u64, contexts: &[ContextRow], leftovers: &[Leftover]) -> Phase {
    let rows = || contexts.iter().filter(|row| !row.group);
    let sum = |number: fn(&ContextRow) -> u64| rows().map(number).fold(0, u64::saturating_add);
    let mut live_by_scope = ByScope::default();
    rows().for_each(|row| live_by_scope.add(&row.live_by_scope));
    let (blocks, bytes) = (sum(|row| row.total_blocks), sum(|row| row.total_bytes));
    let live_blocks = leftovers
        .iter()
        .fold(0, |sum: u64, left| sum.saturating_add(left.blocks));
    let peak_bytes = sum(|row| row.peak_bytes);
    let largest = rows().map(|row| row.peak_bytes).max().unwrap_or(0);
    Phase {
        name: PHASE.to_owned(),
        commands,
        blocks,
        bytes,
        freed: blocks.saturating_sub(live_blocks),
        live_bytes: live_by_scope.sum(),
        live_by_scope,
        live_blocks,
        peak_bytes,
        peak_slack: peak_bytes.saturating_sub(largest),
        ..Phase::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER: &str = r#"{ "layer_format": 1, "process": 7, "commands": 9, "executable": "x", "passed_through": [],
        "instances": [{ "in_use": true, "kinds": [{ "kind": "VkInstance", "live_bytes": 0, "live_blocks": 0, "peak_bytes": 100,
            "total_bytes": 150, "total_blocks": 3, "objects_created": 1, "objects_alive": 0, "foreign_commands": 0,
            "live_by_scope": { "command": 0, "object": 0, "cache": 0, "device": 0, "instance": 0 } }],
          "devices": [{ "in_use": true, "kinds": [{ "kind": "VkUnheardOfEXT", "live_bytes": 40, "live_blocks": 1, "peak_bytes": 80,
            "total_bytes": 80, "total_blocks": 2, "objects_created": 2, "objects_alive": 1, "foreign_commands": 0,
            "live_by_scope": { "command": 0, "object": 40, "cache": 0, "device": 0, "instance": 0 } }],
          "heaps": [{ "index": 1, "live_bytes": 0, "live_blocks": 0, "peak_bytes": 64, "total_bytes": 64, "total_blocks": 1, "refusals": 2 }],
          "types": [], "lost_blocks": 0, "description": "llvmpipe, driver 0.0.1" }] }],
        "loader": "/usr/lib/libvulkan.so.1", "layers": ["VK_LAYER_X"], "check": null, "settings": ["a line"], "guard": null, "fail": null, "callback_coverage": null, "leaks": null }"#;

    #[test]
    fn lc8_ly33_a_layers_report_is_a_report_of_the_program_with_kinds_that_no_table_has() {
        let report = Report::of_program(LAYER).expect("a layer's report");
        let names: Vec<_> = report
            .contexts
            .iter()
            .map(|row| (&*row.name, row.depth))
            .collect();
        let expected = [
            ("instance 1", 0),
            ("VkInstance", 1),
            ("device 1", 1),
            ("VkUnheardOfEXT", 2),
        ];
        assert_eq!(names, expected);
        assert_eq!(
            (
                report.contexts[0].total_bytes,
                report.contexts[2].live_bytes
            ),
            (230, 40)
        );
        let Source::Program {
            loader,
            layers,
            devices,
            ..
        } = &report.source
        else {
            panic!("{:?}", report.source);
        };
        let named = (loader.as_deref(), &layers[..], &devices[..]);
        let layers = ["VK_LAYER_X".to_owned()];
        let devices = ["llvmpipe, driver 0.0.1".to_owned()];
        let expected = (Some("/usr/lib/libvulkan.so.1"), &layers[..], &devices[..]);
        assert_eq!(named, expected);
        let [left] = &*report.leftovers else {
            panic!("{:?}", report.leftovers);
        };
        assert_eq!(
            (&*left.context, left.blocks, left.by_scope.object),
            ("VkUnheardOfEXT", 1, 40)
        );
        let [phase] = &*report.phases else {
            panic!("{:?}", report.phases);
        };
        assert_eq!((phase.blocks, phase.freed, phase.commands), (5, 4, 9));
        assert_eq!(
            (report.peak_bytes, report.peak_slack),
            (180, 80),
            "80 to 100, or both"
        );
        let memory = report.vulkan_memory.as_deref().expect("a list");
        assert_eq!(
            (&*memory[0].device, memory[0].heaps[0].refusals),
            ("instance 1, device 1", 2)
        );
        assert_eq!(report.limits.len(), 2, "{:?}", report.limits);
        let json = super::super::json(&report).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Report>(&json).expect("itself"),
            report
        );
        assert!(Report::of_program("{}").is_err());
    }
}
