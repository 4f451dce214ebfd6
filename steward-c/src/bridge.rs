//! Contexts as callbacks for Vulkan.

use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use alloc_core::Context;
use vk_callbacks::bridge::{CallMistake, on_call_mistake};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, CallbackError};

use crate::edge::{StewardContext, enter, raw};
use crate::refusal::{NOT_READY, SUCCESS, misused, note};

/// `steward_bridge`: the caller's memory for a bridge.
#[repr(C)]
pub struct StewardBridge {
    pub words: [usize; 16],
}

const _: () = assert!(size_of::<Bridge>() <= size_of::<StewardBridge>());
const _: () = assert!(align_of::<Bridge>() <= align_of::<StewardBridge>());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_bridge_init(
    place: *mut StewardBridge,
    owner: *mut StewardContext,
    out: *mut RawCallbacks,
) -> i32 {
    enter(&"steward_bridge_init", || {
        let (Some(place), Some(owner), Some(out)) = (NonNull::new(place), NonNull::new(owner), NonNull::new(out))
        else {
            return misused();
        };
        on_call_mistake(report);
        // SAFETY: the caller's owner, which the bridge gets when this succeeds.
        match Bridge::new(unsafe { Context::from_raw(owner.cast()) }) {
            Ok(bridge) => {
                // SAFETY: the caller's place.
                unsafe { out.write(bridge.raw()) };
                // SAFETY: the caller's memory has room for a bridge, as asserted above.
                unsafe { place.cast::<MaybeUninit<Bridge>>().write(MaybeUninit::new(bridge)) };
                SUCCESS
            }
            Err(rejected) => {
                let _still_the_callers = rejected.value.into_raw();
                match rejected.error {
                    CallbackError::Host(error) => note(error),
                    _ => misused(),
                }
            }
        }
    })
}

/// Writes a line on the standard error for the first, second, fourth, .. wrong call of its kind.
fn report(mistake: &CallMistake) {
    const KINDS: usize = 8;
    static TIMES: [AtomicU32; KINDS * KINDS] = [const { AtomicU32::new(0) }; KINDS * KINDS];
    enter(&"a callback", || {
        let place = mistake.callback as usize * KINDS + mistake.kind as usize;
        let times = TIMES.get(place).map_or(1, |times| times.fetch_add(1, Ordering::Relaxed).saturating_add(1));
        if !times.is_power_of_two() {
            return;
        }
        let mut line = [0_u8; 320];
        let mut rest = line.as_mut_slice();
        let _ = write!(rest, "steward: {mistake}");
        if times > 1 {
            let _ = write!(rest, "; so far {times} times");
        }
        let _ = writeln!(rest);
        let left = rest.len();
        let length = line.len().saturating_sub(left);
        let _ = std::io::stderr().write_all(line.get(..length).unwrap_or_default());
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_bridge_close(place: *mut StewardBridge, out: *mut *mut StewardContext) -> i32 {
    enter(&"steward_bridge_close", || {
        let Some(out) = NonNull::new(out) else {
            return misused();
        };
        // SAFETY: the caller's place.
        unsafe { out.write(null_mut()) };
        let Some(place) = NonNull::new(place.cast::<Bridge>()) else {
            return misused();
        };
        // SAFETY: the caller's bridge, read once: it is written back if it stays.
        let bridge = unsafe { place.read() };
        let owner = bridge.owner().get().into();
        match bridge.close() {
            Ok(context) => {
                crate::slot::forget(owner);
                // SAFETY: the caller's place.
                unsafe { out.write(raw(context)) };
                SUCCESS
            }
            Err(rejected) => {
                // SAFETY: the place that it was read from.
                unsafe { place.write(rejected.value) };
                NOT_READY
            }
        }
    })
}
