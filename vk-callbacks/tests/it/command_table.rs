//! The table of commands against facts of the registry and of the specification, counted once from version 1.4.359.

use std::collections::{BTreeMap, BTreeSet};

use alloc_core::Scope;
use vk_callbacks::CommandRow;
use vk_callbacks::commands::{AllocatorSource, CommandAction, CommandLevel, ScopeMask};

/// The registry's commands with a `pAllocator`, promoted names included.
const WITH_ALLOCATOR: usize = 141;
/// Those of them that end an object.
const DESTROYING: usize = 57;
/// Objects that end with another, and have no command of their own for it.
const NEVER_DESTROYED: [&str; 1] = ["VkDisplayModeKHR"];

#[test]
fn rows_are_sorted_and_each_is_found() {
    for pair in CommandRow::all().windows(2) {
        assert!(pair[0].name < pair[1].name, "{} and {}", pair[0].name, pair[1].name);
    }
    for row in CommandRow::all() {
        assert!(std::ptr::eq(CommandRow::of(row.name), row), "{}", row.name);
        // Neither a beginning of it nor a longer name is the same command.
        assert_ne!(CommandRow::of(&row.name[..row.name.len() - 1]).name, row.name);
        assert_ne!(CommandRow::of(&format!("{}X", row.name)).name, row.name);
    }
}

#[test]
fn counts_are_the_registrys() {
    let count = |what: fn(&&CommandRow) -> bool| CommandRow::all().iter().filter(what).count();
    assert_eq!(count(|row| row.has_allocator_parameter()), WITH_ALLOCATOR);
    assert_eq!(count(|row| row.destroys()), DESTROYING);
    assert_eq!(count(|row| row.creates()), WITH_ALLOCATOR - DESTROYING);
    assert!(CommandRow::all().iter().all(|row| row.has_allocator_parameter() == (row.creates() || row.destroys())));
}

#[test]
fn v42_what_is_created_is_destroyed() {
    let kinds = |what: fn(&CommandRow) -> bool| -> BTreeSet<&str> {
        CommandRow::all().iter().filter(|row| what(row)).map(|row| row.object).collect()
    };
    let (created, destroyed) = (kinds(CommandRow::creates), kinds(CommandRow::destroys));
    assert!(created.iter().all(|kind| kind.starts_with("Vk")), "{created:?}");
    let never: Vec<_> = created.difference(&destroyed).copied().collect();
    assert_eq!(never, NEVER_DESTROYED);
    assert!(destroyed.is_subset(&created));
}

#[test]
fn v44_pairs_whose_names_do_not_match() {
    for (ends, made_by) in [
        ("vkFreeMemory", &["vkAllocateMemory"][..]),
        ("vkDestroyFence", &["vkCreateFence", "vkRegisterDeviceEventEXT", "vkRegisterDisplayEventEXT"]),
        (
            "vkDestroySurfaceKHR",
            &["vkCreateXcbSurfaceKHR", "vkCreateDisplayPlaneSurfaceKHR", "vkCreateHeadlessSurfaceEXT"],
        ),
        ("vkDestroySwapchainKHR", &["vkCreateSwapchainKHR", "vkCreateSharedSwapchainsKHR"]),
        ("vkReleaseCapturedPipelineDataKHR", &["vkCreateComputePipelines", "vkCreateRayTracingPipelinesKHR"]),
        ("vkDestroyPipelineBinaryKHR", &["vkCreatePipelineBinariesKHR"]),
        ("vkDestroyPrivateDataSlot", &["vkCreatePrivateDataSlotEXT"]),
    ] {
        let ends = CommandRow::of(ends);
        assert!(ends.destroys());
        for made_by in made_by {
            let made_by = CommandRow::of(made_by);
            assert!(made_by.creates() && made_by.object == ends.object, "{} and {}", made_by.name, ends.name);
        }
    }
    let many: Vec<_> = CommandRow::all().iter().filter(|row| row.many).map(|row| row.name).collect();
    assert_eq!(
        many,
        [
            "vkAllocateCommandBuffers",
            "vkAllocateDescriptorSets",
            "vkCreateComputePipelines",
            "vkCreateDataGraphPipelinesARM",
            "vkCreateExecutionGraphPipelinesAMDX",
            "vkCreateGraphicsPipelines",
            "vkCreatePipelineBinariesKHR",
            "vkCreateRayTracingPipelinesKHR",
            "vkCreateRayTracingPipelinesNV",
            "vkCreateShadersEXT",
            "vkCreateSharedSwapchainsKHR",
            "vkFreeCommandBuffers",
            "vkFreeDescriptorSets",
        ]
    );
}

/// May `name` take memory of this scope, and may it give it back?
fn may(name: &str, scope: Scope) -> (bool, bool) {
    let row = CommandRow::of(name);
    (row.may_allocate.contains(scope), row.may_free.contains(scope))
}

#[test]
fn v36_any_command_may_use_the_scopes_of_command_device_and_instance() {
    let other =
        ["vkCmdDraw", "vkQueueSubmit", "vkGetFenceStatus", "vkWaitForFences", "vkEnumeratePhysicalDevices", "vkNoSuch"];
    for name in CommandRow::all().iter().map(|row| row.name).chain(other) {
        for scope in [Scope::Command, Scope::Device, Scope::Instance] {
            assert_eq!(may(name, scope), (true, true), "{name}, {scope}");
        }
    }
}

