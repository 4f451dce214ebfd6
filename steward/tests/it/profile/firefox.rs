//! The Firefox Profiler's format, by the rules that its viewer takes for granted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Profiled, number, of_driver, of_trace, sum_of_sites};

/// A table of the Firefox Profiler's format: its length, and that all its columns have it.
fn length(table: &Value) -> usize {
    let length = number(&table["length"]) as usize;
    for (name, column) in table.as_object().expect("a table") {
        if let Some(column) = column.as_array() {
            assert_eq!(column.len(), length, "the column {name}");
        }
    }
    length
}

/// Every index of a column lies within a table. Where there may be none, `null` is one.
fn indexes(column: &Value, table: usize, may_be_null: bool) -> Vec<Option<usize>> {
    let places = column.as_array().expect("a column").iter();
    places
        .map(|place| match place.as_u64() {
            Some(place) => {
                assert!((place as usize) < table, "{place} of {table}");
                Some(place as usize)
            }
            None => {
                assert!(place.is_null() && may_be_null, "{place}");
                None
            }
        })
        .collect()
}

/// What the Firefox Profiler takes for granted of a processed profile.
pub(crate) fn check_format(profile: &Value) {
    let meta = &profile["meta"];
    for field in [
        "interval",
        "startTime",
        "processType",
        "categories",
        "product",
        "version",
        "preprocessedProfileVersion",
        "symbolicated",
        "markerSchema",
    ] {
        assert!(!meta[field].is_null(), "meta lacks {field}");
    }
    let categories = meta["categories"].as_array().expect("a list").len();
    let schemas: Vec<_> = meta["markerSchema"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|schema| schema["name"].as_str().expect("a name"))
        .collect();
    let libs = profile["libs"].as_array().expect("a list").len();
    let threads = profile["threads"].as_array().expect("a list");
    assert!(!threads.is_empty());
    for thread in threads {
        for field in ["name", "processType", "pid", "tid", "registerTime", "processStartupTime"] {
            assert!(!thread[field].is_null(), "a thread lacks {field}");
        }
        let strings = thread["stringArray"].as_array().expect("strings").len();
        let (functions, frames) = (length(&thread["funcTable"]), length(&thread["frameTable"]));
        let (stacks, resources) = (length(&thread["stackTable"]), length(&thread["resourceTable"]));
        indexes(&thread["funcTable"]["name"], strings, false);
        indexes(&thread["resourceTable"]["name"], strings, false);
        indexes(&thread["resourceTable"]["lib"], libs, true);
        indexes(&thread["frameTable"]["func"], functions, false);
        indexes(&thread["frameTable"]["category"], categories, true);
        indexes(&thread["stackTable"]["frame"], frames, false);
        let prefixes = indexes(&thread["stackTable"]["prefix"], stacks, true);
        for (place, prefix) in prefixes.into_iter().enumerate() {
            assert!(prefix.is_none_or(|prefix| prefix < place), "a stack is its own caller");
        }
        assert!(resources <= functions);
        let markers = length(&thread["markers"]);
        indexes(&thread["markers"]["name"], strings, false);
        indexes(&thread["markers"]["category"], categories, false);
        for marker in 0..markers {
            let data = &thread["markers"]["data"][marker];
            assert!(schemas.contains(&data["type"].as_str().expect("a type")), "{data}");
            let [start, end] =
                ["startTime", "endTime"].map(|time| thread["markers"][time][marker].as_f64().expect("a time"));
            assert!(start <= end, "{data}");
        }
        length(&thread["samples"]);
        if let Some(samples) = thread.get("nativeAllocations") {
            length(samples);
            indexes(&samples["stack"], stacks, true);
            assert_eq!(samples["weightType"], "bytes");
            let times = samples["time"].as_array().expect("a column");
            let times: Vec<_> = times.iter().map(|time| time.as_f64().expect("a time")).collect();
            assert!(times.is_sorted(), "time goes on");
        }
    }
}

/// What the view "Retained Memory" shows, computed as the viewer does: an allocation is retained until a sample frees
/// its address.
pub(crate) fn retained(samples: &Value) -> BTreeMap<u64, i64> {
    let columns = ["memoryAddress", "weight"].map(|name| samples[name].as_array().expect("a column"));
    let mut live = BTreeMap::new();
    for (address, weight) in columns[0].iter().zip(columns[1]) {
        let (address, weight) = (number(address), weight.as_i64().expect("bytes"));
        if weight > 0 {
            assert_eq!(live.insert(address, weight), None, "{address} is live twice");
        } else {
            assert_eq!(live.remove(&address), Some(-weight), "{address} is freed as it was allocated");
        }
    }
    live
}

/// The names of a stack's frames, innermost first.
fn names(thread: &Value, stack: usize) -> Vec<String> {
    let (stacks, frames) = (&thread["stackTable"], &thread["frameTable"]);
    std::iter::successors(Some(stack), |stack| stacks["prefix"][*stack].as_u64().map(|prefix| prefix as usize))
        .map(|stack| {
            let function = &frames["func"][number(&stacks["frame"][stack]) as usize];
            let name = &thread["funcTable"]["name"][number(function) as usize];
            let name = &thread["stringArray"][number(name) as usize];
            name.as_str().expect("a name").to_owned()
        })
        .collect()
}

/// The markers of one type: their names, by their moments.
fn markers(profile: &Value, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    for thread in profile["threads"].as_array().expect("a list") {
        let markers = &thread["markers"];
        for (place, data) in markers["data"].as_array().expect("a column").iter().enumerate() {
            if data["type"] == kind {
                let name = number(&markers["name"][place]) as usize;
                let name = thread["stringArray"][name].as_str().expect("a name");
                found.push((markers["startTime"][place].as_f64(), name.to_owned()));
            }
        }
    }
    found.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    found.into_iter().map(|(_, name)| name).collect()
}

