#![forbid(unsafe_code)]

use core::fmt::{Result, Write};

use alloc_core::support::Json;
use alloc_core::{ContextId, Scope};

use super::block_info::{Actor, BlockInfo, Stack};
use super::guard_report::{AddressPosition, Report};
use super::text::{Hex, Leak};
use crate::block::BlockState;
use crate::mode::Mode;
use crate::os::{self, Access, BackEnds};

/// Changes when readers of the former version could misread the new one.
const VERSION: u32 = 1;

impl Report<'_> {
    /// Writes one line of JSON without its end, in the format of `debug-guard/REPORT.md`. Allocates nothing.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn Write) -> Result {
        Json::new(out).object(|json| self.members(json))
    }

    fn members(&self, json: &mut Json<'_>) -> Result {
        json.plain("debug_guard", VERSION)?;
        json.string("kind", self.kind.name())?;
        json.string("detected_at", self.detected_at.name())?;
        json.string_or_null("access", self.access.map(Access::name))?;
        address(json, "address", self.address)?;
        place(json, self.place)?;
        json.plain("process", self.process)?;
        json.string("guard", self.guard)?;
        json.string_or_null("mode", self.mode.map(Mode::name))?;
        json.string("back_end", self.back_end.name())?;
        json.string_or_null("right_guard", self.right_guard)?;
        let mapping = Some(self.mapping).filter(|mapping| !mapping.is_empty());
        json.string_or_null("mapping", mapping)?;
        let now = Some(self);
        block(json, "block", self.block.as_ref(), now)?;
        actor(json, "by", Some(&self.by), None)?;
        object_or_null(json, "free_args", self.free_args, |json, back| {
            json.plain("size", back.size)?;
            json.plain("align", back.align)?;
            json.string_or_null("scope", back.scope.map(Scope::name))
        })?;
        object_or_null(json, "changed", self.changed.as_ref(), |json, changed| {
            address(json, "address", changed.first)?;
            place(json, self.block.map(|block| block.place_of(changed.first)))?;
            json.plain("span", changed.span)?;
            json.string("expected", Hex(changed.expected()))?;
            json.string("found", Hex(changed.actual()))
        })?;
        block(json, "neighbour", self.neighbour.as_ref(), now)?;
        json.plain_or_null("neighbour_distance", self.neighbour_distance)?;
        json.list_at("refused", |json| {
            let mut refusals = BackEnds::probe().refusals();
            refusals.try_for_each(|(back_end, refusal)| {
                json.object(|json| {
                    json.string("back_end", back_end.name())?;
                    json.plain("errno", refusal.errno())?;
                    json.string("why", refusal)
                })
            })
        })
    }
}

impl Leak<'_> {
    pub(super) fn json(&self, guard: &str, out: &mut dyn Write) -> Result {
        Json::new(out).object(|json| {
            json.plain("debug_guard", VERSION)?;
            json.string("kind", "leak")?;
            json.string("guard", guard)?;
            json.plain("process", os::process_id())?;
            json.plain("blocks", self.blocks)?;
            json.plain("bytes", self.bytes)?;
            block(json, "block", Some(&self.block), None)
        })
    }
}

fn object_or_null<T>(
    json: &mut Json<'_>,
    key: &str,
    value: Option<T>,
    members: impl FnOnce(&mut Json<'_>, T) -> Result,
) -> Result {
    match value {
        Some(value) => json.object_at(key, |json| members(json, value)),
        None => json.plain(key, "null"),
    }
}

/// Addresses are hexadecimal strings: JSON numbers are exact up to 2^53 only.
fn address(json: &mut Json<'_>, key: &str, address: usize) -> Result {
    json.string(key, format_args!("{address:#x}"))
}

fn place(json: &mut Json<'_>, place: Option<AddressPosition>) -> Result {
    json.string_or_null("place", place.map(AddressPosition::name))?;
    json.plain_or_null("bytes", place.map(AddressPosition::bytes))
}

fn block(json: &mut Json<'_>, key: &str, block: Option<&BlockInfo<'_>>, now: Option<&Report<'_>>) -> Result {
    object_or_null(json, key, block, |json, block| {
        address(json, "address", block.address)?;
        json.plain("size", block.size)?;
        json.plain("align", block.align)?;
        json.string("scope", block.scope.name())?;
        json.string("mode", block.mode.name())?;
        let (state, moved_to) = match block.state {
            BlockState::Live => ("live", None),
            BlockState::Freed => ("freed", None),
            BlockState::MovedTo(to) => ("moved", Some(to)),
        };
        json.string("state", state)?;
        match moved_to {
            Some(to) => address(json, "moved_to", to)?,
            None => json.plain("moved_to", "null")?,
        }
        actor(json, "taken", Some(&block.allocated), now)?;
        actor(json, "given", block.freed.as_ref(), now)
    })
}

fn actor(json: &mut Json<'_>, key: &str, actor: Option<&Actor<'_>>, now: Option<&Report<'_>>) -> Result {
    object_or_null(json, key, actor, |json, actor| {
        json.plain("thread", actor.thread)?;
        let mut name = [0; 16];
        let name = os::thread_name(actor.thread, &mut name);
        json.string_or_null("thread_name", (!name.is_empty()).then_some(name))?;
        json.plain_or_null("serial", Some(actor.serial).filter(|serial| *serial != 0))?;
        json.plain_or_null("age", now.map(|report| report.age(actor)))?;
        json.plain_or_null("context", actor.context.map(ContextId::get))?;
        json.string("owner", actor.owner)?;
        json.string_or_null("label", actor.label)?;
        json.string_or_null("command", actor.command)?;
        json.plain_or_null("command_serial", actor.command_serial)?;
        stack(json, actor.stack)
    })
}

fn stack(json: &mut Json<'_>, stack: Stack<'_>) -> Result {
    json.plain("whole", stack.whole)?;
    json.list_at("frames", |json| {
        stack.frames.iter().try_for_each(|pc| {
            json.object(|json| {
                address(json, "address", *pc)?;
                let Some(module) = stack.module(*pc) else {
                    return Ok(());
                };
                let (path, offset) = module.place(*pc);
                json.string("module", path)?;
                address(json, "offset", offset)?;
                let id = Some(Hex(module.build_id())).filter(|id| !id.0.is_empty());
                json.string_or_null("build_id", id)
            })
        })
    })
}
