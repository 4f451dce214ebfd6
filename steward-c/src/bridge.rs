//! Contexts as callbacks for Vulkan.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

use alloc_core::Context;
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
    enter("steward_bridge_init", || {
        let (Some(place), Some(owner), Some(out)) =
            (NonNull::new(place), NonNull::new(owner), NonNull::new(out))
        else {
            return misused();
        };
        // SAFETY: the caller's owner, which the bridge gets when this succeeds.
        match Bridge::new(unsafe { Context::from_raw(owner.cast()) }) {
            Ok(bridge) => {
                // SAFETY: the caller's place.
                unsafe { out.write(bridge.raw()) };
                // SAFETY: the caller's memory has room for a bridge, as asserted above.
                unsafe {
                    place
                        .cast::<MaybeUninit<Bridge>>()
                        .write(MaybeUninit::new(bridge))
                };
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_bridge_close(
    place: *mut StewardBridge,
    out: *mut *mut StewardContext,
) -> i32 {
    enter("steward_bridge_close", || {
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
        match bridge.close() {
            Ok(context) => {
                // SAFETY: the caller's place.
                unsafe { out.write(raw(context)) };
                SUCCESS
            }
            Err(rejected) => {
                // SAFETY: the caller's memory, as above.
                unsafe { place.write(rejected.value) };
                NOT_READY
            }
        }
    })
}
