//! The file that valgrind's DHAT viewer (`dh_view.html`) loads, version 2 of its format.
//!
//! ```text
//!   "pps":  [ { tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk, fs: [owner, command, innermost frame, ..] }, ... ]
//!   "ftbl": [ "[root]", ... ]                             fs are places in here; no two pps have the same
//! ```
//! Owner and command stand in front of the innermost frame, so that the viewer's tree begins with them.

use core::fmt;

use alloc_core::support::EscapedJson;

use super::text::{self, FrameNames};
use crate::call_sites::{LabelKind, Numbers, Profile, Sites};

/// The process that writes its profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    /// Its command line.
    pub(crate) command: &'a str,
    pub(crate) id: u32,
    /// How many allocations the guard has served: the end of time.
    pub(crate) now: u64,
}

/// Blocks that lived for fewer allocations than this are called short-lived by the viewer.
const SHORT: u32 = 500;

impl Sites {
    /// Writes the profile for the DHAT viewer: JSON, version 2. Without a profile a file without sites.
    ///
    /// Time is counted in allocations of the guard. Bytes are what was asked for. Allocates nothing; sites that come while it is being
    /// written are left out, and while other threads go on the sums are of slightly different moments.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_dhat(
        &self,
        out: &mut dyn fmt::Write,
        process: Process<'_>,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        write!(
            out,
            r#"{{"dhatFileVersion":2,"mode":"steward-guard","verb":"Allocated","bklt":true,"bkacc":false,"#
        )?;
        write!(
            out,
            r#""tu":"allocations","Mtu":"Mallocations","tuth":{SHORT},"cmd":""#
        )?;
        fmt::Write::write_str(&mut EscapedJson(out), process.command)?;
        let peak = self.profile().map_or(0, |profile| profile.peak.when());
        write!(
            out,
            r#"","pid":{},"tg":{peak},"te":{},"pps":["#,
            process.id, process.now
        )?;
        let Some(profile) = self.profile() else {
            return out.write_str(r#"],"ftbl":["[root]"]}"#);
        };
        let labels = profile.labels.count();
        self.write_sites(out, profile, labels, process.now)?;
        out.write_str("],\"ftbl\":[\"[root]\"")?;
        profile.labels.for_each(self.arena(), labels, &mut |line| {
            out.write_str(",\n\"")?;
            self.write_line(&mut EscapedJson(out), line, names)?;
            out.write_char('"')
        })?;
        // The place behind the labels is that of what has none.
        out.write_str(",\n\"not written down: there was no room\"]}\n")
    }

    fn write_sites(
        &self,
        out: &mut dyn fmt::Write,
        profile: &Profile,
        labels: u32,
        now: u64,
    ) -> fmt::Result {
        let mut first = true;
        self.for_each_counted(profile, now, &mut |site, numbers| {
            let nobody = [u32::MAX];
            let own = site.as_ref().map_or(&nobody[..], |site| site.labels());
            if site.is_some() && own.iter().any(|label| *label >= labels) {
                return Ok(()); // came while this was being written
            }
            out.write_str(if core::mem::take(&mut first) {
                "\n"
            } else {
                ",\n"
            })?;
            write_numbers(out, &numbers)?;
            for (i, label) in own.iter().enumerate() {
                // The last label is written first, behind the root.
                let place = if site.is_some() {
                    labels.wrapping_sub(*label)
                } else {
                    labels.wrapping_add(1)
                };
                write!(out, "{}{place}", if i == 0 { "" } else { "," })?;
            }
            out.write_str("]}")
        })
    }

    /// The content of a label.
    pub(super) fn write_line(
        &self,
        out: &mut dyn fmt::Write,
        line: LabelKind,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        match line {
            LabelKind::Owner(id) => match self.get(id) {
                Some(site) => text::owner(out, &site),
                None => Ok(()),
            },
            LabelKind::Command(name) => out.write_str(name),
            LabelKind::Frame(address) => text::frame(out, address, names),
        }
    }
}

fn write_numbers(out: &mut dyn fmt::Write, n: &Numbers) -> fmt::Result {
    write!(
        out,
        r#"{{"tb":{},"tbk":{},"tl":{},"#,
        n.total_bytes, n.total_blocks, n.lifetimes
    )?;
    write!(
        out,
        r#""mb":{},"mbk":{},"gb":{},"gbk":{},"#,
        n.most_bytes, n.most_blocks, n.peak_bytes, n.peak_blocks
    )?;
    write!(
        out,
        r#""eb":{},"ebk":{},"fs":["#,
        n.live_bytes, n.live_blocks
    )
}
