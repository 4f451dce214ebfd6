//! The report for people.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::Ordering;

use alloc_core::{ByteCount, HostError, TryString};

use super::rows::{Findings, KindRow, memory_row, memory_rows};
use super::{HAS_ENDED, process};
use vk_report::report::VulkanMemoryRow;

use crate::accounts::{Accounts, INSTANCES, UNCHECKED_OWNERS, all_accounts, all_usage};
use crate::chain::MEMORY_USES;
use crate::count::get;
use crate::coverage;
use crate::description::surroundings;
use crate::device_memory::MEMORY_STATES;
use crate::growth;
use crate::guarding;
use crate::hooks::{passed_kinds, unknown_names};
use crate::record::Own;
use crate::settings::settings;

/// Appends the report after `commands` commands.
pub(super) fn render(commands: u64, text: &mut TryString<Own>) -> Result<(), HostError> {
    text.try_write_fmt(format_args!(
        "Host memory that Vulkan allocated through callbacks: process {}, {commands} commands\n\
         (with the 16 bytes in front of each block)\n\n\
         {:<36}{:>12}{:>12}{:>14}{:>10}{:>9}{:>9}\n",
        std::process::id(),
        "",
        "live",
        "peak",
        "total",
        "blocks",
        "objects",
        "alive",
    ))?;
    process::render_text(text)?;
    let below = surroundings().map_or(&[][..], |surroundings| &surroundings.below);
    for (number, file) in (0..).zip(below) {
        let before = if number == 0 {
            "layers below, whose own objects count and are judged as the driver's: "
        } else {
            ", "
        };
        text.try_write_fmt(format_args!("{before}{}", file.as_str()))?;
    }
    if !below.is_empty() {
        text.try_push('\n')?;
    }
    for complaint in &settings().complaints {
        text.try_write_fmt(format_args!("setting: {}\n", complaint.as_str()))?;
    }
    for (number, instance) in (1..).zip(INSTANCES.iter()) {
        text.try_write_fmt(format_args!("instance {number}\n"))?;
        kinds(instance, 2, text)?;
        for (number, device) in (1..).zip(instance.devices.iter()) {
            text.try_write_fmt(format_args!("  device {number}"))?;
            if let Some(description) = device.description.get() {
                text.try_write_fmt(format_args!(": {description}"))?;
            }
            text.try_push('\n')?;
            kinds(device, 4, text)?;
            device_memory(device, text)?;
        }
    }
    if let Some(all) = all_usage() {
        text.try_write_fmt(format_args!(
            "\nLive: {}. Peak: {}.\n",
            ByteCount(all.live_bytes),
            ByteCount(all.peak_bytes)
        ))?;
    }
    alive_at_end(text)?;
    unseen_growth(text)?;
    for kind in passed_kinds() {
        text.try_write_fmt(format_args!(
            "\nThe layer panicked: since then {kind} is passed through, neither counted nor judged.\n"
        ))?;
    }
    findings(text)?;
    let (guard, fail) = guarding::results();
    guard.map_or(Ok(()), |guard| {
        text.try_write_fmt(format_args!("\n{guard}"))
    })?;
    fail.map_or(Ok(()), |fail| {
        text.try_write_fmt(format_args!("\n{}", fail.refusals()))
    })?;
    coverage::measured().map_or(Ok(()), |coverage| {
        text.try_write_fmt(format_args!(
            "\n{coverage}(bypassing: malloc in Vulkan calls, and on threads that never call Vulkan, even the program's)\n"
        ))
    })
}

/// Says what a program left alive at its end.
fn alive_at_end(text: &mut TryString<Own>) -> Result<(), HostError> {
    let alive = |kind: &str| -> u64 {
        let rows = all_accounts().flat_map(KindRow::all);
        rows.filter(|row| row.kind == kind)
            .map(|row| row.objects_alive)
            .sum()
    };
    let (instances, devices) = (alive("VkInstance"), alive("VkDevice"));
    if !HAS_ENDED.load(Ordering::Relaxed) || instances + devices == 0 {
        return Ok(());
    }
    let s = |number: u64| if number == 1 { "" } else { "s" };
    text.try_write_fmt(format_args!(
        "\nThe program never destroyed {instances} instance{} and {devices} device{}, so what belongs to them was not freed either.\n",
        s(instances),
        s(devices),
    ))
}

/// Says that the process grew by memory of others, and which tool shows it.
fn unseen_growth(text: &mut TryString<Own>) -> Result<(), HostError> {
    growth::unseen_bytes().map_or(Ok(()), |unseen| {
        text.try_write_fmt(format_args!(
            "\nThe process grew by {} since its first instance that Vulkan's callbacks did not see: memory of `malloc`, which heaptrack shows.\n",
            ByteCount(unseen)
        ))
    })
}

