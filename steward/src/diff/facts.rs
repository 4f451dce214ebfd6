#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;

use alloc_core::Scope;

use super::pairing::PairedNames;
use super::{Part, Unit};
use vk_report::report::{ByScope, CoverageRun, FindingRow, LeakFrame, LeakStack, Phase, Report, numbered};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) part: Part,
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) measure: Measure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Measure {
    what: &'static str,
    scope: Option<&'static str>,
}

impl Measure {
    /// Returns `None` for quantities that do not add up over rounds.
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

/// Numbers of the same name are added.
#[derive(Default)]
struct ReportFigures(BTreeMap<Key, u64>);

/// With `a_round` the two reports ran different numbers of rounds: a phase is that of the last round, and nothing is
/// summed over rounds.
pub(super) fn facts(report: &Report, paired: Option<PairedNames>, a_round: bool) -> BTreeMap<Key, u64> {
    let mut facts = ReportFigures::default();
    let sum = |figure: fn(&Phase) -> u64| {
        let figures = report.phases.iter().map(figure);
        figures.fold(0, u64::saturating_add)
    };
    let mut totals = facts.of(Part::Totals, "all contexts");
    totals.bytes("peak", report.peak_bytes);
    if !a_round {
        totals.bytes("taken", sum(|phase| phase.bytes));
        totals.count("blocks", sum(|phase| phase.blocks));
        totals.count("commands", sum(|phase| phase.commands));
    }
    // Groups are sums. A context's parent is left out: in a replay it differs from that of the recorded run.
    let contexts = report.contexts.iter().filter(|row| !row.group);
    let (names, memory_names) = match paired {
        Some(paired) => (paired.contexts, paired.memory),
        None => {
            let names = numbered(contexts.clone().map(|row| &*row.name));
            let devices = report.vulkan_memory.iter().flatten();
            (names, devices.map(|memory| memory.device.clone()).collect())
        }
    };
    for (name, row) in names.into_iter().zip(contexts) {
        let mut context = facts.of(Part::Contexts, &name);
        context.scopes("live", &row.live_by_scope);
        context.bytes("peak", row.peak_bytes);
        context.bytes("taken", row.total_bytes);
        context.count("blocks", row.total_blocks);
    }
    let names = report.phases.iter().map(|phase| &*phase.name);
    let names = if a_round { names.map(str::to_owned).collect() } else { numbered(names) };
    let named = names.into_iter().zip(&report.phases);
    // Of one round the last of each name.
    let phases: Vec<_> =
        if a_round { named.collect::<BTreeMap<_, _>>().into_iter().collect() } else { named.collect() };
    for (name, phase) in phases {
        let mut figures = facts.of(Part::Phases, &name);
        figures.scopes("live", &phase.live_by_scope);
        figures.bytes("peak", phase.peak_bytes);
        figures.bytes("taken", phase.bytes);
        figures.count("blocks", phase.blocks);
        figures.count("freed", phase.freed);
        figures.count("commands", phase.commands);
    }
    for row in &report.findings {
        let name = finding(row);
        let mut figures = facts.of(Part::Findings, &name);
        figures.count("times", row.count);
        figures.bytes("bytes", row.bytes);
    }
    let coverage = report.callback_coverage.as_ref();
    let without = coverage.and_then(|coverage| coverage.without_loader);
    let with = coverage.and_then(|coverage| coverage.with_loader);
    for (name, run) in [("without the loader", without), ("with the loader", with)] {
        if let Some(run) = run {
            facts.of(Part::CallbackCoverage, name).coverage(&run);
        }
    }
    for left in &report.leftovers {
        let mut figures = facts.of(Part::Leftovers, &left.context);
        figures.scopes("left", &left.by_scope);
        figures.count("blocks", left.blocks);
    }
    for (device, memory) in memory_names.iter().zip(report.vulkan_memory.iter().flatten()) {
        for (what, rows) in [("heap", &memory.heaps), ("type", &memory.types)] {
            for row in rows {
                let name = format!("{device}, {what} {}", row.index);
                let mut figures = facts.of(Part::Memory, &name);
                figures.bytes("live", row.live_bytes);
                figures.bytes("peak", row.peak_bytes);
                figures.bytes("taken", row.total_bytes);
                figures.count("live blocks", row.live_blocks);
                figures.count("blocks", row.total_blocks);
                figures.count("refused", row.refusals);
            }
        }
    }
    for stack in report.leaks.iter().flat_map(|leaks| &leaks.stacks) {
        let place = place(stack);
        let mut figures = facts.of(Part::Alive, &place);
        figures.bytes("bytes", stack.bytes());
        figures.count("objects", stack.objects.live);
        figures.count("blocks", stack.blocks.live);
        for object in stack.oldest.iter().filter(|object| !object.name.is_empty()) {
            let name = format!("{} \"{}\", {place}", stack.kind, object.name);
            facts.of(Part::Alive, &name).count("objects", 1);
        }
    }
    facts.0
}

struct NamedFigures<'f> {
    sums: &'f mut ReportFigures,
    part: Part,
    name: &'f str,
}

