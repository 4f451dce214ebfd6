//! A report for programs: one line of JSON, in the format that REPORT.md describes.

#![forbid(unsafe_code)]

use core::fmt::{self, Display, Result, Write};

use super::address_position::AddressPosition;
use super::block_info::{Actor, BlockInfo, BlockState, Stack};
use super::guard_report::Report;
use super::leak::Leak;
use super::modules::Modules;
use super::text::Hex;
use crate::mode::BackEnd;
use crate::os::{self, Access, BackEnds};

/// The version of the format: it changes when a program that reads the former could be wrong about the new.
const VERSION: u32 = 1;

impl Report<'_> {
    /// Writes it as one line of JSON, without the end of line, in the format of `debug-guard/REPORT.md`. Takes no memory.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn Write) -> Result {
        let mut object = JsonObject::open(out)?;
        object.plain("debug_guard", VERSION)?;
        object.text("kind", self.kind().name())?;
        object.text("moment", self.moment().name())?;
        object.text_or_null("access", self.access().map(Access::name))?;
        object.address("address", self.address())?;
        place(&mut object, self.place())?;
        object.plain("process", self.process())?;
        object.text("guard", self.guard())?;
        object.text_or_null("mode", self.mode().map(crate::mode::Mode::name))?;
        object.text("back_end", self.back_end().name())?;
        object.text_or_null("right_guard", self.right_guard())?;
        object.text_or_null(
            "mapping",
            Some(self.mapping()).filter(|name| !name.is_empty()),
        )?;
        let now = Some(self);
        match self.block() {
            Some(told) => block(object.key("block")?, told, now, self.modules)?,
            None => object.null("block")?,
        }
        deed(object.key("by")?, &self.by(), None, self.modules)?;
        match self.came_back() {
            Some(back) => {
                let mut inner = JsonObject::open(object.key("came_back")?)?;
                inner.plain("size", back.size)?;
                inner.plain("align", back.align)?;
                inner.text_or_null("scope", back.scope.map(alloc_core::Scope::name))?;
                inner.close()?;
            }
            None => object.null("came_back")?,
        }
        match self.changed() {
            Some(changed) => {
                let mut inner = JsonObject::open(object.key("changed")?)?;
                inner.address("address", changed.first)?;
                place(
                    &mut inner,
                    self.block().map(|block| block.place_of(changed.first)),
                )?;
                inner.plain("span", changed.span)?;
                inner.text("expected", Hex(changed.expected()))?;
                inner.text("found", Hex(changed.actual()))?;
                inner.close()?;
            }
            None => object.null("changed")?,
        }
        match self.neighbour() {
            Some(told) => {
                block(object.key("neighbour")?, told, now, self.modules)?;
                object.plain(
                    "neighbour_distance",
                    self.neighbour_distance().unwrap_or_default(),
                )?;
            }
            None => {
                object.null("neighbour")?;
                object.null("neighbour_distance")?;
            }
        }
        let out = object.key("refused")?;
        out.write_char('[')?;
        let back_ends = BackEnds::probe();
        let refused = BackEnd::ALL
            .into_iter()
            .filter_map(|back_end| Some((back_end, back_ends.refusal(back_end)?)));
        for (number, (back_end, refusal)) in refused.enumerate() {
            if number > 0 {
                out.write_char(',')?;
            }
            let mut inner = JsonObject::open(out)?;
            inner.text("back_end", back_end.name())?;
            inner.plain("errno", refusal.errno())?;
            inner.text("why", refusal)?;
            inner.close()?;
        }
        out.write_char(']')?;
        object.close()
    }
}

impl Leak<'_> {
    pub(super) fn json(&self, guard: &str, modules: &Modules, out: &mut dyn Write) -> Result {
        let mut object = JsonObject::open(out)?;
        object.plain("debug_guard", VERSION)?;
        object.text("kind", "leak")?;
        object.text("guard", guard)?;
        object.plain("process", os::process_id())?;
        object.plain("blocks", self.blocks)?;
        object.plain("bytes", self.bytes)?;
        block(object.key("block")?, &self.block, None, modules)?;
        object.close()
    }
}

fn place(object: &mut JsonObject<'_>, place: Option<AddressPosition>) -> Result {
    object.text_or_null("place", place.map(AddressPosition::name))?;
    match place {
        Some(place) => object.plain("bytes", place.bytes()),
        None => object.null("bytes"),
    }
}

