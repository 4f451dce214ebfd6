//! The report for programs: one object of JSON.

#![forbid(unsafe_code)]

use std::fmt;

use alloc_core::support::EscapedJson;
use alloc_core::{HostError, TryString};

use super::process;
use super::rows::{Findings, KindRow, memory_row, memory_rows};
use vk_accounts::report::{CompactJson, VulkanMemoryRow};

use crate::accounts::{Accounts, INSTANCES, UNCHECKED_OWNERS, all_usage};
use crate::chain::MEMORY_USES;
use crate::count::get;
use crate::coverage;
use crate::description::{Surroundings, surroundings};
use crate::device_memory::{MEMORY_STATES, MemoryCount};
use crate::guarding;
use crate::hooks::{passed_kinds, unknown_names};
use crate::record::Own;
use crate::settings::settings;
use crate::timeline::{self, Fullest};

/// Counted up when a member changes its meaning or goes.
const FORMAT: u32 = 1;

/// Appends the report after `commands` commands.
pub(super) fn render(commands: u64, text: &mut TryString<Own>) -> Result<(), HostError> {
    text.try_write_fmt(format_args!(
        "{{\"layer_format\":{FORMAT},\"process\":{},\"commands\":{commands}",
        std::process::id()
    ))?;
    let fullest = timeline::fullest().unwrap_or_default();
    list("instances", INSTANCES.iter(), text, |instance, text| {
        accounts(instance, &fullest, text)?;
        list("devices", instance.devices.iter(), text, |one, text| {
            device(one, &fullest, text)
        })?;
        text.try_push('}')
    })?;
    text.try_write_fmt(format_args!(",\"fullest_phase\":\"{}\"", fullest.phase))?;
    if let Some(all) = all_usage() {
        text.try_write_fmt(format_args!(
            ",\"all\":{{\"live_bytes\":{},\"peak_bytes\":{}}}",
            all.live_bytes, all.peak_bytes
        ))?;
    }
    strings("passed_through", passed_kinds(), text)?;
    findings(text)?;
    let complaints = settings().complaints.iter();
    strings("settings", complaints.map(TryString::as_str), text)?;
    let (guard, fail) = guarding::results();
    text.try_write_fmt(format_args!(
        ",\"guard\":{},\"fail\":{},\"callback_coverage\":{}",
        CompactJson(&guard),
        CompactJson(&fail),
        CompactJson(&coverage::measured()),
    ))?;
    process::render_json(text)?;
    render_surroundings(text)?;
    super::leaks::render(text)?;
    render_timeline(text)?;
    text.try_push_str("}\n")
}

/// The files of the loader, of the layers below and of this layer, and the layers that are named.
fn render_surroundings(text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(Surroundings {
        loader,
        layers,
        below,
        library,
    }) = surroundings()
    else {
        return Ok(());
    };
    for (name, file) in [("loader", loader), ("library", library)] {
        if let Some(file) = file {
            text.try_write_fmt(format_args!(",\"{name}\":\"{}\"", Escaped(file.as_str())))?;
        }
    }
    strings("layers", layers.iter().map(TryString::as_str), text)?;
    strings("layers_below", below.iter().map(TryString::as_str), text)
}

/// The phases, each with the numbers at its beginning, the numbers now, and the timeline.
fn render_timeline(text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(timeline) = timeline::copy()? else {
        return Ok(());
    };
    list("phases", &timeline.phases, text, |phase, text| {
        let (peak_bytes, peak_slack) = phase.peak;
        text.try_write_fmt(format_args!(
            "{{\"name\":\"{}\",\"commands\":{},\"peak_bytes\":{peak_bytes},\"peak_slack\":{peak_slack},\"counts\":{}}}",
            phase.name,
            phase.commands,
            CompactJson(&phase.counts),
        ))
    })?;
    text.try_write_fmt(format_args!(
        ",\"lost_phases\":{},\"counts\":{}",
        timeline.lost_phases,
        CompactJson(&timeline.now),
    ))?;
    list("timeline", &timeline.samples, text, |sample, text| {
        text.try_write_fmt(format_args!("{}", CompactJson(sample)))
    })
}

/// Appends the member `name`: an array, of which `write` appends each item.
pub(super) fn list<T>(
    name: &str,
    items: impl IntoIterator<Item = T>,
    text: &mut TryString<Own>,
    mut write: impl FnMut(T, &mut TryString<Own>) -> Result<(), HostError>,
) -> Result<(), HostError> {
    text.try_write_fmt(format_args!(",\"{name}\":["))?;
    for (number, item) in (0_u32..).zip(items) {
        if number != 0 {
            text.try_push(',')?;
        }
        write(item, text)?;
    }
    text.try_push(']')
}

/// Appends the member `name`: an array of strings.
pub(super) fn strings<'s>(
    name: &str,
    items: impl Iterator<Item = &'s str>,
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    list(name, items, text, |item, text| {
        text.try_write_fmt(format_args!("\"{}\"", Escaped(item)))
    })
}

