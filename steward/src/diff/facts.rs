//! A report as numbers with names.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;

use alloc_core::Scope;

use super::{Part, Unit};
use vk_accounts::report::{
    ByScope, CoverageRun, FindingRow, LeakFrame, LeakStack, Report, VulkanMemory, VulkanMemoryRow,
};

/// What a number is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) part: Part,
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) measure: Measure,
}

/// What was measured; of one scope or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Measure {
    what: &'static str,
    scope: Option<&'static str>,
}

impl Measure {
    /// The same of one round; none of what does not add up over rounds.
    pub(super) fn a_round(self) -> Option<Self> {
        let what = match self.what {
            "taken" => "taken a round",
            "blocks" => "blocks a round",
            "times" => "times a round",
            "bytes" => "bytes a round",
            _ => return None,
        };
        Some(Self { what, ..self })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        self.scope.map_or(Ok(()), |scope| write!(f, ", {scope}"))
    }
}

/// Numbers by what they are. What has the same name is added up.
#[derive(Default)]
struct ReportFigures(BTreeMap<Key, u64>);

/// With `a_round` the two reports ran unlike many rounds: a phase is that of the last round, and nothing is summed up over all of them.
pub(super) fn facts(report: &Report, a_round: bool) -> BTreeMap<Key, u64> {
    let mut facts = ReportFigures::default();
    let sum = |of: fn(&vk_accounts::report::Phase) -> u64| {
        report
            .phases
            .iter()
            .map(of)
            .fold(0_u64, u64::saturating_add)
    };
    facts.bytes(Part::Totals, "all contexts", "peak", report.peak_bytes);
    if !a_round {
        let (bytes, blocks) = (sum(|phase| phase.bytes), sum(|phase| phase.blocks));
        let commands = sum(|phase| phase.commands);
        facts.bytes(Part::Totals, "all contexts", "taken", bytes);
        facts.count(Part::Totals, "all contexts", "blocks", blocks);
        facts.count(Part::Totals, "all contexts", "commands", commands);
    }
    // Groups are sums. Where a context hangs is left out: a replay has it elsewhere than the run that was recorded.
    let contexts = report.contexts.iter().filter(|row| !row.group);
    for (name, row) in numbered(contexts.map(|row| (row.name.clone(), row))) {
        facts.scopes(Part::Contexts, &name, "live", &row.live_by_scope);
        facts.bytes(Part::Contexts, &name, "peak", row.peak_bytes);
        facts.bytes(Part::Contexts, &name, "taken", row.total_bytes);
        facts.count(Part::Contexts, &name, "blocks", row.total_blocks);
    }
    let phases = report
        .phases
        .iter()
        .map(|phase| (phase.name.clone(), phase));
    let phases: Vec<_> = if a_round {
        phases.collect::<BTreeMap<_, _>>().into_iter().collect()
    } else {
        numbered(phases).collect()
    };
    for (name, phase) in phases {
        facts.scopes(Part::Phases, &name, "live", &phase.live_by_scope);
        facts.bytes(Part::Phases, &name, "peak", phase.peak_bytes);
        facts.bytes(Part::Phases, &name, "taken", phase.bytes);
        facts.count(Part::Phases, &name, "blocks", phase.blocks);
        facts.count(Part::Phases, &name, "freed", phase.freed);
        facts.count(Part::Phases, &name, "commands", phase.commands);
    }
    for row in &report.findings {
        facts.count(Part::Findings, &finding(row), "times", row.count);
        facts.bytes(Part::Findings, &finding(row), "bytes", row.bytes);
    }
    let (without, with) = report
        .callback_coverage
        .as_ref()
        .map_or((None, None), |coverage| {
            (coverage.without_loader, coverage.with_loader)
        });
    for (name, run) in [("without the loader", without), ("with the loader", with)] {
        run.into_iter().for_each(|run| facts.coverage(name, &run));
    }
    for left in &report.leftovers {
        facts.scopes(Part::Leftovers, &left.context, "left", &left.by_scope);
        facts.count(Part::Leftovers, &left.context, "blocks", left.blocks);
    }
    for memory in report.vulkan_memory.iter().flatten() {
        facts.memory(memory);
    }
    for stack in report.leaks.iter().flat_map(|leaks| &leaks.stacks) {
        facts.alive(stack);
    }
    facts.0
}

impl ReportFigures {
    fn put(&mut self, part: Part, name: &str, unit: Unit, measure: Measure, number: u64) {
        let sum = self
            .0
            .entry(Key {
                part,
                name: name.to_owned(),
                unit,
                measure,
            })
            .or_default();
        *sum = sum.saturating_add(number);
    }

    fn bytes(&mut self, part: Part, name: &str, what: &'static str, bytes: u64) {
        self.put(
            part,
            name,
            Unit::Bytes,
            Measure { what, scope: None },
            bytes,
        );
    }

    fn count(&mut self, part: Part, name: &str, what: &'static str, count: u64) {
        self.put(
            part,
            name,
            Unit::Count,
            Measure { what, scope: None },
            count,
        );
    }

    fn scopes(&mut self, part: Part, name: &str, what: &'static str, by_scope: &ByScope) {
        for scope in Scope::ALL {
            self.put(
                part,
                name,
                Unit::Bytes,
                Measure {
                    what,
                    scope: Some(scope.name()),
                },
                by_scope.get(scope),
            );
        }
    }

