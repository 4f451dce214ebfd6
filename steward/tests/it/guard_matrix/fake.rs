//! GV09 to GV11, GV13 to GV20: what callbacks alone show. The rules are the checker's; here they are shown to hold with
//! a guard below, which finds nothing in them: every one of these is a live block used as it may be.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Notice, Scope};
use fake_driver::FakeProgram;
use vk_callbacks::raw::INTERNAL_EXECUTABLE;

use super::application::{Application, raw};
use super::checking::{Checked, plants, run_checked};
use super::common::{Lab, On, Under, each, note};

#[test]
fn gv09_a_scope_that_there_is_not() {
    plants! {
        BadScope in scope:
            "violation: V35: the driver asked VkDeviceMemory's allocator for 64 B in vkMapMemory, with a scope that does not \
             exist",
    }
}

#[test]
fn gv10_a_commands_block_that_outlives_it() {
    plants! {
        CommandBlockLeft in left:
            "violation: V28: the driver left 64 B (scope COMMAND) of VkDeviceMemory's allocator, taken in vkMapMemory, live \
             when that returned; freed later in vkUnmapMemory",
    }

    // Where it was taken is the guard's to say.
    fn with_stack(lab: &Lab) {
        let application = Application::new(&lab.guard, "VkDeviceMemory");
        let checked = Checked::around(application.driver(), "VkDeviceMemory");
        let from = lab.guard.mark();
        checked.run("vkMapMemory", || checked.driver().takes(100, 4, raw(Scope::Command)));
        checked.note_found(&[
            "violation: V28: the driver left 100 B (scope COMMAND) of VkDeviceMemory's allocator, taken in vkMapMemory, \
                 live when that returned; never freed",
        ]);
        let (mut leaks, mut bytes) = (0, 0);
        lab.guard.leaks(from, lab.guard.mark(), &mut |leak| {
            leaks += 1;
            bytes += leak.bytes as usize;
            assert_eq!((leak.block.allocated.owner, leak.block.scope), ("VkDeviceMemory", Scope::Command));
            for (i, frame) in leak.block.allocated.stack.frames.iter().enumerate() {
                note(&format!("leak{i}"), *frame);
            }
        });
        note("leaks", leaks);
        note("bytes", bytes);
        std::mem::forget(application);
    }
    each(On::ALL, with_stack, |seen| {
        seen.quiet(1);
        assert_eq!((seen.note("found"), seen.note("leaks")), (1, 1));
        assert!((100..=132).contains(&seen.note("bytes")));
        let stack = seen.stack_names("leak");
        assert!(
            stack.iter().any(|name| name.contains("takes")) && stack.iter().any(|name| name.contains("with_stack")),
            "{stack:#?}"
        );
    });
}

#[test]
fn gv11_blocks_that_outlive_their_object() {
    plants! {
        LiveAfterDestroy in after_destroy:
            "violation: V41: the driver left 96 B (scope OBJECT) of VkDescriptorUpdateTemplate's allocator, taken in \
             vkCreateDescriptorUpdateTemplate, live when vkDestroyDescriptorUpdateTemplate returned; never freed",
        LiveAtEnd in at_the_end:
            "note: V41: 256 B (scope OBJECT) of VkFence's allocator were live at the end, taken in vkCreateFence; never freed",
    }

    // One block of each longer scope, none of which its object gives back.
    fn every_scope(lab: &Lab) {
        let mut found = 0;
        for (kind, whose, create, destroy, scope) in [
            ("VkBuffer", "VkBuffer's", "vkCreateBuffer", "vkDestroyBuffer", Scope::Object),
            ("VkPipelineCache", "VkPipelineCache's", "vkCreatePipelineCache", "vkDestroyPipelineCache", Scope::Cache),
            ("VkDevice", "the device's", "vkCreateDevice", "vkDestroyDevice", Scope::Device),
            ("VkInstance", "the instance's", "vkCreateInstance", "vkDestroyInstance", Scope::Instance),
        ] {
            let application = Application::new(&lab.guard, kind);
            let checked = Checked::around(application.driver(), kind);
            let owners = match scope {
                Scope::Device => vk_callbacks::Owners { device: Some(checked.owner), ..Default::default() },
                Scope::Instance => vk_callbacks::Owners { instance: Some(checked.owner), ..Default::default() },
                Scope::Cache => vk_callbacks::Owners {
                    object: Some(checked.owner),
                    cache: Some(checked.owner),
                    ..Default::default()
                },
                _ => vk_callbacks::Owners { object: Some(checked.owner), ..Default::default() },
            };
            let bracket =
                |name| vk_callbacks::Command::new(name, owners, vk_callbacks::command::BracketCoverage::Complete);
            checked.checker.run(bracket(create), |_| checked.driver().takes(200, 8, raw(scope)));
            checked.checker.created(kind, 77, Some(checked.owner));
            checked.checker.run(bracket(destroy), |_| ());
            checked.checker.destroyed(kind, 77, Some(checked.owner), destroy);
            let upper = scope.name().to_uppercase();
            let said = super::checking::said(&checked.checker);
            assert_eq!(
                said,
                [format!(
                    "violation: V41: the driver left 200 B (scope {upper}) of {whose} allocator, taken in {create}, live when {destroy} \
                     returned; never freed"
                )]
            );
            found += said.len();
            // SAFETY: nothing calls any more.
            unsafe { checked.checker.close_anyway() };
            std::mem::forget(application);
        }
        note("found", found);
        let mut scopes = [0; 5];
        lab.guard.live(&mut |block| scopes[block.scope as usize] += usize::from(block.size == 200));
        for scope in [Scope::Object, Scope::Cache, Scope::Device, Scope::Instance] {
            assert_eq!(scopes[scope as usize], 1, "{scope:?}");
        }
    }
    each(On::ALL, every_scope, |seen| {
        seen.quiet(4);
        assert_eq!(seen.note("found"), 4);
    });
}

