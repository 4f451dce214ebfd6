//! Wrong calls: unknown user data, poisoned structs.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use testkit::Child;
use vk_callbacks::check::stray_callbacks;

use super::*;

/// Runs the test again in a process of its own, with its own count of stray calls; true in there.
fn is_alone(test: &str) -> bool {
    if !Child::is_child(test) {
        Child::this_test(test).run().assert_code(0);
    }
    Child::is_child(test)
}

#[test]
fn v5_strange_user_data_is_found_without_following_it() {
    if !is_alone("v5_strange_user_data_is_found_without_following_it") {
        return;
    }
    let bench = Bench::new(&SYSTEM);
    let good = bench.driver.0;
    // NULL, a number beside the one that was given, another generation, all ones: none is an address that may be read.
    let data = good.p_user_data.addr();
    for strange in [0, data + 1, data + (1 << 20), usize::MAX] {
        let driver = Driver(RawCallbacks { p_user_data: std::ptr::without_provenance_mut(strange), ..good });
        bench.run("vkCreateBuffer", || {
            assert!(driver.alloc(8, 8, Scope::Object).is_null());
            assert!(driver.realloc(std::ptr::null_mut(), 8, 8, Scope::Object).is_null());
            driver.free(std::ptr::null_mut());
            driver.internal(true, 8, 0, 1);
        });
    }
    let counted = found(&bench.checker, |found| (found.kind, found.count));
    assert_eq!(counted, [(FindingKind::UnknownUserData, 16)]);
    assert_eq!(bench.app.calls().len(), 0);
    // Outside of a command there is no checker to report to.
    let before = stray_callbacks();
    Driver(RawCallbacks { p_user_data: std::ptr::null_mut(), ..good }).free(std::ptr::null_mut());
    assert_eq!(stray_callbacks(), before + 1);
}

#[test]
fn v5_a_number_is_good_for_its_own_checker_alone() {
    if !is_alone("v5_a_number_is_good_for_its_own_checker_alone") {
        return;
    }
    let old = {
        let bench = Bench::new(&SYSTEM);
        let driver = bench.driver;
        bench.checker.close().expect("nothing is live");
        driver
    };
    // The place is another's now.
    let new: Vec<_> = (0..8).map(|_| Bench::new(&SYSTEM)).collect();
    let before = stray_callbacks();
    assert!(old.alloc(8, 8, Scope::Object).is_null());
    assert_eq!(stray_callbacks(), before + 1);
    assert!(new.iter().all(|bench| bench.app.calls().is_empty() && bench.driver.0.p_user_data != old.0.p_user_data));
}

#[test]
fn v6_who_kept_the_structs_address_walks_into_the_trap_and_who_copied_it_does_not() {
    let bench = Bench::new(&SYSTEM);
    let checked = wrap(&bench.checker, bench.app.callbacks(), OwnerId::fresh(), "VkImage", 0);
    let handed = bench.checker.hand_out(&checked).expect("there is memory");
    // SAFETY: a struct of the checker.
    let copied = Driver(unsafe { handed.as_ptr().read() });
    let block = bench.run("vkUnheardOf", || copied.alloc(8, 8, Scope::Object));
    // SAFETY: no command is running.
    unsafe { handed.poison() };
    bench.run("vkUnheardOf", || copied.free(block));
    assert_eq!(kinds(&bench.checker), []);
    // SAFETY: the struct stays; nothing writes it now.
    let again = Driver(unsafe { handed.as_ptr().read() });
    let block = bench.run("vkUnheardOf", || again.alloc(8, 8, Scope::Object));
    assert!(!block.is_null(), "the trap does what was asked");
    bench.run("vkUnheardOf", || again.free(block));
    assert_eq!(kinds(&bench.checker), [FindingKind::OldStructUsed]);
}

/// The struct as a driver that kept its address finds it, whenever it looks.
fn words(of: *const RawCallbacks) -> [*mut c_void; 6] {
    // SAFETY: six pointers, which are changed by atomic stores alone.
    let words = unsafe { &*of.cast::<[AtomicPtr<c_void>; 6]>() };
    words.each_ref().map(|word| word.load(SeqCst))
}

#[test]
fn v6_who_reads_the_struct_while_it_is_spoilt_has_callbacks_that_work() {
    let bench = Bench::new(&SYSTEM);
    let checked = wrap(&bench.checker, bench.app.callbacks(), OwnerId::fresh(), "VkImage", 0);
    let handed = bench.checker.hand_out(&checked).expect("there is memory");
    let old = words(handed.as_ptr());
    std::thread::scope(|scope| {
        let looking =
            scope.spawn(|| (0..if cfg!(miri) { 50 } else { 10_000 }).all(|_| !words(handed.as_ptr())[5].is_null()));
        // SAFETY: the other thread looks with atomic loads, as it says.
        unsafe { handed.poison() };
        assert!(looking.join().expect("no panic"));
    });
    let new = words(handed.as_ptr());
    assert_eq!(new[0], old[0]);
    assert!(old.iter().zip(&new).skip(1).all(|(old, new)| old != new && !new.is_null()));
    for mixture in 0..64_usize {
        let mixed: [*mut c_void; 6] =
            std::array::from_fn(|word| if mixture >> word & 1 == 0 { old[word] } else { new[word] });
        // SAFETY: of the same size, and each word is one that stood in such a struct.
        let driver = Driver(unsafe { std::mem::transmute::<[*mut c_void; 6], RawCallbacks>(mixed) });
        bench.run("vkUnheardOf", || {
            let block = driver.realloc(driver.alloc(8, 8, Scope::Object), 16, 8, Scope::Object);
            driver.internal(true, 8, 0, 1);
            driver.internal(false, 8, 0, 1);
            driver.free(block);
        });
    }
    // Half of the mixtures have the one function from the spoilt struct, half the other ..
    let counted = found(&bench.checker, |found| (found.kind, found.count));
    assert_eq!(counted, [(FindingKind::OldStructUsed, 5 * 32)]);
    assert_eq!((bench.app.heap.live(), bench.app.calls().len()), (0, 5 * 64));
}