#[test]
fn v37_caches_are_filled_by_those_who_are_given_one() {
    let filled: Vec<_> =
        CommandRow::all().iter().filter(|row| may(row.name, Scope::Cache).0).map(|row| row.name).collect();
    assert_eq!(
        filled,
        [
            "vkCreateComputePipelines",
            "vkCreateDataGraphPipelinesARM",
            "vkCreateExecutionGraphPipelinesAMDX",
            "vkCreateGraphicsPipelines",
            "vkCreatePipelineCache",
            "vkCreateRayTracingPipelinesKHR",
            "vkCreateRayTracingPipelinesNV",
            "vkCreateShaderModule",
            "vkCreateValidationCacheEXT",
            "vkDeferredOperationJoinKHR",
            "vkMergePipelineCaches",
            "vkMergeValidationCachesEXT",
        ]
    );
    for name in ["vkDestroyPipelineCache", "vkDestroyValidationCacheEXT"] {
        assert_eq!(may(name, Scope::Cache), (false, true));
    }
    assert_eq!(may("vkGetPipelineCacheData", Scope::Cache), (false, false));
    // V29: what belongs to a cache is of scope cache.
    assert_eq!(may("vkCreatePipelineCache", Scope::Object), (false, false));
    assert!(
        CommandRow::of("vkCreatePipelineCache").is_of_cache()
            && !CommandRow::of("vkCreateComputePipelines").is_of_cache()
    );
    assert_eq!(CommandRow::of("vkCreateComputePipelines").source(Scope::Cache), AllocatorSource::Cache);
    assert_eq!(CommandRow::of("vkCreateComputePipelines").source(Scope::Object), AllocatorSource::Object);
}

#[test]
fn v38_v39_pools_serve_their_children() {
    for name in [
        "vkAllocateDescriptorSets",
        "vkFreeDescriptorSets",
        "vkResetDescriptorPool",
        "vkAllocateCommandBuffers",
        "vkFreeCommandBuffers",
        "vkResetCommandPool",
        "vkTrimCommandPool",
        "vkCmdDraw",
        "vkCmdPipelineBarrier2",
        "vkCmdOfAnExtensionToCome",
    ] {
        assert_eq!(CommandRow::of(name).source(Scope::Object), AllocatorSource::Pool, "{name}");
        assert_eq!(may(name, Scope::Object), (true, true), "{name}");
    }
    for name in ["vkResetCommandBuffer", "vkBeginCommandBuffer"] {
        assert_eq!(may(name, Scope::Object), (false, true), "{name}");
    }
    for name in ["vkEndCommandBuffer", "vkUpdateDescriptorSets", "vkUpdateDescriptorSetWithTemplate"] {
        assert_eq!(may(name, Scope::Object), (false, false), "{name}");
    }
}

#[test]
fn v40_v41_objects_are_made_and_ended_by_their_own_commands_alone() {
    for row in CommandRow::all().iter().filter(|row| row.has_allocator_parameter() && !row.is_of_cache()) {
        assert_eq!(may(row.name, Scope::Object), (row.creates(), true), "{}", row.name);
        assert_eq!(row.source(Scope::Object), AllocatorSource::Object, "{}", row.name);
    }
    for name in ["vkMapMemory2", "vkBindBufferMemory", "vkQueueSubmit2", "vkWaitForFences", "vkGetSwapchainImagesKHR"] {
        assert_eq!(may(name, Scope::Object), (false, false), "{name}");
    }
    // Nothing is known of these, and nothing said against them.
    for name in ["", "vk", "vkFrobnicate", "clCreateBuffer"] {
        let row = CommandRow::of(name);
        assert_eq!(
            (row.action, row.may_allocate, row.may_free),
            (CommandAction::Unknown, ScopeMask::ALL, ScopeMask::ALL)
        );
    }
}

#[test]
fn v26_deferred_operations_and_who_may_join_in() {
    let join = CommandRow::of("vkDeferredOperationJoinKHR");
    assert_eq!((join.action, join.source(Scope::Object)), (CommandAction::Join, AllocatorSource::DeferredOperation));
    let deferrable: Vec<_> = CommandRow::all().iter().filter(|row| row.deferrable).map(|row| row.name).collect();
    assert_eq!(deferrable.len(), 10, "{deferrable:?}");
    assert!(deferrable.contains(&"vkCreateRayTracingPipelinesKHR") && deferrable.contains(&"vkBuildMicromapsEXT"));
}

#[test]
fn v31_v32_levels() {
    let by_level = BTreeMap::from([
        ("vkCreateInstance", CommandLevel::BeforeInstance),
        ("vkEnumerateInstanceVersion", CommandLevel::BeforeInstance),
        ("vkDestroyInstance", CommandLevel::Instance),
        ("vkCreateDevice", CommandLevel::Instance),
        ("vkCreateXlibSurfaceKHR", CommandLevel::Instance),
        ("vkCreateDebugUtilsMessengerEXT", CommandLevel::Instance),
        ("vkCreateDisplayModeKHR", CommandLevel::Instance),
        ("vkEnumerateDeviceExtensionProperties", CommandLevel::Instance),
        ("vkGetPhysicalDeviceProperties2", CommandLevel::Instance),
        ("vkAcquireDrmDisplayEXT", CommandLevel::Instance),
        ("vkDestroyDevice", CommandLevel::Device),
        ("vkGetDeviceProcAddr", CommandLevel::Device),
        ("vkAcquireNextImageKHR", CommandLevel::Device),
        ("vkRegisterDisplayEventEXT", CommandLevel::Device),
        ("vkQueuePresentKHR", CommandLevel::Device),
        ("vkCmdDispatch", CommandLevel::Device),
    ]);
    for (name, level) in by_level {
        assert_eq!(CommandRow::of(name).level, level, "{name}");
    }
    assert_eq!(CommandRow::of("vkCreateDevice").source(Scope::Device), AllocatorSource::Device);
    assert_eq!(CommandRow::of("vkCreateInstance").source(Scope::Instance), AllocatorSource::Instance);
}