#[test]
fn gv13_a_callback_on_a_thread_that_is_in_no_command() {
    plants! {
        AskedBetweenCommands in asked:
            "violation: V22: the driver asked the device's allocator for 64 B (scope DEVICE), between commands \
             [on this thread]",
        FreedBetweenCommands in freed:
            "violation: V22: the driver freed 64 B (scope DEVICE) of the device's allocator, taken in vkQueueWaitIdle, \
             between commands [on this thread]",
        NotifiedBetweenCommands in notified:
            "violation: V21: the driver told the device's allocator of 64 B each (scope DEVICE) internal memory, between \
             commands; 2 times [on this thread]",
    }
}

#[test]
fn gv14_a_callback_on_another_thread_than_the_provoking_one() {
    plants! {
        AskedOnForeignThread in asked:
            "violation: V23: the driver asked the device's allocator for 64 B (scope DEVICE), on a thread that has never \
             issued a command [on another thread]",
        FreedOnForeignThread in freed:
            "violation: V22/V23: the driver freed 168 B (scope DEVICE) of the device's allocator, taken in vkQueueSubmit, on \
             a thread that has never issued a command [on another thread]",
        NotifiedOnForeignThread in notified:
            "violation: V21: the driver told the device's allocator of 64 B each (scope DEVICE) internal memory, on a thread \
             that has never issued a command; 2 times [on another thread]",
    }
}

#[test]
fn gv15_a_command_from_inside_a_callback() {
    plants! {
        CommandInCallback in command:
            "violation: V25: the application called vkGetFenceStatus from inside a callback",
    }
}

/// A guard whose notice of memory taken elsewhere takes and gives memory itself.
struct Notified<'a> {
    guard: &'a Under,
    within: AtomicBool,
}

// SAFETY: blocks are the guard's.
unsafe impl HostAllocator for Notified<'_> {
    fn traits(&self) -> AllocatorTraits {
        self.guard.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.guard.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: the guard gave out the block with this layout, as all that this allocator gives out.
        unsafe { self.guard.deallocate(block, layout, scope) };
    }
    fn notify(&self, _: Notice) {
        let layout = Layout::new::<[u64; 8]>();
        let block = self.guard.allocate(layout, Scope::Command).expect("memory");
        // SAFETY: just taken with this layout and scope.
        unsafe { self.guard.deallocate(block, layout, Scope::Command) };
        self.within.store(true, SeqCst);
    }
    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> alloc_core::PointerStatus {
        self.guard.validate_pointer(pointer, front)
    }
}

