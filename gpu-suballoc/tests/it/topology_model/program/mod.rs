//! Random devices in random groups beside a list: who is in which group, who refused, and what each edge says, worked
//! out bit by bit from what the two devices say of themselves.
//!
//! Modes, links and bits are numbered as the public enums and sets are. The fuzz target includes this folder.
#![allow(unreachable_pub, reason = "nothing of a test is for others")]

pub mod subject;

use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::{DeviceGroup, RegionId, group::*};
use std::alloc::System;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subject::*;
use testkit::programs::{Bytes, Ran, Tried};

/// Devices and groups at a time.
const DEVICES: usize = 80;
const GROUPS: usize = 4;

const SAME_DRIVER: u16 = 1;
const PEER_COHERENT: u16 = 1 << 2;
const PEER_COPY: u16 = 1 << 3;
/// Remote, one address space, needs a grant, isolated: nothing of it is derived.
const REFINED: u16 = 0b1011_0000 | ISOLATED;
const PEER_ADDRESSABLE: u16 = 1 << 6;
const ISOLATED: u16 = 1 << 8;
const NATIVE: u8 = 1;
const OPAQUE: u8 = 0b110;
const SAME_DEVICE: u8 = 0;
const HOST_STAGED: u8 = 4;
const UNKNOWN: u8 = 7;

/// What a device says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Whose driver.
    pub driver: Option<u32>,
    /// Its hardware.
    pub uuid: Option<u8>,
    /// Its driver's build.
    pub driver_uuid: Option<u8>,
    /// Bits of capability flags.
    pub flags: u16,
    /// Bits of handle types: semaphores in and out, memory in and out.
    pub handles: [u8; 4],
    /// What it says of links to others of its driver when it is asked: the sum of both, modulo 8.
    pub link: u8,
}

/// At what a device refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What it can do.
    Capabilities,
    /// What it knows of another.
    Refine,
}

/// What came of making a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// It is there.
    Group,
    /// A device is in a group, or was named twice, or is the 65th.
    InGroup,
    /// There were no devices.
    Empty,
    /// The device of this number in the group refused.
    Refused(usize, Question),
    /// An edge contradicts itself.
    Contradiction,
    /// No host memory.
    Host,
}

/// What an edge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeSeen {
    /// Wait, signal, read, write.
    pub modes: [u8; 4],
    /// Flags.
    pub flags: u16,
    /// Handles of semaphores and of memory.
    pub handles: [u8; 2],
    /// Class of the link.
    pub link: u8,
    /// Whether a copy avoids the host.
    pub peer_to_peer: bool,
}

/// What two different devices make of each other; `None` where one is isolated.
fn between(from: &DeviceSpec, to: &DeviceSpec) -> Option<EdgeSeen> {
    if from.flags & ISOLATED != 0 || to.flags & ISOLATED != 0 {
        return None;
    }
    let same_driver = from.driver.is_some() && from.driver == to.driver;
    let same_hardware = from.uuid.is_some() && from.uuid == to.uuid;
    let opaque = same_hardware && from.driver_uuid.is_some() && from.driver_uuid == to.driver_uuid;
    let handles = |taken_in: u8, given_out: u8| {
        (0..8).map(|bit| 1 << bit).filter(|bit| taken_in & bit != 0 && given_out & bit != 0).fold(0, |all, bit| {
            let fits = if bit == NATIVE { same_driver } else { opaque || bit & OPAQUE == 0 };
            if fits { all | bit } else { all }
        })
    };
    let (semaphores, buffers) = (handles(from.handles[0], to.handles[1]), handles(from.handles[2], to.handles[3]));
    let way = |handles: u8| {
        if handles & NATIVE != 0 { 0 } else { 2 - u8::from(handles != 0) }
    };
    let (sync, both) = (way(semaphores), from.flags & to.flags);
    let read = if same_driver && both & PEER_ADDRESSABLE != 0 { 0 } else { way(buffers) };
    let mut flags = both & !REFINED & !SAME_DRIVER;
    if same_driver {
        flags |= SAME_DRIVER;
    } else {
        flags &= !PEER_COHERENT;
    }
    let link = match same_driver {
        true => (from.link + to.link) % 8,
        false if same_hardware => SAME_DEVICE,
        false => UNKNOWN,
    };
    Some(EdgeSeen {
        modes: [sync, sync, read, read],
        flags,
        handles: [semaphores, buffers],
        link,
        peer_to_peer: peer_to_peer(link, flags, read),
    })
}

