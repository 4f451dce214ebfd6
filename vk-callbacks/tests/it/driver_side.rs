//! The driver's side: the application's callbacks copied, checked, chained, and the objects built on them.

mod chain;
mod multi_alloc;

use std::alloc::Layout;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{App, Call, SYSTEM as OWN, assert_filled, fill, raw};
use alloc_core::{HostAllocator, HostError, Notice, NoticeEvent, Scope};
use vk_callbacks::bridge::Callback;
use vk_callbacks::driver::{DeviceDomain, DynHost, InstanceDomain, LevelAllocator};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{
    CallbackAllocator, CallbackError, CommandRow, FallbackChain, Level, MultiAlloc, Object,
    VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_UNKNOWN,
};

fn of(app: &App) -> CallbackAllocator {
    // SAFETY: the test application follows the rules but where a test says otherwise.
    unsafe { CallbackAllocator::from_raw(&app.callbacks()) }.expect("a whole struct")
}

fn check(raw: &RawCallbacks) -> Result<(), CallbackError> {
    // SAFETY: nothing is called.
    unsafe { CallbackAllocator::from_raw(raw) }.map(drop)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("valid")
}

#[test]
fn v1_v2_v3_v4_a_missing_function_is_refused() {
    let whole = App::default().callbacks();
    assert_eq!(check(&whole), Ok(()));
    let lacks = |change: fn(&mut RawCallbacks)| {
        let mut raw = whole;
        change(&mut raw);
        check(&raw)
    };
    let missing = [
        lacks(|raw| raw.pfn_allocation = None),
        lacks(|raw| raw.pfn_reallocation = None),
        lacks(|raw| raw.pfn_free = None),
    ];
    let functions = [Callback::Allocation, Callback::Reallocation, Callback::Free];
    for (answer, function) in missing.into_iter().zip(functions) {
        let error = answer.expect_err("a function is missing");
        assert_eq!(error, CallbackError::MissingFunction(function));
        assert!(error.to_string().starts_with(function.name()), "{error}");
        assert_eq!(error.vk_result(), VK_ERROR_UNKNOWN);
    }
    let half = Err(CallbackError::HalfInternal);
    assert_eq!(lacks(|raw| raw.pfn_internal_allocation = None), half);
    assert_eq!(lacks(|raw| raw.pfn_internal_free = None), half);
    let neither = lacks(|raw| (raw.pfn_internal_allocation, raw.pfn_internal_free) = (None, None));
    assert_eq!(neither, Ok(()));
}

#[test]
fn v5_m42_each_command_uses_the_user_data_of_its_own_struct() {
    // Two structs over one heap, so compatible: the object is made with one and destroyed with the other.
    let maker = App::default();
    let ender = App::compatible(&maker);
    let at_create = of(&maker);
    let object = Object::create(&FallbackChain::new(&OWN).object(Some(&at_create)), 7_u32).expect("memory");
    let at_destroy = of(&ender);
    // SAFETY: the two are compatible.
    let value = unsafe { object.destroy(&FallbackChain::new(&OWN).object(Some(&at_destroy))) }.expect("destroyed");
    assert_eq!(value, 7);
    assert!(matches!(maker.calls()[..], [Call::Alloc { .. }]), "{:?}", maker.calls());
    assert_eq!(ender.calls(), [Call::Free], "the free went with the destroying command's user data");
    assert_eq!(maker.heap.live(), 0);
}

#[test]
fn v6_the_struct_may_be_overwritten_after_the_call() {
    let app = App::default();
    let mut given = Box::new(app.callbacks());
    // SAFETY: the test application follows the rules.
    let kept = unsafe { CallbackAllocator::from_raw(&given) }.expect("a whole struct");
    *given = RawCallbacks {
        p_user_data: ptr::null_mut(),
        pfn_allocation: Some(trap_allocation),
        pfn_reallocation: None,
        pfn_free: Some(trap_free),
        pfn_internal_allocation: None,
        pfn_internal_free: None,
    };
    drop(given);
    let block = kept.allocate(layout(64, 8), Scope::Object).expect("memory");
    // SAFETY: just given.
    unsafe { kept.deallocate(block, layout(64, 8), Scope::Object) };
    assert_eq!(app.calls().len(), 2);
}

