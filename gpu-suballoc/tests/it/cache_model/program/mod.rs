//! Random use of a cache of compiled shaders beside a list of them: what is found, what goes, what stays because it is
//! held. The fuzz target includes this folder.
//!
//! Every shader has a number of its own, so what is found is known to be the right one. After
//! each operation the sums are the model's, and so is the set of shaders that exist. What a limit drives out is the
//! subject's choice: the model checks that nobody held it, and that as much went as had to.
#![allow(unreachable_pub, reason = "nothing of a test is for others")]

pub mod subject;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::{ShaderCache, cache::*};
use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subject::*;
use testkit::programs::{Bytes, Ran, Tried};

/// Owners, devices, keys of a device, holds at a time.
const OWNERS: usize = 6;
const DEVICES: usize = 3;
const KEYS: usize = 24;
const HOLDS: usize = 32;

/// How a compile ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compile {
    /// With this shader, which counts so many bytes.
    Makes {
        number: u64,
        bytes: u64,
    },
    Fails,
    /// It unwinds.
    Unwinds,
    /// It asks for what it is to make, and fails.
    Recurses,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileOutcome {
    /// This shader, which was there.
    Found(u64),
    Compiled,
    /// The compiler's error, or its unwinding.
    Failed,
    /// No host memory; nothing was compiled.
    Host,
    /// The key is of another device than the owner.
    OtherDevice,
}

/// What a shader is asked by: a device, and a key of it.
pub type ShaderQuery = (usize, u64);

/// What a cache says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSums {
    pub live: u64,
    /// Those that cannot, and are held.
    pub dead: u64,
    /// Bytes of both.
    pub bytes: u64,
    pub compiled: u64,
}

#[derive(Clone, Copy, Debug)]
struct ModelShader {
    sought: ShaderQuery,
    owner: usize,
    bytes: u64,
    holds: u64,
    live: bool,
}

struct CacheModel {
    shaders: BTreeMap<u64, ModelShader>,
    owners: [Option<usize>; OWNERS],
    holds: [Option<u64>; HOLDS],
    limits: (u64, u64),
    compiled: u64,
    tried: Tried,
}

