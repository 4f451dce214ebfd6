#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use fxprof_processed_profile::{CounterHandle, GraphColor, ProcessHandle, Profile, Timestamp};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vk_report::report::origins::EventLog;

use super::super::sites::ProfileSite;
use super::{SCOPES, at, scope_label};

const CATEGORY: &str = "Memory";

#[derive(Debug, Default)]
pub(super) struct ScopeCounters {
    displays: Vec<Display>,
}

/// Without it the viewer calls all counters of [`CATEGORY`] "Memory" and sorts them by name. It is of version 62 of the
/// format, and the crate that writes the rest writes an older one; newer readers accept the field there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Display {
    graph_type: &'static str,
    unit: &'static str,
    color: GraphColor,
    marker_schema_location: Option<&'static str>,
    sort_weight: usize,
    label: String,
}

#[derive(Debug)]
struct Track {
    counter: CounterHandle,
    last: Timestamp,
}

impl ScopeCounters {
    pub(super) fn add(
        &mut self,
        profile: &mut Profile,
        process: ProcessHandle,
        (sites, events): (&[ProfileSite], &EventLog),
        end: Timestamp,
    ) {
        let mut tracks: HashMap<&str, Track> = HashMap::new();
        for (sort_weight, (scope, _, color)) in SCOPES.into_iter().enumerate() {
            if !sites.iter().any(|site| site.scope == scope.name()) {
                continue;
            }
            let label = scope_label(scope);
            let what = format!("Live bytes of {label}");
            let counter = profile.add_counter(process, &label, CATEGORY, &what);
            profile.set_counter_color(counter, color);
            profile.add_counter_sample(counter, at(0), 0.0, 0);
            let last = at(0);
            tracks.insert(scope.name(), Track { counter, last });
            self.displays.push(Display {
                graph_type: "line-accumulated",
                unit: "bytes",
                color,
                marker_schema_location: None,
                sort_weight,
                label,
            });
        }
        for change in &events.blocks {
            let scope = sites.get(change.site).map_or("", |site| &*site.scope);
            if let Some(track) = tracks.get_mut(scope) {
                track.stay(profile, at(change.at));
                profile.add_counter_sample(track.counter, track.last, change.bytes as f64, 1);
            }
        }
        for track in tracks.values_mut() {
            track.stay(profile, end);
        }
    }

    pub(super) fn label(&self, profile: &str) -> Result<String, serde_json::Error> {
        let mut parts: BTreeMap<String, &RawValue> = serde_json::from_str(profile)?;
        let Some(written) = parts.get("counters") else {
            return Ok(profile.to_owned());
        };
        let mut counters: Vec<BTreeMap<String, &RawValue>> = serde_json::from_str(written.get())?;
        let displays = self.displays.iter().map(to_raw_value);
        let displays = displays.collect::<Result<Vec<_>, _>>()?;
        for (counter, display) in counters.iter_mut().zip(&displays) {
            counter.insert("display".to_owned(), display);
        }
        let counters = to_raw_value(&counters)?;
        parts.insert("counters".to_owned(), &counters);
        serde_json::to_string(&parts)
    }
}

impl Track {
    /// The viewer draws a slope from sample to sample, but bytes change at once.
    fn stay(&mut self, profile: &mut Profile, moment: Timestamp) {
        if moment > self.last {
            profile.add_counter_sample(self.counter, moment, 0.0, 0);
            self.last = moment;
        }
    }
}
