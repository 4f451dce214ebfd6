//! The report for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use alloc_core::Scope;

use super::{ContextRow, Phase, Report, ScopeBytes, Source};
use crate::units::bytes;

/// What a bridge puts in front of a block.
const HEADER_BYTES: usize = 16;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)?;
        for limit in &self.limits {
            writeln!(f, "note: {limit}")?;
        }
        writeln!(f, "\ncontexts, live at the end of the phase \"{}\", when they held most:", self.fullest_phase)?;
        contexts(f, &self.contexts)?;
        if matches!(self.source, Source::Driver { .. }) {
            writeln!(f, "  bytes as taken from the host: what was asked for, and {HEADER_BYTES} in front of each block")?;
        }
        if self.contexts.iter().any(|row| row.peak_slack > 0) {
            writeln!(f, "  ~ an upper bound: scopes or threads may have had their peaks at different moments")?;
        }
        writeln!(f, "\nphases, live at the end of each:")?;
        phases(f, &self.phases)?;
        let slack = if self.peak_slack == 0 { "exact".to_owned() } else { format!("+-{}", bytes(self.peak_slack)) };
        writeln!(f, "\npeak: {} ({} bytes, {slack})", bytes(self.peak_bytes), self.peak_bytes)?;
        if self.leftovers.is_empty() {
            writeln!(f, "leftovers: none, every block was given back")?;
        } else {
            writeln!(f, "leftovers:")?;
            for left in &self.leftovers {
                write!(f, "  {}: {} blocks, {} bytes", left.context, left.blocks, left.bytes)?;
                scopes_in_words(f, &left.by_scope)?;
            }
        }
        if !self.findings.is_empty() {
            writeln!(f, "findings:")?;
            for finding in &self.findings {
                writeln!(f, "  {finding}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { name, version, device, seed, rounds, commands, comparisons, objects } => {
                writeln!(f, "driver: {name} {version}")?;
                let made: u64 = objects.iter().map(|(_, number)| u64::from(*number)).sum();
                writeln!(f, "device: {device}")?;
                writeln!(
                    f,
                    "workload: {rounds} round{}, seed {seed:#010x}: {made} objects of {} kinds, {commands} commands, \
                     {comparisons} values read back and compared, all right",
                    if *rounds == 1 { "" } else { "s" },
                    objects.len()
                )
            }
            Self::Trace { file, driver, no_driver, lines } => {
                match no_driver {
                    Some(reason) => writeln!(f, "trace: {file} (no driver: {reason})")?,
                    None => writeln!(f, "trace: {file}")?,
                }
                writeln!(f, "recorded on: {driver}; {lines} lines")
            }
        }
    }
}

fn contexts(f: &mut fmt::Formatter<'_>, rows: &[ContextRow]) -> fmt::Result {
    write!(f, "  {:<32}", "context")?;
    for scope in Scope::ALL {
        write!(f, "{:>12}", scope.name())?;
    }
    writeln!(f, "{:>12}{:>13}{:>9}{:>13}", "live", "peak", "blocks", "taken")?;
    let mut unused = 0u32;
    for row in rows {
        let name = format!("{:indent$}{}", "", row.name, indent = row.depth * 2);
        if row.group {
            writeln!(f, "  {name}")?;
        } else if row.total_blocks == 0 {
            unused += 1;
        } else {
            write!(f, "  {name:<32}")?;
            scope_cells(f, &row.live_by_scope)?;
            let mark = if row.peak_slack == 0 { "" } else { "~" };
            let peak = format!("{mark}{}", bytes(row.peak_bytes));
            writeln!(f, "{:>12}{peak:>13}{:>9}{:>13}", cell(row.live_bytes), row.total_blocks, bytes(row.total_bytes))?;
        }
    }
    if unused > 0 {
        let names: Vec<_> = rows.iter().filter(|row| !row.group && row.total_blocks == 0).map(|row| row.name.as_str()).collect();
        writeln!(f, "  never asked: {}", names.join(", "))?;
    }
    Ok(())
}

fn phases(f: &mut fmt::Formatter<'_>, phases: &[Phase]) -> fmt::Result {
    write!(f, "  {:<14}{:>9}{:>9}", "phase", "commands", "blocks")?;
    write!(f, "{:>13}", "taken")?;
    for scope in Scope::ALL {
        write!(f, "{:>12}", scope.name())?;
    }
    writeln!(f, "{:>12}{:>13}", "live", "peak")?;
    for phase in phases {
        write!(f, "  {:<14}{:>9}{:>9}{:>13}", phase.name, phase.commands, phase.allocations, bytes(phase.bytes))?;
        scope_cells(f, &phase.live_by_scope)?;
        let mark = if phase.peak_slack == 0 { "" } else { "~" };
        let peak = format!("{mark}{}", bytes(phase.peak_bytes));
        writeln!(f, "{:>12}{peak:>13}", cell(phase.live_bytes))?;
    }
    Ok(())
}

fn scope_cells(f: &mut fmt::Formatter<'_>, by_scope: &ScopeBytes) -> fmt::Result {
    Scope::ALL.into_iter().try_for_each(|scope| write!(f, "{:>12}", cell(by_scope.get(scope))))
}

fn cell(number: u64) -> String {
    if number == 0 { "-".to_owned() } else { bytes(number) }
}

fn scopes_in_words(f: &mut fmt::Formatter<'_>, by_scope: &ScopeBytes) -> fmt::Result {
    let held = Scope::ALL.into_iter().filter(|scope| by_scope.get(*scope) > 0);
    let words: Vec<_> = held.map(|scope| format!("{} {scope}", by_scope.get(scope))).collect();
    writeln!(f, " ({})", words.join(", "))
}
