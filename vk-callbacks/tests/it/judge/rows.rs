//! Rows of the contract that a bracket is needed for: what comes close to breaking each, and does not. What breaks it
//! is in `logs.rs`.

use super::*;

/// Nothing is found in any of these logs.
fn legal(logs: &[&str]) {
    for log in logs {
        assert_eq!(judged(&trace(log), COMPLETE), [], "{log}");
    }
}

#[test]
fn v22_v23_callbacks_come_in_a_command_of_their_thread() {
    // Taken on one thread and freed on another, both in a command: legal.
    legal(&["e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 e,2,3,vkDestroyBuffer f,2,3,1 l,2,0"]);
}

#[test]
fn v23_a_worker_inside_a_command_is_found_and_no_command_block_is_missed_or_made_up() {
    // The worker frees the command's own block, while the command runs: off-thread, but not left behind.
    let found = judged(&trace("e,1,3,vkCreateBuffer a,1,3,1,64,8,0 f,2,3,1 l,1,0"), COMPLETE);
    let kinds: Vec<_> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [FindingKind::FreedOnForeignThread]);
}

#[test]
fn v25_a_callback_calls_no_command() {
    legal(&["e,1,3,vkCreateBuffer e,1,3,vkCreateBuffer l,1,0 l,1,0"]);
}

#[test]
fn v26_deferred_work_draws_on_the_operations_allocators() {
    legal(&[
        "e,1,8,vkDeferredOperationJoinKHR a,1,8,1,64,8,1 f,1,8,1 l,1,0",
        // What was deferred was given none: the device's follows, and the instance's. Or it was, and draws on its own.
        "e,1,8,vkDeferredOperationJoinKHR a,1,2,1,64,8,1 l,1,0 e,1,2,vkDestroyPipeline f,1,2,1 l,1,0",
        "e,1,8,vkDeferredOperationJoinKHR a,1,1,1,64,8,0 f,1,1,1 l,1,0",
        "o,9,2,VkPipeline e,1,8,vkDeferredOperationJoinKHR a,1,9,1,64,8,1 l,1,0 e,1,9,vkDestroyPipeline f,1,9,1 l,1,0",
    ]);
    let own = "o,9,2,VkPipeline e,1,8,vkDeferredOperationJoinKHR a,1,9,1,64,8,1 a,1,2,2,64,8,1 f,1,2,2 f,1,9,1 l,1,0";
    let found = judged(&trace(own), COMPLETE);
    assert!(found.len() == 1 && found[0].0 == FindingKind::OutsideDeferred, "its own was passed over: {found:?}");
}

#[test]
fn v28_command_memory_goes_with_its_command() {
    // From the outer command's point of view the inner one is a command of its own. A waiting command knows no single
    // fence.
    legal(&[
        "e,1,3,vkCreateBuffer a,1,3,1,64,8,0 e,1,3,vkCreateBuffer a,1,3,2,64,8,0 f,1,3,2 l,1,0 f,1,3,1 l,1,0",
        "o,9,2,VkFence e,1,9,vkWaitForFences a,1,2,1,16,8,0 f,1,2,1 l,1,0",
    ]);
}

#[test]
fn v29_a_cache_has_scope_cache_and_its_own_allocator() {
    legal(&["e,1,5,vkCreatePipelineCache a,1,5,1,64,8,2 l,1,0 e,1,5,vkDestroyPipelineCache f,1,5,1 l,1,0"]);
}

#[test]
fn v30_object_device_instance_the_first_that_was_given() {
    legal(&[
        "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 e,1,3,vkDestroyBuffer f,1,3,1 l,1,0",
        // The image was given none: the device's is the first. So is the instance's, for an object of the instance.
        "e,1,2,vkCreateImage a,1,2,1,64,8,1 l,1,0 e,1,2,vkDestroyImage f,1,2,1 l,1,0",
        "e,1,1,vkCreateHeadlessSurfaceEXT a,1,1,1,64,8,1 l,1,0 e,1,1,vkDestroySurfaceKHR f,1,1,1 l,1,0",
    ]);
}

