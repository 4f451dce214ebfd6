//! Drivers that call the callbacks wrongly: each call is answered, and told in one line that names the mistake.

use std::pin::pin;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
use testkit::Child;
use vk_callbacks::bridge::{BareBridge, CallMistake, on_call_mistake};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, Checker, OwnerId};

use crate::common::{Driver, SYSTEM};

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn listen(mistake: &CallMistake) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.push(mistake.to_string());
}

/// What was told since the last call.
fn told() -> Vec<String> {
    std::mem::take(&mut *TOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs `test` in a process of its own, whose mistakes are all its own.
fn alone(name: &str, test: impl FnOnce()) {
    Child::alone(name, || {
        on_call_mistake(listen);
        test();
    });
}

/// Runs `test` with the callbacks of both bridges.
fn on_both(test: impl Fn(Driver)) {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("memory");
    let bridge = Bridge::new(root.child("bridge").expect("memory")).expect("memory");
    test(Driver(bridge.raw()));
    bridge.close().map(drop).expect("nothing is left");
    let bare = pin!(BareBridge::new(FromGlobalAlloc::SYSTEM));
    test(Driver(bare.as_ref().raw()));
}

/// Calls all five functions, each with right arguments but this user data.
fn call_all(raw: RawCallbacks, user_data: usize) {
    let driver = Driver(RawCallbacks { p_user_data: ptr::with_exposed_provenance_mut(user_data), ..raw });
    let mut block = [0_u64; 8];
    let block = block[4..].as_mut_ptr().cast::<u8>();
    assert!(driver.alloc(16, 8, Scope::Object).is_null());
    assert!(driver.realloc(ptr::null_mut(), 16, 8, Scope::Object).is_null());
    assert!(driver.realloc(block, 16, 8, Scope::Object).is_null());
    driver.free(block);
    driver.internal(true, 16, 0, 1);
    driver.internal(false, 16, 0, 1);
}

const FUNCTIONS: [&str; 6] =
    ["pfnAllocation", "pfnReallocation", "pfnReallocation", "pfnFree", "pfnInternalAllocation", "pfnInternalFree"];

#[test]
#[cfg_attr(miri, ignore = "a process of its own")]
fn v5_user_data_of_no_bridge_is_told_and_not_followed() {
    alone("v5_user_data_of_no_bridge_is_told_and_not_followed", || {
        // Memory of another object, such as a program's own first argument.
        let other = Box::new([7_u64; 64]);
        let other = other.as_ptr().expose_provenance();
        let mut strange = vec![0, 1, 8, 4095, other, other + 1];
        if cfg!(target_arch = "x86_64") {
            strange.extend([usize::MAX, usize::MAX - 7, 1 << 63]);
        }
        on_both(|driver| {
            for user_data in &strange {
                call_all(driver.0, *user_data);
                let lines = told();
                assert_eq!(lines.len(), FUNCTIONS.len(), "{lines:?}");
                for (line, function) in lines.iter().zip(FUNCTIONS) {
                    assert!(line.starts_with(&format!("{function} was called with pUserData ")), "{line}");
                    assert!(line.contains("(V5)") && !line.contains('\n'), "{line}");
                }
            }
            // The callbacks still serve.
            driver.free(driver.alloc(16, 8, Scope::Object));
            assert_eq!(told(), [""; 0]);
        });
        let checker = Checker::new(&SYSTEM, Default::default()).expect("memory");
        let bare = pin!(BareBridge::new(FromGlobalAlloc::SYSTEM));
        let owner = vk_callbacks::check::CheckedOwner::new(OwnerId::fresh(), "VkDevice");
        // SAFETY: the bridge lives longer than the checker.
        let checked = unsafe { checker.wrap(bare.as_ref().raw(), owner) }.expect("memory");
        call_all(*checked.raw(), 0);
        assert_eq!(told().len(), FUNCTIONS.len());
    });
}

#[test]
#[cfg_attr(miri, ignore = "a process of its own")]
fn v7_v11_v19_v20_v35_each_wrong_argument_is_told_in_a_line() {
    alone("v7_v11_v19_v20_v35_each_wrong_argument_is_told_in_a_line", || {
        on_both(|driver| {
            let expect = |line: &str| assert!(told().iter().any(|told| told.starts_with(line)), "{line}");
            for align in [0, 3, 24, usize::try_from(1_u64 << 32).unwrap_or(5)] {
                assert!(driver.alloc(16, align, Scope::Object).is_null());
                expect(&format!("pfnAllocation was called with alignment {align}: "));
                assert!(driver.realloc(ptr::null_mut(), 16, align, Scope::Object).is_null());
                expect(&format!("pfnReallocation was called with alignment {align}: "));
            }
            for size in [usize::MAX, usize::MAX - 15, usize::try_from(1_u64 << 47).unwrap_or(usize::MAX)] {
                assert!(driver.alloc(size, 8, Scope::Object).is_null());
                expect(&format!("pfnAllocation was called with size {size}: "));
                let block = driver.alloc(16, 8, Scope::Object);
                assert!(driver.realloc(block, size, 64, Scope::Object).is_null());
                expect(&format!("pfnReallocation was called with size {size}: "));
                driver.free(block);
            }
            for scope in [-1, 5, i32::MIN] {
                assert!(driver.alloc_raw(16, 8, scope).is_null());
                expect(&format!("pfnAllocation was called with scope or type {scope}: "));
                driver.internal(true, 16, 0, scope);
                expect(&format!("pfnInternalAllocation was called with scope or type {scope}: "));
                driver.internal(false, 16, scope, 1);
                expect(&format!("pfnInternalFree was called with scope or type {scope}: "));
            }
            let mut foreign = [7_u64; 8];
            let foreign = foreign[4..].as_mut_ptr().cast::<u8>();
            for pointer in [foreign, ptr::without_provenance_mut(8), ptr::without_provenance_mut(17)] {
                driver.free(pointer);
                expect(&format!("pfnFree was called with {pointer:p}: "));
                for size in [0, 64] {
                    assert!(driver.realloc(pointer, size, 8, Scope::Object).is_null());
                    expect(&format!("pfnReallocation was called with {pointer:p}: "));
                }
            }
            // A live block keeps its alignment, and is served.
            let block = driver.alloc(16, 8, Scope::Object);
            let block = driver.realloc(block, 32, 0, Scope::Object);
            assert!(!block.is_null());
            expect("pfnReallocation was called with alignment 0: ");
            driver.free(block);
            assert_eq!(told(), [""; 0]);
        });
    });
}
