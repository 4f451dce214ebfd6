//! What is alive, by call stack, as JSON: the program `steward run` names the functions.

#![forbid(unsafe_code)]

use alloc_core::{HostError, TryString};
use vk_accounts::state_file::stacks::{MARKS, PEAK_NAMES};

use super::json::{Escaped, list};
use crate::count::get;
use crate::leaks::{Leaks, LiveCount, OldestObjects, Origin, StackFrame, leaks};
use crate::record::Own;

/// Appends the member `leaks`.
pub(super) fn render(text: &mut TryString<Own>) -> Result<(), HostError> {
    let Some(leaks) = leaks() else {
        return text.try_push_str(",\"leaks\":null");
    };
    let marks = &leaks.marks;
    let kind = marks.kind();
    text.try_write_fmt(format_args!(
        ",\"leaks\":{{\"mark\":\"{}\",\"frames_a_mark\":{},\"intervals\":{},\"warm_up\":{},\"lost\":{}",
        kind.name(),
        marks.frames_a_mark(),
        marks.count().saturating_sub(kind.warm_up().saturating_add(1)),
        kind.warm_up(),
        get(&leaks.head().lost),
    ))?;
    let oldest = leaks.objects.oldest()?;
    list("stacks", leaks.live_origins(), text, |origin, text| {
        text.try_write_fmt(format_args!(
            "{{\"command\":\"{}\",\"kind\":\"{}\"",
            origin.command, origin.kind
        ))?;
        count("objects", origin.objects(), text)?;
        count("blocks", origin.blocks(), text)?;
        objects(leaks, &oldest, origin, text)?;
        frames(&origin.frames, text)?;
        text.try_push('}')
    })?;
    peaks(leaks, text)?;
    text.try_push('}')
}

/// What was held at each peak, and by which stacks.
fn peaks(leaks: &Leaks, text: &mut TryString<Own>) -> Result<(), HostError> {
    let all = PEAK_NAMES.iter().zip(&leaks.head().peaks).enumerate();
    let reached = all.filter(|(_, (_, peak))| peak.highest() != 0);
    list("peaks", reached, text, |(place, (name, peak)), text| {
        let (mark, marks) = peak.mark();
        let mark = usize::try_from(mark).ok().and_then(|mark| MARKS.get(mark));
        text.try_write_fmt(format_args!(
            "{{\"of\":\"{name}\",\"bytes\":{},\"nanoseconds\":{},\"mark\":\"{}\",\"frame\":{}",
            peak.highest(),
            peak.nanoseconds(),
            mark.unwrap_or(&"none"),
            marks.saturating_mul(leaks.marks.frames_a_mark()),
        ))?;
        let held = leaks.origins().filter_map(|origin| {
            let (live, bytes) = *origin.at_peaks().get(place)?;
            (live != 0).then_some((origin, live, bytes))
        });
        list("stacks", held, text, |(origin, live, bytes), text| {
            text.try_write_fmt(format_args!(
                "{{\"command\":\"{}\",\"kind\":\"{}\",\"live\":{live},\"bytes\":{bytes}",
                origin.command, origin.kind
            ))?;
            frames(&origin.frames, text)?;
            text.try_push('}')
        })?;
        text.try_push('}')
    })
}

fn count(name: &str, count: &LiveCount, text: &mut TryString<Own>) -> Result<(), HostError> {
    let growth = count.growth();
    text.try_write_fmt(format_args!(
        ",\"{name}\":{{\"live\":{},\"bytes\":{},\"total\":{},\"growth\":{{\"count\":{},\"bytes\":{},\"grew\":{},\"shrank\":{}}}}}",
        count.live(),
        count.bytes(),
        count.total(),
        growth.count,
        growth.bytes,
        growth.grew,
        growth.shrank,
    ))
}

fn objects(
    leaks: &Leaks,
    oldest: &OldestObjects,
    origin: &'static Origin,
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    text.try_push_str(",\"oldest\":[")?;
    let (mut separator, mut written) = ("", Ok(()));
    leaks
        .objects
        .each_oldest(oldest, origin, &mut |handle, object| {
            if written.is_ok() {
                written = text.try_write_fmt(format_args!(
                    "{separator}{{\"handle\":\"{handle:#x}\",\"bytes\":{},\"name\":\"{}\"}}",
                    object.bytes,
                    Escaped(object.name.as_ref().map_or("", TryString::as_str)),
                ));
                separator = ",";
            }
        });
    written?;
    text.try_push(']')
}

fn frames(frames: &[StackFrame], text: &mut TryString<Own>) -> Result<(), HostError> {
    list("frames", frames, text, |frame, text| {
        let (address, module) = (frame.address, frame.module);
        let offset = module.map_or(0, |module| address.wrapping_sub(module.bias()));
        text.try_write_fmt(format_args!(
            "{{\"address\":\"{address:#x}\",\"module\":\"{}\",\"offset\":\"{offset:#x}\"",
            Escaped(module.map_or("", |module| module.path())),
        ))?;
        let id = module.map_or(&[][..], |module| module.build_id());
        if !id.is_empty() {
            text.try_push_str(",\"build_id\":\"")?;
            for byte in id {
                text.try_write_fmt(format_args!("{byte:02x}"))?;
            }
            text.try_push('"')?;
        }
        text.try_push('}')
    })
}
