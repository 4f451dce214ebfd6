//! What is alive, by call stack, as JSON: the program `steward run` names the functions.

#![forbid(unsafe_code)]

use alloc_core::{HostError, TryString};
use debug_guard::ModuleFinder;

use super::json::{Escaped, list};
use crate::count::get;
use crate::description::is_loader;
use crate::leaks::{Leaks, LiveCount, OldestObjects, Origin, leaks};
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
        get(&leaks.lost),
    ))?;
    let mut modules = ModuleFinder::new();
    let layer = modules.find(render as *const () as usize);
    let mut own_module = TryString::new_in(crate::record::own());
    own_module.try_push_str(layer.map_or("", |(path, _)| path))?;
    let oldest = leaks.objects.oldest()?;
    list("stacks", leaks.live_origins(), text, |origin, text| {
        text.try_write_fmt(format_args!(
            "{{\"command\":\"{}\",\"kind\":\"{}\"",
            origin.command, origin.kind
        ))?;
        count("objects", &origin.objects, text)?;
        count("blocks", &origin.blocks, text)?;
        objects(leaks, &oldest, origin, text)?;
        frames(leaks, origin, (&mut modules, &own_module), text)?;
        text.try_push('}')
    })?;
    text.try_push('}')
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

/// The program's frames: those of this layer and of the loader, at the inner end, are left out.
fn frames(
    leaks: &Leaks,
    origin: &Origin,
    (modules, own_module): (&mut ModuleFinder, &str),
    text: &mut TryString<Own>,
) -> Result<(), HostError> {
    let stack = leaks.stack(origin).unwrap_or_default();
    let is_inner = |address: &&usize| {
        let (module, _) = modules.find(**address).unwrap_or_default();
        module == own_module || is_loader(module)
    };
    let inner = stack.frames.iter().take_while(is_inner).count();
    let frames = stack.frames.get(inner..).unwrap_or_default();
    list("frames", frames, text, |address, text| {
        let (module, offset) = modules.find(*address).unwrap_or_default();
        text.try_write_fmt(format_args!(
            "{{\"address\":\"{address:#x}\",\"module\":\"{}\",\"offset\":\"{offset:#x}\"}}",
            Escaped(module),
        ))
    })
}
