//! Writes the lines of a stack.

use core::fmt;

use crate::call_sites::SiteView;
use crate::modules::bias;
use crate::os;

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
    let mut path = [0; 512];
    match os::mapping_at(address, &mut path).filter(|text| !text.name.is_empty()) {
        Some(text) => write!(
            out,
            "{}+{:#x}",
            text.name,
            address.wrapping_sub(bias(&text))
        ),
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
