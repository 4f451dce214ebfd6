#![forbid(unsafe_code)]

use std::fmt::{self, Display, Formatter};

use vk_callbacks::Rule;
use vk_callbacks::check::Duty;
use vk_report::report::{
    Coverage, FindingRow, HEADER_BYTES, ProgramAccounts, Report, RunEnvironment, Source, one_line, paragraph,
};
use vk_report::units::{bytes, percent};

use super::ReportOrList;
use crate::expectations::KnownOfDrivers;

const WIDTH: usize = 120;
const HEAD: &str = "\
# Drivers

`steward drivers --report` wrote this, from runs of its workload on drivers that were opened without the loader, and from
runs of programs (`steward run`).

- Callback coverage: the share of the requested bytes that came through callbacks.
- Instance, device, pipeline, command pool, command buffer: the bytes that the commands which create one requested
  through callbacks, the mean; for a pool with those of its buffers, for a buffer those that allocate and record it. Of a
  program, what its own callbacks were asked for.
- Bugs: breaches of rules that are the driver's duty, numbered and worded by us from the named parts of the
  specification (`steward rules`), with the cause where it is known. Notes are legal.

| driver | callback coverage | instance | device | pipeline | command pool | command buffer | bugs | notes |
|-|-|-|-|-|-|-|-|-|
";

/// What is created, and whether a command is one that creates it.
type Creation = (&'static str, fn(&str) -> bool);

const CREATIONS: [Creation; 5] = [
    ("VkInstance", |command| command == "vkCreateInstance"),
    ("VkDevice", |command| command == "vkCreateDevice"),
    ("VkPipeline", |command| command.starts_with("vkCreate") && command.ends_with("Pipelines")),
    ("VkCommandPool", |command| command.starts_with("vkCmd") || command.contains("Command")),
    ("VkCommandBuffer", |command| command.starts_with("vkCmd") || command.contains("CommandBuffer")),
];

/// The document.
#[derive(Clone, Copy, Debug)]
pub struct DriversReport<'r>(pub &'r [ReportOrList]);

impl Display for DriversReport<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        self.0.iter().try_for_each(|entry| match entry {
            ReportOrList::Report(report) => row(f, report),
            ReportOrList::Failed(failed) => {
                let (driver, why) = (plain(&failed.driver), plain(&failed.error));
                writeln!(f, "| {driver} | {why} | | | | | | | |")
            }
        })?;
        self.0.iter().try_for_each(|entry| match entry {
            ReportOrList::Report(report) => bugs_in_words(f, report),
            ReportOrList::Failed(_) => Ok(()),
        })
    }
}

fn row(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let coverage = report.callback_coverage.as_ref().and_then(coverage);
    let coverage = coverage.unwrap_or_else(|| "-".to_owned());
    write!(f, "| {} | {coverage} |", title(report))?;
    for creation in CREATIONS {
        match mean(report, creation) {
            Some(mean) => write!(f, " {} |", bytes(mean))?,
            None => write!(f, " - |")?,
        }
    }
    let known = KnownOfDrivers::of_source(&report.source);
    let bugs = bugs(report, known.as_ref());
    let rules = rules_of(&bugs).into_iter().map(ToString::to_string);
    let rules: Vec<_> = rules.collect();
    let is_note = |row: &&FindingRow| row.level == FindingRow::NOTE;
    let notes = report.findings.iter().filter(is_note).count();
    let colon = if rules.is_empty() { "" } else { ": " };
    let (bugs, rules) = (bugs.len(), rules.join(", "));
    writeln!(f, " {bugs}{colon}{rules} | {notes} |")
}

fn coverage(coverage: &Coverage) -> Option<String> {
    let Some((run, is_alone)) = coverage.leading() else {
        return Some(plain(coverage.absent.as_deref()?));
    };
    let all = run.callback_bytes.saturating_add(run.past_bytes());
    let loader = if is_alone { "" } else { ", with the loader" };
    let share = percent(run.ratio()?);
    Some(format!("{share} of {}{loader}", bytes(all)))
}

