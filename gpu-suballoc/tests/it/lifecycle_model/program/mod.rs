//! Random lives of contexts on an application's devices beside a list: who is acquired, what each has, what a release
//! is refused for, and what becomes of regions and shaders when a context or a device goes.
//!
//! The fuzz target includes this folder. Contexts, regions and holds are numbered by the program. Handles are few, so
//! that one value is the device's of many lives after one another.
#![allow(unreachable_pub, reason = "nothing of a test is for others")]

mod answers;
pub mod calling_back;
mod model;
pub mod subject;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use answers::*;
use calling_back::*;
use debug_guard::FailingAllocator;
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, BufferUsage, DeviceContexts, GpuError, GpuMisuse, MemoryPreference, PropertyFlags,
    Region, RegionOptions, cache::*, context::*, pool::*,
};
use mock_device::*;
use model::*;
use std::alloc::System;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subject::*;
use testkit::programs::{Bytes, Ran, Tried};

const KEYS: usize = 6;
/// Values of a handle; 0 is none.
const VALUES: usize = 4;

/// Runs a program; `make` makes a home and a table without contexts.
///
/// # Panics
/// Where a context is not as the list says.
pub fn lifecycle_ops(bytes: &[u8], make: impl Fn() -> LifecycleSubject) -> (Ran, Tried) {
    let mut bytes = Bytes::new(bytes);
    let mut subject = make();
    let mut ran = Ran::default();
    let mut model = LifecycleModel {
        devices: Vec::new(),
        lives: [None; CONTEXTS],
        pieces: [None; PIECES],
        shaders: BTreeMap::new(),
        holds: [None; HOLDS],
        default: None,
        handlers: false,
        gone: 0,
        next: 0,
        tried: Tried::default(),
    };
    while let Some(succeeded) = step(&mut bytes, &mut subject, &mut model) {
        subject.refuse(None);
        ran.count(succeeded);
        compare(&subject, &model, &mut ran);
    }
    subject.refuse(None);
    for context in 0..CONTEXTS {
        let Some(life) = model.lives[context] else {
            continue;
        };
        if life.numbered {
            // The table ends none by force: its regions go with their device.
            lose(&mut subject, &mut model, context, life);
            assert_eq!(
                subject.release(context, life.handles),
                Ok(ReleaseOutcome { remains: ContextRemains::default(), ..model.end(context) })
            );
        } else {
            assert_eq!(subject.end(context, Ending::Force), Some(model.end(context)));
        }
        compare(&subject, &model, &mut ran);
    }
    for hold in 0..HOLDS {
        if model.holds[hold].is_some() {
            subject.release_shader(hold);
            model.release_shader(hold);
        }
    }
    compare(&subject, &model, &mut ran);
    assert!(model.shaders.is_empty(), "all contexts and holds are gone");
    (ran, model.tried)
}

fn compare(subject: &LifecycleSubject, model: &LifecycleModel, ran: &mut Ran) {
    for (context, life) in model.lives.iter().enumerate() {
        let Some(life) = life else { continue };
        let device = &model.devices[life.device];
        let count = |live| {
            model.shaders.values().filter(|shader| shader.owner == life.serial && shader.live == live).count() as u64
        };
        let expected = ContextSeen { device: device.number, lost: device.lost, shaders: [count(true), count(false)] };
        assert_eq!(subject.describe(context), expected, "context {context}");
    }
    for (index, device) in model.devices.iter().enumerate().filter(|(_, device)| !device.lost) {
        let lives: Vec<u64> =
            model.lives.iter().flatten().filter(|life| life.device == index).map(|life| life.serial).collect();
        let here = |piece: &&Piece| piece.of.is_none() && piece.life.is_some_and(|life| lives.contains(&life));
        let buffers = model.pieces.iter().flatten().filter(here).count() as u64;
        let [seen, memory] = subject.driver(device.number);
        assert_eq!(seen, buffers, "buffers of device {index}");
        assert!(memory == 0 || !lives.is_empty(), "{memory} memory objects of device {index} stayed");
    }
    assert!(
        subject.exist().iter().eq(model.shaders.keys()),
        "{:?} exist, and not {:?}",
        subject.exist(),
        model.shaders.keys()
    );
    ran.compared += 1;
}

