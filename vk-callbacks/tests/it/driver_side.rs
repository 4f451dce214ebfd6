//! The driver's side: the application's callbacks copied, checked, chained, and the objects built on them.

use std::alloc::{Layout, System};
use std::pin::pin;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{App, Call, assert_filled, fill, raw};
use alloc_core::{
    FromGlobalAlloc, HostAllocator, HostError, Notice, NoticeEvent, NoticeKind, Scope,
};
use vk_callbacks::{
    BareBridge, CallbackAllocator, CallbackError, CommandRow, DeviceDomain, DynHost, FallbackChain,
    Function, InstanceDomain, Level, MultiAlloc, Object, RawCallbacks, VK_ERROR_OUT_OF_HOST_MEMORY,
    VK_ERROR_UNKNOWN,
};

static OWN: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn of(app: &App) -> CallbackAllocator {
    // SAFETY: the test application follows the rules but where a test says otherwise.
    unsafe { CallbackAllocator::from_raw(&app.callbacks()) }.expect("a whole struct")
}

fn check(raw: &RawCallbacks) -> Result<(), CallbackError> {
    // SAFETY: as in `of`; nothing is called.
    unsafe { CallbackAllocator::from_raw(raw) }.map(drop)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("valid")
}

fn assert_missing(raw: &RawCallbacks, function: Function) {
    let error = check(raw).expect_err("a function is missing");
    assert_eq!(error, CallbackError::MissingFunction(function));
    assert!(error.to_string().starts_with(function.name()), "{error}");
    assert_eq!(error.vk_result(), VK_ERROR_UNKNOWN);
}

#[test]
fn v1_a_missing_pfn_allocation_is_refused() {
    let app = App::default();
    assert_eq!(check(&app.callbacks()), Ok(()));
    assert_missing(
        &RawCallbacks {
            pfn_allocation: None,
            ..app.callbacks()
        },
        Function::Allocation,
    );
}

#[test]
fn v2_a_missing_pfn_reallocation_is_refused_even_if_it_were_never_called() {
    let app = App::default();
    assert_missing(
        &RawCallbacks {
            pfn_reallocation: None,
            ..app.callbacks()
        },
        Function::Reallocation,
    );
}

#[test]
fn v3_a_missing_pfn_free_is_refused() {
    let app = App::default();
    assert_missing(
        &RawCallbacks {
            pfn_free: None,
            ..app.callbacks()
        },
        Function::Free,
    );
}

#[test]
fn v4_the_notifications_come_in_pairs() {
    let app = App::default();
    let whole = app.callbacks();
    assert_eq!(
        check(&RawCallbacks {
            pfn_internal_allocation: None,
            ..whole
        }),
        Err(CallbackError::HalfInternal)
    );
    assert_eq!(
        check(&RawCallbacks {
            pfn_internal_free: None,
            ..whole
        }),
        Err(CallbackError::HalfInternal)
    );
    assert_eq!(
        check(&RawCallbacks {
            pfn_internal_allocation: None,
            pfn_internal_free: None,
            ..whole
        }),
        Ok(())
    );
}

#[test]
fn v5_each_command_uses_the_user_data_of_its_own_struct() {
    // Two structs over one heap, so compatible: the object is made with one and destroyed with the other.
    let maker = App::default();
    let ender = App::compatible(&maker);
    let at_create = of(&maker);
    let object =
        Object::create(&FallbackChain::new(&OWN).object(Some(&at_create)), 7_u32).expect("memory");
    let at_destroy = of(&ender);
    // SAFETY: the two are compatible.
    let value = unsafe { object.destroy(&FallbackChain::new(&OWN).object(Some(&at_destroy))) }
        .expect("destroyed");
    assert_eq!(value, 7);
    assert!(
        matches!(maker.calls()[..], [Call::Alloc { .. }]),
        "{:?}",
        maker.calls()
    );
    assert_eq!(
        ender.calls(),
        [Call::Free],
        "the free went with the destroying command's user data"
    );
    assert_eq!(maker.heap.live(), 0);
}

