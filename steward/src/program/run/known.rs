//! What is known of the drivers that a program used: the bundled expectations about them, or those of `--expect`.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::io::Seek as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use vk_report::report::{FindingRow, Source};

use super::reports::{ProcessData, Reports};
use crate::expectations::KnownOfDrivers;
use crate::signals::{HeldSignals, end_with_parent, unnamed_file, wait_briefly};

/// How long the drivers may take to describe themselves.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A device, as `steward drivers --json` lists it.
#[derive(Deserialize)]
struct Listed {
    driver: String,
    file: String,
    version: String,
    device: String,
}

impl Listed {
    /// The driver's name and version, as expectations name them.
    fn title(&self) -> String {
        let names = [&self.driver, &self.file, &self.device];
        let name = names.into_iter().find(|name| !name.is_empty());
        format!("{} {}", name.map_or("", String::as_str), self.version)
    }

    /// Whether the layer's description is of this device.
    fn is_described_by(&self, description: &str) -> bool {
        let behind = description.strip_prefix(&self.device);
        behind.is_some_and(|behind| behind.starts_with(", driver "))
    }
}

/// Notes in each report the drivers of its devices; of a program without a device all drivers, since its instance opened them. `select` is the
/// loader's filter for the program.
///
/// Another process asks the drivers: one that crashes must not take the report with it. `signals` are held for a program.
pub(super) fn name_drivers(
    reports: &mut Reports,
    select: Option<&OsStr>,
    signals: Option<&HeldSignals>,
) {
    let listed = list(select, signals);
    for process in &mut reports.processes {
        if let Some(ProcessData::Layer(report)) = &mut process.data
            && let Source::Program {
                devices, drivers, ..
            } = &mut report.source
        {
            let is_used = |driver: &&Listed| {
                devices.is_empty() || devices.iter().any(|device| driver.is_described_by(device))
            };
            *drivers = listed.iter().filter(is_used).map(Listed::title).collect();
            drivers.dedup();
        }
    }
}

/// The installed drivers; none if they cannot be listed.
fn list(select: Option<&OsStr>, signals: Option<&HeldSignals>) -> Vec<Listed> {
    let listed = || {
        let mut file = unnamed_file().ok()?;
        let mut command = Command::new(env::current_exe().ok()?);
        command
            .args(["drivers", "--json", "-"])
            .stdin(Stdio::null())
            .stdout(file.try_clone().ok()?)
            .stderr(Stdio::null())
            // Layers show other devices, or none.
            .env_remove("VK_INSTANCE_LAYERS")
            .env("VK_LOADER_LAYERS_DISABLE", "~all~");
        if let Some(select) = select {
            command.env(super::SELECT, select);
        }
        end_with_parent(&mut command);
        let mut child = match signals {
            Some(signals) => signals.start(&mut command).ok()?,
            None => command.spawn().ok()?,
        };
        wait_briefly(&mut child, TIME_LIMIT).ok()??;
        file.rewind().ok()?;
        serde_json::from_reader(file).ok()
    };
    listed().unwrap_or_default()
}

