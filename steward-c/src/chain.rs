//! The driver's side with stored callbacks: a `VkInstance` or `VkDevice` keeps them, in a fallback chain of object,
//! device, instance and C library.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use vk_callbacks::driver::{DeviceDomain, DynHost, InstanceDomain};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{CallbackAllocator, FallbackChain};

use crate::context::{layout_of, scope_of};
use crate::driver::{C_LIBRARY, allocate_from};
use crate::edge::enter;
use crate::refusal::{SUCCESS, misused, note};
use alloc_core::{HostError, Misuse};

/// `steward_chain`: the driver's memory for its callbacks.
#[repr(C)]
pub struct StewardChain {
    pub words: [usize; 12],
}

enum Chain {
    Instance(InstanceDomain<'static>),
    Device(DeviceDomain, NonNull<Self>),
}

const _: () = assert!(size_of::<Chain>() <= size_of::<StewardChain>());
const _: () = assert!(align_of::<Chain>() <= align_of::<StewardChain>());

impl Chain {
    /// The callbacks for a command whose own are `own`; `None` if the chain is a device's below a device.
    ///
    /// # Safety
    /// The chain above lives, unmoved since this one was made.
    unsafe fn of<'c>(&'c self, own: Option<&'c CallbackAllocator>) -> Option<FallbackChain<'c>> {
        match self {
            Self::Instance(instance) => Some(instance.chain(own)),
            // SAFETY: the chain above lives where it was.
            Self::Device(device, above) => match unsafe { above.as_ref() } {
                Self::Instance(instance) => Some(device.chain(instance, own)),
                Self::Device(..) => None,
            },
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_chain_init(
    place: *mut StewardChain,
    own: *const RawCallbacks,
    parent: *const StewardChain,
) -> i32 {
    enter(&"steward_chain_init", || {
        let Some(place) = NonNull::new(place) else {
            return misused();
        };
        let chain = match NonNull::new(parent.cast_mut().cast::<Chain>()) {
            // SAFETY: the caller's struct or NULL, whose functions keep Vulkan's rules.
            None => unsafe { InstanceDomain::new(own, &C_LIBRARY) }.map(Chain::Instance),
            Some(above) => {
                // SAFETY: the caller's chain.
                if matches!(unsafe { above.as_ref() }, Chain::Device(..)) {
                    return note(HostError::Misuse(Misuse::OtherContext));
                }
                // SAFETY: the struct is NULL or the caller's, and its functions keep Vulkan's rules.
                unsafe { DeviceDomain::new(own) }.map(|device| Chain::Device(device, above))
            }
        };
        let Ok(chain) = chain else {
            return misused();
        };
        let place = place.cast::<MaybeUninit<Chain>>();
        // SAFETY: the caller's memory has room for a chain, as asserted above.
        unsafe { place.write(MaybeUninit::new(chain)) };
        SUCCESS
    })
}

/// `None`, noted, if there is no chain or it is wrong.
///
/// # Safety
/// `chain` is NULL or the caller's chain; `own` is NULL or the caller's struct, whose functions keep Vulkan's rules.
unsafe fn with_allocator<R>(
    chain: *const StewardChain,
    own: *const RawCallbacks,
    scope: i32,
    call: impl FnOnce(&DynHost<'_>, alloc_core::Scope) -> R,
) -> Option<R> {
    // SAFETY: NULL or a live struct whose functions keep Vulkan's rules.
    let own = unsafe { CallbackAllocator::from_ptr(own) };
    let chain = NonNull::new(chain.cast_mut().cast::<Chain>());
    // SAFETY: `steward_chain_init` has written it, and it lives.
    let chain = chain.map(|chain| unsafe { chain.as_ref() });
    let (Ok(own), Some(chain), Some(scope)) = (own, chain, scope_of(scope)) else {
        note(HostError::Misuse(Misuse::OtherScope));
        return None;
    };
    // SAFETY: the header has an instance's chain outlive its devices' chains, unmoved.
    let chain = unsafe { chain.of(own.as_ref()) }?;
    Some(call(chain.resolve(scope).allocator, scope))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_chain_alloc(
    chain: *const StewardChain,
    own: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: NULL or a live chain, and callbacks that keep Vulkan's rules.
    enter(&"steward_chain_alloc", || unsafe { allocate(chain, own, size, align, scope, false) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_chain_zalloc(
    chain: *const StewardChain,
    own: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: NULL or a live chain, and callbacks that keep Vulkan's rules.
    enter(&"steward_chain_zalloc", || unsafe { allocate(chain, own, size, align, scope, true) })
}

/// # Safety
/// As [`with_allocator`].
unsafe fn allocate(
    chain: *const StewardChain,
    own: *const RawCallbacks,
    size: usize,
    align: usize,
    scope: i32,
    zeroed: bool,
) -> *mut c_void {
    let serve = |allocator: &DynHost<'_>, _| allocate_from(allocator, size, align, scope, zeroed);
    // SAFETY: a chain and callbacks as `with_allocator` requires.
    unsafe { with_allocator(chain, own, scope, serve) }.unwrap_or(std::ptr::null_mut())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_chain_free(
    chain: *const StewardChain,
    own: *const RawCallbacks,
    block: *mut c_void,
    scope: i32,
) {
    enter(&"steward_chain_free", || {
        let Some(block) = NonNull::new(block.cast::<u8>()) else {
            return;
        };
        let free = |allocator: &DynHost<'_>, scope| {
            // SAFETY: the caller's live block of these callbacks, which get neither size nor alignment.
            unsafe { allocator.deallocate(block, std::alloc::Layout::new::<u8>(), scope) };
        };
        // The block may be the instance or device in which the chain lies, so the chain is used from a copy.
        // SAFETY: NULL or the caller's chain.
        let kept = NonNull::new(chain.cast_mut().cast::<MaybeUninit<Chain>>()).map(|chain| unsafe { chain.read() });
        let kept = kept.as_ref().map_or(std::ptr::null(), MaybeUninit::as_ptr);
        // SAFETY: a copy of the live chain; a device's has the address of the instance's, which stays where it is.
        let _freed = unsafe { with_allocator(kept.cast(), own, scope, free) };
    });
}

/// `steward_multialloc`: a plan of arrays to be allocated as one block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StewardMultialloc {
    pub bytes: usize,
    pub align: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_multialloc_add(
    plan: *mut StewardMultialloc,
    count: usize,
    size: usize,
    align: usize,
) -> usize {
    enter(&"steward_multialloc_add", || {
        let Some(plan) = NonNull::new(plan) else {
            return usize::MAX;
        };
        // SAFETY: the caller's plan.
        let (next, offset) = unsafe { plan.read() }.with_array(count, size, align);
        // SAFETY: the caller's plan.
        unsafe { plan.write(next) };
        offset
    })
}

impl StewardMultialloc {
    /// The offset is `usize::MAX` for an array of 0 bytes, and where the whole is too large, which then no allocator
    /// serves.
    fn with_array(self, count: usize, size: usize, align: usize) -> (Self, usize) {
        const TOO_LARGE: StewardMultialloc = StewardMultialloc { bytes: usize::MAX, align: 1 };
        let Some(bytes) = count.checked_mul(size) else {
            return (TOO_LARGE, usize::MAX);
        };
        if bytes == 0 || self == TOO_LARGE {
            return (self, usize::MAX);
        }
        let planned = layout_of(self.bytes, self.align.max(1))
            .ok()
            .zip(layout_of(bytes, align).ok())
            .and_then(|(before, array)| before.extend(array).ok());
        planned.map_or((TOO_LARGE, usize::MAX), |(whole, offset)| {
            let plan = Self { bytes: whole.size(), align: whole.align() };
            (plan, offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StewardMultialloc;

    #[test]
    fn ca17_arrays_lie_apart_aligned_and_a_plan_that_overflows_stays_so() {
        let plan = StewardMultialloc::default();
        let (plan, first) = plan.with_array(3, 1, 1);
        let (plan, second) = plan.with_array(2, 8, 8);
        let (plan, none) = plan.with_array(0, 8, 64);
        let (plan, third) = plan.with_array(1, 1, 1);
        assert_eq!((first, second, none, third), (0, 8, usize::MAX, 24));
        assert_eq!(plan, StewardMultialloc { bytes: 25, align: 8 });
        for (count, size, align) in [(usize::MAX, 2, 1), (1, usize::MAX, 1), (1, isize::MAX as usize, 1), (1, 1, 3)] {
            let (bad, offset) = plan.with_array(count, size, align);
            assert_eq!((bad.bytes, offset), (usize::MAX, usize::MAX));
            assert_eq!(bad.with_array(1, 1, 1), (bad, usize::MAX));
        }
    }
}
