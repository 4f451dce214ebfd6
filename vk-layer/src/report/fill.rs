#![forbid(unsafe_code)]

use std::ptr;
use std::sync::atomic::Ordering;

use alloc_core::{HostError, TryString, TryVec};
use vk_report::report::{
    CheckLimits, DeviceAccounts, DriverMemory, InstanceAccounts, KindAccounts, LeakCount,
    LeakFrame, LeakPeak, LeakStack, Leaks, LiveAndPeak, PeakStack, ProgramAccounts, Report, Source,
    Unjudged, VulkanMemory,
};
use vk_report::state_file::EscapedName;
use vk_report::state_file::stacks::{MARKS, PEAK_NAMES};

use super::process::arguments;
use super::rows::{Findings, kind_row, memory_row, memory_rows};
use super::{HAS_ENDED, LEFT_OUT};
use crate::accounts::{Accounts, INSTANCES, UNCHECKED_OWNERS, all_accounts, all_usage};
use crate::chain::MEMORY_USES;
use crate::count::get;
use crate::coverage;
use crate::description::surroundings;
use crate::device_memory::MEMORY_STATES;
use crate::growth;
use crate::guarding;
use crate::hooks::{passed_kinds, unknown_names};
use crate::leaks::{self, LiveCount, StackFrame};
use crate::os::{MAX_PATH, command_line, executable};
use crate::record::{Own, own};
use crate::settings::settings;
use crate::timeline::{self, Fullest};

const PARTS_LEFT_OUT: &str =
    "parts are left out (phases, devices or objects) that a thread had when the process ended it";

pub(super) fn report(commands: u64) -> Result<Report, HostError> {
    reserve()?;
    let fullest = timeline::fullest().unwrap_or_default();
    let findings = Findings::new()?;
    let (phases, samples, lost_phases) = timeline::copy(commands).unwrap_or_default();
    let check = findings.as_ref().map(|findings| CheckLimits {
        between_commands: findings.between_commands,
        lost: findings.lost,
        unchecked_kinds: get(&UNCHECKED_OWNERS),
        without_brackets: unknown_names().map(str::to_owned).collect(),
    });
    let around = surroundings();
    let mut memory = Vec::new();
    let instances = INSTANCES.iter();
    let instances = instances
        .map(|of| instance(of, &fullest, &mut memory))
        .collect();
    let program = ProgramAccounts {
        library: around.and_then(|around| around.library.as_ref().map(owned)),
        instances,
        all: all_usage().map(|all| LiveAndPeak {
            live_bytes: all.live_bytes,
            peak_bytes: all.peak_bytes,
        }),
        passed_through: passed_kinds().map(str::to_owned).collect(),
        check,
        settings: settings().complaints.iter().map(owned).collect(),
        lost_phases,
        has_ended: HAS_ENDED.load(Ordering::Relaxed),
        unseen_growth: growth::unseen_bytes(),
        courses: timeline::courses(commands).unwrap_or_default(),
    };
    let source = Source::Program {
        executable: executable_name(),
        arguments: own_arguments()?,
        process: std::process::id(),
        commands,
        loader: around.and_then(|around| around.loader.as_ref().map(owned)),
        layers: around.map_or_else(Vec::new, |around| around.layers.iter().map(owned).collect()),
        layers_below: around
            .map_or_else(Vec::new, |around| around.below.iter().map(owned).collect()),
        devices: Vec::new(),
        drivers: Vec::new(),
    };
    let (guard, fail) = guarding::results();
    let mut report = Report {
        unjudged: findings.as_ref().and_then(|of| Unjudged::live(of.lost)),
        findings: findings.map_or_else(Vec::new, |findings| findings.rows),
        fullest_phase: fullest.phase.to_owned(),
        timeline: samples,
        guard,
        fail,
        callback_coverage: coverage::measured(),
        leaks: alive(),
        ..Report::of_program(source, program, memory, phases)
    };
    if LEFT_OUT.load(Ordering::Relaxed) {
        report.limits.push(PARTS_LEFT_OUT.to_owned());
    }
    Ok(report)
}

/// Std's collections end the process where there is no memory: what the records may need is acquired and freed first, twice as much, since the
/// program goes on meanwhile. The frames of a stack are in the list of what is alive, and again at each peak that it had a share in.
fn reserve() -> Result<(), HostError> {
    const BASE: usize = 512 << 10;
    const KIND: usize = 4 << 10;
    const STACK: usize = 1 << 10;
    const FRAME: usize = 1 << 10;
    let kinds = all_accounts().flat_map(Accounts::known_kinds).count();
    let frames = leaks::leaks().map_or(0, |leaks| {
        let alive = leaks.live_origins();
        let at_peaks = leaks.origins().flat_map(|origin| {
            let shares = origin.at_peaks().into_iter();
            shares.filter(|(live, _)| *live != 0).map(move |_| origin)
        });
        let listed = alive.chain(at_peaks);
        let of_origins = listed.map(|origin| STACK + origin.frames.len() * FRAME);
        of_origins.fold(0, usize::saturating_add)
    });
    let bytes = BASE.saturating_add(kinds * KIND).saturating_add(frames);
    TryVec::<u8, Own>::try_with_capacity_in(bytes.saturating_mul(2), own()).map(drop)
}