unsafe extern "system" fn trap_allocation(
    _: *mut std::ffi::c_void,
    _: usize,
    _: usize,
    _: i32,
) -> *mut std::ffi::c_void {
    unreachable!("the struct was used after the call")
}

unsafe extern "system" fn trap_free(_: *mut std::ffi::c_void, _: *mut std::ffi::c_void) {
    unreachable!("the struct was used after the call")
}

#[test]
fn v7_size_zero_is_never_forwarded() {
    let app = App::default();
    let host = of(&app);
    let nothing = layout(0, 64);
    let block = host.allocate(nothing, Scope::Object).expect("nothing is always there");
    assert!(block.as_ptr().addr().is_multiple_of(64));
    // SAFETY: just given.
    let grown = unsafe { host.resize(block, nothing, layout(32, 64), Scope::Object) }.expect("memory");
    assert_eq!(app.calls(), [Call::Alloc { size: 32, align: 64, scope: raw(Scope::Object) }]);
    // SAFETY: just given.
    let shrunk =
        unsafe { host.resize(grown, layout(32, 64), nothing, Scope::Object) }.expect("nothing is always there");
    assert_eq!(app.calls().last(), Some(&Call::Free));
    // SAFETY: just given.
    unsafe { host.deallocate(shrunk, nothing, Scope::Object) };
    assert_eq!((app.calls().len(), app.heap.live()), (2, 0));
}

#[test]
fn v8_a_misaligned_answer_is_given_back_and_refused() {
    let app = App::default();
    app.misalign_allocations.store(true, SeqCst);
    let host = of(&app);
    assert!(host.allocate(layout(64, 16), Scope::Object).is_err());
    assert_eq!((app.calls().last(), app.heap.live()), (Some(&Call::Free), 0));
    // Alignment 1 cannot be missed.
    let block = host.allocate(layout(64, 1), Scope::Object).expect("aligned enough");
    // SAFETY: just given.
    unsafe { host.deallocate(block, layout(64, 1), Scope::Object) };
}

#[test]
fn v8_a_reallocation_that_ignores_alignment_loses_nothing() {
    let app = App::default();
    let host = of(&app);
    let block = host.allocate(layout(40, 64), Scope::Object).expect("memory");
    fill(block.as_ptr(), 40, 3);
    app.misalign_reallocations.store(true, SeqCst);
    // SAFETY: just given.
    let grown = unsafe { host.resize(block, layout(40, 64), layout(400, 64), Scope::Object) }.expect("rescued");
    assert!(grown.as_ptr().addr().is_multiple_of(64));
    assert_filled(grown.as_ptr(), 40, 3);
    assert_eq!(app.heap.live(), 1);
    // SAFETY: just given.
    unsafe { host.deallocate(grown, layout(400, 64), Scope::Object) };
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn v9_null_becomes_out_of_host_memory_and_survivable_null_does_not() {
    let app = App::default();
    app.refuses.store(true, SeqCst);
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).object(Some(&host));
    let error = chain.allocate(layout(4096, 8), Scope::Object).expect_err("refused");
    assert_eq!(error, CallbackError::Host(HostError::OutOfHostMemory { bytes: 4096, scope: Scope::Object }));
    assert_eq!(error.vk_result(), VK_ERROR_OUT_OF_HOST_MEMORY);
    // A command that can go on with less does, and has no error to report.
    app.refuse_after.store(1, SeqCst);
    let got = chain.allocate(layout(4096, 8), Scope::Object).or_else(|_| chain.allocate(layout(64, 8), Scope::Object));
    assert!(got.is_ok());
}

