//! Host traces decoded from bytes, with the truth about them from a naive model.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::programs::Bytes;

/// What a trace of [`host_trace`] adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceTruth {
    /// Events, which is lines less header and end marker.
    pub events: u64,
    /// Blocks that came of requests.
    pub blocks: u64,
    /// Blocks live at the end.
    pub live_blocks: u64,
    /// Bytes live at the end.
    pub live_bytes: u64,
    /// Most bytes live at once.
    pub peak_bytes: u64,
    /// Frees and reallocations of what was not live.
    pub not_live: u64,
    /// Requests answered with NULL.
    pub null_answers: u64,
}

/// Decodes a trace of format 2: any bytes give one that is well formed, most lines of which make sense.
///
/// # Panics
/// Never: a `String` takes all.
#[must_use]
pub fn host_trace(bytes: &[u8]) -> (String, TraceTruth) {
    let mut bytes = Bytes::new(bytes);
    let (mut text, mut truth) = (String::from("# steward host trace 2\n# driver: made up\n"), TraceTruth::default());
    let mut live = BTreeMap::new();
    while let Some(()) = line(&mut bytes, &mut text, &mut truth, &mut live) {
        truth.events += 1;
    }
    truth.live_blocks = live.len() as u64;
    truth.live_bytes = live.values().sum();
    writeln!(text, "z,{}", truth.events + 2).expect("a String takes all");
    (text, truth)
}

/// One line, or none when the bytes are used up: a line whose bytes run out is not written.
fn line(bytes: &mut Bytes<'_>, text: &mut String, truth: &mut TraceTruth, live: &mut BTreeMap<u64, u64>) -> Option<()> {
    let kind = bytes.below(16)?;
    let (thread, owner) = (bytes.below(3)? + 1, bytes.below(4)?);
    let written = match kind {
        0..=5 => {
            let (size, align, scope) = (bytes.size()? as u64, bytes.alignment()?, bytes.scope()?.as_raw());
            let block = free(truth, live, bytes.below(16)? != 0, size);
            writeln!(text, "a,{thread},{owner},{block},{size},{align},{scope}")
        }
        6..=10 => {
            let (name, block) = pick(bytes, truth, live)?;
            truth.not_live += u64::from(live.remove(&block).is_none() && name != "0");
            writeln!(text, "f,{thread},{owner},{name}")
        }
        11 | 12 => {
            let (name, old) = pick(bytes, truth, live)?;
            let (size, came) = (bytes.size()? as u64, bytes.below(8)? != 0);
            if name != "0" {
                truth.not_live += u64::from(!live.contains_key(&old));
            }
            let new = if size == 0 {
                live.remove(&old);
                0
            } else {
                if came {
                    live.remove(&old);
                }
                free(truth, live, came, size)
            };
            writeln!(text, "r,{thread},{owner},{name},{new},{size},8,1")
        }
        13 => writeln!(text, "p,phase {owner}, part {thread}"),
        14 => writeln!(text, "e,{thread},{owner},vkCommand{owner}"),
        _ => writeln!(text, "l,{thread},{}", bytes.below(3)? as i64 - 1),
    };
    written.ok()
}

/// A new block, or 0.
fn free(truth: &mut TraceTruth, live: &mut BTreeMap<u64, u64>, came: bool, size: u64) -> u64 {
    if !came {
        truth.null_answers += 1;
        return 0;
    }
    truth.blocks += 1;
    live.insert(truth.blocks, size);
    truth.peak_bytes = truth.peak_bytes.max(live.values().sum());
    truth.blocks
}

/// Mostly a live block; now and then one that may have gone, NULL, or a pointer never given.
fn pick(bytes: &mut Bytes<'_>, truth: &TraceTruth, live: &BTreeMap<u64, u64>) -> Option<(String, u64)> {
    let any = bytes.below(256)?;
    let block = match bytes.below(16)? {
        0 => 0,
        1 => return Some((format!("?{any}"), u64::MAX)),
        2 if truth.blocks > 0 => any as u64 % truth.blocks + 1,
        _ if live.is_empty() => 0,
        _ => live.keys().nth(any % live.len()).copied().unwrap_or(0),
    };
    Some((block.to_string(), block))
}