#[test]
fn v31_device_memory_comes_from_the_devices_allocator() {
    legal(&[
        "e,1,2,vkQueueSubmit a,1,2,1,64,8,3 l,1,0 e,1,2,vkDeviceWaitIdle f,1,2,1 l,1,0",
        // Before there is a device.
        "e,1,1,vkCreateInstance a,1,1,1,64,8,3 l,1,0 e,1,1,vkDestroyInstance f,1,1,1 l,1,0",
    ]);
}

#[test]
fn v32_instance_memory_comes_from_the_instances_allocator() {
    legal(&["e,1,2,vkQueueSubmit a,1,1,1,64,8,4 f,1,1,1 l,1,0"]);
}

#[test]
fn v34_what_is_made_from_a_pool_draws_on_the_pools_allocator() {
    legal(&[
        "e,1,6,vkAllocateDescriptorSets a,1,6,1,64,8,1 l,1,0 e,1,6,vkResetDescriptorPool f,1,6,1 l,1,0",
        // One that drew when it was recorded into has drawn.
        "e,1,7,vkAllocateCommandBuffers l,1,0 e,1,7,vkCmdDraw a,1,7,1,64,8,1 l,1,0 e,1,7,vkResetCommandPool f,1,7,1 l,1,0",
        "e,1,6,vkAllocateDescriptorSets l,1,-1000069000",
    ]);
}

#[test]
fn v35_a_scope_is_one_of_the_five() {
    legal(&["e,1,3,vkCreateBuffer a,1,3,1,64,8,1 f,1,3,1 l,1,0"]);
    for scope in [-1, 5, i32::MAX, i32::MIN] {
        let found = judged(&trace(&format!("e,1,3,vkCreateBuffer i,1,3,64,0,{scope} l,1,0")), COMPLETE);
        assert_eq!(found[0].0, FindingKind::BadScope, "{scope}");
    }
}

#[test]
fn v36_device_memory_in_a_creation_is_legal_and_noted() {
    legal(&["e,1,2,vkCreateDevice a,1,2,1,64,8,3 f,1,2,1 l,1,0"]);
    assert_eq!(FindingKind::DeviceScopeInCreate.level().name(), "note");
}

#[test]
fn v37_commands_with_a_cache_take_for_it() {
    legal(&[
        "e,1,5,vkMergePipelineCaches a,1,5,1,64,8,2 f,1,5,1 l,1,0",
        "e,1,4,vkCreateComputePipelines a,1,5,1,64,8,2 f,1,5,1 l,1,0",
    ]);
}

#[test]
fn v38_a_descriptor_pool_is_drawn_on_by_commands_on_it() {
    legal(&["e,1,6,vkResetDescriptorPool a,1,6,1,64,8,1 f,1,6,1 l,1,0"]);
}

#[test]
fn v39_a_command_pool_is_drawn_on_by_commands_on_it_and_its_buffers() {
    legal(&["e,1,7,vkCmdDraw a,1,7,1,64,8,1 f,1,7,1 l,1,0"]);
}

#[test]
fn v40_other_objects_take_when_they_are_made() {
    legal(&["e,1,3,vkCreateBufferView a,1,3,1,64,8,1 f,1,3,1 l,1,0"]);
}

#[test]
fn v41_what_an_object_took_is_back_when_it_is_gone() {
    legal(&[
        // A layout that is shared goes when the last object that uses it does: freed by another's end, on the device's
        // allocator.
        "e,1,2,vkCreateDescriptorSetLayout a,1,2,1,64,8,1 l,1,0 c,1,0,7,VkDescriptorSetLayout \
         e,1,2,vkDestroyDescriptorSetLayout l,1,0 d,1,0,7,VkDescriptorSetLayout e,1,2,vkDestroyPipelineLayout f,1,2,1 l,1,0",
    ]);
}