/// A refusal that was planted may come in the place of what would have been.
fn agrees<T: PartialEq>(got: &Result<T, Denied>, expected: &Result<T, Denied>, planted: Option<CallRefusal>) -> bool {
    got == expected
        || match got {
            Err(Denied::Host) => matches!(planted, Some(CallRefusal::Host(_))),
            Err(Denied::Device) => matches!(planted, Some(CallRefusal::Device(_))),
            _ => false,
        }
}

fn plant(bytes: &mut Bytes<'_>, subject: &mut LifecycleSubject) -> Option<Option<CallRefusal>> {
    let (which, nth) = (bytes.next()?, bytes.next()?);
    let refusal = match which % 8 {
        0 => Some(CallRefusal::Host(u64::from(nth % 12))),
        1 => Some(CallRefusal::Device(u64::from(nth % 4) + 1)),
        2 if nth % 4 == 0 => Some(CallRefusal::Load),
        _ => None,
    };
    subject.refuse(refusal);
    Some(refusal)
}

/// Mostly those; now and then others, or none.
fn handles(bytes: &mut Bytes<'_>, right: HandleValues) -> Option<HandleValues> {
    let byte = bytes.below(64)?;
    let mut handles = right;
    if byte < 16 {
        handles[byte % 3] = (byte / 3) as u64 % VALUES as u64;
    }
    Some(handles)
}

fn lose(subject: &mut LifecycleSubject, model: &mut LifecycleModel, context: usize, life: Life) {
    subject.lose(context);
    model.devices[life.device].lost = true;
    model.remove_where(|shader| shader.device == life.device);
}

