//! Writes the lines of a stack.

use core::fmt;

use crate::call_sites::{SiteView, line_hash};
use crate::modules::Module;

/// Names the code at an address.
///
/// A guard has no symbols: without names, frames are written as `/path/of/module+0xoffset`, as reports have them, and `steward symbols`
/// writes a copy of the profile with names.
pub trait FrameNames {
    /// Writes the name of the function that contains `return_address`. Returns `false`, and writes nothing, if the name is not known.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_name(
        &self,
        return_address: usize,
        out: &mut dyn fmt::Write,
    ) -> Result<bool, fmt::Error>;
}

/// In the place of a stack that has no site.
pub(super) const NOT_RECORDED: &str = "not written down: there was no room";

/// A line of a stack.
#[derive(Clone, Copy)]
pub(super) enum Line<'a> {
    /// The owner of the site, and its scope.
    Owner(SiteView<'a>),
    Command(&'a str),
    /// A return address.
    Frame(usize),
}

impl Line<'_> {
    /// Two lines with one hash are the same.
    pub(super) fn hash(self) -> u64 {
        match self {
            Self::Owner(site) => site.owner_hash(),
            Self::Command(name) => line_hash(name, 0),
            Self::Frame(address) => line_hash("", address),
        }
    }
}

/// The lines of a site: owner, command, and the frames, innermost first.
pub(super) fn lines(
    site: SiteView<'_>,
) -> (
    Line<'_>,
    Option<Line<'_>>,
    impl DoubleEndedIterator<Item = Line<'_>>,
) {
    let frames = site.frames.iter().map(|frame| Line::Frame(*frame));
    (Line::Owner(site), site.command.map(Line::Command), frames)
}

pub(super) fn write_line(
    out: &mut dyn fmt::Write,
    line: Line<'_>,
    names: Option<&dyn FrameNames>,
) -> fmt::Result {
    match line {
        Line::Owner(site) => owner(out, &site),
        Line::Command(name) => out.write_str(name),
        Line::Frame(address) => frame(out, address, names),
    }
}

/// Writes a return address: its name, or else its position in its module.
pub(super) fn frame(
    out: &mut dyn fmt::Write,
    address: usize,
    names: Option<&dyn FrameNames>,
) -> fmt::Result {
    if let Some(names) = names
        && names.write_name(address, out)?
    {
        return Ok(());
    }
    let mut name = [0; 1024];
    match Module::at(address, &mut name).filter(|module| !module.path().is_empty()) {
        Some(module) => {
            let (path, offset) = module.place(address);
            write!(out, "{path}+{offset:#x}")
        }
        None => write!(out, "{address:#x}"),
    }
}

/// Writes the owner of a site and the scope: `textures (atlas) #12, object`.
pub(super) fn owner(out: &mut dyn fmt::Write, site: &SiteView<'_>) -> fmt::Result {
    out.write_str(if site.name.is_empty() {
        "nobody"
    } else {
        site.name
    })?;
    if let Some(label) = site.label {
        write!(out, " ({label})")?;
    }
    if let Some(context) = site.context {
        write!(out, " {context}")?;
    }
    write!(out, ", {}", site.scope)?;
    if site.front != 0 {
        write!(out, ", {} bytes of a bridge in front", site.front)
    } else {
        Ok(())
    }
}

/// Writes text as one frame of a collapsed stack. Replaces `;`, which separates frames, and control
/// characters, because a newline ends the stack.
pub(super) struct OneFrame<'a>(pub(super) &'a mut dyn fmt::Write);

impl fmt::Write for OneFrame<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.0.write_char(match c {
                ';' => ':',
                c if c.is_control() => ' ',
                c => c,
            })?;
        }
        Ok(())
    }
}