/// Shortens the findings in a report's text to those that are neither notes nor known of the driver, and says how many others there are. With
/// `all` the others are listed, too, and known ones with their cause.
pub(super) fn shorten(
    text: &mut String,
    rows: &[FindingRow],
    known: Option<&KnownOfDrivers>,
    all: bool,
) {
    let (mut of_driver, mut notes) = (0_usize, 0_usize);
    for row in rows {
        // As the layer writes it.
        let said = if row.rule.is_empty() {
            row.sentence.clone()
        } else {
            format!("{}: {}", row.rule, row.sentence)
        };
        let line = format!("  {}: {said}\n", row.level);
        let expected = known.and_then(|known| known.expected(row));
        let shown = match expected {
            _ if row.level == FindingRow::NOTE => {
                notes += 1;
                line.clone()
            }
            Some(expected) => {
                of_driver += 1;
                let cause = match expected.cause.as_str() {
                    "" => String::new(),
                    cause => format!("    cause: {cause}\n"),
                };
                format!("  known: {said}\n{cause}")
            }
            None => continue,
        };
        *text = text.replacen(&line, if all { &shown } else { "" }, 1);
    }
    let mut parts = Vec::new();
    let others = rows.len().saturating_sub(of_driver + notes);
    if others > 0 {
        parts.push(others.to_string());
    }
    if let Some(known) = known.filter(|_| of_driver > 0) {
        let whose = if others == 0 {
            ", the driver's and not your program's"
        } else {
            ""
        };
        let driver = known.name.replace('-', " ");
        parts.push(format!("{of_driver} known of {driver}{whose}"));
    }
    if notes > 0 {
        let s = if notes == 1 { "" } else { "s" };
        parts.push(format!("{notes} note{s}, legal"));
    }
    if of_driver + notes == 0 {
        return;
    }
    let hint = if all { "" } else { " (--findings lists them)" };
    let head = format!("\nFindings: {}{hint}\n", parts.join("; "));
    *text = text.replacen(&format!("\nFindings: {}\n", rows.len()), &head, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_known_is_listed() {
        let known = KnownOfDrivers::of_drivers(&["llvmpipe Mesa 22.3.6 (LLVM 15.0.6)".to_owned()]);
        let known = known.expect("the bundled file");
        let row = |rule: &str, level: &str, sentence: &str| FindingRow {
            rule: rule.to_owned(),
            kind: "CacheAsObject".to_owned(),
            level: level.to_owned(),
            sentence: sentence.to_owned(),
            owner: "VkPipelineCache".to_owned(),
            command: "vkCreatePipelineCache".to_owned(),
            scope: "object".to_owned(),
            count: 3,
            ..FindingRow::default()
        };
        let text_of = |rows: &[FindingRow], all| {
            let lines = rows
                .iter()
                .map(|row| format!("  {}: {}: {}\n", row.level, row.rule, row.sentence));
            let lines: String = lines.collect();
            let mut text = format!("table\n\nFindings: {}\n{lines}  2 callbacks\n", rows.len());
            shorten(&mut text, rows, Some(&known), all);
            text
        };
        let (old, new, note) = (
            row("V29", "violation", "old"),
            row("V30", "violation", "new"),
            row("V7", "note", "note"),
        );
        assert_eq!(
            text_of(std::slice::from_ref(&old), false),
            "table\n\nFindings: 1 known of lavapipe 22.3, the driver's and not your program's (--findings lists them)\n  2 callbacks\n"
        );
        assert_eq!(
            text_of(&[old.clone(), new.clone(), note], false),
            "table\n\nFindings: 1; 1 known of lavapipe 22.3; 1 note, legal (--findings lists them)\n  violation: V30: new\n  2 callbacks\n"
        );
        let all = text_of(std::slice::from_ref(&old), true);
        assert!(
            all.contains("\n  known: V29: old\n    cause: lvp_"),
            "{all}"
        );
        assert_eq!(
            text_of(std::slice::from_ref(&new), false),
            "table\n\nFindings: 1\n  violation: V30: new\n  2 callbacks\n"
        );
    }

    #[test]
    fn a_driver_is_found_by_the_description_of_its_device() {
        let listed = Listed {
            driver: String::new(),
            file: "lvp_icd".to_owned(),
            version: "Mesa 1".to_owned(),
            device: "llvmpipe (LLVM 15, 256 bits)".to_owned(),
        };
        assert_eq!(listed.title(), "lvp_icd Mesa 1");
        assert!(listed.is_described_by("llvmpipe (LLVM 15, 256 bits), driver 0.0.1 of vendor 0x1"));
        assert!(!listed.is_described_by("llvmpipe (LLVM 15, 256 bits) 2, driver 0.0.1"));
    }
}