impl CacheModel {
    fn matching(&self, sought: ShaderQuery) -> BTreeSet<u64> {
        self.shaders
            .iter()
            .filter(|(_, shader)| shader.live && shader.sought == sought)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Takes out all of which `which` says so: how many are destroyed, how many are held.
    fn remove(&mut self, which: impl Fn(u64, &ModelShader) -> bool) -> (u64, u64) {
        let (mut destroyed, mut held) = (0, 0);
        self.shaders.retain(|number, shader| {
            if !(shader.live && which(*number, shader)) {
                return true;
            }
            shader.live = false;
            held += u64::from(shader.holds > 0);
            destroyed += u64::from(shader.holds == 0);
            shader.holds > 0
        });
        (destroyed, held)
    }

    fn hold(&mut self, hold: Option<usize>, number: u64) {
        if let (Some(hold), Some(shader)) = (hold, self.shaders.get_mut(&number)) {
            shader.holds += 1;
            self.holds[hold] = Some(number);
        }
    }

    fn release(&mut self, hold: usize) {
        let number = self.holds[hold].take().expect("the program lets go what it holds");
        let shader = self.shaders.get_mut(&number).expect("what is held is there");
        shader.holds -= 1;
        if !shader.live && shader.holds == 0 {
            self.shaders.remove(&number);
            self.tried.note("the last hold of one that was taken out");
        } else {
            self.drop_above_limits(number);
        }
    }

    /// A hold of a live one was let go: above a limit it goes with its last hold.
    fn drop_above_limits(&mut self, number: u64) {
        let sums = self.sums();
        let over = sums.bytes > self.limits.0 || sums.live > self.limits.1;
        let free = |shader: &ModelShader| shader.live && shader.holds == 0;
        if over && self.shaders.get(&number).is_some_and(free) {
            self.shaders.remove(&number);
            self.tried.note("driven out as its hold went");
        }
    }

    fn sums(&self) -> CacheSums {
        let live = self.shaders.values().filter(|shader| shader.live).count() as u64;
        let dead = self.shaders.len() as u64 - live;
        CacheSums { live, dead, bytes: self.shaders.values().map(|shader| shader.bytes).sum(), compiled: self.compiled }
    }

    /// What the limits may just have driven out is gone from the list too; nobody held it, it was enough, and no more
    /// than that.
    fn adopt(&mut self, exist: &BTreeSet<u64>) {
        let over = |sums: CacheSums, most: (u64, u64)| sums.bytes > most.0 || sums.live > most.1;
        let before = self.sums();
        let gone: Vec<u64> = self.shaders.keys().filter(|number| !exist.contains(number)).copied().collect();
        assert!(gone.is_empty() || over(before, self.limits), "{gone:?} went, and nothing was over a limit");
        if !gone.is_empty() {
            self.tried.note("driven out by a limit");
        }
        let mut largest = 0;
        for number in &gone {
            let shader = self.shaders.remove(number).expect("just listed");
            largest = largest.max(shader.bytes);
            assert!(shader.live && shader.holds == 0, "{number} went, and was held: {shader:?}");
        }
        let sums = self.sums();
        let before_the_last = CacheSums { live: sums.live + 1, bytes: sums.bytes + largest, ..sums };
        assert!(gone.is_empty() || over(before_the_last, self.limits), "more went than a limit asks for: {gone:?}");
        let free = self.shaders.values().any(|shader| shader.live && shader.holds == 0);
        let full = over(self.sums(), self.limits);
        assert!(!full || !free, "a limit is exceeded, and somebody could go");
        if full {
            self.tried.note("over a limit, and all are held");
        }
    }
}

/// Runs a program; `make` makes a cache without limits.
///
/// # Panics
/// Where the cache is not as the list says.
pub fn cache_ops(bytes: &[u8], make: impl Fn() -> CacheSubject) -> (Ran, Tried) {
    let mut bytes = Bytes::new(bytes);
    let mut subject = make();
    let mut ran = Ran::default();
    let none = (u64::MAX, u64::MAX);
    let mut model = CacheModel {
        shaders: BTreeMap::new(),
        owners: [None; OWNERS],
        holds: [None; HOLDS],
        limits: none,
        compiled: 0,
        tried: Tried::default(),
    };
    let mut next = 0;
    while let Some(succeeded) = step(&mut bytes, &mut subject, &mut model, &mut next) {
        ran.count(succeeded);
        compare(&subject, &model, &mut ran);
    }
    subject.refuse_host(None);
    for hold in 0..HOLDS {
        if model.holds[hold].is_some() {
            subject.release(hold);
            model.release(hold);
        }
    }
    for owner in 0..OWNERS {
        if model.owners[owner].take().is_some() {
            assert_eq!(subject.end(owner, true), Some(model.remove(|_, shader| shader.owner == owner)));
        }
    }
    compare(&subject, &model, &mut ran);
    assert!(model.shaders.is_empty(), "all owners are gone");
    (ran, model.tried)
}

fn compare(subject: &CacheSubject, model: &CacheModel, ran: &mut Ran) {
    assert_eq!(subject.sums(), model.sums());
    assert!(
        subject.exist().iter().eq(model.shaders.keys()),
        "{:?} exist, and not {:?}",
        subject.exist(),
        model.shaders
    );
    for (hold, number) in model.holds.iter().enumerate() {
        if let Some(number) = number {
            assert_eq!(subject.held_shader(hold), *number);
        }
    }
    ran.compared += 1;
}

/// One operation: whether it did what it says. `None` where the bytes end.
fn step(bytes: &mut Bytes<'_>, subject: &mut CacheSubject, model: &mut CacheModel, next: &mut u64) -> Option<bool> {
    let kind = bytes.next()?;
    let owner = bytes.below(OWNERS)?;
    Some(match kind % 16 {
        0..8 => {
            let Some(device) = model.owners[owner] else {
                return begin(bytes, subject, model, owner);
            };
            let strange = kind % 64 == 0;
            let sought = sought(bytes, if strange { (device + 1) % DEVICES } else { device })?;
            let hold = hold(bytes, model)?;
            let refused = kind >= 224;
            subject.refuse_host(refused.then_some(u64::from(kind % 4)));
            *next += 1;
            let compile = match bytes.next()? % 16 {
                0 => Compile::Fails,
                1 => Compile::Unwinds,
                2 => Compile::Recurses,
                more => Compile::Makes { number: *next, bytes: u64::from(more) * 10 },
            };
            let there = model.matching(sought);
            let asked = subject.get_or_compile(owner, sought, compile, hold);
            subject.refuse_host(None);
            match asked {
                CompileOutcome::OtherDevice => {
                    assert!(strange);
                    model.tried.note("the key of another device");
                }
                CompileOutcome::Found(number) => {
                    assert!(there.contains(&number), "{number} is found, and not one of {there:?}");
                    model.hold(hold, number);
                    let mine = model.shaders[&number].owner == owner;
                    model.drop_above_limits(number);
                    model.tried.note(if mine { "found, its own" } else { "found, another owner's" });
                }
                CompileOutcome::Host => {
                    assert!(refused && there.is_empty());
                    model.tried.note("no host memory");
                }
                CompileOutcome::Failed => {
                    assert!(there.is_empty() && !matches!(compile, Compile::Makes { .. }));
                    model.tried.note(match compile {
                        Compile::Unwinds => "a compile that unwinds",
                        Compile::Recurses => "a compile that asks again",
                        _ => "a compile that fails",
                    });
                }
                CompileOutcome::Compiled => {
                    let Compile::Makes { number, bytes } = compile else { panic!("{compile:?} made something") };
                    assert!(there.is_empty() && !strange, "{sought:?} was there");
                    model.tried.note("made");
                    model.shaders.insert(number, ModelShader { sought, owner, bytes, holds: 1, live: true });
                    model.compiled += 1;
                    // Its maker held it meanwhile.
                    let mut exist = subject.exist();
                    exist.insert(number);
                    model.adopt(&exist);
                    model.shaders.get_mut(&number).expect("it was held").holds = 0;
                    model.hold(hold, number);
                    model.drop_above_limits(number);
                }
            }
            matches!(asked, CompileOutcome::Found(_) | CompileOutcome::Compiled)
        }
        8..11 => {
            let device = model.owners[owner].unwrap_or_default();
            let sought = sought(bytes, device)?;
            let hold = hold(bytes, model)?;
            let (there, found) = (model.matching(sought), subject.find(sought, hold));
            assert!(
                found.map_or(there.is_empty(), |found| there.contains(&found)),
                "{sought:?}: {found:?} and not {there:?}"
            );
            if let Some(found) = found {
                model.hold(hold, found);
                model.drop_above_limits(found);
                model.tried.note("found without asking");
            }
            true
        }
        11 | 12 => {
            let hold = bytes.below(HOLDS)?;
            let held = model.holds[hold].is_some();
            if held {
                subject.release(hold);
                model.release(hold);
            }
            held
        }
        13 => {
            let strict = kind >= 128;
            let held = model.shaders.values().any(|shader| shader.owner == owner && shader.holds > 0);
            if model.owners[owner].is_none() {
                return begin(bytes, subject, model, owner);
            }
            let ended = subject.end(owner, strict);
            assert_eq!(ended.is_none(), strict && held);
            model.tried.note(match (ended, held) {
                (None, _) => "the end of an owner refused",
                (Some(_), true) => "the end of an owner of held ones",
                (Some(_), false) => "the end of an owner",
            });
            if let Some(removed) = ended {
                // Those that were taken out before and are still held are told of too.
                let held =
                    model.shaders.values().filter(|shader| shader.owner == owner && shader.holds > 0).count() as u64;
                assert_eq!(removed, (model.remove(|_, shader| shader.owner == owner).0, held));
                model.owners[owner] = None;
                // What is still held is nobody's who comes next.
                model
                    .shaders
                    .values_mut()
                    .filter(|shader| shader.owner == owner)
                    .for_each(|shader| shader.owner = OWNERS);
            }
            ended.is_some()
        }
        14 => {
            let (part, rest) = (u64::from(bytes.next()? % 7) + 2, u64::from(kind / 16));
            let unwanted = |number: u64| number % part == rest;
            let removed = model.remove(|number, _| unwanted(number));
            assert_eq!(subject.delete_where(&unwanted), removed);
            if removed.1 > 0 {
                model.tried.note("deleted while held");
            }
            true
        }
        _ if kind < 64 => {
            let device = bytes.below(DEVICES)?;
            let removed = model.remove(|_, shader| shader.sought.0 == device);
            assert_eq!(subject.release_device(device), removed);
            if removed != (0, 0) {
                model.tried.note("all of a device released");
            }
            true
        }
        _ => {
            let (bytes, entries) = (u64::from(bytes.next()?), u64::from(bytes.next()?));
            model.limits = if kind < 128 { (u64::MAX, u64::MAX) } else { (bytes * 20, entries) };
            subject.limit(model.limits.0, model.limits.1);
            model.adopt(&subject.exist());
            true
        }
    })
}

fn begin(bytes: &mut Bytes<'_>, subject: &mut CacheSubject, model: &mut CacheModel, owner: usize) -> Option<bool> {
    let device = bytes.below(DEVICES)?;
    let begun = subject.begin(owner, device);
    assert!(begun, "nothing was refused");
    model.owners[owner] = Some(device);
    Some(begun)
}

fn sought(bytes: &mut Bytes<'_>, device: usize) -> Option<ShaderQuery> {
    let key = bytes.below(KEYS)? as u64;
    // It once meant a content; kept programs stay what they are.
    bytes.next()?;
    Some((device, key))
}

/// A place for a hold, where one is free and wanted.
fn hold(bytes: &mut Bytes<'_>, model: &CacheModel) -> Option<Option<usize>> {
    let place = bytes.below(HOLDS * 2)?;
    Some(model.holds.get(place).is_some_and(Option::is_none).then_some(place))
}