const fn itself(says: &DeviceSpec) -> EdgeSeen {
    let flags = says.flags & !ISOLATED | SAME_DRIVER;
    EdgeSeen { modes: [0; 4], flags, handles: [NATIVE; 2], link: SAME_DEVICE, peer_to_peer: true }
}

const fn peer_to_peer(link: u8, flags: u16, read: u8) -> bool {
    link != HOST_STAGED && (flags & PEER_COPY != 0 && flags & SAME_DRIVER != 0 || read == 0)
}

fn contradicts(edge: &EdgeSeen) -> bool {
    edge.link == HOST_STAGED && edge.modes[2] == 0
}

struct TopologyModel {
    says: Vec<DeviceSpec>,
    groups: BTreeMap<usize, Vec<usize>>,
    tried: Tried,
}

impl TopologyModel {
    fn group_of(&self, device: usize) -> Option<usize> {
        self.groups.iter().find(|(_, devices)| devices.contains(&device)).map(|(group, _)| *group)
    }

    fn edge(&self, from: usize, to: usize) -> Option<EdgeSeen> {
        if from == to { Some(itself(&self.says[from])) } else { between(&self.says[from], &self.says[to]) }
    }

    /// What making a group must come to, where host memory is there.
    fn making(&self, devices: &[usize], refuses: Option<(usize, Question)>) -> GroupOutcome {
        for (index, device) in devices.iter().enumerate() {
            if index >= 64 || self.group_of(*device).is_some() || devices[..index].contains(device) {
                return GroupOutcome::InGroup;
            }
        }
        if devices.is_empty() {
            return GroupOutcome::Empty;
        }
        let refused = |question: Question| {
            let index = |device| devices.iter().position(|there| *there == device);
            refuses.filter(|(_, at)| *at == question).and_then(|(device, _)| index(device))
        };
        if let Some(index) = refused(Question::Capabilities) {
            return GroupOutcome::Refused(index, Question::Capabilities);
        }
        for (index, from) in devices.iter().enumerate() {
            for to in devices.iter().filter(|to| *to != from) {
                let Some(edge) = self.edge(*from, *to) else {
                    continue;
                };
                if edge.flags & SAME_DRIVER != 0 && refused(Question::Refine) == Some(index) {
                    return GroupOutcome::Refused(index, Question::Refine);
                }
                if contradicts(&edge) {
                    return GroupOutcome::Contradiction;
                }
            }
        }
        GroupOutcome::Group
    }
}

/// Runs a program on eighty devices that are in no group.
///
/// # Panics
/// Where a group is not as the list says.
pub fn topology_ops(bytes: &[u8], make: impl Fn() -> TopologySubject) -> (Ran, Tried) {
    let mut bytes = Bytes::new(bytes);
    let mut subject = make();
    let mut model =
        TopologyModel { says: vec![DeviceSpec::default(); DEVICES], groups: BTreeMap::new(), tried: Tried::default() };
    let mut ran = Ran::default();
    while let Some(succeeded) = step(&mut bytes, &mut subject, &mut model) {
        ran.count(succeeded);
        ran.compared += 1;
        for device in 0..DEVICES {
            let index =
                model.group_of(device).map(|group| model.groups[&group].iter().position(|there| *there == device));
            assert_eq!(subject.index(device), index.flatten(), "device {device}");
        }
    }
    for group in model.groups.keys() {
        subject.end(*group, false);
    }
    assert!((0..DEVICES).all(|device| subject.index(device).is_none()), "all groups are gone");
    (ran, model.tried)
}

