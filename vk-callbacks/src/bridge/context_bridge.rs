use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{Context, ContextHandle, HostAllocator, Rejected, Usage};

use super::block_header::{fresh_key, id_of_key};
use super::counters::{BridgeCounters, LeakListener, LeakedBridge};
use super::entry::callbacks_of;
use super::live_bridges;
use super::state::BridgeState;
use crate::command::OwnerId;
use crate::command::thread::is_busy;
use crate::error::{CallbackError, CallbacksInUse};
use crate::live::{Live, LiveScope};
use crate::raw::{AllocationCallbacks, RawCallbacks};

/// A [`Context`] as `VkAllocationCallbacks`: the context counts all memory of Vulkan, by scope.
///
/// Give the instance, the device and each kind of object a bridge, each with a context of its own below a common
/// parent. The header of a block costs 16 bytes, which the context counts, too.
///
/// Callable from any thread, without locks (V24).
///
/// A bridge may move while Vulkan uses its callbacks. One that is dropped while blocks are live closes its context,
/// leaks its state and is counted by [`leaked_bridges`].
///
/// A free of a stray pointer, or a second free, is found with probability 1 - 2^-32 *if the 16 bytes before the pointer
/// can still be read* and *unless the address was allocated again*; it is [counted](Bridge::counters) and nothing is
/// freed. A block of another bridge is counted, and freed or reallocated there.
///
/// A call with a `pUserData` that is NULL, or provably that of no bridge, is answered with NULL, or ignored. Every
/// wrong call can be [told](super::on_call_mistake).
///
/// 0 bytes are a real block, which is freed as every other. A reallocation to 0 bytes is `pfnFree`, also of NULL, and
/// answers NULL (V14).
///
/// Panics of the context's backing are caught, counted and answered with NULL.
///
/// ```
/// use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
/// use vk_callbacks::Bridge;
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
///
/// let bridge = Bridge::new(root.child("vulkan instance")?)?;
/// let callbacks = bridge.callbacks(); // with ash: create_instance(&info, Some(callbacks.as_ash()))
/// # let raw = *callbacks.raw();
/// # // SAFETY: the bridge is alive.
/// # let block = unsafe { raw.pfn_allocation.unwrap()(raw.p_user_data, 100, 8, 4) };
/// assert_eq!(bridge.live().scope(Scope::Instance).bytes, 100 + 16);
/// # // SAFETY: a live block of the bridge, which is alive.
/// # unsafe { raw.pfn_free.unwrap()(raw.p_user_data, block) };
///
/// // After vkDestroyInstance. A leak of the driver is an error here, with its scopes and the bridge.
/// let context = bridge.close()?;
/// assert_eq!(context.usage().total().live_blocks, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a bridge makes its callbacks invalid"]
#[doc(alias("VkAllocationCallbacks", "pAllocator"))]
pub struct Bridge {
    context: Context,
    pinned: NonNull<PinnedBridge>,
    on_leak: Option<LeakListener>,
}

/// User data is the address of this, so the state comes first.
#[repr(C)]
struct PinnedBridge {
    state: BridgeState<ContextHandle>,
    /// The memory of the context that is not Vulkan's: this block, and a root's record.
    own: LiveScope,
}

// SAFETY: all parts are `Send + Sync`, and the bridge owns its memory.
unsafe impl Send for Bridge {}
// SAFETY: a shared bridge is only read.
unsafe impl Sync for Bridge {}

impl Bridge {
    const STATE: Layout = Layout::new::<PinnedBridge>();

    /// A bridge over `context`. Its state (under 500 bytes) lies in the context's own memory.
    ///
    /// # Errors
    /// [`CallbackError::ContextInUse`] if the context has blocks or children: they would count as the driver's.
    /// [`CallbackError::Host`] if there is no memory for the state.
    pub fn new(context: Context) -> Result<Self, Rejected<Context, CallbackError>> {
        let Some(unused) = LiveScope::of_unused(&context) else {
            return Err(Rejected::new(context, CallbackError::ContextInUse));
        };
        let place = match context.try_allocate(Self::STATE, context.scope()) {
            Ok(place) => place.cast::<PinnedBridge>(),
            Err(error) => {
                return Err(Rejected::new(context, error));
            }
        };
        let key = fresh_key(place.as_ptr().addr());
        let pinned = PinnedBridge { state: BridgeState::new(context.handle(), key), own: unused.and(Self::STATE) };
        // SAFETY: just taken with the layout of the state.
        unsafe { place.write(pinned) };
        live_bridges::add(key.owner, place.cast());
        Ok(Self { context, pinned: place, on_leak: None })
    }

