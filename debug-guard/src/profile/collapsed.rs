//! Stacks on one line each, as flame graphs are drawn of: `owner;command;outermost;..;innermost 4096`.

use core::fmt;

use super::text::{FrameNames, OneFrame};
use crate::call_sites::{LabelKind, Numbers, SiteRef, Sites};

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
        self.for_each_counted(profile, 0, &mut |site, numbers| {
            let n = numbers.of(weight, measure);
            if n == 0 {
                return Ok(());
            }
            match site {
                Some(site) => self.write_stack(out, site, names)?,
                None => out.write_str("not written down: there was no room")?,
            }
            writeln!(out, " {n}")
        })
    }

    fn write_stack(
        &self,
        out: &mut dyn fmt::Write,
        site: SiteRef<'_>,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        let view = site.view();
        super::text::owner(&mut OneFrame(out), &view)?;
        let frames = view
            .frames
            .iter()
            .rev()
            .map(|frame| LabelKind::Frame(*frame));
        for line in view
            .command
            .map(LabelKind::Command)
            .into_iter()
            .chain(frames)
        {
            out.write_char(';')?;
            self.write_line(&mut OneFrame(out), line, names)?;
        }
        Ok(())
    }
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
