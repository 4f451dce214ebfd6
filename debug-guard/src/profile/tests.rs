//! Profiles read back: every sum against a count of our own, the file by the rules of the viewer that loads it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::string::{String, ToString};
use std::vec::Vec;

use alloc_core::{FromGlobalAlloc, Scope};
use serde_json::Value;

use super::dhat::Process;
use super::{FrameNames, Measure, Weight};
use crate::block::SiteId;
use crate::call_sites::{RequesterInfo, SiteOptions, Sites};
use crate::{CommandMark, Stacks};

const MEMORY: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// What a call site should say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    total: (u64, u64),
    live: (u64, u64),
    most: (u64, u64),
    peak: (u64, u64),
    lifetimes: u64,
}

struct ProfileModel {
    sites: Sites,
    /// By site; 0 is nobody's.
    sums: BTreeMap<u32, Sums>,
    live: Vec<(SiteId, usize, u64)>,
    now: u64,
    most: u64,
    peak_at: u64,
}

impl ProfileModel {
    fn new() -> Self {
        let sites = Sites::new(
            &MEMORY,
            SiteOptions {
                profile: true,
                max_bytes: 0,
            },
        )
        .expect("there is memory");
        Self {
            sites,
            sums: BTreeMap::new(),
            live: Vec::new(),
            now: 0,
            most: 0,
            peak_at: 0,
        }
    }

    fn allocate(&mut self, id: SiteId, bytes: usize) {
        self.now += 1;
        self.sites.allocated(id, bytes, self.now);
        self.live.push((id, bytes, self.now));
        let sums = self.sums.entry(id.0).or_default();
        sums.total = (sums.total.0 + bytes as u64, sums.total.1 + 1);
        sums.live = (sums.live.0 + bytes as u64, sums.live.1 + 1);
        if sums.live.0 > sums.most.0 {
            sums.most = sums.live;
        }
        let all: u64 = self.sums.values().map(|sums| sums.live.0).sum();
        if all > self.most {
            (self.most, self.peak_at) = (all, self.now);
            self.sums
                .values_mut()
                .for_each(|sums| sums.peak = sums.live);
        }
    }

    fn free(&mut self, at: usize) {
        let (id, bytes, born) = self.live.swap_remove(at);
        self.sites.freed(id, bytes, born, self.now);
        let sums = self.sums.get_mut(&id.0).expect("it was allocated");
        sums.live = (sums.live.0 - bytes as u64, sums.live.1 - 1);
        sums.lifetimes += self.now - born;
    }