impl ReportFigures {
    fn of<'f>(&'f mut self, part: Part, name: &'f str) -> NamedFigures<'f> {
        let sums = self;
        NamedFigures { sums, part, name }
    }
}

impl NamedFigures<'_> {
    fn put(&mut self, unit: Unit, what: &'static str, scope: Option<Scope>, number: u64) {
        let key = Key {
            part: self.part,
            name: self.name.to_owned(),
            unit,
            measure: Measure { what, scope: scope.map(Scope::name) },
        };
        let sum = self.sums.0.entry(key).or_default();
        *sum = sum.saturating_add(number);
    }

    fn bytes(&mut self, what: &'static str, bytes: u64) {
        self.put(Unit::Bytes, what, None, bytes);
    }

    fn count(&mut self, what: &'static str, count: u64) {
        self.put(Unit::Count, what, None, count);
    }

    fn scopes(&mut self, what: &'static str, by_scope: &ByScope) {
        for scope in Scope::ALL {
            self.put(Unit::Bytes, what, Some(scope), by_scope.get(scope));
        }
    }

    fn coverage(&mut self, run: &CoverageRun) {
        self.bytes("callbacks", run.callback_bytes);
        self.count("callbacks", run.callback_calls);
        self.bytes("in commands", run.in_command_bytes);
        self.count("in commands", run.in_command_calls);
        self.bytes("own threads", run.never_issued_bytes);
        self.count("own threads", run.never_issued_calls);
    }
}

/// The command or kind, and the functions that called it: the same in each run of one program.
fn place(stack: &LeakStack) -> String {
    const FUNCTIONS: usize = 4;
    let what = if stack.command.is_empty() { &stack.kind } else { &stack.command };
    let functions = stack.frames.iter().flat_map(functions).take(FUNCTIONS);
    let mut words = vec![what.clone()];
    words.extend(functions);
    words.join(" < ")
}

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

/// A part of a function's name such as `std::string)` is no place.
fn is_place(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(file, line)| {
        !file.is_empty() && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The sentence of a finding is left out, because it may name a block or a line. A finding without a rule has only its
/// sentence.
pub(super) fn finding(row: &FindingRow) -> String {
    // Whether calls on a foreign thread (V22/V23) show V22 as well depends on timing.
    let rule = row.rule.rsplit('/').next().unwrap_or_default();
    let what = [&row.level, rule, &row.kind].into_iter().filter(|word| !word.is_empty());
    let mut words = vec![what.collect::<Vec<_>>().join(" ")];
    words.extend((!row.command.is_empty()).then(|| row.command.clone()));
    words.extend((!row.owner.is_empty()).then(|| format!("callbacks of {}", row.owner)));
    words.extend((!row.scope.is_empty()).then(|| format!("scope {}", row.scope)));
    words.extend((row.rule.is_empty() && row.first_serial == 0).then(|| row.sentence.clone()));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use vk_report::report::LeakFrame;

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
            let frame = LeakFrame { functions: vec![function.to_owned()], ..LeakFrame::default() };
            assert_eq!(functions(&frame), [expected]);
        }
    }
}