/// One operation: whether there was something to do. `None` where the bytes end.
fn step(bytes: &mut Bytes<'_>, subject: &mut LifecycleSubject, model: &mut LifecycleModel) -> Option<bool> {
    let (kind, context) = (bytes.next()?, bytes.below(CONTEXTS)?);
    let Some(life) = model.lives[context] else {
        return if kind % 32 < 24 {
            acquire(bytes, subject, model, context)
        } else {
            table(bytes, subject, model, kind)
        };
    };
    Some(match kind % 32 {
        0 | 1 => {
            let handles = handles(bytes, life.handles)?;
            let again = subject.acquire_again(context, handles);
            assert_eq!(again, same(life.handles, handles));
            model.tried.note(match again {
                Ok(()) => "again",
                Err(Denied::Null(_)) => "again with a null handle",
                Err(_) => "again with another handle",
            });
            true
        }
        2..16 => return use_pieces(bytes, subject, model, kind, context),
        16..20 => {
            let (key, hold) = (bytes.below(KEYS)? as u64, bytes.below(HOLDS * 2)?);
            let hold = model.holds.get(hold).is_some_and(Option::is_none).then_some(hold);
            let planted = plant(bytes, subject)?;
            model.next += 1;
            let number = model.next;
            let there = model.shaders.iter().find(|(_, one)| one.live && one.device == life.device && one.key == key);
            let expected = match there {
                Some((number, _)) => Ok(*number),
                None if model.devices[life.device].lost => Err(Denied::Lost),
                None => Ok(number),
            };
            let asked = subject.get_or_compile(context, key, number, hold);
            assert!(agrees(&asked, &expected, planted), "key {key}: {asked:?} and not {expected:?}");
            model.tried.note(match asked {
                Ok(_) if there.is_some_and(|(_, one)| one.owner != life.serial) => "another context's shader",
                Ok(_) => "a shader",
                Err(Denied::Lost) => "a shader of a lost device",
                Err(_) => "a shader refused by the host",
            });
            if let Ok(number) = asked {
                let fresh = ContextShader { device: life.device, key, owner: life.serial, holds: 0, live: true };
                model.shaders.entry(number).or_insert(fresh).holds += u32::from(hold.is_some());
                if let Some(hold) = hold {
                    model.holds[hold] = Some(number);
                }
            }
            true
        }
        20 | 21 => {
            let hold = bytes.below(HOLDS)?;
            let held = model.holds[hold].is_some();
            if held {
                subject.release_shader(hold);
                model.release_shader(hold);
            }
            held
        }
        22..24 => {
            let handles = if life.numbered { handles(bytes, life.handles)? } else { life.handles };
            let left = model.remains(life);
            let in_the_way = left != ContextRemains::default() && !model.devices[life.device].lost;
            let expected = match same(life.handles, handles) {
                Err(denied) => Err(denied),
                Ok(()) if in_the_way => Err(Denied::Outstanding(left)),
                // Of a lost device's it says nothing.
                Ok(()) => Ok(ReleaseOutcome { remains: ContextRemains::default(), ..model.end(context) }),
            };
            let released = subject.release(context, handles);
            assert_eq!(released, expected);
            model.tried.note(match released {
                Ok(gone) if gone.lost => "released after its device was lost",
                Ok(_) => "released",
                Err(Denied::Outstanding(left)) if left.shaders > 0 => "release refused for shaders",
                Err(Denied::Outstanding(left)) if left.crops > 0 => "release refused for crops",
                Err(Denied::Outstanding(_)) => "release refused for regions",
                Err(_) => "release refused for its handles",
            });
            true
        }
        24 if kind < 96 => {
            let before = model.devices[life.device].lost;
            lose(subject, model, context, life);
            model.tried.note(if before { "lost twice" } else { "lost" });
            true
        }
        24 | 25 if !life.numbered => {
            let left = model.remains(life);
            let ending = if kind < 128 && left.regions == 0 { Ending::Drop } else { Ending::Force };
            let (ended, gone) = (subject.end(context, ending), model.end(context));
            assert_eq!(ended, (ending == Ending::Force).then_some(gone));
            model.tried.note(match ending {
                Ending::Drop => "dropped",
                Ending::Force if left.crops > 0 => "ended by force, with crops",
                Ending::Force => "ended by force",
            });
            true
        }
        _ => return table(bytes, subject, model, kind),
    })
}

fn acquire(
    bytes: &mut Bytes<'_>,
    subject: &mut LifecycleSubject,
    model: &mut LifecycleModel,
    context: usize,
) -> Option<bool> {
    let device = bytes.below(VALUES - 1)? as u64 + 1;
    let known = model.known(device);
    let handles = handles(bytes, known.map_or([1, device, device], |known| model.devices[known].handles))?;
    let (numbered, planted) = (bytes.next()? % 2 == 0, plant(bytes, subject)?);
    let known = model.known(handles[2]);
    let fits =
        not_null(handles).and_then(|()| known.map_or(Ok(()), |known| same(model.devices[known].handles, handles)));
    let expected = if fits.is_ok() && planted == Some(CallRefusal::Load) { Err(Denied::Missing) } else { fits };
    let acquired = subject.acquire(context, handles, numbered);
    assert!(agrees(&acquired.map(|_| ()), &expected, planted), "{handles:?}: {acquired:?} and not {expected:?}");
    model.tried.note(match acquired {
        Ok(_) if known.is_some() => "acquired, of a device that is known",
        Ok(_) if model.devices.iter().any(|device| device.handles == handles) => {
            "acquired, of a device whose handles came again"
        }
        Ok(_) => "acquired",
        Err(Denied::Null(_)) => "acquired with a null handle",
        Err(Denied::Other(_)) => "acquired with another handle",
        Err(Denied::Missing) => "acquired without a command",
        Err(_) => "acquired without host memory",
    });
    if let Ok(number) = acquired {
        let device = known.unwrap_or_else(|| {
            assert!(model.devices.iter().all(|device| device.number != number), "a device's number came again");
            model.devices.push(Device { number, handles, lost: false, contexts: 0 });
            model.devices.len() - 1
        });
        assert_eq!(model.devices[device].number, number);
        model.devices[device].contexts += 1;
        model.next += 1;
        model.lives[context] = Some(Life { serial: model.next, device, handles, numbered });
    }
    Some(true)
}