/// The object of a device.
fn device(
    device: &Accounts,
    fullest: &Fullest,
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    accounts(device, fullest, text)?;
    let counts = &device.device_memory;
    memory("heaps", &counts.heaps, text)?;
    memory("types", &counts.types, text)?;
    let states = MEMORY_STATES.iter().zip(&counts.states);
    for (name, count) in MEMORY_USES.iter().zip(&counts.uses).chain(states) {
        memory(name, std::slice::from_ref(count), text)?;
    }
    text.try_write_fmt(format_args!(
        ",\"lost_blocks\":{}",
        get(&counts.lost_blocks)
    ))?;
    driver_memory(device, text)?;
    if let Some(description) = device.description.get() {
        text.try_write_fmt(format_args!(
            ",\"description\":\"{}\"",
            Escaped(description)
        ))?;
    }
    text.try_push('}')
}

/// Begins the object of an instance or device.
fn accounts(
    accounts: &Accounts,
    fullest: &Fullest,
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    text.try_write_fmt(format_args!("{{\"in_use\":{}", accounts.is_in_use()))?;
    list("kinds", KindRow::all(accounts), text, |row, text| {
        text.try_write_fmt(format_args!(
            "{{\"kind\":\"{}\",\"live_bytes\":{},\"live_blocks\":{},\"peak_bytes\":{},\"peak_slack\":{},\"total_bytes\":{},\
            \"total_blocks\":{},\"objects_created\":{},\"objects_alive\":{},\"foreign_commands\":{},\"live_by_scope\":{},\"requested_by_scope\":{},\"fullest_by_scope\":{}}}",
            row.kind,
            row.usage.live_bytes,
            row.usage.live_blocks,
            row.usage.peak_bytes,
            row.usage.peak_slack,
            row.usage.total_bytes,
            row.usage.total_blocks,
            row.objects_created,
            row.objects_alive,
            row.foreign_commands,
            CompactJson(&row.live_by_scope),
            CompactJson(&row.requested_by_scope),
            CompactJson(&fullest.of(row.account)),
        ))
    })
}

fn memory(name: &str, counts: &[MemoryCount], text: &mut TryString<Own>) -> Result<(), HostError> {
    list(name, memory_rows(counts), text, |row, text| {
        text.try_write_fmt(format_args!("{{\"index\":{}", row.index))?;
        memory_numbers(&row, text)
    })
}

/// The rest of a row's object.
fn memory_numbers(row: &VulkanMemoryRow, text: &mut TryString<Own>) -> Result<(), HostError> {
    text.try_write_fmt(format_args!(
        ",\"live_bytes\":{},\"live_blocks\":{},\"peak_bytes\":{},\"total_bytes\":{},\
         \"total_blocks\":{},\"refusals\":{}}}",
        row.live_bytes,
        row.live_blocks,
        row.peak_bytes,
        row.total_bytes,
        row.total_blocks,
        row.refusals,
    ))
}

/// The driver's own allocations, of a device that reports, by kind of object.
fn driver_memory(device: &Accounts, text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(reports) = device.memory_reports.get() else {
        return Ok(());
    };
    let used = reports
        .rows()
        .filter_map(|(kind, count)| Some((kind, memory_row(0, count)?)));
    list("driver_memory", used, text, |(kind, row), text| {
        text.try_write_fmt(format_args!("{{\"kind\":\"{kind}\""))?;
        memory_numbers(&row, text)
    })?;
    text.try_write_fmt(format_args!(
        ",\"free_events\":{},\"lost_events\":{}",
        get(&reports.free_events),
        get(&reports.lost_events)
    ))
}

fn findings(text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(findings) = Findings::new()? else {
        return text.try_push_str(",\"check\":null");
    };
    text.try_write_fmt(format_args!(
        ",\"check\":{{\"between_commands\":{},\"lost\":{},\"unchecked_kinds\":{}",
        findings.between_commands,
        findings.lost,
        get(&UNCHECKED_OWNERS)
    ))?;
    list("findings", &findings.rows, text, |finding, text| {
        text.try_push_str("{\"rule\":\"")?;
        for (number, rule) in (0_u32..).zip(finding.rules()) {
            let separator = if number == 0 { "" } else { "/" };
            text.try_write_fmt(format_args!("{separator}V{rule}"))?;
        }
        text.try_write_fmt(format_args!(
            "\",\"kind\":\"{}\",\"level\":\"{}\",\"owner\":\"{}\",\"command\":\"{}\",\"scope\":\"{}\",\"count\":{},\"bytes\":{},\
            \"first_serial\":{},\"sentence\":\"{}\"}}",
            finding.kind.name(),
            finding.level().name(),
            finding.owner_kind,
            finding.command,
            finding.scope.map_or("", |scope| scope.name()),
            finding.count,
            finding.bytes,
            finding.first_serial,
            Escaped(finding),
        ))
    })?;
    strings("without_brackets", unknown_names(), text)?;
    text.try_push('}')
}

/// What `Display` writes, as the inside of a string of JSON.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        write!(EscapedJson(f), "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn strings_are_escaped() {
        let text = "a \"quote\", a \\ and a\nline";
        let json = format!("\"{}\"", Escaped(text));
        assert_eq!(
            serde_json::from_str::<String>(&json).expect("a string"),
            text
        );
    }
}