    fn finish(&mut self) -> Value {
        for (id, _, born) in &self.live {
            self.sums
                .get_mut(&id.0)
                .expect("it was allocated")
                .lifetimes += self.now - born;
        }
        let mut text = String::new();
        let process = Process {
            command: "a \"quoted\" \\ program\n",
            id: 77,
            now: self.now,
        };
        self.sites
            .write_dhat(&MEMORY, &mut text, process, Some(&ModelNames))
            .expect("a string takes it");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// Names every second address.
struct ModelNames;

impl FrameNames for ModelNames {
    fn write_name(
        &self,
        address: usize,
        out: &mut dyn core::fmt::Write,
    ) -> Result<bool, core::fmt::Error> {
        let known = address.is_multiple_of(2);
        if known {
            write!(out, "func;tion<\"{address:x}\">")?;
        }
        Ok(known)
    }
}

#[inline(never)]
fn level<R>(levels: u64, note: &mut dyn FnMut() -> R) -> R {
    let answer = if levels == 0 {
        note()
    } else {
        level(levels - 1, note)
    };
    core::hint::black_box(levels);
    answer
}

/// Sites of some owners, scopes, commands and stacks.
fn sites(model: &ProfileModel) -> Vec<SiteId> {
    let mut all = Vec::new();
    for (n, name) in ["textures", "a\"b\\c;d\n", "", "plain"]
        .into_iter()
        .enumerate()
    {
        for scope in [Scope::Object, Scope::Cache] {
            for levels in [0, 1, 4] {
                let frame = 0_u8;
                let command = (n % 2 == 0).then(|| CommandMark {
                    name: "vkCreateImage",
                    serial: 1,
                    stack: (&raw const frame).addr(),
                });
                let who = RequesterInfo {
                    context: None,
                    name,
                    label: (n == 3).then_some("label"),
                    scope,
                    front: 16 * (n as u32 % 2),
                    command,
                };
                all.push(level(levels, &mut || {
                    model.sites.note(&MEMORY, &who, Stacks::Full)
                }));
            }
        }
    }
    assert!(!all.contains(&SiteId(0)));
    all
}

fn run(model: &mut ProfileModel, seed: u64) {
    let ids = sites(model);
    let mut random = seed;
    for _ in 0..if cfg!(miri) { 60 } else { 3000 } {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let pick = (random >> 33) as usize;
        if model.live.is_empty() || pick % 9 < 5 {
            // One in fifty is nobody's.
            let id = if pick.is_multiple_of(50) {
                SiteId(0)
            } else {
                ids[pick / 64 % ids.len()]
            };
            model.allocate(id, pick / 512 % 1000);
        } else {
            model.free(pick / 64 % model.live.len());
        }
    }
}

fn number(of: &Value, field: &str) -> u64 {
    of[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} of {of} is no number"))
}

fn sums(of: &Value) -> Sums {
    Sums {
        total: (number(of, "tb"), number(of, "tbk")),
        live: (number(of, "eb"), number(of, "ebk")),
        most: (number(of, "mb"), number(of, "mbk")),
        peak: (number(of, "gb"), number(of, "gbk")),
        lifetimes: number(of, "tl"),
    }
}

/// What `dh_view.js` asks of a file before it shows it, and what it takes for granted while it does.
fn load(file: &Value) {
    for field in [
        "dhatFileVersion",
        "mode",
        "verb",
        "bklt",
        "bkacc",
        "tu",
        "Mtu",
        "cmd",
        "pid",
        "te",
        "pps",
        "ftbl",
        "tg",
        "tuth",
    ] {
        assert!(!file[field].is_null(), "the viewer misses {field}");
    }
    assert_eq!(number(file, "dhatFileVersion"), 2);
    assert_eq!(
        (file["bklt"].as_bool(), file["bkacc"].as_bool()),
        (Some(true), Some(false))
    );
    assert!(number(file, "tg") <= number(file, "te"));
    let frames = file["ftbl"].as_array().expect("a list");
    assert_eq!(frames[0], "[root]");
    assert!(frames.iter().all(Value::is_string));
    let mut seen = HashSet::new();
    for pp in file["pps"].as_array().expect("a list") {
        let fs: Vec<u64> = pp["fs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|place| place.as_u64().expect("a place"))
            .collect();
        assert!(
            !fs.is_empty()
                && fs
                    .iter()
                    .all(|place| *place >= 1 && (*place as usize) < frames.len()),
            "{pp}"
        );
        assert!(
            seen.insert(fs),
            "data file contains a repeated location: {pp}"
        );
        let s = sums(pp);
        assert!(
            s.total.1 > 0 && s.live <= s.total && s.most.0 <= s.total.0 && s.peak.0 <= s.most.0,
            "{pp}"
        );
    }
}

#[test]
fn every_number_of_a_dhat_file_is_right() {
    for seed in 1..if cfg!(miri) { 2 } else { 12 } {
        let mut model = ProfileModel::new();
        run(&mut model, seed);
        let file = model.finish();
        load(&file);
        assert_eq!(file["cmd"], "a \"quoted\" \\ program\n");
        assert_eq!(
            (
                number(&file, "pid"),
                number(&file, "te"),
                number(&file, "tg")
            ),
            (77, model.now, model.peak_at)
        );

        let told = |pp: &Value| {
            let frames = &file["ftbl"];
            let lines = pp["fs"].as_array().expect("a list").iter();
            lines
                .map(|place| {
                    frames[place.as_u64().expect("a place") as usize]
                        .as_str()
                        .expect("text")
                        .to_string()
                })
                .collect::<Vec<_>>()
        };
        let mut by_lines: BTreeMap<Vec<String>, Sums> = file["pps"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|pp| (told(pp), sums(pp)))
            .collect();
        assert_eq!(
            by_lines.len(),
            file["pps"].as_array().expect("a list").len(),
            "lines tell sites apart"
        );
        for (id, expected) in &model.sums {
            let lines = expected_lines(&model.sites, SiteId(*id));
            let found = by_lines
                .remove(&lines)
                .unwrap_or_else(|| panic!("{lines:?} is missing"));
            assert_eq!(found, *expected, "{lines:?}");
        }
        assert!(by_lines.is_empty(), "{by_lines:?}");
        let at_peak: u64 = file["pps"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|pp| number(pp, "gb"))
            .sum();
        assert_eq!(at_peak, model.most);
        model.sites.close(&MEMORY);
    }
}

fn name(frame: usize) -> String {
    let mut text = String::new();
    super::text::frame(&mut text, frame, Some(&ModelNames)).expect("a string takes it");
    text
}

/// Written by other means than the code that is tested, but for the words.
fn expected_lines(sites: &Sites, id: SiteId) -> Vec<String> {
    let Some(site) = sites.get(id) else {
        return Vec::from(["not written down: there was no room".to_string()]);
    };
    let mut owner = String::new();
    super::text::owner(&mut owner, &site).expect("a string takes it");
    let frames = site.frames.iter().map(|frame| name(*frame));
    [owner]
        .into_iter()
        .chain(site.command.map(str::to_string))
        .chain(frames)
        .collect()
}

#[test]
fn the_frames_of_a_file_are_each_told_once() {
    let mut model = ProfileModel::new();
    run(&mut model, 3);
    let file = model.finish();
    let frames: Vec<&str> = file["ftbl"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("text"))
        .collect();
    assert_eq!(
        frames.iter().collect::<BTreeSet<_>>().len(),
        frames.len(),
        "{frames:#?}"
    );
    assert!(frames.contains(&"textures, object"));
    assert!(
        frames.contains(&"plain (label), cache, 16 bytes of a bridge in front"),
        "{frames:#?}"
    );
    assert!(frames.contains(&"vkCreateImage"));
    if !cfg!(miri) {
        assert!(
            frames.iter().any(|frame| frame.starts_with("func;tion<\""))
                && frames.iter().any(|frame| frame.contains("+0x"))
        );
    }
    model.sites.close(&MEMORY);
}

#[test]
fn collapsed_stacks_sum_up_to_what_is_there() {
    let mut model = ProfileModel::new();
    run(&mut model, 5);
    model.finish();
    for (weight, measure) in [Weight::Live, Weight::Peak, Weight::Total]
        .into_iter()
        .flat_map(|w| [(w, Measure::Bytes), (w, Measure::Blocks)])
    {
        let mut text = String::new();
        model
            .sites
            .write_collapsed(&mut text, weight, measure, Some(&ModelNames))
            .expect("a string takes it");
        let mut expected = BTreeMap::new();
        for (id, sums) in &model.sums {
            let pair = match weight {
                Weight::Live => sums.live,
                Weight::Peak => sums.peak,
                Weight::Total => sums.total,
            };
            let n = if measure == Measure::Bytes {
                pair.0
            } else {
                pair.1
            };
            if n != 0 {
                let mut lines = expected_lines(&model.sites, SiteId(*id));
                let frames = model
                    .sites
                    .get(SiteId(*id))
                    .map_or(0, |site| site.frames.len());
                let first = lines.len() - frames;
                lines[first..].reverse();
                let clean = |line: &String| line.replace(';', ":").replace('\n', " ");
                expected.insert(lines.iter().map(clean).collect::<Vec<_>>(), n);
            }
        }
        // As flame graph tools read it: a number behind the last blank, frames between semicolons.
        let mut found = BTreeMap::new();
        for line in text.lines() {
            let (stack, n) = line
                .rsplit_once(' ')
                .expect("a blank in front of the number");
            let frames: Vec<String> = stack.split(';').map(str::to_string).collect();
            assert!(
                found.insert(frames, n.parse().expect("a number")).is_none(),
                "twice: {line}"
            );
        }
        assert_eq!(found, expected, "{weight:?} {measure:?}");
    }
    model.sites.close(&MEMORY);
}

#[test]
fn without_a_profile_files_are_empty_and_still_load() {
    let mut sites = Sites::new(&MEMORY, SiteOptions::default()).expect("there is memory");
    sites.allocated(SiteId(0), 5, 1);
    let mut text = String::new();
    sites
        .write_dhat(
            &MEMORY,
            &mut text,
            Process {
                command: "x",
                id: 1,
                now: 1,
            },
            None,
        )
        .expect("a string takes it");
    load(&serde_json::from_str(&text).expect("JSON"));
    text.clear();
    sites
        .write_collapsed(&mut text, Weight::Total, Measure::Blocks, None)
        .expect("a string takes it");
    assert_eq!(text, "");
    sites.close(&MEMORY);
}

#[test]
fn threads_lose_no_count() {
    let mut model = ProfileModel::new();
    let ids = sites(&model);
    let times = if cfg!(miri) { 5 } else { 2000 };
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (sites, ids) = (&model.sites, &ids);
            scope.spawn(move || {
                for n in 0..times {
                    let id = ids[(n * 7 + thread) % ids.len()];
                    sites.allocated(id, 10, 1);
                    sites.allocated(id, 6, 1);
                    sites.freed(id, 10, 1, 1);
                }
            });
        }
    });
    let mut text = String::new();
    model
        .sites
        .write_dhat(
            &MEMORY,
            &mut text,
            Process {
                command: "x",
                id: 1,
                now: 1,
            },
            None,
        )
        .expect("a string takes it");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    load(&file);
    let sum = |field: &str| {
        file["pps"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|pp| number(pp, field))
            .sum::<u64>()
    };
    let times = 4 * times as u64;
    assert_eq!(
        (sum("tb"), sum("tbk"), sum("eb"), sum("ebk")),
        (16 * times, 2 * times, 6 * times, times)
    );
    assert!(
        sum("gb") >= sum("eb") && sum("gb") <= sum("eb") + 40,
        "at the peak at most each thread's 10 more"
    );
    model.sites.close(&MEMORY);
}