/// `None` where none was created, or nobody kept which commands took which blocks.
fn mean(report: &Report, (kind, creates): Creation) -> Option<u64> {
    let (bytes, created) = match &report.source {
        Source::Driver { objects, .. } => {
            let (_, created) = objects.iter().find(|(name, _)| name == kind)?;
            let sites = report.call_sites.as_ref()?.sites.iter();
            let sites = sites.filter(|site| creates(&site.command));
            let bytes = sites.fold(0, |sum: u64, site| sum.saturating_add(site.total.bytes));
            (bytes, u64::from(*created))
        }
        _ => {
            let rows = report.program.iter().flat_map(ProgramAccounts::kinds);
            let rows = rows.filter(|row| row.kind == kind);
            rows.fold((0, 0), |(bytes, created): (u64, u64), row| {
                let headers = row.total_blocks.saturating_mul(HEADER_BYTES);
                let taken = row.total_bytes.saturating_sub(headers);
                let created = created.saturating_add(row.objects_created);
                (bytes.saturating_add(taken), created)
            })
        }
    };
    bytes.checked_div(created)
}

/// With its cause, which may be empty.
type Bug<'r> = (&'r FindingRow, &'r str);

fn bugs<'r>(report: &'r Report, known: Option<&'r KnownOfDrivers>) -> Vec<Bug<'r>> {
    let is_bug = |row: &&FindingRow| row.level != FindingRow::NOTE && rules(row).any(|rule| rule.duty == Duty::Driver);
    let with_cause = |row| match known.and_then(|known| known.expected(row)) {
        Some(expected) if expected.loader => None,
        expected => Some((row, expected.map_or("", |expected| &*expected.cause))),
    };
    let bugs = report.findings.iter().filter(is_bug).filter_map(with_cause);
    let mut bugs: Vec<_> = bugs.collect();
    bugs.sort_by_key(|(row, _)| &row.kind);
    bugs
}

fn rules(row: &FindingRow) -> impl Iterator<Item = &'static Rule> {
    let numbers = row.rule.split('/');
    numbers.filter_map(|rule| Rule::of(rule.strip_prefix('V')?.parse().ok()?))
}

fn rules_of(bugs: &[Bug<'_>]) -> Vec<&'static Rule> {
    let mut rules: Vec<_> = bugs.iter().flat_map(|(bug, _)| rules(bug)).collect();
    rules.sort_unstable_by_key(|rule| rule.number);
    rules.dedup();
    rules
}

fn bugs_in_words(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let known = KnownOfDrivers::of_source(&report.source);
    let mut bugs = bugs(report, known.as_ref());
    if let Source::Program { .. } = &report.source {
        // What is known is in the text of the driver's own run.
        bugs.retain(|(_, cause)| cause.is_empty());
    }
    for bugs in bugs.chunk_by(|(one, _), (next, _)| one.kind == next.kind) {
        let kind = bugs.first().map_or("", |(bug, _)| &bug.kind);
        writeln!(f, "\n## {}: {}\n", title(report), plain(kind))?;
        for (bug, cause) in bugs {
            paragraph(f, "- ", &plain(&format!("Seen: {}", bug.sentence)), WIDTH)?;
            if !cause.is_empty() {
                paragraph(f, "  - ", &plain(&format!("Cause: {cause}")), WIDTH)?;
            }
        }
        for rule in rules_of(bugs) {
            let text = format!("Vulkan ({}), {rule}: {}", rule.reference, rule.text);
            paragraph(f, "- ", &plain(&text), WIDTH)?;
        }
        writeln!(f, "- To see it: `{}`", command(report))?;
    }
    Ok(())
}

fn title(report: &Report) -> String {
    match &report.source {
        Source::Driver { name, version, .. } => plain(&format!("{name} {version}")),
        Source::Trace { driver, .. } => plain(driver),
        Source::Program { executable, devices, .. } => plain(&format!("{executable} on {}", devices.join(", "))),
    }
}

fn command(report: &Report) -> String {
    let is_direct = |environment: &RunEnvironment| environment.loader.is_none();
    match &report.source {
        Source::Driver { name, seed, rounds, .. } => {
            let direct = if report.environment.as_ref().is_some_and(is_direct) { " --direct" } else { "" };
            let name = word(name);
            format!("steward check --driver {name}{direct} --rounds {rounds} --seed {seed}")
        }
        Source::Trace { file, .. } => format!("steward check --trace {}", word(file)),
        Source::Program { executable, .. } => {
            format!("steward run --findings {}", word(executable))
        }
    }
}

/// One word of a shell, within a span of code: a backtick would end the span.
fn word(text: &str) -> String {
    let text = one_line(text).replace('`', "?");
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What a driver says must not become Markdown.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in one_line(text).chars() {
        if matches!(c, '\\' | '|' | '<' | '*' | '`' | '[' | '#') {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}
