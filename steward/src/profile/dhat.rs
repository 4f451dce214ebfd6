//! The file that valgrind's `dh_view.html` loads, version 2 of its format: sums of each call site. Time is counted in allocations.
//!
//! Owner, command and size class stand in front of the innermost function, where the viewer's tree begins.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::sites::ProfileSite;
use super::{ProfileInput, process};

/// The viewer calls blocks short-lived if they lived for fewer allocations.
const SHORT: u32 = 500;

/// Texts by index, each once. The viewer needs `[root]` as the first.
struct FrameTable {
    places: HashMap<String, usize>,
    texts: Vec<String>,
}

impl FrameTable {
    fn place(&mut self, text: String) -> usize {
        let next = self.texts.len();
        *self.places.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        })
    }
}

pub(super) fn dhat(input: ProfileInput<'_>) -> Result<String, serde_json::Error> {
    let has_totals = input.has_totals();
    let mut table = FrameTable {
        places: HashMap::new(),
        texts: vec!["[root]".to_owned()],
    };
    // The viewer accepts each stack once: stacks that differ only in frames that are not shown are merged.
    let mut merged: BTreeMap<Vec<usize>, ProfileSite> = BTreeMap::new();
    for site in input.sites() {
        let labels = site.labels.iter().cloned();
        let frames = site.frames.iter().map(ToString::to_string);
        let stack = labels.chain(frames).map(|text| table.place(text)).collect();
        let sum = merged.entry(stack).or_default();
        sum.total = sum.total.plus(site.total);
        // An upper limit: their maxima may be at different moments.
        sum.most = sum.most.plus(site.most);
        sum.at_peak = sum.at_peak.plus(site.at_peak);
        sum.left = sum.left.plus(site.left);
        sum.lifetimes = sum.lifetimes.saturating_add(site.lifetimes);
    }
    let points: Vec<_> = merged
        .iter()
        .map(|(stack, site)| point(stack, site, has_totals))
        .collect();
    let sites = input
        .reports
        .iter()
        .filter_map(|report| report.call_sites.as_ref());
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
    let end = sum(&mut sites.clone().map(|sites| sites.blocks));
    let mut file = json!({
        "dhatFileVersion": 2,
        "mode": "steward",
        "verb": if has_totals { "Allocated" } else { "Alive at the end, allocated" },
        "bklt": has_totals,
        "bkacc": false,
        "tu": "allocations",
        "Mtu": "Mallocations",
        "cmd": input.title(),
        "pid": input.reports.first().map_or(0, process),
        "te": end,
        "pps": points,
        "ftbl": table.texts,
    });
    if has_totals {
        file["tuth"] = SHORT.into();
        file["tg"] = sum(&mut sites.map(|sites| sites.most_at)).into();
    }
    serde_json::to_string(&file)
}

fn point(stack: &[usize], site: &ProfileSite, has_totals: bool) -> Value {
    if !has_totals {
        return json!({ "tb": site.left.bytes, "tbk": site.left.blocks, "fs": stack });
    }
    json!({
        "tb": site.total.bytes, "tbk": site.total.blocks, "tl": site.lifetimes,
        "mb": site.most.bytes, "mbk": site.most.blocks,
        "gb": site.at_peak.bytes, "gbk": site.at_peak.blocks,
        "eb": site.left.bytes, "ebk": site.left.blocks,
        "fs": stack,
    })
}