fn executable_name() -> String {
    EscapedName(executable(&mut [0; MAX_PATH])).to_string()
}

fn own_arguments() -> Result<Option<Vec<String>>, HostError> {
    if !settings().arguments {
        return Ok(None);
    }
    let line = command_line()?;
    Ok(Some(arguments(&line).map(str::to_owned).collect()))
}

fn owned(text: &TryString<Own>) -> String {
    text.as_str().to_owned()
}

/// The walk also adds the memory of each device: the program may create another one meanwhile.
fn instance(of: &Accounts, fullest: &Fullest, memory: &mut Vec<VulkanMemory>) -> InstanceAccounts {
    let device = |device: &Accounts| {
        memory.push(memory_of(device));
        let description = super::description(device);
        DeviceAccounts {
            in_use: device.is_in_use(),
            kinds: kinds(device, fullest),
            description: description.as_ref().map(ToString::to_string),
        }
    };
    InstanceAccounts {
        in_use: of.is_in_use(),
        kinds: kinds(of, fullest),
        devices: of.devices.iter().map(device).collect(),
    }
}

fn kinds(of: &Accounts, fullest: &Fullest) -> Vec<KindAccounts> {
    let kinds = of.known_kinds();
    kinds
        .map(|(kind, account)| kind_row(kind, account, fullest.of(account)))
        .collect()
}

fn memory_of(device: &Accounts) -> VulkanMemory {
    let counts = &device.device_memory;
    let states = MEMORY_STATES.iter().zip(&counts.states);
    let uses = MEMORY_USES.iter().zip(&counts.uses).chain(states);
    let driver = device.memory_reports.get().map(|reports| DriverMemory {
        kinds: reports
            .rows()
            .filter_map(|(kind, count)| Some((kind.to_owned(), memory_row(0, count)?)))
            .collect(),
        free_events: get(&reports.free_events),
        lost_events: get(&reports.lost_events),
    });
    VulkanMemory {
        device: String::new(),
        heaps: memory_rows(&counts.heaps).collect(),
        types: memory_rows(&counts.types).collect(),
        uses: uses
            .filter_map(|(name, count)| Some(((*name).to_owned(), memory_row(0, count)?)))
            .collect(),
        driver,
        lost_blocks: get(&counts.lost_blocks),
    }
}

fn alive() -> Option<Leaks> {
    let leaks = leaks::leaks()?;
    let mut oldest = leaks.objects.oldest();
    let stack = |origin: &'static leaks::Origin| {
        let of_origin = oldest.remove(&ptr::from_ref(origin).addr());
        LeakStack {
            command: origin.command.to_owned(),
            kind: origin.kind.to_owned(),
            objects: count(origin.objects()),
            blocks: count(origin.blocks()),
            rules: Vec::new(),
            oldest: of_origin
                .into_iter()
                .flatten()
                .map(|(_, object)| object)
                .collect(),
            frames: frames(&origin.frames),
        }
    };
    let marks = &leaks.marks;
    let kind = marks.kind();
    Some(Leaks {
        mark: kind.name().to_owned(),
        frames_a_mark: marks.frames_a_mark(),
        intervals: marks
            .count()
            .saturating_sub(kind.warm_up().saturating_add(1)),
        warm_up: kind.warm_up(),
        lost: get(&leaks.head().lost),
        stacks: leaks.live_origins().map(stack).collect(),
        peaks: peaks(leaks),
    })
}

fn peaks(leaks: &leaks::Leaks) -> Vec<LeakPeak> {
    let all = PEAK_NAMES.iter().zip(&leaks.head().peaks).enumerate();
    let reached = all.filter(|(_, (_, peak))| peak.highest() != 0);
    let peak = reached.map(|(place, (name, peak))| {
        let (mark, marks) = peak.mark();
        let mark = usize::try_from(mark).ok().and_then(|mark| MARKS.get(mark));
        let held = leaks.origins().filter_map(|origin| {
            let (live, bytes) = *origin.at_peaks().get(place)?;
            (live != 0).then(|| PeakStack {
                command: origin.command.to_owned(),
                kind: origin.kind.to_owned(),
                live,
                bytes,
                frames: frames(&origin.frames),
            })
        });
        LeakPeak {
            of: (*name).to_owned(),
            bytes: peak.highest(),
            nanoseconds: peak.nanoseconds(),
            mark: (*mark.unwrap_or(&"none")).to_owned(),
            frame: marks.saturating_mul(leaks.marks.frames_a_mark()),
            stacks: held.collect(),
        }
    });
    peak.collect()
}

fn count(count: &LiveCount) -> LeakCount {
    LeakCount {
        live: count.live(),
        bytes: count.bytes(),
        total: count.total(),
        growth: count.growth(),
    }
}

fn frames(frames: &[StackFrame]) -> Vec<LeakFrame> {
    let frame = |frame: &StackFrame| {
        let (address, module) = (frame.address, frame.module);
        let offset = module.map_or(0, |module| address.wrapping_sub(module.bias()));
        let id = module.map_or(&[][..], |module| module.build_id());
        LeakFrame {
            address: format!("{address:#x}"),
            module: module.map_or("", |module| module.path()).to_owned(),
            offset: format!("{offset:#x}"),
            build_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            ..LeakFrame::default()
        }
    };
    frames.iter().map(frame).collect()
}