    fn memory(&mut self, memory: &VulkanMemory) {
        for (what, rows) in [("heap", &memory.heaps), ("type", &memory.types)] {
            for row in rows {
                let name = format!("{}, {what} {}", memory.device, row.index);
                let VulkanMemoryRow {
                    live_bytes,
                    live_blocks,
                    peak_bytes,
                    total_bytes,
                    total_blocks,
                    refusals,
                    ..
                } = *row;
                self.bytes(Part::Memory, &name, "live", live_bytes);
                self.bytes(Part::Memory, &name, "peak", peak_bytes);
                self.bytes(Part::Memory, &name, "taken", total_bytes);
                self.count(Part::Memory, &name, "live blocks", live_blocks);
                self.count(Part::Memory, &name, "blocks", total_blocks);
                self.count(Part::Memory, &name, "refused", refusals);
            }
        }
    }

    /// What lives of one stack, and those of its objects that have names.
    fn alive(&mut self, stack: &LeakStack) {
        let name = place(stack);
        self.bytes(Part::Alive, &name, "bytes", stack.bytes());
        self.count(Part::Alive, &name, "objects", stack.objects.live);
        self.count(Part::Alive, &name, "blocks", stack.blocks.live);
        let named = stack.oldest.iter().filter(|object| !object.name.is_empty());
        for object in named {
            let name = format!("{} \"{}\", {name}", stack.kind, object.name);
            self.count(Part::Alive, &name, "objects", 1);
        }
    }

    fn coverage(&mut self, name: &str, run: &CoverageRun) {
        for (what, calls, bytes) in [
            ("callbacks", run.callback_calls, run.callback_bytes),
            ("in commands", run.in_command_calls, run.in_command_bytes),
            (
                "own threads",
                run.never_issued_calls,
                run.never_issued_bytes,
            ),
        ] {
            self.bytes(Part::CallbackCoverage, name, what, bytes);
            self.count(Part::CallbackCoverage, name, what, calls);
        }
    }
}

/// The command or kind, and the functions that called it: the same in each run of one program.
fn place(stack: &LeakStack) -> String {
    const FUNCTIONS: usize = 4;
    let what = if stack.command.is_empty() {
        &stack.kind
    } else {
        &stack.command
    };
    let functions = stack.frames.iter().flat_map(functions).take(FUNCTIONS);
    let mut words = vec![what.clone()];
    words.extend(functions);
    words.join(" < ")
}

/// Those of a frame, without file and line; or the place in its file, where they have no names.
fn functions(frame: &LeakFrame) -> Vec<String> {
    if frame.functions.is_empty() {
        let file = frame.module.rsplit('/').next().unwrap_or_default();
        return vec![format!("{file}+{}", frame.offset)];
    }
    let name = |function: &String| match function.rsplit_once(", ") {
        Some((name, place)) if is_place(place) => name.to_owned(),
        _ => function.clone(),
    };
    frame.functions.iter().map(name).collect()
}

/// A file and a line. What is between the commas of a function's own name is none, as `std::string)`.
fn is_place(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(file, line)| {
        !file.is_empty() && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// With a number behind each name that was there before: `frames`, `frames #2`.
fn numbered<T>(named: impl Iterator<Item = (String, T)>) -> impl Iterator<Item = (String, T)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    named.map(move |(name, one)| {
        let nth = seen.entry(name.clone()).or_default();
        *nth += 1;
        (
            if *nth == 1 {
                name
            } else {
                format!("{name} #{nth}")
            },
            one,
        )
    })
}

/// What makes two findings the same: not the sentence, which may name a block or a line. A finding without a rule has only that.
pub(super) fn finding(row: &FindingRow) -> String {
    // Of calls on a foreign thread, V22/V23, it is a matter of time whether they show V22 as well.
    let rule = row.rule.rsplit('/').next().unwrap_or_default();
    let what = [&row.level, rule, &row.kind]
        .into_iter()
        .filter(|word| !word.is_empty());
    let mut words = vec![what.collect::<Vec<_>>().join(" ")];
    words.extend((!row.command.is_empty()).then(|| row.command.clone()));
    words.extend((!row.owner.is_empty()).then(|| format!("callbacks of {}", row.owner)));
    words.extend((!row.scope.is_empty()).then(|| format!("scope {}", row.scope)));
    words.extend((row.rule.is_empty() && row.first_serial == 0).then(|| row.sentence.clone()));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use vk_accounts::report::LeakFrame;

    use super::functions;

    #[test]
    fn ly54_parameters_of_a_function_are_no_place() {
        for (function, expected) in [
            ("main, src/main.rs:12", "main"),
            ("f(int, std::string), a b.cpp:7", "f(int, std::string)"),
            ("f(int, std::string)", "f(int, std::string)"),
            ("f(int, std::", "f(int, std::"),
            ("f, :7", "f, :7"),
            ("f", "f"),
        ] {
            let frame = LeakFrame {
                functions: vec![function.to_owned()],
                ..LeakFrame::default()
            };
            assert_eq!(functions(&frame), [expected]);
        }
    }
}
