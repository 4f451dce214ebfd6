//! Properties and features in `pNext` chains. Each structure is written completely, because the application may have
//! left anything in it.

use core::ffi::c_void;

use ash::vk::{self, TaggedStructure};

use crate::edge::each_output;
use crate::physical::HEAP;

macro_rules! write_known {
    ($($structure:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        |kind, structure: *mut vk::BaseOutStructure<'_>| {
            $(if kind == <vk::$structure<'_> as TaggedStructure>::STRUCTURE_TYPE {
                // SAFETY: its type says what it is, and it is for output.
                let structure = unsafe { &mut *structure.cast::<vk::$structure<'_>>() };
                $(structure.$field = $value;)*
            })*
        }
    };
}

/// # Safety
/// As `each_output`.
pub(crate) unsafe fn more_properties(first: *mut c_void) {
    let write = write_known! {
        PhysicalDeviceMaintenance3Properties { max_per_set_descriptors: 1024, max_memory_allocation_size: HEAP }
        PhysicalDeviceSubgroupProperties {
            subgroup_size: 1,
            supported_stages: vk::ShaderStageFlags::COMPUTE,
            supported_operations: vk::SubgroupFeatureFlags::BASIC,
            quad_operations_in_all_stages: vk::FALSE,
        }
        PhysicalDevicePointClippingProperties { point_clipping_behavior: vk::PointClippingBehavior::ALL_CLIP_PLANES }
        PhysicalDeviceIDProperties {
            device_uuid: *b"steward-refdev-1",
            driver_uuid: *b"steward-refdrv-1",
            device_luid_valid: vk::FALSE,
        }
        // The specification's minimum
        PhysicalDeviceMultiviewProperties { max_multiview_view_count: 6, max_multiview_instance_index: (1 << 27) - 1 }
        PhysicalDeviceProtectedMemoryProperties { protected_no_fault: vk::FALSE }
    };
    // SAFETY: this function's contract.
    unsafe { each_output(first, write) }
}

/// # Safety
/// As `each_output`.
pub(crate) unsafe fn more_features(first: *mut c_void) {
    let write = write_known! {
        PhysicalDeviceSamplerYcbcrConversionFeatures { sampler_ycbcr_conversion: vk::TRUE }
        PhysicalDevicePipelineCreationCacheControlFeatures { pipeline_creation_cache_control: vk::TRUE }
        // Vulkan 1.1 requires multiview. The driver draws one view only, and reports that.
        PhysicalDeviceMultiviewFeatures {
            multiview: vk::FALSE,
            multiview_geometry_shader: vk::FALSE,
            multiview_tessellation_shader: vk::FALSE,
        }
        PhysicalDevice16BitStorageFeatures {
            storage_buffer16_bit_access: vk::FALSE,
            uniform_and_storage_buffer16_bit_access: vk::FALSE,
            storage_push_constant16: vk::FALSE,
            storage_input_output16: vk::FALSE,
        }
        PhysicalDeviceVariablePointersFeatures { variable_pointers_storage_buffer: vk::FALSE, variable_pointers: vk::FALSE }
        PhysicalDeviceProtectedMemoryFeatures { protected_memory: vk::FALSE }
        PhysicalDeviceShaderDrawParametersFeatures { shader_draw_parameters: vk::FALSE }
    };
    // SAFETY: this function's contract.
    unsafe { each_output(first, write) }
}
