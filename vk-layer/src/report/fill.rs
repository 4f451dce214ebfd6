#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use alloc_core::{HostError, TryString, TryVec};
use vk_report::report::{
    CheckLimits, DeviceAccounts, DriverMemory, InstanceAccounts, KindAccounts, LiveAndPeak, ProgramAccounts, Report,
    Source, Unjudged, VulkanMemory,
};
use vk_report::state_file::EscapedName;
use vk_report::state_file::stacks::StoredStacks;

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
use crate::leaks;
use crate::os::{MAX_PATH, command_line, executable};
use crate::record::{Own, own};
use crate::settings::settings;
use crate::timeline::{self, Fullest};

const PARTS_LEFT_OUT: &str =
    "parts are left out (phases, devices or objects) that a thread had when the process ended it";

const STACKS_DAMAGED: &str =
    "the rest of the call stacks cannot be read: something else has written into the state file";

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
    let instances = instances.map(|of| instance(of, &fullest, &mut memory)).collect();
    let program = ProgramAccounts {
        library: around.and_then(|around| around.library.as_ref().map(owned)),
        instances,
        all: all_usage().map(|all| LiveAndPeak { live_bytes: all.live_bytes, peak_bytes: all.peak_bytes }),
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
        layers_below: around.map_or_else(Vec::new, |around| around.below.iter().map(owned).collect()),
        devices: Vec::new(),
        drivers: Vec::new(),
    };
    let (guard, fail) = guarding::results();
    let stacks = stacks()?;
    let is_damaged = stacks.as_ref().is_some_and(|stacks| stacks.is_damaged);
    let mut report = Report {
        unjudged: findings.as_ref().and_then(|of| Unjudged::live(of.lost)),
        findings: findings.map_or_else(Vec::new, |findings| findings.rows),
        fullest_phase: fullest.phase.to_owned(),
        timeline: samples,
        guard,
        fail,
        callback_coverage: coverage::measured(),
        leaks: stacks.map(|stacks| stacks.leaks),
        ..Report::of_program(source, program, memory, phases)
    };
    if LEFT_OUT.load(Ordering::Relaxed) {
        report.limits.push(PARTS_LEFT_OUT.to_owned());
    }
    if is_damaged {
        report.limits.push(STACKS_DAMAGED.to_owned());
    }
    Ok(report)
}

/// Std's collections end the process where there is no memory: what the records may need is acquired and freed first,
/// twice as much, since the program goes on meanwhile. The frames of a stack are in the list of what is alive, and
/// again at each peak that it had a share in.
fn reserve() -> Result<(), HostError> {
    const BASE: usize = 512 << 10;
    const KIND: usize = 4 << 10;
    const STACK: usize = 1 << 10;
    const FRAME: usize = 1 << 10;
    const LISTS: usize = 2;
    let kinds = all_accounts().flat_map(Accounts::known_kinds).count();
    let frames = leaks::leaks().map_or(0, |leaks| {
        let of_origin = |origin: &leaks::Origin| LISTS * (STACK + origin.frames.len() * FRAME);
        let of_origins = leaks.listed_origins().map(of_origin);
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
    kinds.map(|(kind, account)| kind_row(kind, account, fullest.of(account))).collect()
}

fn memory_of(device: &Accounts) -> VulkanMemory {
    let counts = &device.device_memory;
    let states = MEMORY_STATES.iter().zip(&counts.states);
    let uses = MEMORY_USES.iter().zip(&counts.uses).chain(states);
    let driver = device.memory_reports.get().map(|reports| DriverMemory {
        kinds: reports.rows().filter_map(|(kind, count)| Some((kind.to_owned(), memory_row(0, count)?))).collect(),
        free_events: get(&reports.free_events),
        lost_events: get(&reports.lost_events),
    });
    VulkanMemory {
        device: String::new(),
        heaps: memory_rows(&counts.heaps).collect(),
        types: memory_rows(&counts.types).collect(),
        uses: uses.filter_map(|(name, count)| Some(((*name).to_owned(), memory_row(0, count)?))).collect(),
        driver,
        lost_blocks: get(&counts.lost_blocks),
    }
}

fn stacks() -> Result<Option<StoredStacks>, HostError> {
    let Some(leaks) = leaks::leaks() else {
        return Ok(None);
    };
    let words = leaks.stored()?;
    let mut oldest = leaks.objects.oldest();
    let mut oldest_of = |place| {
        let objects = oldest.remove(&place).into_iter().flatten();
        objects.map(|(_, object)| object).collect()
    };
    Ok(StoredStacks::parse_with(&words, &mut oldest_of))
}
