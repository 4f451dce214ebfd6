//! GV03 to GV06, GV12: pfnReallocation.

use alloc_core::Scope;

use super::application::{Application, NULL, fill, is_filled, raw};
use super::checking::{Checked, plants};
use super::common::{Lab, On, each, each_with, loads, note, note_pointer};
use debug_guard::OnReport;

const OBJECT: i32 = raw(Scope::Object);

#[test]
fn gv03_a_reallocation_with_another_alignment() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let checked = Checked::around(application.driver(), "VkBuffer");
        checked.run("vkCreateBuffer", || {
            let block = checked.driver().takes_object(64, 16);
            fill(block, 64);
            // Legal for nobody; the bridge serves it all the same, at the alignment that the block was made with.
            let moved = checked.driver().moves(block, 128, 64, OBJECT);
            assert!(is_filled(moved, 64) && moved.addr().is_multiple_of(16));
            note("alignments", application.notes().alignment_changes as usize);
            checked.driver().gives(moved);
        });
        checked.note_found(&[
            "violation: V15: the driver reallocated a block of VkBuffer's allocator to 128 B (scope OBJECT) with \
                 alignment 64, though it was made with 16, in vkCreateBuffer",
        ]);
        application.close();
    }
    each(On::ALL, case, |seen| {
        seen.quiet(2);
        assert_eq!((seen.note("found"), seen.note("alignments")), (1, 1));
    });
    plants! {
        OtherAlignment in other_alignment:
            "violation: V15: the driver reallocated a block of VkDeviceMemory's allocator to 128 B (scope COMMAND) with \
             alignment 16, though it was made with 8, in vkMapMemory",
    }
}

#[test]
fn gv04_reallocations_from_null_to_nothing_and_in_vain() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let checked = Checked::around(application.driver(), "VkBuffer");
        let driver = checked.driver();
        checked.run("vkCreateBuffer", || {
            let block = driver.moves(NULL, 64, 16, OBJECT);
            fill(block, 64);
            // Nobody has so much.
            assert!(driver.moves(block, isize::MAX as usize - 4096, 16, OBJECT).is_null());
            note("readable", usize::from(is_filled(block, 64)));
            assert!(driver.moves(block, 0, 16, OBJECT).is_null());
        });
        checked.note_found(&[]);
        note("live", lab.guard.stats().live_blocks as usize);
        application.close();
        note("left", lab.guard.stats().live_blocks as usize);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(1);
        assert_eq!((seen.note("readable"), seen.note("found"), seen.note("left")), (1, 0, 0));
    });
    // An application that frees the old block all the same.
    plants! {
        OldBlockGivenAway in given_away:
            "violation: V16: the application gave a block of VkDeviceMemory's allocator to somebody else, after its \
             reallocation had failed, in vkMapMemory",
    }
}

#[test]
fn gv05_a_reallocation_keeps_what_both_have() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        for (old, new) in [(64, 200), (200, 64), (64, 65), (5000, 64), (64, 5000), (300 << 10, 301 << 10)] {
            let block = driver.takes_object(old, 8);
            fill(block, old);
            let moved = driver.moves(block, new, 8, OBJECT);
            assert!(is_filled(moved, old.min(new)), "{old} {new}");
            let tail = (old..new).filter(|i| loads(moved.wrapping_add(*i)) != 0xFD).count();
            assert_eq!(tail, 0, "{old} to {new}: what was added is poison, and not what lay there");
            driver.gives(moved);
        }
        application.close();
    }
    each(On::ALL, case, |seen| {
        seen.quiet(12);
    });
}

#[test]
fn gv06_a_reallocation_of_what_is_no_block() {
    fn freed(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        let block = driver.takes_object(64, 16);
        note_pointer("block", block);
        driver.gives(block);
        note("answered", usize::from(!driver.moves(block, 128, 16, OBJECT).is_null()));
    }
    fn unknown(lab: &Lab) {
        let driver = Application::new(&lab.guard, "device").leak();
        let mut local = [7_u64; 8];
        note_pointer("block", local.as_mut_ptr().cast::<u8>().wrapping_add(16));
        driver.gives(driver.takes_object(64, 16));
        let answer = driver.moves(local.as_mut_ptr().cast::<u8>().wrapping_add(16), 128, 16, OBJECT);
        note("answered", usize::from(!answer.is_null()));
        std::hint::black_box(local);
    }
    each(On::ALL, freed, |seen| {
        assert!(!seen.noted("answered"));
        let told = seen.aborted();
        told.kind("double-free")
            .block_of("device", "object", seen.note("block"), 64, 16)
            .taken_in_case()
            .given_in_case();
        told.found_in("moves");
    });
    each(On::ALL, unknown, |seen| {
        assert!(!seen.noted("answered"));
        seen.aborted().kind("foreign-free").without_block().found_in("moves");
    });

    // Going on, the driver gets NULL; and behind a checker the guard never hears of it.
    fn goes_on(lab: &Lab) {
        freed(lab);
    }
    each_with(
        On::ALL,
        |options| options.on_report(OnReport::Log),
        goes_on,
        |seen| {
            seen.ended().only().kind("double-free");
            assert_eq!(seen.note("answered"), 0);
        },
    );
    plants! {
        ReallocatedFreed in moved_freed:
            "violation: V11: the driver reallocated a block of 64 B (scope COMMAND) through VkDeviceMemory's allocator that \
             had gone, in vkMapMemory",
    }
    plants! {
        ReallocatedUnknown in moved_unknown:
            "violation: V11: the driver reallocated a pointer through VkDeviceMemory's allocator that no callback gave, or \
             that went long ago, in vkMapMemory",
    }
}

#[test]
fn gv12_a_reallocation_with_another_scope() {
    fn case(lab: &Lab) {
        let application = Application::new(&lab.guard, "device");
        let driver = application.driver();
        let block = driver.takes_object(64, 16);
        fill(block, 64);
        let moved = driver.moves(block, 128, 16, raw(Scope::Device));
        assert!(is_filled(moved, 64));
        note("scopes", application.notes().scope_changes as usize);
        driver.gives(moved);
        application.close();
    }
    // Legal, and noted by the bridge; the block keeps its scope, so the guard has nothing to say.
    each(On::ALL, case, |seen| {
        seen.quiet(2);
        assert_eq!(seen.note("scopes"), 1);
    });
    plants! {
        OtherScope in other_scope:
            "note: V30: the driver reallocated a block of VkBuffer's allocator to 128 B (scope OBJECT), a scope that it was \
             not made with, in vkCreateBuffer",
    }
}