fn kinds(accounts: &Accounts, indent: usize, text: &mut TryString<Own>) -> Result<(), HostError> {
    for row in KindRow::all(accounts) {
        text.try_write_fmt(format_args!(
            "{:indent$}{:<width$}{}",
            "",
            row.kind,
            Figures {
                bytes: [
                    row.usage.live_bytes,
                    row.usage.peak_bytes,
                    row.usage.total_bytes,
                ],
                counts: [
                    row.usage.total_blocks,
                    row.objects_created,
                    row.objects_alive,
                ],
            },
            width = 36 - indent,
        ))?;
        if row.foreign_commands != 0 {
            let s = if row.foreign_commands == 1 { "" } else { "s" };
            text.try_write_fmt(format_args!(
                "  ({} command{s} with callbacks of the program)",
                row.foreign_commands
            ))?;
        }
        text.try_push('\n')?;
    }
    Ok(())
}

fn device_memory(device: &Accounts, text: &mut TryString<Own>) -> Result<(), HostError> {
    let memory = &device.device_memory;
    for (what, counts) in [("heap", &memory.heaps[..]), ("type", &memory.types[..])] {
        for row in memory_rows(counts) {
            write_memory(
                format_args!("device memory, {what} {:<13}", row.index),
                &row,
                text,
            )?;
        }
    }
    let reports = device.memory_reports.get();
    for (kind, count) in reports.into_iter().flat_map(|reports| reports.rows()) {
        if let Some(row) = memory_row(0, count) {
            write_memory(format_args!("the driver's, for {kind:<18}"), &row, text)?;
        }
    }
    if reports.is_some_and(|reports| reports.may_be_stale()) {
        text.try_push_str(
            "    the driver has reported no end of its own memory: what is live may be gone\n",
        )?;
    }
    let uses = memory_rows(&memory.uses).map(|row| (MEMORY_USES.get(row.index as usize), row));
    let states =
        memory_rows(&memory.states).map(|row| (MEMORY_STATES.get(row.index as usize), row));
    for (name, row) in uses.chain(states) {
        let name = name.copied().unwrap_or_default();
        write_memory(format_args!("of it {name:<26}"), &row, text)?;
    }
    match get(&memory.lost_blocks) {
        0 => Ok(()),
        lost => text.try_write_fmt(format_args!(
            "    {lost} blocks of device memory are not counted: no memory for their records\n"
        )),
    }
}

fn write_memory(
    name: fmt::Arguments<'_>,
    row: &VulkanMemoryRow,
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    text.try_write_fmt(format_args!(
        "    {name}{}",
        Figures {
            bytes: [row.live_bytes, row.peak_bytes, row.total_bytes],
            counts: [row.total_blocks, row.total_blocks, row.live_blocks],
        },
    ))?;
    if row.refusals != 0 {
        text.try_write_fmt(format_args!("  ({} refused)", row.refusals))?;
    }
    text.try_push('\n')
}

/// The figures of a row: live, peak and total; blocks, objects and those alive. Counts that are longer than their columns keep a space.
struct Figures {
    bytes: [u64; 3],
    counts: [u64; 3],
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [live, peak, total] = self.bytes.map(ByteCount);
        let [blocks, objects, alive] = self.counts;
        write!(
            f,
            "{live:>12}{peak:>12}{total:>14} {blocks:>9} {objects:>8} {alive:>8}"
        )
    }
}

fn findings(text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(findings) = Findings::new()? else {
        return text.try_push_str("\nCallbacks were not checked.\n");
    };
    text.try_write_fmt(format_args!("\nFindings: {}\n", findings.rows.len()))?;
    for finding in &findings.rows {
        text.try_write_fmt(format_args!("  {}: {finding}\n", finding.level().name()))?;
    }
    let asides = [
        (
            findings.between_commands,
            "callbacks came between the commands that have brackets, and are not judged",
        ),
        (findings.lost, "observations were lost for lack of memory"),
        (
            get(&UNCHECKED_OWNERS),
            "kinds of objects are not checked: the checker had no memory or place for them",
        ),
    ];
    for (number, name) in (0..).zip(unknown_names()) {
        let before = if number == 0 {
            "  without brackets, since nothing is known of them: "
        } else {
            ", "
        };
        text.try_write_fmt(format_args!("{before}{name}"))?;
    }
    if unknown_names().next().is_some() {
        text.try_push('\n')?;
    }
    for (count, what) in asides.into_iter().filter(|(count, _)| *count != 0) {
        text.try_write_fmt(format_args!("  {count} {what}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn figures_never_run_together() {
        let most = Figures {
            bytes: [u64::MAX; 3],
            counts: [u64::MAX; 3],
        };
        let most = most.to_string();
        assert_eq!(most.split_whitespace().count(), 3 * 2 + 3, "{most}");
    }
}