/// Regions, crops and mappings.
fn use_pieces(
    bytes: &mut Bytes<'_>,
    subject: &mut LifecycleSubject,
    model: &mut LifecycleModel,
    kind: u8,
    context: usize,
) -> Option<bool> {
    let place = bytes.below(PIECES)?;
    // Half of the time its own, if that lives: few would be by chance.
    let serial = model.pieces[place].filter(|_| kind & 64 != 0).and_then(|piece| piece.life);
    let own = model.lives.iter().position(|life| life.is_some_and(|life| Some(life.serial) == serial));
    let context = own.unwrap_or(context);
    let life = model.lives[context].expect("it was looked for");
    let lost = model.devices[life.device].lost;
    let Some(piece) = model.pieces[place] else {
        let (of, planted) = (bytes.below(PIECES)?, plant(bytes, subject)?);
        let whole = model.pieces[of].filter(|there| there.of.is_none() && there.life == Some(life.serial));
        let of = whole.filter(|_| kind >= 128).map(|_| of);
        let taken = match of {
            Some(of) => subject.crop(context, of, place),
            None => subject.allocate(context, place),
        };
        let expected = if of.is_none() && lost { Err(Denied::Lost) } else { Ok(()) };
        assert!(agrees(&taken, &expected, planted), "{taken:?} and not {expected:?}");
        model.tried.note(match taken {
            Ok(()) if of.is_some() && lost => "a crop on a lost device",
            Ok(()) if of.is_some() => "a crop",
            Ok(()) => "a region",
            Err(Denied::Lost) => "a region of a lost device",
            Err(Denied::Host) => "a region or a crop refused by the host",
            Err(_) => "a region refused by the driver",
        });
        if taken.is_ok() {
            model.pieces[place] = Some(Piece { life: Some(life.serial), of, maps: 0 });
        }
        return Some(true);
    };
    let mine = piece.life == Some(life.serial);
    match kind % 8 {
        0 | 1 if piece.of.is_none() => {
            let planted = plant(bytes, subject)?;
            let mapped = subject.map(context, place);
            let expected = if mine { Ok(()) } else { Err(Denied::Foreign) };
            // What is mapped already costs no call.
            let gone = mine && lost && mapped == Err(Denied::Lost);
            assert!(gone || agrees(&mapped, &expected, planted), "{mapped:?} and not {expected:?}");
            model.tried.note(match mapped {
                Ok(()) if lost => "mapped once more on a lost device",
                Ok(()) => "mapped",
                Err(Denied::Lost) => "a map of a lost device",
                Err(Denied::Foreign) => "a map of another context's",
                Err(_) => "a map refused",
            });
            if mapped.is_ok() {
                model.pieces[place] = Some(Piece { maps: piece.maps + 1, ..piece });
            }
        }
        2..5 if piece.of.is_none() => {
            let unmapped = subject.unmap(context, place);
            let expected = match piece.maps {
                _ if !mine => Err(Denied::Foreign),
                0 => Err(Denied::NotMapped),
                _ => Ok(()),
            };
            assert_eq!(unmapped, expected);
            model.tried.note(match unmapped {
                Ok(()) => "unmapped",
                Err(Denied::Foreign) => "an unmap of another context's",
                Err(_) => "an unmap of what is not mapped",
            });
            if unmapped.is_ok() {
                model.pieces[place] = Some(Piece { maps: piece.maps - 1, ..piece });
            }
        }
        _ => {
            let given = subject.free(context, place);
            let fits = match given {
                Ok(()) => mine && piece.maps == 0 && model.crops_of(place) == 0,
                Err(Denied::Foreign) => !mine,
                Err(Denied::Mapped) => mine && piece.maps > 0,
                Err(Denied::HasCrops) => mine && model.crops_of(place) > 0,
                Err(_) => false,
            };
            assert!(fits, "{given:?} of a region, of this context: {mine}, mapped {} times", piece.maps);
            model.tried.note(match given {
                Ok(()) if lost => "given back to a lost device's context",
                Ok(()) => "given back",
                Err(Denied::Foreign) if piece.life.is_none() => "what its context left, given to another",
                Err(Denied::Foreign) => "given to another context",
                Err(Denied::Mapped) => "given back while mapped",
                Err(_) => "given back under its crops",
            });
            if given.is_err() && piece.life.is_none() {
                subject.forget(place);
            }
            if given.is_ok() || piece.life.is_none() {
                model.pieces[place] = None;
            }
        }
    }
    Some(true)
}