fn step(bytes: &mut Bytes<'_>, subject: &mut TopologySubject, model: &mut TopologyModel) -> Option<bool> {
    let kind = bytes.next()?;
    Some(match kind % 8 {
        0..3 => {
            let device = bytes.below(DEVICES)?;
            let says = says(bytes)?;
            let free = model.group_of(device).is_none();
            if free {
                model.says[device] = says;
                subject.describe(device, says);
            }
            free
        }
        3 | 4 => {
            let group = bytes.below(GROUPS)?;
            if model.groups.remove(&group).is_some() {
                subject.end(group, kind >= 128);
                model.tried.note(if kind >= 128 { "dissolved" } else { "ended" });
                return Some(true);
            }
            let (first, stride) = (bytes.below(DEVICES)?, 1 + bytes.below(3)?);
            let count = match kind {
                0..224 => bytes.below(7)?,
                224..240 => bytes.below(70)?,
                _ => 60 + bytes.below(10)?,
            };
            let devices: Vec<usize> = (0..count).map(|at| (first + at * stride) % DEVICES).collect();
            let question = [Question::Capabilities, Question::Refine].get(bytes.below(8)?).copied();
            let refuses =
                question.and_then(|question| Some((*devices.get(usize::from(kind / 8) % count.max(1))?, question)));
            let host = if refuses.is_none() && kind % 16 == 3 { Some(bytes.below(6)? as u64) } else { None };
            let made = subject.make(group, &devices, refuses, host);
            assert!(
                made == model.making(&devices, refuses) || made == GroupOutcome::Host && host.is_some(),
                "{devices:?} {refuses:?} {made:?}"
            );
            model.tried.note(match made {
                GroupOutcome::Group if count == 64 => "a group of 64",
                GroupOutcome::Group if count == 1 => "a group of one",
                GroupOutcome::Group => "a group",
                GroupOutcome::InGroup if count > 64 => "more than 64",
                GroupOutcome::InGroup => "a device twice, or in another group",
                GroupOutcome::Empty => "no device",
                GroupOutcome::Refused(_, Question::Capabilities) => "capabilities refused",
                GroupOutcome::Refused(_, Question::Refine) => "refining refused",
                GroupOutcome::Contradiction => "a contradiction",
                GroupOutcome::Host => "no host memory",
            });
            if made != GroupOutcome::Group {
                return Some(matches!(
                    made,
                    GroupOutcome::Refused(..) | GroupOutcome::Host | GroupOutcome::Contradiction
                ));
            }
            for from in &devices {
                for to in &devices {
                    assert_eq!(subject.edge(group, *from, *to), model.edge(*from, *to), "{from} to {to}");
                }
            }
            model.groups.insert(group, devices);
            true
        }
        _ => {
            let (group, from, to) = (bytes.below(GROUPS)?, bytes.below(DEVICES)?, bytes.below(DEVICES)?);
            // Mostly both are in it: of so many devices few would be by chance.
            let members = model.groups.get(&group).filter(|_| kind >= 64);
            let [from, to] = [from, to].map(|any| members.map_or(any, |members| members[any % members.len()]));
            let both = model.groups.get(&group).is_some_and(|devices| devices.contains(&from) && devices.contains(&to));
            let expected = if both { model.edge(from, to) } else { None };
            assert_eq!(subject.edge(group, from, to), expected, "group {group}, {from} to {to}");
            model.tried.note(match expected {
                None if both => "the edge of an isolated device",
                None => "the edge of a device outside",
                Some(_) if from == to => "the edge to itself",
                Some(_) => "an edge",
            });
            true
        }
    })
}

/// Few different ones, so that many are equal; a mask of zeros now and then.
fn says(bytes: &mut Bytes<'_>) -> Option<DeviceSpec> {
    let mut some = |among: u8| bytes.next().map(|byte| (byte % among).checked_sub(1));
    let (driver, uuid, driver_uuid) = (some(3)?, some(4)?, some(3)?);
    let flags = u16::from(bytes.next()?) | u16::from(bytes.next()?) << 8;
    let isolated = if flags & 0xC000 == 0 { ISOLATED } else { 0 };
    let mut handles = [0; 4];
    for handle in &mut handles {
        *handle = bytes.next()?;
    }
    Some(DeviceSpec {
        driver: driver.map(u32::from),
        uuid,
        driver_uuid,
        flags: flags & 0xFF | isolated,
        handles,
        link: bytes.next()? % 8,
    })
}