fn block(
    out: &mut dyn Write,
    block: &BlockInfo<'_>,
    now: Option<&Report<'_>>,
    modules: &Modules,
) -> Result {
    let mut object = JsonObject::open(out)?;
    object.address("address", block.address())?;
    object.plain("size", block.size())?;
    object.plain("align", block.align())?;
    object.text("scope", block.scope().name())?;
    object.text("mode", block.mode().name())?;
    match block.state() {
        BlockState::Live => object.text("state", "live")?,
        BlockState::Freed => object.text("state", "freed")?,
        BlockState::MovedTo(_) => object.text("state", "moved")?,
    }
    match block.state() {
        BlockState::MovedTo(to) => object.address("moved_to", to)?,
        _ => object.null("moved_to")?,
    }
    deed(object.key("taken")?, &block.allocated(), now, modules)?;
    match block.freed() {
        Some(given) => deed(object.key("given")?, &given, now, modules)?,
        None => object.null("given")?,
    }
    object.close()
}

fn deed(
    out: &mut dyn Write,
    deed: &Actor<'_>,
    now: Option<&Report<'_>>,
    modules: &Modules,
) -> Result {
    let mut object = JsonObject::open(out)?;
    object.plain("thread", deed.thread())?;
    let mut name = [0; 16];
    object.text_or_null(
        "thread_name",
        Some(os::thread_name(deed.thread(), &mut name)).filter(|name| !name.is_empty()),
    )?;
    match deed.serial() {
        0 => object.null("serial")?,
        serial => object.plain("serial", serial)?,
    }
    match now {
        Some(report) => object.plain("age", report.age(deed))?,
        None => object.null("age")?,
    }
    match deed.context() {
        Some(context) => object.plain("context", context.get())?,
        None => object.null("context")?,
    }
    object.text("owner", deed.owner())?;
    object.text_or_null("label", deed.label())?;
    object.text_or_null("command", deed.command())?;
    match deed.command_serial() {
        Some(serial) => object.plain("command_serial", serial)?,
        None => object.null("command_serial")?,
    }
    stack(&mut object, deed.stack(), modules)?;
    object.close()
}

fn stack(object: &mut JsonObject<'_>, stack: Stack<'_>, modules: &Modules) -> Result {
    object.plain("whole", stack.whole)?;
    let out = object.key("frames")?;
    out.write_char('[')?;
    for (number, pc) in stack.frames.iter().enumerate() {
        if number > 0 {
            out.write_char(',')?;
        }
        let mut frame = JsonObject::open(out)?;
        frame.address("address", *pc)?;
        if let Some((path, offset)) = modules.find(*pc) {
            frame.text("module", path)?;
            frame.address("offset", offset)?;
        }
        frame.close()?;
    }
    out.write_char(']')
}

/// An object that is being written: what it holds comes one after the other.
struct JsonObject<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl<'a> JsonObject<'a> {
    fn open(out: &'a mut dyn Write) -> core::result::Result<Self, fmt::Error> {
        out.write_char('{')?;
        Ok(Self { out, first: true })
    }

    fn close(self) -> Result {
        self.out.write_char('}')
    }

    /// The value is to be written to what comes back.
    fn key(&mut self, key: &str) -> core::result::Result<&mut dyn Write, fmt::Error> {
        if !self.first {
            self.out.write_char(',')?;
        }
        self.first = false;
        write!(self.out, "\"{key}\":")?;
        Ok(self.out)
    }

    /// A number, or a truth value.
    fn plain(&mut self, key: &str, value: impl Display) -> Result {
        write!(self.key(key)?, "{value}")
    }

    fn null(&mut self, key: &str) -> Result {
        self.plain(key, "null")
    }

    /// Addresses are strings: as numbers they are exact up to 2^53 only, and people read them in hexadecimal.
    fn address(&mut self, key: &str, value: usize) -> Result {
        write!(self.key(key)?, "\"{value:#x}\"")
    }

    fn text(&mut self, key: &str, value: impl Display) -> Result {
        let out = self.key(key)?;
        out.write_char('"')?;
        write!(Escaped(out), "{value}")?;
        out.write_char('"')
    }

    fn text_or_null(&mut self, key: &str, value: Option<&str>) -> Result {
        match value {
            Some(value) => self.text(key, value),
            None => self.null(key),
        }
    }
}

/// Writes what stands in a JSON string.
pub(crate) struct Escaped<'a>(pub(crate) &'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        text.chars().try_for_each(|c| match c {
            '"' | '\\' => {
                self.0.write_char('\\')?;
                self.0.write_char(c)
            }
            // Control characters, and the two line ends that JSON allows and line readers do not.
            '\0'..' ' | '\x7f' | '\u{2028}' | '\u{2029}' => {
                write!(self.0, "\\u{:04x}", u32::from(c))
            }
            _ => self.0.write_char(c),
        })
    }
}