/// Handlers, the default, dispatches, and numbers that were released.
fn table(bytes: &mut Bytes<'_>, subject: &mut LifecycleSubject, model: &mut LifecycleModel, kind: u8) -> Option<bool> {
    let context = bytes.below(CONTEXTS * 2)?;
    let numbered =
        model.lives.get(context).is_some_and(|life| life.is_some_and(|life| life.numbered)).then_some(context);
    match kind / 32 {
        0 => {
            let own = context % 2 == 0;
            assert_eq!(subject.set_handlers(own), Ok(std::mem::replace(&mut model.handlers, own)));
            model.tried.note("handlers set");
        }
        1 => {
            assert_eq!(subject.set_default(numbered), Ok(std::mem::replace(&mut model.default, numbered)));
            model.tried.note("the default set");
        }
        2 => {
            let refused = subject.stale(context, [1; 3]);
            assert!(refused.iter().all(|refused| *refused == Err(Denied::Released)), "{refused:?}");
            assert_eq!(refused.is_empty(), model.gone == 0);
            model.tried.note(if refused.is_empty() {
                "no number was released yet"
            } else {
                "a number that was released"
            });
        }
        _ => {
            let (answer, create) = (bytes.next()?, kind >= 160);
            let answer = match (answer % 8, numbered) {
                (0, _) => SubjectAnswer::Stale,
                (1, _) => SubjectAnswer::Refuses,
                (_, Some(context)) => SubjectAnswer::Context(context),
                (_, None) => SubjectAnswer::Nothing,
            };
            let chosen = match answer {
                _ if !model.handlers => Ok(model.default),
                SubjectAnswer::Context(context) => Ok(Some(context)),
                SubjectAnswer::Nothing => Ok(None),
                SubjectAnswer::Stale => Err(Denied::Released),
                SubjectAnswer::Refuses => Err(Denied::Handler),
            };
            let with = if create && chosen == Ok(None) { Err(Denied::NoContext) } else { chosen };
            let release = if with == Ok(None) { Ok(()) } else { Err(Denied::InUse) };
            model.tried.note(match with {
                Ok(Some(_)) if model.handlers => "a dispatch on the handler's context",
                Ok(Some(_)) => "a dispatch on the default",
                Ok(None) => "a dispatch without a context",
                Err(Denied::NoContext) => "a dispatch that needs a context",
                Err(Denied::Handler) => "a dispatch that the handler refuses",
                Err(_) => "a dispatch on a number that was released",
            });
            let inside = with.is_ok().then_some([Err(Denied::HandlersInUse), Err(Denied::HandlersInUse), release]);
            assert_eq!(subject.dispatch(answer, create), Dispatched { with, inside });
        }
    }
    Some(true)
}
