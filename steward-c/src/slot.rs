//! Bridges in static places, for runtimes that lose `pUserData` or pass NULL for `pAllocator`.
//!
//! Each of a few slots has callbacks and commands of its own, so that they know their slot without an argument:
//!
//! ```text
//!   slot 3:  allocation::<3>, free::<3>, ..        -> the bridge in slot 3, whatever pUserData is
//!            get_instance_proc_addr::<3>, ..       -> the next one; create and destroy of instance and device
//!                                                     get the callbacks above where the caller passes NULL
//! ```
//!
//! **Invariant:** while a slot has an owner, its functions and user data are those of that bridge, which is open:
//! closing the bridge empties the slot, and the header forbids to fill or empty a slot while its functions run.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use vk_callbacks::Bridge;
use vk_callbacks::raw::{
    PfnAllocation, PfnFree, PfnInternalNotification, PfnReallocation, RawCallbacks, RawInternalType, RawScope,
};

use crate::ash::{INITIALIZATION_FAILED, StewardGetInstanceProcAddrFn, StewardVoidFn};
use crate::bridge::StewardBridge;
use crate::edge::enter;
use crate::refusal::{SUCCESS, misused};

const SLOTS: usize = 8;

/// Halide means this by alignment 0.
const DEFAULT_ALIGNMENT: usize = 16;

/// The address of a function; NULL for none.
type Address = AtomicPtr<()>;

struct StaticSlot {
    /// The number of the bridge, which no other bridge ever has; 0 for none, [`FILLING`] while the fields below are
    /// written.
    owner: AtomicU64,
    user_data: AtomicPtr<c_void>,
    allocation: Address,
    reallocation: Address,
    free: Address,
    internal_allocation: Address,
    internal_free: Address,
    /// The commands are `vkGetInstanceProcAddr`, and what it answered last for the other two.
    get_instance_proc_addr: Address,
    get_device_proc_addr: Address,
    create_device: Address,
}

const FILLING: u64 = u64::MAX;

static TABLE: [StaticSlot; SLOTS] = [const {
    StaticSlot {
        owner: AtomicU64::new(0),
        user_data: AtomicPtr::new(null_mut()),
        allocation: AtomicPtr::new(null_mut()),
        reallocation: AtomicPtr::new(null_mut()),
        free: AtomicPtr::new(null_mut()),
        internal_allocation: AtomicPtr::new(null_mut()),
        internal_free: AtomicPtr::new(null_mut()),
        get_instance_proc_addr: AtomicPtr::new(null_mut()),
        get_device_proc_addr: AtomicPtr::new(null_mut()),
        create_device: AtomicPtr::new(null_mut()),
    }
}; SLOTS];

/// A function by its address.
macro_rules! function {
    ($address:expr, $type:ty) => {{
        let address: *mut () = $address;
        // SAFETY: NULL, or the address of a function of this type: each place is written with one type alone, and a
        // command is what was answered for its name.
        unsafe { transmute::<*mut (), Option<$type>>(address) }
    }};
}

macro_rules! address {
    ($function:expr) => {
        $function.map_or(null_mut(), |function| function as *mut ())
    };
}

impl StaticSlot {
    fn of(number: u32) -> Option<&'static Self> {
        TABLE.get(usize::try_from(number).ok()?)
    }

    fn user_data(&self) -> Option<*mut c_void> {
        match self.owner.load(Ordering::Acquire) {
            0 | FILLING => None,
            _ => Some(self.user_data.load(Ordering::Relaxed)),
        }
    }

    /// Puts a bridge into the slot. False if another one is in it.
    fn fill(&self, owner: u64, of: &RawCallbacks) -> bool {
        let free = (self.owner).compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Acquire);
        if let Err(there) = free {
            return there == owner;
        }
        self.user_data.store(of.p_user_data, Ordering::Relaxed);
        for (place, function) in [
            (&self.allocation, address!(of.pfn_allocation)),
            (&self.reallocation, address!(of.pfn_reallocation)),
            (&self.free, address!(of.pfn_free)),
            (&self.internal_allocation, address!(of.pfn_internal_allocation)),
            (&self.internal_free, address!(of.pfn_internal_free)),
        ] {
            place.store(function, Ordering::Relaxed);
        }
        self.owner.store(owner, Ordering::Release);
        true
    }
}