#[test]
fn v6_the_struct_may_be_overwritten_after_the_call() {
    let app = App::default();
    let mut given = Box::new(app.callbacks());
    // SAFETY: as in `of`.
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
    let block = host
        .allocate(nothing, Scope::Object)
        .expect("nothing is always there");
    assert!(block.as_ptr().addr().is_multiple_of(64));
    // SAFETY: just given.
    let grown =
        unsafe { host.resize(block, nothing, layout(32, 64), Scope::Object) }.expect("memory");
    assert_eq!(
        app.calls(),
        [Call::Alloc {
            size: 32,
            align: 64,
            scope: raw(Scope::Object)
        }]
    );
    // SAFETY: just given.
    let shrunk = unsafe { host.resize(grown, layout(32, 64), nothing, Scope::Object) }
        .expect("nothing is always there");
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
    assert_eq!(host.misaligned_answers(), 1);
    assert_eq!(
        (app.calls().last(), app.heap.live()),
        (Some(&Call::Free), 0)
    );
    // Alignment 1 cannot be missed.
    let block = host
        .allocate(layout(64, 1), Scope::Object)
        .expect("aligned enough");
    // SAFETY: just given.
    unsafe { host.deallocate(block, layout(64, 1), Scope::Object) };
    assert_eq!(host.misaligned_answers(), 1);
}

#[test]
fn v8_a_reallocation_that_ignores_alignment_loses_nothing() {
    let app = App::default();
    let host = of(&app);
    let block = host
        .allocate(layout(40, 64), Scope::Object)
        .expect("memory");
    fill(block.as_ptr(), 40, 3);
    app.misalign_reallocations.store(true, SeqCst);
    // SAFETY: just given.
    let grown = unsafe { host.resize(block, layout(40, 64), layout(400, 64), Scope::Object) }
        .expect("rescued");
    assert!(grown.as_ptr().addr().is_multiple_of(64));
    assert_filled(grown.as_ptr(), 40, 3);
    assert_eq!((host.misaligned_answers(), app.heap.live()), (1, 1));
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
    let error = chain
        .allocate(layout(4096, 8), Scope::Object)
        .expect_err("refused");
    assert_eq!(
        error,
        CallbackError::Host(HostError::OutOfHostMemory {
            bytes: 4096,
            scope: Scope::Object
        })
    );
    assert_eq!(error.vk_result(), VK_ERROR_OUT_OF_HOST_MEMORY);
    // A command that can go on with less does, and has no error to report.
    app.refuse_after.store(1, SeqCst);
    let got = chain
        .allocate(layout(4096, 8), Scope::Object)
        .or_else(|_| chain.allocate(layout(64, 8), Scope::Object));
    assert!(got.is_ok());
}

