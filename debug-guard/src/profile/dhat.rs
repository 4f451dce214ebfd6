//! The file that valgrind's DHAT viewer (`dh_view.html`) loads, version 2 of its format.
//!
//! ```text
//!   "pps":  [ { tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk, fs: [owner, command, innermost frame, ..] }, ... ]
//!   "ftbl": [ "[root]", ... ]                             fs are places in here; no two pps have the same
//! ```
//! Owner and command stand in front of the innermost frame, so that the viewer's tree begins with them.

use core::fmt;

use alloc_core::support::EscapedJson;
use alloc_core::{HostAllocator, Scope, Scoped, TryMap};

use super::text::{self, FrameNames};
use crate::call_sites::{Numbers, Sites};

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
    /// Time is counted in allocations of the guard. Bytes are what was asked for. While other threads go on the sums are of slightly
    /// different moments.
    ///
    /// # Errors
    /// Those of `out`; and if `memory` refuses the table of lines.
    pub(crate) fn write_dhat(
        &self,
        memory: &dyn HostAllocator,
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
        let Process { id, now, .. } = process;
        write!(out, r#"","pid":{id},"tg":{peak},"te":{now},"pps":["#)?;
        // The place of each line, by its hash. Place 0 is the root.
        let mut places = TryMap::new_in(Scoped::new(memory, Scope::Command));
        let mut numbered = 0_u32;
        let counted = || self.profile().map(|profile| self.counted(profile, now));
        for (at, (site, numbers)) in counted().into_iter().flatten().enumerate() {
            out.write_str(if at == 0 { "\n" } else { ",\n" })?;
            write_numbers(out, &numbers)?;
            let lines = site.map(|site| text::lines(site.view()));
            let hashes = lines.map(|(owner, command, frames)| {
                let own = core::iter::once(owner).chain(command);
                own.chain(frames).map(|line| line.hash())
            });
            let none = hashes.is_none().then_some(0);
            for (n, hash) in hashes.into_iter().flatten().chain(none).enumerate() {
                let place = places
                    .try_get_or_insert_with(hash, |_| {
                        numbered += 1;
                        numbered
                    })
                    .map_err(|_| fmt::Error)?;
                write!(out, "{}{place}", if n == 0 { "" } else { "," })?;
            }
            out.write_str("]}")?;
        }
        out.write_str("],\"ftbl\":[\"[root]\"")?;
        // The same sites in the same order: each line when its place has come.
        let mut next = 1;
        let mut is_next = |hash: u64| {
            let here = places.get(&hash) == Some(&next);
            next += u32::from(here);
            here
        };
        for (site, _) in counted().into_iter().flatten() {
            let Some(site) = site else {
                if is_next(0) {
                    write!(out, ",\n\"{}\"", text::NOT_RECORDED)?;
                }
                continue;
            };
            let (owner, command, frames) = text::lines(site.view());
            for line in core::iter::once(owner).chain(command).chain(frames) {
                if is_next(line.hash()) {
                    out.write_str(",\n\"")?;
                    text::write_line(&mut EscapedJson(out), line, names)?;
                    out.write_char('"')?;
                }
            }
        }
        out.write_str("]}\n")
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