pub(crate) fn forget(owner: u64) {
    for slot in &TABLE {
        let _not_its = (slot.owner).compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

// --- callbacks without pUserData ------------------------------------------------------------------------------------

fn slot<const N: usize>() -> Option<(&'static StaticSlot, *mut c_void)> {
    let slot = TABLE.get(N)?;
    Some((slot, slot.user_data()?))
}

unsafe extern "system" fn allocation<const N: usize>(
    _: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let found = slot::<N>().and_then(|(slot, user_data)| {
        let call = function!(slot.allocation.load(Ordering::Relaxed), PfnAllocation)?;
        Some((call, user_data))
    });
    let Some((call, user_data)) = found else {
        return null_mut();
    };
    // SAFETY: the callbacks of an open bridge (invariant of this module).
    unsafe { call(user_data, size, aligned(align), scope) }
}

unsafe extern "system" fn reallocation<const N: usize>(
    _: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let found = slot::<N>().and_then(|(slot, user_data)| {
        let call = function!(slot.reallocation.load(Ordering::Relaxed), PfnReallocation)?;
        Some((call, user_data))
    });
    let Some((call, user_data)) = found else {
        return null_mut();
    };
    // SAFETY: the callbacks of an open bridge (invariant of this module); the caller's block.
    unsafe { call(user_data, original, size, aligned(align), scope) }
}

unsafe extern "system" fn free<const N: usize>(_: *mut c_void, block: *mut c_void) {
    if let Some((slot, user_data)) = slot::<N>()
        && let Some(call) = function!(slot.free.load(Ordering::Relaxed), PfnFree)
    {
        // SAFETY: the callbacks of an open bridge (invariant of this module); the caller's block.
        unsafe { call(user_data, block) };
    }
}

unsafe extern "system" fn internal_allocation<const N: usize>(
    _: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    if let Some((slot, user_data)) = slot::<N>()
        && let Some(call) = function!(slot.internal_allocation.load(Ordering::Relaxed), PfnInternalNotification)
    {
        // SAFETY: the callbacks of an open bridge (invariant of this module).
        unsafe { call(user_data, size, kind, scope) };
    }
}

unsafe extern "system" fn internal_free<const N: usize>(
    _: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    if let Some((slot, user_data)) = slot::<N>()
        && let Some(call) = function!(slot.internal_free.load(Ordering::Relaxed), PfnInternalNotification)
    {
        // SAFETY: the callbacks of an open bridge (invariant of this module).
        unsafe { call(user_data, size, kind, scope) };
    }
}

const fn aligned(align: usize) -> usize {
    if align == 0 { DEFAULT_ALIGNMENT } else { align }
}

const fn callbacks_of<const N: usize>() -> RawCallbacks {
    RawCallbacks {
        p_user_data: null_mut(),
        pfn_allocation: Some(allocation::<N>),
        pfn_reallocation: Some(reallocation::<N>),
        pfn_free: Some(free::<N>),
        pfn_internal_allocation: Some(internal_allocation::<N>),
        pfn_internal_free: Some(internal_free::<N>),
    }
}

// --- commands that fill in pAllocator -------------------------------------------------------------------------------

type CreateInstance = unsafe extern "system" fn(*const c_void, *const RawCallbacks, *mut *mut c_void) -> i32;
type CreateDevice = unsafe extern "system" fn(*mut c_void, *const c_void, *const RawCallbacks, *mut *mut c_void) -> i32;
type Destroy = unsafe extern "system" fn(*mut c_void, *const RawCallbacks);
type GetProcAddr = unsafe extern "system" fn(*mut c_void, *const c_char) -> Option<StewardVoidFn>;

impl StaticSlot {
    /// What the next `vkGetInstanceProcAddr` answers; NULL for nothing.
    ///
    /// # Safety
    /// `instance` is NULL or live.
    unsafe fn below(&self, instance: *mut c_void, name: &CStr) -> *mut () {
        let next = function!(self.get_instance_proc_addr.load(Ordering::Acquire), GetProcAddr);
        // SAFETY: the command that the slot was given; the caller's instance.
        let found = next.and_then(|next| unsafe { next(instance, name.as_ptr()) });
        address!(found)
    }
}

fn or_own<const N: usize>(given: *const RawCallbacks, own: &RawCallbacks) -> *const RawCallbacks {
    if given.is_null() && slot::<N>().is_some() { own } else { given }
}

unsafe extern "system" fn create_instance<const N: usize>(
    info: *const c_void,
    given: *const RawCallbacks,
    out: *mut *mut c_void,
) -> i32 {
    let Some(slot) = TABLE.get(N) else {
        return INITIALIZATION_FAILED;
    };
    // SAFETY: NULL asks for a global command.
    let next = unsafe { slot.below(null_mut(), c"vkCreateInstance") };
    let Some(next) = function!(next, CreateInstance) else {
        return INITIALIZATION_FAILED;
    };
    let own = callbacks_of::<N>();
    // SAFETY: the caller's arguments, passed on.
    unsafe { next(info, or_own::<N>(given, &own), out) }
}

unsafe extern "system" fn create_device<const N: usize>(
    physical: *mut c_void,
    info: *const c_void,
    given: *const RawCallbacks,
    out: *mut *mut c_void,
) -> i32 {
    let next = TABLE.get(N).and_then(|slot| function!(slot.create_device.load(Ordering::Acquire), CreateDevice));
    let Some(next) = next else {
        return INITIALIZATION_FAILED;
    };
    let own = callbacks_of::<N>();
    // SAFETY: the caller's arguments, passed on.
    unsafe { next(physical, info, or_own::<N>(given, &own), out) }
}

unsafe extern "system" fn destroy_instance<const N: usize>(instance: *mut c_void, given: *const RawCallbacks) {
    let Some(slot) = TABLE.get(N) else { return };
    if instance.is_null() {
        return;
    }
    // SAFETY: the caller's live instance.
    let next = unsafe { slot.below(instance, c"vkDestroyInstance") };
    if let Some(next) = function!(next, Destroy) {
        let own = callbacks_of::<N>();
        // SAFETY: the caller's arguments, passed on.
        unsafe { next(instance, or_own::<N>(given, &own)) };
    }
}

unsafe extern "system" fn destroy_device<const N: usize>(device: *mut c_void, given: *const RawCallbacks) {
    let Some(slot) = TABLE.get(N) else { return };
    if device.is_null() {
        return;
    }
    let lookup = function!(slot.get_device_proc_addr.load(Ordering::Acquire), GetProcAddr);
    // SAFETY: the caller's live device.
    let next = lookup.and_then(|lookup| unsafe { lookup(device, c"vkDestroyDevice".as_ptr()) });
    if let Some(next) = function!(address!(next), Destroy) {
        let own = callbacks_of::<N>();
        // SAFETY: the caller's arguments, passed on.
        unsafe { next(device, or_own::<N>(given, &own)) };
    }
}

fn answer(address: *mut ()) -> Option<StewardVoidFn> {
    function!(address, StewardVoidFn)
}

unsafe extern "system" fn get_device_proc_addr<const N: usize>(
    device: *mut c_void,
    name: *const c_char,
) -> Option<StewardVoidFn> {
    let slot = TABLE.get(N)?;
    let next = function!(slot.get_device_proc_addr.load(Ordering::Acquire), GetProcAddr)?;
    // SAFETY: the caller's arguments, passed on.
    let found = unsafe { next(device, name) }?;
    // SAFETY: the caller's string, which the command below has read.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetDeviceProcAddr" => answer(get_device_proc_addr::<N> as *mut ()),
        b"vkDestroyDevice" => answer(destroy_device::<N> as *mut ()),
        _ => Some(found),
    }
}

unsafe extern "system" fn get_instance_proc_addr<const N: usize>(
    instance: *mut c_void,
    name: *const c_char,
) -> Option<StewardVoidFn> {
    let slot = TABLE.get(N)?;
    // SAFETY: the caller's string.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: the caller's instance.
    let found = unsafe { slot.below(instance, name) };
    if found.is_null() {
        return None;
    }
    let own = match name.to_bytes() {
        b"vkGetInstanceProcAddr" => get_instance_proc_addr::<N> as *mut (),
        b"vkCreateInstance" => create_instance::<N> as *mut (),
        b"vkDestroyInstance" => destroy_instance::<N> as *mut (),
        b"vkCreateDevice" => {
            slot.create_device.store(found, Ordering::Release);
            create_device::<N> as *mut ()
        }
        b"vkGetDeviceProcAddr" => {
            slot.get_device_proc_addr.store(found, Ordering::Release);
            get_device_proc_addr::<N> as *mut ()
        }
        b"vkDestroyDevice" => {
            // SAFETY: the caller's instance.
            let lookup = unsafe { slot.below(instance, c"vkGetDeviceProcAddr") };
            slot.get_device_proc_addr.store(lookup, Ordering::Release);
            destroy_device::<N> as *mut ()
        }
        _ => found,
    };
    answer(own)
}

// --- the interface --------------------------------------------------------------------------------------------------

struct Functions {
    callbacks: RawCallbacks,
    get_instance_proc_addr: StewardGetInstanceProcAddrFn,
}

const fn functions<const N: usize>() -> Functions {
    Functions { callbacks: callbacks_of::<N>(), get_instance_proc_addr: get_instance_proc_addr::<N> }
}

const fn functions_of(slot: u32) -> Option<Functions> {
    Some(match slot {
        0 => functions::<0>(),
        1 => functions::<1>(),
        2 => functions::<2>(),
        3 => functions::<3>(),
        4 => functions::<4>(),
        5 => functions::<5>(),
        6 => functions::<6>(),
        7 => functions::<7>(),
        _ => return None,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_bridge_static(number: u32, of: *const StewardBridge, out: *mut RawCallbacks) -> i32 {
    enter(&"steward_bridge_static", || {
        let (Some(slot), Some(functions)) = (StaticSlot::of(number), functions_of(number)) else {
            return misused();
        };
        let Some(of) = NonNull::new(of.cast_mut()) else {
            slot.owner.store(0, Ordering::Release);
            return SUCCESS;
        };
        let Some(out) = NonNull::new(out) else {
            return misused();
        };
        // SAFETY: the caller's open bridge, which `steward_bridge_init` has written.
        let bridge = unsafe { of.cast::<Bridge>().as_ref() };
        if !slot.fill(bridge.owner().get().into(), &bridge.raw()) {
            return misused();
        }
        // SAFETY: the caller's place.
        unsafe { out.write(functions.callbacks) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_bridge_proc_addr(
    number: u32,
    next: Option<StewardGetInstanceProcAddrFn>,
) -> Option<StewardGetInstanceProcAddrFn> {
    enter(&"steward_bridge_proc_addr", || {
        let (Some(slot), Some(functions), Some(next)) = (StaticSlot::of(number), functions_of(number), next) else {
            misused();
            return None;
        };
        slot.get_instance_proc_addr.store(next as *mut (), Ordering::Release);
        Some(functions.get_instance_proc_addr)
    })
}
