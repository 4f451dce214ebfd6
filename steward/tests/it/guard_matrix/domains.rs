//! GV21 to GV23: the callbacks' own state, the struct they come in, and panics.

use debug_guard::OnReport;
use vk_callbacks::CallbackAllocator;
use vk_callbacks::raw::RawCallbacks;

use super::application::{Application, MatrixDriver};
use super::common::{Lab, On, each, each_with, note, note_pointer};

/// The user data of a bridge is its state, which lies in the guard as everything does: read after its end it is told as
/// any block, where reads are stopped.
#[test]
fn gv21_user_data_that_is_gone() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        driver.gives(driver.takes_object(64, 16));
        note_pointer("state", driver.0.p_user_data.cast());
        application.close();
        note("closed", 1);
        too_late(driver);
        note("passed", 1);
    }
    #[inline(never)]
    fn too_late(driver: MatrixDriver) {
        driver.takes(64, 16, super::application::raw(alloc_core::Scope::Object));
    }
    each(On::STRICT, case, |seen| {
        seen.note("closed");
        assert!(!seen.noted("passed"));
        let told = seen.aborted();
        told.kind("use-after-free").access("read").found("instruction").given_in_case();
        assert_eq!(told.block_address(), seen.note("state"), "{told:?}");
        assert_eq!(told.owner(), "device");
    });
    // The other modes stop no read. The bridge's mark is gone from the state, so the callback gives nothing, and the
    // process goes on.
    each(On::FENCE.and(On::COOKIE), case, |seen| {
        seen.note("closed");
        assert!(seen.noted("passed"));
        assert_eq!((seen.finished.signal, seen.reports.len()), (None, 0), "{}", seen.finished);
    });
}

#[test]
fn gv22_a_struct_that_was_on_a_stack() {
    /// The struct is copied, and what it lay in is used for other things.
    #[inline(never)]
    fn copied(driver: MatrixDriver) -> CallbackAllocator {
        let mut on_the_stack = driver.0;
        // SAFETY: the callbacks outlive the allocator.
        let copy = unsafe { CallbackAllocator::from_raw(&on_the_stack) }.expect("whole callbacks");
        let nothing = RawCallbacks { p_user_data: std::ptr::null_mut(), ..on_the_stack };
        on_the_stack = nothing;
        std::hint::black_box(&mut on_the_stack);
        copy
    }
    fn case(lab: &Lab) {
        use alloc_core::HostAllocator;
        let application = Application::new(&lab.guard, "device");
        let copy = copied(application.driver());
        for size in [1, 64, 5000] {
            let layout = std::alloc::Layout::from_size_align(size, 8).expect("a layout");
            let block = copy.allocate(layout, alloc_core::Scope::Object).expect("memory");
            // SAFETY: so many bytes were given.
            unsafe { block.as_ptr().write_bytes(0x41, size) };
            // SAFETY: taken just now.
            unsafe { copy.deallocate(block, layout, alloc_core::Scope::Object) };
        }
        application.close();
        assert_eq!(lab.guard.check_all(), 0);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(4);
    });
}

/// A guard that panics at what it finds, below C functions: the panic ends at the bridge's fence.
#[test]
fn gv23_a_panic_below_a_callback_unwinds_into_no_driver() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        let block = driver.takes_object(64, 16);
        note_pointer("block", block);
        driver.gives(block);
        driver.gives(block);
        note("panics", application.notes().panics as usize);
        // It works as before.
        driver.gives(driver.takes_object(64, 16));
        application.close();
    }
    each_with(
        On::ALL,
        |options| options.on_report(OnReport::Panic),
        case,
        |seen| {
            seen.ended();
            seen.only().kind("double-free").block_of("device", "object", seen.note("block"), 64, 16).given_in_case();
            assert_eq!(seen.note("panics"), 1);
        },
    );

    // By default it is told, and the process ends there.
    each(On::ALL, aborts, |seen| {
        assert!(!seen.noted("passed"));
        seen.aborted().kind("double-free").block_of("device", "object", seen.note("block"), 64, 16);
    });
    fn aborts(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        let block = driver.takes_object(64, 16);
        note_pointer("block", block);
        driver.gives(block);
        driver.gives(block);
        note("passed", 1);
    }
}