fn check_firefox(run: &Profiled) -> Value {
    let profile: Value = serde_json::from_str(&run.text).expect("JSON");
    check_format(&profile);
    let report = &run.report;
    let main = &profile["threads"][0];
    let samples = &main["nativeAllocations"];
    let taken: i64 = samples["weight"]
        .as_array()
        .expect("a column")
        .iter()
        .filter_map(Value::as_i64)
        .filter(|weight| *weight > 0)
        .sum();
    assert!(taken as u64 >= sum_of_sites(report, "total"), "a block that is resized is two samples");
    let left: i64 = retained(samples).values().sum();
    assert_eq!(left as u64, sum_of_sites(report, "left"), "what is never freed is retained");
    let phases: Vec<_> = report["phases"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = phases.iter().filter_map(|phase| phase["name"].as_str()).collect();
    assert_eq!(markers(&profile, "Phase"), names);
    let commands: u64 = phases.iter().map(|phase| number(&phase["commands"])).sum();
    assert_eq!(markers(&profile, "VulkanCommand").len() as u64, commands);
    counters_have_names_of_their_own_and_steps(report, &profile);
    profile
}

/// Without `display` the viewer (since version 62 of its format) calls every counter "Memory" and draws slopes between
/// samples that are far apart; a track that shows no markers in its overview is empty.
fn counters_have_names_of_their_own_and_steps(report: &Value, profile: &Value) {
    let counters = profile["counters"].as_array().expect("a list");
    let mut weights = Vec::new();
    for scope in ["instance", "device", "cache", "object", "command"] {
        let sites = report["call_sites"]["sites"].as_array().expect("a list");
        let of_scope = || sites.iter().filter(|site| site["scope"] == scope);
        let name = format!("scope {scope}");
        let counter = counters.iter().find(|counter| counter["name"] == name.as_str());
        assert_eq!(counter.is_some(), of_scope().next().is_some(), "{scope}");
        let Some(counter) = counter else {
            continue;
        };
        let display = &counter["display"];
        assert_eq!(display["label"], name.as_str());
        assert_eq!(display["graphType"], "line-accumulated");
        assert_eq!(display["unit"], "bytes");
        assert_eq!(display["color"], counter["color"]);
        weights.push(number(&display["sortWeight"]));
        // A counter has changes: at the end it has what is left of its scope.
        let counts = counter["samples"]["count"].as_array().expect("a column");
        let counts: Vec<_> = counts.iter().filter_map(Value::as_f64).collect();
        let left: u64 = of_scope().map(|site| number(&site["left"]["bytes"])).sum();
        assert_eq!(counts.iter().sum::<f64>(), left as f64, "{scope}");
        // Each change is at the moment of the sample before it, which changes nothing or is such a change.
        let steps = counter["samples"]["timeDeltas"].as_array().expect("a column");
        let steps: Vec<_> = steps.iter().filter_map(Value::as_f64).collect();
        assert_eq!(steps.len(), counts.len());
        assert!(counts.len() > 3, "{counts:?}");
        for (step, count) in steps.iter().zip(&counts) {
            assert!(*step == 0.0 || *count == 0.0, "{scope}: {count} in {step} ms");
        }
        let end = profile["threads"][0]["unregisterTime"].as_f64().expect("the end of the run");
        let last: f64 = steps.iter().sum();
        assert!((last - end).abs() < 0.001, "{scope}: {last} of {end} ms");
    }
    assert!(weights.is_sorted() && weights.len() > 2, "{weights:?}");
    for schema in profile["meta"]["markerSchema"].as_array().expect("a list") {
        let places = schema["display"].as_array().expect("a list");
        for place in ["marker-chart", "marker-table", "timeline-overview"] {
            assert!(places.contains(&place.into()), "{schema}");
        }
    }
}

#[test]
fn a_replay_in_the_firefox_profilers_format_has_the_bytes_of_the_report_at_the_end_of_each_phase() {
    let run = of_trace("a.json");
    let profile = check_firefox(&run);
    let main = &profile["threads"][0];
    let (samples, markers) = (&main["nativeAllocations"], &main["markers"]);
    let column = |table: &Value, name: &str| -> Vec<f64> {
        let column = table[name].as_array().expect("a column").iter();
        column.map(|value| value.as_f64().unwrap_or(f64::NAN)).collect()
    };
    let changes: Vec<_> = column(samples, "time").into_iter().zip(column(samples, "weight")).collect();
    let ends = column(markers, "endTime");
    let phases = run.report["phases"].as_array().expect("a list");
    assert!(phases.len() > 5);
    for (phase, end) in phases.iter().zip(ends) {
        let live: f64 = changes.iter().filter(|(at, _)| *at <= end).map(|(_, bytes)| bytes).sum();
        assert_eq!(live, number(&phase["live_bytes"]) as f64, "{}", phase["name"]);
    }
}

#[test]
fn a_run_in_the_firefox_profilers_format_has_stacks_below_owner_and_command() {
    let run = of_driver("a.json");
    let profile = check_firefox(&run);
    let thread = &profile["threads"][0];
    let stacks = thread["nativeAllocations"]["stack"].as_array().expect("a column");
    let stacks: Vec<_> = stacks.iter().filter_map(|stack| Some(names(thread, stack.as_u64()? as usize))).collect();
    let of_buffers =
        stacks.iter().find(|stack| stack.contains(&"vkCreateBuffer".to_owned())).expect("a buffer was created");
    let owner = of_buffers.last().expect("a frame");
    assert_eq!(owner, "VkBuffer, object");
    let function = of_buffers.first().expect("a frame");
    assert!(function.contains("::"), "{of_buffers:?}");
}
