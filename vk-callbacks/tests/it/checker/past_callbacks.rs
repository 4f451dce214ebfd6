//! Blocks of callbacks that another allocator is to free.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use vk_callbacks::raw::RawScope;

use super::*;

fn module() -> &'static str {
    "libdriver.so"
}

#[test]
fn v19_a_block_that_another_allocator_is_to_free_is_told_once_and_gone() {
    let checker = Checker::naming_callers(&SYSTEM, COMPLETE, module).expect("there is memory");
    let (app, owner) = (Arc::<App>::default(), OwnerId::fresh());
    let driver = drive(&checker, app.callbacks(), owner, "VkBuffer", 0);
    let mut own = [0_u8; 64];
    let elsewhere = |block: *mut u8| checker.freed_elsewhere(block.cast::<c_void>(), |_| true);
    let [kept, freed] = checker.run(command("vkCreateBuffer", owner), |_| {
        let blocks = [(); 2].map(|()| driver.alloc(100, 8, Scope::Object));
        // An unknown pointer, NULL, and a block of an owner that is not checked.
        assert!(!elsewhere(own.as_mut_ptr()) && !elsewhere(ptr::null_mut()));
        let of_other = |id: OwnerId| id != owner;
        assert!(!checker.freed_elsewhere(blocks[0].cast(), of_other));
        assert_eq!(kinds(&checker), []);
        assert!(elsewhere(blocks[0]) && !elsewhere(blocks[0]));
        driver.free(blocks[1]);
        assert!(!elsewhere(blocks[1]), "it went as it should");
        blocks
    });
    assert_ne!(kept, freed);
    assert_eq!(kinds(&checker), [FindingKind::FreedThroughOther]);
    assert_eq!(
        said(&checker)[0],
        "V19: the implementation freed 100 B (scope OBJECT) of VkBuffer's allocator through the C library's, which is not \
         compatible, in vkCreateBuffer; called from libdriver.so"
    );
    // For its own callbacks it is freed; the application still has it, and it is not reported again.
    checker.run(command("vkDestroyBuffer", owner), |_| driver.free(kept));
    checker.finish();
    assert_eq!(kinds(&checker), [FindingKind::FreedTwice, FindingKind::FreedThroughOther]);
    assert_eq!((app.heap.live(), checker.live_blocks()), (1, 0));
    checker.close().expect("nothing is live");
}

/// An allocator that frees a pointer elsewhere while it is called; and whether that was reported.
struct Freeing<'c> {
    checker: &'c Checker<'c>,
    block: *mut u8,
    told: Cell<Option<bool>>,
}

unsafe extern "system" fn free_elsewhere(user_data: *mut c_void, _: usize, _: usize, _: RawScope) -> *mut c_void {
    // SAFETY: the test's own struct, which outlives the call.
    let freeing = unsafe { &*user_data.cast::<Freeing<'_>>() };
    let told = freeing.checker.freed_elsewhere(freeing.block.cast(), |_| true);
    freeing.told.set(Some(told));
    ptr::null_mut()
}

#[test]
fn v19_what_a_callback_frees_elsewhere_is_its_own() {
    let bench = Bench::new(&SYSTEM);
    bench.run("vkCreateBuffer", || {
        let block = bench.driver.alloc(100, 8, Scope::Object);
        let freeing = Freeing { checker: &bench.checker, block, told: Cell::new(None) };
        let raw = RawCallbacks {
            p_user_data: ptr::from_ref(&freeing).cast_mut().cast(),
            pfn_allocation: Some(free_elsewhere),
            ..bench.app.callbacks()
        };
        let other = wrap(&bench.checker, raw, bench.owner, "VkBuffer", 0);
        let other = Driver(*other.raw());
        assert!(other.alloc(100, 8, Scope::Object).is_null());
        assert_eq!(freeing.told.get(), Some(false));
        bench.driver.free(block);
    });
    assert_eq!(kinds(&bench.checker), []);
}
