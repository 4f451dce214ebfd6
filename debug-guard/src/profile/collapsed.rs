//! Stacks on one line each, as flame graphs are drawn of: `owner;command;outermost;..;innermost 4096`.

use core::fmt;

use super::text::{self, FrameNames, OneFrame};
use crate::call_sites::{Numbers, SiteView, Sites};

/// The sum of a call site that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// Live now.
    #[default]
    Live,
    /// Live at the peak of the guard's bytes.
    Peak,
    /// Allocated in all.
    Total,
}

/// What is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Measure {
    /// Bytes, as they were asked for.
    #[default]
    Bytes,
    /// Blocks.
    Blocks,
}

impl Sites {
    /// Writes a line for each call site whose `weight` is not 0. Without a profile none. Allocates nothing.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_collapsed(
        &self,
        out: &mut dyn fmt::Write,
        weight: Weight,
        measure: Measure,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        let Some(profile) = self.profile() else {
            return Ok(());
        };
        for (site, numbers) in self.counted(profile, 0) {
            let n = numbers.of(weight, measure);
            if n == 0 {
                continue;
            }
            match site {
                Some(site) => write_stack(out, site.view(), names)?,
                None => out.write_str(text::NOT_RECORDED)?,
            }
            writeln!(out, " {n}")?;
        }
        Ok(())
    }
}

/// Outermost first.
fn write_stack(
    out: &mut dyn fmt::Write,
    view: SiteView<'_>,
    names: Option<&dyn FrameNames>,
) -> fmt::Result {
    let (owner, command, frames) = text::lines(view);
    text::write_line(&mut OneFrame(out), owner, names)?;
    for line in command.into_iter().chain(frames.rev()) {
        out.write_char(';')?;
        text::write_line(&mut OneFrame(out), line, names)?;
    }
    Ok(())
}

impl Numbers {
    const fn of(&self, weight: Weight, measure: Measure) -> u64 {
        match (weight, measure) {
            (Weight::Live, Measure::Bytes) => self.live_bytes,
            (Weight::Live, Measure::Blocks) => self.live_blocks,
            (Weight::Peak, Measure::Bytes) => self.peak_bytes,
            (Weight::Peak, Measure::Blocks) => self.peak_blocks,
            (Weight::Total, Measure::Bytes) => self.total_bytes,
            (Weight::Total, Measure::Blocks) => self.total_blocks,
        }
    }
}