#[test]
fn v15_reallocation_with_equal_alignment_moves_by_callback_else_by_hand() {
    let app = App::default();
    let host = of(&app);
    let block = host.allocate(layout(40, 8), Scope::Cache).expect("memory");
    fill(block.as_ptr(), 40, 9);
    // SAFETY: a live block of this host, with its layout and scope.
    let grown = unsafe { host.resize(block, layout(40, 8), layout(80, 8), Scope::Cache) }.expect("memory");
    assert_filled(grown.as_ptr(), 40, 9);
    assert_eq!(app.calls().last(), Some(&Call::Realloc { size: 80, align: 8, scope: raw(Scope::Cache) }));
    // SAFETY: a live block of this host, with its layout and scope.
    let moved = unsafe { host.resize(grown, layout(80, 8), layout(30, 64), Scope::Cache) }.expect("memory");
    assert_filled(moved.as_ptr(), 30, 9);
    assert!(moved.as_ptr().addr().is_multiple_of(64));
    assert!(!app.calls().contains(&Call::Realloc { size: 30, align: 64, scope: raw(Scope::Cache) }), "V15 was broken");
    app.refuses.store(true, SeqCst);
    // SAFETY: a live block of this host, with its layout and scope.
    assert!(unsafe { host.resize(moved, layout(30, 64), layout(300, 64), Scope::Cache) }.is_err());
    assert_filled(moved.as_ptr(), 30, 9);
    // SAFETY: a live block of this host, with its layout and scope.
    unsafe { host.deallocate(moved, layout(30, 64), Scope::Cache) };
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn v20_m32_notifications_are_passed_on_where_they_are_wanted_and_never_made_up() {
    let app = App::default();
    let host = of(&app);
    let block = host.allocate(layout(64, 8), Scope::Object).expect("memory");
    // SAFETY: just given.
    unsafe { host.deallocate(block, layout(64, 8), Scope::Object) };
    assert!(matches!(app.calls()[..], [Call::Alloc { .. }, Call::Free]));
    let notice = Notice { event: NoticeEvent::Allocated, bytes: 4096, scope: Scope::Device };
    host.notify(notice);
    host.notify(Notice { event: NoticeEvent::Freed, ..notice });
    let told = |taken| Call::Internal { taken, size: 4096, kind: 0, scope: raw(Scope::Device) };
    assert_eq!(app.calls()[2..], [told(true), told(false)]);
    let silent = RawCallbacks { pfn_internal_allocation: None, pfn_internal_free: None, ..app.callbacks() };
    // SAFETY: the test application follows the rules.
    unsafe { CallbackAllocator::from_raw(&silent) }.expect("whole").notify(notice);
    assert_eq!(app.calls().len(), 4);
}

#[test]
fn m31_the_five_scopes_cross_the_boundary_as_vulkans_numbers() {
    let app = App::default();
    let host = of(&app);
    for scope in Scope::ALL {
        let block = host.allocate(layout(8, 8), scope).expect("memory");
        // SAFETY: just given.
        unsafe { host.deallocate(block, layout(8, 8), scope) };
    }
    let seen: Vec<_> = app
        .calls()
        .into_iter()
        .filter_map(|c| if let Call::Alloc { scope, .. } = c { Some(scope) } else { None })
        .collect();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn m33_an_objects_name_always_comes_from_the_device() {
    let (for_object, for_device) = (App::default(), App::default());
    let (object_host, device_host) = (of(&for_object), of(&for_device));
    let chain = FallbackChain::new(&OWN).device(Some(&device_host)).object(Some(&object_host));
    let mut object = Object::create(&chain, [0_u8; 24]).expect("memory");
    assert_eq!((object.level(), object.name()), (Level::Object, None));
    for name in ["first", "a longer second name"] {
        // SAFETY: the same device.
        unsafe { object.set_name(&chain, name) }.expect("memory");
        assert_eq!(object.name(), Some(name));
        assert_eq!((for_object.heap.live(), for_device.heap.live()), (1, 1));
    }
    // V40: only the creating command may allocate memory of scope object.
    let naming = CommandRow::of("vkSetDebugUtilsObjectNameEXT").may_allocate;
    assert!(naming.contains(Scope::Device) && !naming.contains(Scope::Object));
    let asked = for_device.calls();
    assert!(
        asked.iter().all(|call| !matches!(call, Call::Alloc { scope, .. } if *scope != raw(Scope::Device))),
        "{asked:?}"
    );
    for_device.refuses.store(true, SeqCst);
    // SAFETY: the same device.
    assert!(unsafe { object.set_name(&chain, "refused") }.is_err());
    assert_eq!(object.name(), Some("a longer second name"));
    // SAFETY: the same chain.
    unsafe { object.destroy(&chain) }.expect("destroyed");
    assert_eq!((for_object.heap.live(), for_device.heap.live()), (0, 0));
}