#[test]
fn gv16_memory_taken_inside_a_notification() {
    fn case(lab: &Lab) {
        let notified = Notified { guard: &lab.guard, within: AtomicBool::new(false) };
        let application = Application::new(&notified, "device");
        let driver = application.driver();
        let block = driver.takes_object(64, 16);
        driver.notifies(true, 4096, INTERNAL_EXECUTABLE);
        driver.notifies(false, 4096, INTERNAL_EXECUTABLE);
        note("within", usize::from(notified.within.load(SeqCst)));
        driver.gives(block);
        application.close();
        assert_eq!(lab.guard.stats().live_blocks, 0);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(4);
        assert_eq!(seen.note("within"), 1);
    });
}

#[test]
fn gv17_notifications_that_do_not_add_up() {
    plants! {
        InternalNegative in negative:
            "violation: V20: the driver told VkDeviceMemory's allocator that 64 B (scope COMMAND) internal memory went, more \
             than had come, in vkMapMemory",
        InternalType in of_no_type:
            "violation: V20: the driver told VkDeviceMemory's allocator of 64 B (scope COMMAND) internal memory that is not \
             executable, in vkMapMemory",
        InternalLeft in left:
            "violation: V20: the driver never told VkDeviceMemory's allocator that 64 B (scope COMMAND) internal memory went",
        InternalAtEnd in at_the_end:
            "note: V20: 64 B (scope OBJECT) internal memory of which VkFence's allocator was told had not gone at the end",
    }
}

#[test]
fn gv18_callbacks_that_lack_a_function() {
    plants! {
        HalfInternal in half:
            "violation: V4: the application handed over VkFence's allocator with one internal notification and not the other",
        MissingFree in free:
            "violation: V3: the application handed over VkFence's allocator without pfnFree",
        MissingAllocation in allocation:
            "violation: V1: the application handed over VkFence's allocator without pfnAllocation",
        MissingReallocation in reallocation:
            "violation: V2: the application handed over VkFence's allocator without pfnReallocation",
    }
}

#[test]
fn gv19_destroyed_with_other_callbacks_than_created() {
    plants! {
        NoneAtDestroy in none:
            "violation: V42: the application passed vkDestroyFence no allocator, though the VkFence was created with one",
        OtherGroupAtDestroy in other:
            "violation: V42: the application passed vkDestroyFence VkBuffer's allocator, which is not compatible with that \
             the VkFence was created with",
    }
}

#[test]
fn gv20_destroyed_with_callbacks_and_created_without() {
    plants! {
        OnlyAtDestroy in only:
            "violation: V43: the application passed vkDestroyImage an allocator, though the VkImage was created without",
    }
}

/// The fake program, nothing planted: a great deal is asked, from several threads, and neither checker nor guard finds
/// anything.
#[test]
fn gv28_what_a_driver_may_do_is_found_by_nobody() {
    fn program(lab: &Lab) {
        let application = Application::new(&lab.guard, "fake application");
        let program = FakeProgram { defect: None, rounds: 10, habits: false };
        let (answer, found) = run_checked(&application, program, |stage| program.run(stage));
        assert_eq!((answer, found), (Ok(()), Vec::new()));
        assert_eq!(lab.guard.check_all(), 0);
        application.close();
        assert_eq!(lab.guard.stats().live_blocks, 0);
    }
    each(On::ALL, program, |seen| {
        seen.quiet(500);
    });

    // A pipeline cache's memory, given back on the thread that destroys the cache, in another command than made it.
    fn cache(lab: &Lab) {
        let application = Application::new(&lab.guard, "VkPipelineCache");
        let checked = Checked::around(application.driver(), "VkPipelineCache");
        let owners =
            vk_callbacks::Owners { object: Some(checked.owner), cache: Some(checked.owner), ..Default::default() };
        let bracket = |name| vk_callbacks::Command::new(name, owners, vk_callbacks::command::BracketCoverage::Complete);
        let driver = checked.driver();
        let block =
            checked.checker.run(bracket("vkCreatePipelineCache"), |_| driver.takes(5000, 8, raw(Scope::Cache)).addr());
        checked.checker.created("VkPipelineCache", 9, Some(checked.owner));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                checked.checker.run(bracket("vkDestroyPipelineCache"), |_| {
                    driver.gives(std::ptr::with_exposed_provenance_mut(block))
                });
                checked.checker.destroyed("VkPipelineCache", 9, Some(checked.owner), "vkDestroyPipelineCache");
            });
        });
        checked.note_found(&[]);
        application.close();
        assert_eq!(lab.guard.check_all(), 0);
    }
    each(On::ALL, cache, |seen| {
        seen.quiet(1);
        assert_eq!(seen.note("found"), 0);
    });
}