#[test]
fn v15_reallocation_with_equal_alignment_moves_by_callback_else_by_hand() {
    let app = App::default();
    let host = of(&app);
    let block = host.allocate(layout(40, 8), Scope::Cache).expect("memory");
    fill(block.as_ptr(), 40, 9);
    // SAFETY: just given, as below.
    let grown =
        unsafe { host.resize(block, layout(40, 8), layout(80, 8), Scope::Cache) }.expect("memory");
    assert_filled(grown.as_ptr(), 40, 9);
    assert_eq!(
        app.calls().last(),
        Some(&Call::Realloc {
            size: 80,
            align: 8,
            scope: raw(Scope::Cache)
        })
    );
    // SAFETY: as above.
    let moved =
        unsafe { host.resize(grown, layout(80, 8), layout(30, 64), Scope::Cache) }.expect("memory");
    assert_filled(moved.as_ptr(), 30, 9);
    assert!(moved.as_ptr().addr().is_multiple_of(64));
    assert!(
        !app.calls().contains(&Call::Realloc {
            size: 30,
            align: 64,
            scope: raw(Scope::Cache)
        }),
        "V15 was broken"
    );
    app.refuses.store(true, SeqCst);
    // SAFETY: as above.
    assert!(unsafe { host.resize(moved, layout(30, 64), layout(300, 64), Scope::Cache) }.is_err());
    assert_filled(moved.as_ptr(), 30, 9);
    // SAFETY: as above.
    unsafe { host.deallocate(moved, layout(30, 64), Scope::Cache) };
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn v20_notifications_are_passed_on_where_they_are_wanted() {
    let app = App::default();
    let notice = Notice {
        event: NoticeEvent::Allocated,
        kind: NoticeKind::Executable,
        bytes: 4096,
        scope: Scope::Device,
    };
    of(&app).notify(notice);
    of(&app).notify(Notice {
        event: NoticeEvent::Freed,
        ..notice
    });
    let told = |taken| Call::Internal {
        taken,
        size: 4096,
        kind: 0,
        scope: raw(Scope::Device),
    };
    assert_eq!(app.calls(), [told(true), told(false)]);
    let silent = RawCallbacks {
        pfn_internal_allocation: None,
        pfn_internal_free: None,
        ..app.callbacks()
    };
    // SAFETY: as in `of`.
    unsafe { CallbackAllocator::from_raw(&silent) }
        .expect("whole")
        .notify(notice);
    assert_eq!(app.calls().len(), 2);
}

/// A pipeline is created with allocators of its own, and with a cache that was created with others, or with none.
#[test]
fn v29_cache_memory_comes_from_the_cache_and_never_from_the_object() {
    let apps = [App::default(), App::default(), App::default()];
    let [cache, pipeline, device] = apps.each_ref().map(of);
    let chain = FallbackChain::new(&OWN)
        .object(Some(&pipeline))
        .device(Some(&device));
    assert_eq!(
        chain.cache(Some(&cache)).resolve(Scope::Cache).level,
        Level::Cache
    );
    assert_eq!(chain.cache(None).resolve(Scope::Cache).level, Level::Device);
    assert_eq!(
        chain.resolve(Scope::Cache).level,
        Level::Object,
        "the command creates the cache itself"
    );
    for scope in [Scope::Command, Scope::Object] {
        assert_eq!(
            chain.cache(Some(&cache)).resolve(scope).level,
            Level::Object,
            "{scope}"
        );
    }
    let creating = FallbackChain::new(&OWN)
        .object(Some(&cache))
        .device(Some(&device));
    let made = Object::create_with_scope(&creating, Scope::Cache, 5_u32).expect("memory");
    let asked = apps[0].calls();
    assert!(
        matches!(asked[..], [Call::Alloc { scope, .. }] if scope == raw(Scope::Cache)),
        "{asked:?}"
    );
    assert_eq!(
        // SAFETY: the chain it was created with.
        unsafe { made.destroy(&creating) }.expect("its level is there"),
        5
    );
}

/// For each scope and each set of levels that are there, the first that the specification names.
#[test]
fn v28_the_most_specific_allocator_serves() {
    let apps = [App::default(), App::default(), App::default()];
    let hosts = apps.each_ref().map(of);
    for mask in 0..8_usize {
        let there = |i: usize| (mask >> i & 1 == 1).then(|| &hosts[i] as &DynHost<'_>);
        let chain = FallbackChain::new(&OWN)
            .object(there(0))
            .device(there(1))
            .instance(there(2));
        for scope in Scope::ALL {
            let skipped = match scope {
                Scope::Command | Scope::Object | Scope::Cache => 0,
                Scope::Device => 1,
                Scope::Instance => 2,
            };
            let expected = (skipped..3).find(|i| mask >> i & 1 == 1);
            let served = chain.resolve(scope);
            let levels = [Level::Object, Level::Device, Level::Instance];
            assert_eq!(
                served.level,
                expected.map_or(Level::Default, |i| levels[i]),
                "mask {mask:03b}, scope {scope}"
            );
            let before: Vec<_> = apps.iter().map(|app| app.calls().len()).collect();
            drop(chain.allocate(layout(16, 8), scope).expect("memory"));
            for (i, app) in apps.iter().enumerate() {
                assert_eq!(
                    app.calls().len() - before[i],
                    if expected == Some(i) { 2 } else { 0 },
                    "app {i}, mask {mask:03b}"
                );
            }
        }
    }
}

#[test]
fn v42_destroying_without_the_allocator_gives_the_object_back() {
    let app = App::default();
    let host = of(&app);
    let with = FallbackChain::new(&OWN).object(Some(&host));
    let object = Object::create(&with, String::from("kept")).expect("memory");
    // SAFETY: nothing is freed through an incompatible allocator: it is refused.
    let refused = unsafe { object.destroy(&FallbackChain::new(&OWN)) }
        .expect_err("no allocator at the object level");
    assert_eq!(refused.error, CallbackError::LevelMissing(Level::Object));
    assert_eq!((refused.value.get().as_str(), app.heap.live()), ("kept", 1));
    assert_eq!(
        // SAFETY: the same allocator.
        unsafe { refused.value.destroy(&with) }.expect("destroyed"),
        "kept"
    );
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn v43_created_without_an_allocator_is_not_freed_by_the_one_passed_at_destroy() {
    let (device, stranger) = (App::default(), App::default());
    let (device_host, stranger_host) = (of(&device), of(&stranger));
    let chain = FallbackChain::new(&OWN).device(Some(&device_host));
    let object = Object::create(&chain, 1_u64).expect("memory");
    assert_eq!(object.level(), Level::Device);
    // SAFETY: the device level is the same.
    unsafe { object.destroy(&chain.object(Some(&stranger_host))) }.expect("destroyed");
    assert_eq!((device.heap.live(), stranger.calls().len()), (0, 0));
}

#[test]
fn v44_objects_of_one_command_are_destroyed_one_by_one_and_null_is_ignored() {
    let app = App::default();
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).object(Some(&host));
    app.refuses.store(true, SeqCst);
    app.refuse_after.store(2, SeqCst);
    // Three are asked for, the third fails: its handle is VK_NULL_HANDLE.
    let handles =
        [10_u32, 11, 12].map(|value| Object::create(&chain, value).map_or(0, Object::into_handle));
    assert_eq!((handles[2], app.heap.live()), (0, 2));
    for (i, handle) in handles.into_iter().enumerate().rev() {
        // SAFETY: each handle is used once.
        match unsafe { Object::<u32>::from_handle(handle) } {
            Some(object) => assert_eq!(
                // SAFETY: the same allocator.
                unsafe { object.destroy(&chain) }.expect("destroyed"),
                10 + i as u32
            ),
            None => assert_eq!(handle, 0),
        }
    }
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn m27_without_callbacks_the_drivers_own_allocator_serves_and_alignment_is_kept() {
    let chain = FallbackChain::new(&OWN);
    for align in [1, 8, 64, 4096] {
        let block = chain
            .allocate_zeroed(layout(100, align), Scope::Object)
            .expect("memory");
        assert_eq!(block.level(), Level::Default);
        assert!(
            block.as_ptr().as_ptr().addr().is_multiple_of(align),
            "asserted at most, in Mesa; kept here"
        );
        // SAFETY: the block holds 100 zeros.
        assert!((0..100).all(|i| unsafe { block.as_ptr().as_ptr().wrapping_add(i).read() } == 0));
    }
}

#[test]
fn m28_a_block_goes_back_to_whom_it_came_from() {
    let (object, device) = (App::default(), App::default());
    let (object_host, device_host) = (of(&object), of(&device));
    let creating = FallbackChain::new(&OWN).device(Some(&device_host));
    let kept = creating
        .allocate(layout(64, 8), Scope::Object)
        .expect("memory")
        .store();
    assert_eq!(kept.level(), Level::Device);
    // Freed by a command that has an allocator of its own: Mesa's vk_free2 with that pAllocator would take the wrong one.
    // SAFETY: the device level is the same.
    unsafe { kept.free(&creating.object(Some(&object_host))) }.expect("given back");
    assert_eq!((device.heap.live(), object.calls().len()), (0, 0));

    let kept = creating
        .object(Some(&object_host))
        .allocate(layout(64, 8), Scope::Object)
        .expect("memory")
        .store();
    // SAFETY: it is refused.
    let refused = unsafe { kept.free(&creating) }.expect_err("no allocator at that level");
    assert_eq!(
        (refused.error, object.heap.live()),
        (CallbackError::LevelMissing(Level::Object), 1)
    );
    // SAFETY: the same allocator.
    unsafe { refused.value.free(&creating.object(Some(&object_host))) }.expect("given back");
    assert_eq!(object.heap.live(), 0);
}

#[test]
fn m29_instance_and_device_keep_callbacks_by_value_and_fall_back() {
    let (for_instance, for_device) = (App::default(), App::default());
    let mut given = Box::new(for_instance.callbacks());
    // SAFETY: readable now; the application follows the rules.
    let instance = unsafe { InstanceDomain::new(&raw const *given, &OWN) }.expect("whole");
    *given = for_device.callbacks();
    // SAFETY: as above.
    let device = unsafe { DeviceDomain::new(&raw const *given) }.expect("whole");
    drop(given);
    // SAFETY: NULL.
    let plain = unsafe { DeviceDomain::new(ptr::null()) }.expect("NULL is whole");
    assert_eq!(
        device.chain(&instance, None).resolve(Scope::Device).level,
        Level::Device
    );
    assert_eq!(
        plain.chain(&instance, None).resolve(Scope::Device).level,
        Level::Instance
    );
    drop(
        device
            .chain(&instance, None)
            .allocate(layout(8, 8), Scope::Object)
            .expect("memory"),
    );
    assert_eq!(
        (for_instance.calls().len(), for_device.calls().len()),
        (0, 2)
    );
    drop(
        plain
            .chain(&instance, None)
            .allocate(layout(8, 8), Scope::Object)
            .expect("memory"),
    );
    assert_eq!(
        (for_instance.calls().len(), for_device.calls().len()),
        (2, 2)
    );
}

#[test]
fn m30_zero_size_member_is_null() {
    let mut plan = MultiAlloc::new();
    let bytes = plan.array::<u8>(3).expect("small");
    let none = plan.array::<u64>(0).expect("small");
    let units = plan.array::<()>(9).expect("small");
    let words = plan.array::<u64>(4).expect("small");
    let mut block = plan
        .allocate(&FallbackChain::new(&OWN), Scope::Object)
        .expect("memory");
    assert_eq!((block.get(none), block.get(units)), (None, None));
    assert!(block.slice_mut(none).is_empty());
    assert_eq!(
        (block.slice_mut(bytes).len(), block.slice_mut(words).len()),
        (3, 4)
    );
    assert!(
        block
            .get(words)
            .expect("there")
            .as_ptr()
            .cast::<u64>()
            .is_aligned()
    );
}

#[test]
fn m30_empty_set_is_refused_and_asks_nobody() {
    let app = App::default();
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).object(Some(&host));
    let mut plan = MultiAlloc::new();
    let _ = plan.array::<u32>(0).expect("small");
    assert_eq!(
        plan.allocate(&chain, Scope::Object).err(),
        Some(CallbackError::EmptySet)
    );
    assert_eq!(
        MultiAlloc::new()
            .allocate_zeroed(&chain, Scope::Object)
            .err(),
        Some(CallbackError::EmptySet)
    );
    assert_eq!(app.calls(), []);
}

#[test]
fn m30_overflow_is_an_error_and_a_hundred_members_are_not() {
    let mut plan = MultiAlloc::new();
    let members: Vec<_> = (0..100)
        .map(|i| plan.array::<u16>(i).expect("small"))
        .collect();
    let before = plan.layout();
    let too_large = Some(CallbackError::Host(HostError::TooLarge));
    assert_eq!(plan.array::<u64>(usize::MAX).err(), too_large);
    assert_eq!(
        plan.array::<u8>(isize::MAX as usize).err(),
        too_large,
        "the whole overflows, not the array"
    );
    assert_eq!(plan.layout(), before);
    let mut block = plan
        .allocate(&FallbackChain::new(&OWN), Scope::Object)
        .expect("memory");
    for (i, member) in members.iter().enumerate() {
        let slice = block.slice_mut(*member);
        assert_eq!(slice.len(), i);
        slice.iter_mut().for_each(|value| {
            value.write(i as u16);
        });
    }
    for (i, member) in members.iter().enumerate().skip(1) {
        assert!(
            // SAFETY: all were written above; nothing overlaps.
            unsafe { block.get(*member).expect("there").as_ref() }
                .iter()
                .all(|value| usize::from(*value) == i)
        );
    }
}

#[test]
fn m30_the_whole_is_one_allocation_and_one_free() {
    let app = App::default();
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).device(Some(&host));
    let mut plan = MultiAlloc::new();
    let first = plan.array::<u8>(5).expect("small");
    let second = plan.array::<u64>(2).expect("small");
    let block = plan.allocate_zeroed(&chain, Scope::Device).expect("memory");
    assert_eq!(
        app.calls(),
        [Call::Alloc {
            size: 24,
            align: 8,
            scope: raw(Scope::Device)
        }]
    );
    // SAFETY: the block is zeroed.
    assert_eq!(unsafe { block.get(first).expect("there").as_ref() }, [0; 5]);
    assert_eq!(
        // SAFETY: as above.
        unsafe { block.get(second).expect("there").as_ref() },
        [0; 2]
    );
    let other = MultiAlloc::new().array::<u8>(5).expect("small");
    assert_eq!(block.get(other), None, "a member of another plan");
    // SAFETY: the same chain.
    unsafe { block.store().free(&chain) }.expect("given back");
    assert_eq!((app.calls().len(), app.heap.live()), (2, 0));
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
        .filter_map(|c| {
            if let Call::Alloc { scope, .. } = c {
                Some(scope)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn m32_notifications_reach_the_application_only_when_somebody_sends_them() {
    let app = App::default();
    let host = of(&app);
    drop(
        FallbackChain::new(&OWN)
            .object(Some(&host))
            .allocate(layout(4096, 4096), Scope::Object)
            .expect("memory"),
    );
    assert!(
        !app.calls()
            .iter()
            .any(|call| matches!(call, Call::Internal { .. }))
    );
    host.notify(Notice {
        event: NoticeEvent::Allocated,
        kind: NoticeKind::Executable,
        bytes: 64,
        scope: Scope::Object,
    });
    assert!(app.calls().iter().any(|call| matches!(
        call,
        Call::Internal {
            taken: true,
            size: 64,
            ..
        }
    )));
}

#[test]
fn m33_an_objects_name_always_comes_from_the_device() {
    let (for_object, for_device) = (App::default(), App::default());
    let (object_host, device_host) = (of(&for_object), of(&for_device));
    let chain = FallbackChain::new(&OWN)
        .device(Some(&device_host))
        .object(Some(&object_host));
    let mut object = Object::create(&chain, [0_u8; 24]).expect("memory");
    assert_eq!((object.level(), object.name()), (Level::Object, None));
    for name in ["first", "a longer second name"] {
        // SAFETY: the same device.
        unsafe { object.set_name(&chain, name) }.expect("memory");
        assert_eq!(object.name(), Some(name));
        assert_eq!((for_object.heap.live(), for_device.heap.live()), (1, 1));
    }
    // V40: memory of scope object may be taken by the command that makes the object alone.
    let naming = CommandRow::of("vkSetDebugUtilsObjectNameEXT").may_allocate;
    assert!(naming.contains(Scope::Device) && !naming.contains(Scope::Object));
    let asked = for_device.calls();
    assert!(
        asked
            .iter()
            .all(|call| !matches!(call, Call::Alloc { scope, .. } if *scope != raw(Scope::Device))),
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

#[test]
fn m33_without_an_allocator_of_its_own_the_object_lies_in_the_devices() {
    let device = App::default();
    let host = of(&device);
    let chain = FallbackChain::new(&OWN).device(Some(&host));
    let mut object = Object::create(&chain, vec![1, 2, 3]).expect("memory");
    assert_eq!(object.level(), Level::Device);
    // SAFETY: the same device.
    unsafe { object.set_name(&chain, "named") }.expect("memory");
    // SAFETY: as above.
    unsafe { object.set_name(&chain, "") }.expect("removing takes nothing");
    assert_eq!((object.name(), device.heap.live()), (None, 1));
    object.get_mut().push(4);
    // SAFETY: as above.
    unsafe { object.set_name(&chain, "again") }.expect("memory");
    let handle = object.into_handle();
    // Two commands at once, as two threads that only use an object may run them.
    // SAFETY: the handle's object lives, and is only looked at.
    let [first, second] =
        [(); 2].map(|()| unsafe { Object::<Vec<i32>>::borrow_handle(handle) }.expect("not null"));
    assert!(ptr::eq(first.get(), second.get()));
    assert_eq!(
        (first.get().as_slice(), first.level(), second.name()),
        (&[1, 2, 3, 4][..], Level::Device, Some("again"))
    );
    assert!(
        // SAFETY: 0 is no object.
        unsafe { Object::<Vec<i32>>::borrow_handle(0) }.is_none(),
        "VK_NULL_HANDLE"
    );
    // SAFETY: the handle is used up here.
    let object = unsafe { Object::<Vec<i32>>::from_handle(handle) }.expect("not null");
    assert_eq!(
        // SAFETY: the same chain.
        unsafe { object.destroy(&chain) }.expect("destroyed"),
        [1, 2, 3, 4]
    );
    assert_eq!(device.heap.live(), 0);
}

/// The two sides meet: an allocator of ours, made callbacks, made an allocator of ours again.
#[test]
fn m42_every_call_brings_its_own_callbacks_and_domains_stay_apart() {
    let witnesses = [
        testkit::RecordingAllocator::system(),
        testkit::RecordingAllocator::system(),
    ];
    let first = pin!(BareBridge::new(&witnesses[0]));
    let second = pin!(BareBridge::new(&witnesses[1]));
    let raws = [first.as_ref().raw(), second.as_ref().raw()];
    let blocks: Vec<_> = (0..6)
        .map(|call| {
            // SAFETY: the bridges outlive the blocks.
            let own = unsafe { CallbackAllocator::from_raw(&raws[call % 2]) }.expect("whole");
            let block = FallbackChain::new(&OWN)
                .object(Some(&own))
                .allocate(layout(10 * (call + 1), 8), Scope::Object)
                .expect("memory");
            block.store()
        })
        .collect();
    assert_eq!(
        witnesses.each_ref().map(|w| w.total().live_bytes),
        [10 + 30 + 50 + 3 * 16, 20 + 40 + 60 + 3 * 16]
    );
    for (call, block) in blocks.into_iter().enumerate() {
        // SAFETY: as above.
        let own = unsafe { CallbackAllocator::from_raw(&raws[call % 2]) }.expect("whole");
        // SAFETY: the same callbacks as when it was taken.
        unsafe { block.free(&FallbackChain::new(&OWN).object(Some(&own))) }.expect("given back");
    }
    assert_eq!(
        (first.counters().faults(), second.counters().faults()),
        (0, 0)
    );
    for witness in &witnesses {
        witness.assert_empty("after all domains were emptied");
    }
}
