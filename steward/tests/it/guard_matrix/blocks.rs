//! GV01, GV02, GV07, GV08, GV24, GV27: blocks and pointers through the bridge alone; the guard below finds what is
//! wrong.

use alloc_core::Scope;

use super::application::{Application, MatrixDriver, NULL, fill, is_filled, raw};
use super::common::{Lab, On, each, each_with, note, note_pointer, stores};
use debug_guard::OnReport;

#[test]
fn gv01_a_free_of_null_is_nothing() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        let block = driver.takes_object(64, 16);
        driver.gives(NULL);
        driver.gives(block);
        driver.gives(NULL);
        assert_eq!(application.notes().faults(), 0);
        application.close();
    }
    each(On::ALL, case, |seen| {
        seen.quiet(2);
    });
}

#[test]
fn gv02_a_block_through_the_callbacks_of_another_domain() {
    fn case(lab: &Lab) {
        let (device, swapchain) = (Application::new(&lab.guard, "device"), Application::new(&lab.guard, "swapchain"));
        let block = device.driver().takes_object(64, 16);
        note_pointer("block", block);
        wrongly(swapchain.driver(), block);
        note("passed", 1);
    }
    #[inline(never)]
    fn wrongly(driver: MatrixDriver, block: *mut u8) {
        driver.gives(block);
    }
    each(On::ALL, case, |seen| {
        assert!(!seen.noted("passed"));
        let told = seen.aborted();
        told.kind("wrong-owner").block_of("device", "object", seen.note("block"), 64, 16).taken_in_case();
        told.found_in("wrongly").given_by("swapchain");
    });

    // Two copies of one struct are the same domain.
    fn compatible(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let (one, other) = (application.driver(), application.driver());
        other.gives(one.takes_object(64, 16));
        application.close();
    }
    each(On::ALL, compatible, |seen| {
        seen.quiet(2);
    });
}

#[test]
fn gv07_a_second_free_and_a_free_of_what_nobody_took() {
    fn twice(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        let block = driver.takes_object(64, 16);
        note_pointer("block", block);
        driver.gives(block);
        again(driver, block);
        note("passed", 1);
    }
    #[inline(never)]
    fn again(driver: MatrixDriver, block: *mut u8) {
        driver.gives(block);
    }
    each(On::ALL, twice, |seen| {
        assert!(!seen.noted("passed"));
        let told = seen.aborted();
        told.kind("double-free")
            .block_of("device", "object", seen.note("block"), 64, 16)
            .taken_in_case()
            .given_in_case();
        told.found_in("again").given_not_in("again");
    });

    fn stray(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        driver.gives(driver.takes_object(64, 16));
        let mut local = [7_u64; 8];
        let within = local.as_mut_ptr().cast::<u8>().wrapping_add(16);
        note_pointer("stray", within);
        again(driver, within);
        std::hint::black_box(local);
        note("passed", 1);
    }
    each(On::ALL, stray, |seen| {
        assert!(!seen.noted("passed"));
        let told = seen.aborted();
        told.kind("foreign-free").without_block().found_in("again");
        assert_eq!(told.address(), seen.note("stray"));
    });

    // Where the program goes on, the bridge has not followed the pointer, and counts it.
    fn goes_on(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        let block = driver.takes_object(64, 16);
        driver.gives(block);
        driver.gives(block);
        note("refusals", application.notes().guard_refusals as usize);
        application.close();
    }
    each_with(
        On::ALL,
        |options| options.on_report(OnReport::Log),
        goes_on,
        |seen| {
            seen.ended().only().kind("double-free");
            assert_eq!(seen.note("refusals"), 1);
        },
    );
}

#[test]
fn gv08_alignments_that_are_none_and_large_ones() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        for align in [0, 3, 24] {
            assert!(driver.takes(64, align, raw(Scope::Object)).is_null(), "{align}");
        }
        note("bad", application.notes().bad_alignments as usize);
        for align in (0..=20).map(|log| 1 << log) {
            for size in [1, 61, 5000] {
                let block = driver.takes_object(size, align);
                fill(block, size);
                assert!(is_filled(block, size));
                driver.gives(block);
            }
        }
        application.close();
    }
    each(On::ALL, case, |seen| {
        seen.quiet(21 * 3);
        assert_eq!(seen.note("bad"), 3);
    });
}

/// Through the bridge a block's header stands in front of it: what lies behind is the guard's own, to the byte.
#[test]
fn gv24_a_driver_that_writes_past_its_block() {
    fn overrun(lab: &Lab) {
        let driver = Application::new(&lab.guard, "VkBuffer").leak();
        let block = driver.takes(100, 4, raw(Scope::Cache));
        note_pointer("block", block);
        stores(block.wrapping_add(100), 0xFF);
        note("passed", 1);
        driver.gives(block);
    }
    each(On::ALL, overrun, |seen| {
        let block = seen.note("block");
        let told = seen.aborted();
        told.kind("overflow").block_of("VkBuffer", "cache", block, 100, 4).offset_past_end(0).taken_in_case();
        // The bridge asks for 16 bytes more, aligned to 16: a hundred bytes end where the page does only by the byte.
        if seen.config.has_pages() && seen.config.is_right() {
            assert!(!seen.noted("passed"), "stopped at the instruction");
            told.stopped("write", block + 100).touched_in("stores");
        } else {
            told.changed(block + 100, &[0xFF]);
        }
    });

    fn nothing(lab: &Lab) {
        let driver = Application::new(&lab.guard, "VkBuffer").leak();
        let block = driver.takes_object(0, 16);
        note_pointer("block", block);
        stores(block, 0xFF);
        driver.gives(block);
    }
    each(On::ALL, nothing, |seen| {
        let block = seen.note("block");
        seen.aborted().kind("zero-size-access").block_of("VkBuffer", "object", block, 0, 16).taken_in_case();
    });
}

#[test]
fn gv27_a_mapped_pointer_is_no_block() {
    fn case(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        driver.gives(driver.takes_object(64, 16));
        // What vkMapMemory gives: pages that no allocator of ours knows, and whose first byte has nothing in front.
        // SAFETY: a new mapping of two pages.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8192,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        // SAFETY: the first of the two pages.
        assert_eq!(unsafe { libc::mprotect(mapped, 4096, libc::PROT_NONE) }, 0);
        let mapped = mapped.cast::<u8>().wrapping_add(4096);
        note_pointer("mapped", mapped);
        mistakes(driver, mapped);
        note("passed", 1);
    }
    #[inline(never)]
    fn mistakes(driver: MatrixDriver, mapped: *mut u8) {
        driver.gives(mapped);
    }
    each(On::ALL, case, |seen| {
        assert!(!seen.noted("passed"));
        let told = seen.aborted();
        told.kind("foreign-free").without_block().found_in("mistakes");
        assert_eq!(told.address(), seen.note("mapped"));
    });
}