    /// Sets a function that is called if this bridge is dropped while Vulkan holds blocks of it, or within a callback.
    ///
    /// ```
    /// # use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
    /// # use vk_callbacks::Bridge;
    /// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
    /// # let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
    /// let bridge = Bridge::new(root.child("vulkan device")?)?.with_leak_listener(|leaked| eprintln!("{leaked}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_leak_listener(mut self, listener: LeakListener) -> Self {
        self.on_leak = Some(listener);
        self
    }

    /// The `pAllocator` to pass.
    ///
    /// The functions and `pUserData` stay valid until [`close`](Self::close) returned Ok, or the bridge was dropped
    /// with nothing live. The caller must not call them later (V6).
    #[must_use]
    pub fn callbacks(&self) -> AllocationCallbacks<'_> {
        AllocationCallbacks::new(self.raw())
    }

    /// As [`callbacks`](Self::callbacks), without the lifetime.
    #[must_use]
    pub fn raw(&self) -> RawCallbacks {
        let state = self.pinned.cast::<BridgeState<ContextHandle>>();
        callbacks_of(self.state(), state.as_ptr().cast_const())
    }

    /// The id of this bridge in [`Owners`](crate::Owners) and in the header of its blocks.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        id_of_key(self.state().cookie_key)
    }

    /// The context. Blocks allocated from it directly, or below it, count as the driver's.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The context's account, the bridge's own state included.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.context.usage()
    }

    /// The live memory of Vulkan, by scope. Exact while no callback runs.
    #[must_use]
    pub fn live(&self) -> Live {
        Live::of(&self.context, self.pinned().own)
    }

    /// The counters of rare events so far.
    #[must_use]
    pub fn counters(&self) -> BridgeCounters {
        self.state().counters.read()
    }

    /// Ends the callbacks and returns the context, if Vulkan holds no memory of it.
    ///
    /// Call it after the last object of the callbacks was destroyed, while no command runs.
    ///
    /// # Errors
    /// The bridge, still usable, if blocks are live or this thread is inside a callback.
    #[expect(clippy::result_large_err, reason = "a refusal returns the bridge")]
    pub fn close(self) -> Result<Context, Rejected<Self, CallbacksInUse>> {
        let live = self.live();
        if !live.is_empty() {
            let context = self.context.name();
            return Err(Rejected::new(self, CallbacksInUse::Live { context, live }));
        }
        if is_busy() {
            return Err(Rejected::new(self, CallbacksInUse::InCallback));
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: nothing is live, so no callback will come; only its context is used after this.
        unsafe { this.free_state() };
        // SAFETY: `this` is never dropped, so the context is moved out once.
        Ok(unsafe { ptr::read(&raw const this.context) })
    }

    fn state(&self) -> &BridgeState<ContextHandle> {
        &self.pinned().state
    }

    fn pinned(&self) -> &PinnedBridge {
        // SAFETY: placed by `new`, and alive until `free_state`.
        unsafe { self.pinned.as_ref() }
    }

    /// # Safety
    /// Nothing uses the state afterwards.
    unsafe fn free_state(&self) {
        live_bridges::remove(self.state().cookie_key.owner);
        self.state().end();
        // SAFETY: placed by `new`, and read once, as this function requires.
        drop(unsafe { self.pinned.read() });
        // SAFETY: taken in `new` from this context with this layout and scope.
        unsafe { self.context.deallocate(self.pinned.cast(), Self::STATE, self.context.scope()) };
    }
}

/// The number of bridges of this process that were dropped while Vulkan held blocks of them, or within a callback.
///
/// Their callbacks answer new requests with NULL, and serve late frees.
#[must_use]
pub fn leaked_bridges() -> u64 {
    LEAKED_BRIDGES.load(Relaxed) as u64
}

static LEAKED_BRIDGES: AtomicUsize = AtomicUsize::new(0);

impl Drop for Bridge {
    fn drop(&mut self) {
        let live = self.live();
        if live.is_empty() && !is_busy() {
            // SAFETY: nothing is live, so no callback will come; the bridge ends here.
            unsafe { self.free_state() };
            return;
        }
        LEAKED_BRIDGES.fetch_add(1, Relaxed);
        // Last: the listener may call anything.
        if let Some(listener) = self.on_leak {
            let context = self.context.handle();
            listener(&LeakedBridge { context: context.name(), label: context.label(), live });
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("owner", &self.owner().get())
            .field("care", &self.state().care())
            .field("context", &self.context)
            .field("live", &self.live())
            .finish()
    }
}

/// Any [`HostAllocator`] as `VkAllocationCallbacks`, for callers that count live blocks themselves.
///
/// Callable from any thread, without locks.
///
/// ```
/// use std::pin::pin;
/// use vk_callbacks::bridge::BareBridge;
/// let bridge = pin!(BareBridge::new(alloc_core::FromGlobalAlloc::SYSTEM));
/// let callbacks = bridge.as_ref().raw(); // to a C API as pAllocator; `bridge` outlives all that is made with it
/// assert!(callbacks.pfn_allocation.is_some());
/// ```
pub struct BareBridge<A> {
    state: BridgeState<A>,
    _pinned: PhantomPinned,
}

impl<A> fmt::Debug for BareBridge<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareBridge").finish_non_exhaustive()
    }
}

impl<A: HostAllocator + Sync> BareBridge<A> {
    /// A bridge over `backing`.
    #[must_use]
    pub fn new(backing: A) -> Self {
        let key = fresh_key((&raw const backing).addr());
        Self { state: BridgeState::new(backing, key), _pinned: PhantomPinned }
    }

    /// The C struct. Its functions may be called while `self` does not move; later calls are undefined.
    #[must_use]
    pub fn raw(self: Pin<&Self>) -> RawCallbacks {
        callbacks_of(&self.get_ref().state, &raw const self.get_ref().state)
    }

    /// The id of this bridge in [`Owners`](crate::Owners) and in the header of its blocks.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        id_of_key(self.state.cookie_key)
    }

    /// The counters of rare events so far.
    #[must_use]
    pub fn counters(&self) -> BridgeCounters {
        self.state.counters.read()
    }

    /// The backing.
    #[must_use]
    pub const fn backing(&self) -> &A {
        &self.state.backing
    }
}
