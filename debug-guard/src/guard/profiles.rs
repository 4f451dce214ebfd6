//! Profiles, in the formats of viewers.

use core::fmt;

use alloc_core::HostAllocator;

use super::serial;
use super::state::GuardState;
use crate::os;
use crate::profile::{FrameNames, Measure, Process, Weight};

impl GuardState {
    pub(super) fn write_dhat(
        &self,
        memory: &dyn HostAllocator,
        out: &mut dyn fmt::Write,
        command: &str,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        let process = Process {
            command,
            id: os::process_id(),
            now: serial::reached(),
        };
        self.sites.as_ref().map_or(Ok(()), |sites| {
            sites.write_dhat(memory, out, process, names)
        })
    }

    pub(super) fn write_collapsed(
        &self,
        out: &mut dyn fmt::Write,
        weight: Weight,
        measure: Measure,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        self.sites.as_ref().map_or(Ok(()), |sites| {
            sites.write_collapsed(out, weight, measure, names)
        })
    }
}
