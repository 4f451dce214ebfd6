//! An application over a guard: contexts, bridges over them, and a driver that calls what it is given as C would.

use std::hint::black_box;
use std::ptr;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope};
use vk_callbacks::Bridge;
use vk_callbacks::bridge::BridgeCounters;
use vk_callbacks::raw::{RawCallbacks, RawScope};

/// A context of the application's below a root, with a bridge over it.
pub(crate) struct Application {
    bridge: Bridge,
    root: Context,
}

impl Application {
    /// Over `host`, which stays where it is until [`close`](Self::close).
    pub(crate) fn new(host: &(impl HostAllocator + Sync), name: &'static str) -> Self {
        // SAFETY: cases keep the guard until after the application's end, or end the process.
        let root = unsafe { Context::root(host, ContextOptions::new("application")) }.expect("memory");
        let bridge = Bridge::new(root.child(name).expect("memory")).expect("memory");
        Self { bridge, root }
    }

    pub(crate) fn driver(&self) -> MatrixDriver {
        MatrixDriver(self.bridge.raw())
    }

    pub(crate) fn notes(&self) -> BridgeCounters {
        self.bridge.counters()
    }

    /// Everything goes back to the guard.
    pub(crate) fn close(self) {
        drop(self.bridge.close().unwrap_or_else(|busy| panic!("{busy}")));
        self.root.close_root().expect("nothing is left");
    }
}

/// What a driver holds: a copy of the struct.
#[derive(Clone, Copy)]
pub(crate) struct MatrixDriver(pub(crate) RawCallbacks);

// SAFETY: callbacks may be called on any thread (V24).
unsafe impl Send for MatrixDriver {}
// SAFETY: callbacks may be called on any thread at once (V24), and the struct is not changed.
unsafe impl Sync for MatrixDriver {}

pub(crate) const fn raw(scope: Scope) -> RawScope {
    scope.as_raw() as RawScope
}

impl MatrixDriver {
    #[inline(never)]
    pub(crate) fn takes(&self, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let call = self.0.pfn_allocation.expect("set");
        // SAFETY: the callbacks are live.
        black_box(unsafe { call(self.0.p_user_data, size, align, scope) }.cast())
    }

    /// With scope object.
    #[inline(never)]
    pub(crate) fn takes_object(&self, size: usize, align: usize) -> *mut u8 {
        let block = self.takes(size, align, raw(Scope::Object));
        assert!(!block.is_null() && block.addr().is_multiple_of(align), "given, and aligned");
        block
    }

    #[inline(never)]
    pub(crate) fn moves(&self, block: *mut u8, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let call = self.0.pfn_reallocation.expect("set");
        // SAFETY: the callbacks are live; what the block is, is the case's affair.
        black_box(unsafe { call(self.0.p_user_data, block.cast(), size, align, scope) }.cast())
    }

    #[inline(never)]
    pub(crate) fn gives(&self, block: *mut u8) {
        let call = self.0.pfn_free.expect("set");
        // SAFETY: a callback of Vulkan's type with its own user data; the block is one that it gave, or the mistake
        // that is tested.
        unsafe { call(self.0.p_user_data, block.cast()) };
        black_box(());
    }

    pub(crate) fn notifies(&self, taken: bool, bytes: usize, kind: i32) {
        let call = if taken { self.0.pfn_internal_allocation } else { self.0.pfn_internal_free }.expect("set");
        // SAFETY: a callback of Vulkan's type with its own user data; a notification has no block.
        unsafe { call(self.0.p_user_data, bytes, kind, raw(Scope::Object)) };
    }
}

/// Writes `size` bytes that depend on their place.
pub(crate) fn fill(block: *mut u8, size: usize) {
    for i in 0..size {
        // SAFETY: the cases pass blocks of that many bytes.
        unsafe { block.wrapping_add(i).write(i as u8 ^ 0x5A) };
    }
}

pub(crate) fn is_filled(block: *const u8, size: usize) -> bool {
    // SAFETY: the cases pass blocks of that many bytes, all of them written.
    (0..size).all(|i| unsafe { block.wrapping_add(i).read() } == i as u8 ^ 0x5A)
}

pub(crate) const NULL: *mut u8 = ptr::null_mut();

impl Application {
    /// For cases that end the process.
    pub(crate) fn leak(self) -> MatrixDriver {
        let driver = self.driver();
        std::mem::forget(self);
        driver
    }
}
