//! What the device says of itself, and sizes that no device has.

use ash::vk;

use crate::application::Running;
use crate::shader_reader::{SHADERS, words};

/// The specification's table "Required Limits", of what needs no feature: at least, or at most, so much.
#[test]
fn rd4_limits_are_those_that_the_specification_demands() {
    let running = Running::new(None);
    // SAFETY: the instance lives.
    let limits = unsafe { running.instance.get_physical_device_properties(running.physical) }.limits;
    macro_rules! limits {
        ($how:tt: $($name:ident $(.$index:tt)* $bound:expr),* $(,)?) => {$(
            assert!(f64::from(limits.$name $([$index])*) $how f64::from($bound), stringify!($name));
        )*};
    }
    limits! { >=:
        max_image_dimension1_d 4096, max_image_dimension2_d 4096, max_image_dimension3_d 256, max_image_dimension_cube 4096,
        max_image_array_layers 256, max_texel_buffer_elements 65536, max_uniform_buffer_range 16384, max_storage_buffer_range 1 << 27,
        max_push_constants_size 128, max_memory_allocation_count 4096, max_sampler_allocation_count 4000, max_bound_descriptor_sets 4,
        max_per_stage_descriptor_samplers 16, max_per_stage_descriptor_uniform_buffers 12, max_per_stage_descriptor_storage_buffers 4,
        max_per_stage_descriptor_sampled_images 16, max_per_stage_descriptor_storage_images 4,
        max_per_stage_descriptor_input_attachments 4, max_per_stage_resources 128, max_descriptor_set_samplers 96,
        max_descriptor_set_uniform_buffers 72, max_descriptor_set_uniform_buffers_dynamic 8, max_descriptor_set_storage_buffers 24,
        max_descriptor_set_storage_buffers_dynamic 4, max_descriptor_set_sampled_images 96, max_descriptor_set_storage_images 24,
        max_descriptor_set_input_attachments 4, max_vertex_input_attributes 16, max_vertex_input_bindings 16,
        max_vertex_input_attribute_offset 2047, max_vertex_input_binding_stride 2048, max_vertex_output_components 64,
        max_fragment_input_components 64, max_fragment_output_attachments 4, max_fragment_combined_output_resources 4,
        max_compute_shared_memory_size 16384, max_compute_work_group_count.0 65535, max_compute_work_group_count.1 65535,
        max_compute_work_group_count.2 65535, max_compute_work_group_invocations 128, max_compute_work_group_size.0 128,
        max_compute_work_group_size.1 128, max_compute_work_group_size.2 64, sub_pixel_precision_bits 4, sub_texel_precision_bits 4,
        mipmap_precision_bits 4, max_draw_indexed_index_value (1 << 24) - 1, max_draw_indirect_count 1, max_sampler_lod_bias 2.0,
        max_sampler_anisotropy 1.0, max_viewports 1, max_viewport_dimensions.0 4096, max_viewport_dimensions.1 4096,
        viewport_bounds_range.1 8191.0, max_texel_offset 7, max_framebuffer_width 4096, max_framebuffer_height 4096,
        max_framebuffer_layers 256, max_color_attachments 4, max_sample_mask_words 1, discrete_queue_priorities 2,
        point_size_range.1 1.0, line_width_range.1 1.0,
    }
    limits! { <=: viewport_bounds_range.0 -8192.0, min_texel_offset -8, point_size_range.0 1.0, line_width_range.0 1.0 }
    // Sizes of VkDeviceSize: at most so much, but for the alignment of mappings.
    let at_most = [
        (limits.buffer_image_granularity, 1 << 17),
        (limits.min_texel_buffer_offset_alignment, 256),
        (limits.min_uniform_buffer_offset_alignment, 256),
        (limits.min_storage_buffer_offset_alignment, 256),
        (limits.non_coherent_atom_size, 256),
    ];
    assert!(at_most.iter().all(|(limit, bound)| limit <= bound && *limit > 0), "{at_most:?}");
    assert!(limits.min_memory_map_alignment >= 64);
}

/// Without this extension and its feature every case of the CTS would fail below Vulkan 1.3.
#[test]
fn rd5_pipeline_creation_can_be_controlled() {
    let running = Running::new(None);
    let (instance, device) = (&running.instance, &running.device);
    // SAFETY: the instance lives.
    let extensions = unsafe { instance.enumerate_device_extension_properties(running.physical) }.expect("memory");
    let names: Vec<_> = extensions.iter().filter_map(|each| each.extension_name_as_c_str().ok()).collect();
    assert_eq!(names, [vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME]);
    let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut control);
    // SAFETY: the instance lives, and the chain is of outputs.
    unsafe { instance.get_physical_device_features2(running.physical, &mut features) };
    assert_eq!(control.pipeline_creation_cache_control, vk::TRUE);

    let code = words(SHADERS[0].0);
    // SAFETY: a whole module.
    let module = unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None) };
    let module = module.expect("memory");
    let stage =
        vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(module).name(c"main");
    let plain = vk::ComputePipelineCreateInfo::default().stage(stage);
    let unless_compiled = plain.flags(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED_EXT);
    let or_return = unless_compiled.flags(
        vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED_EXT
            | vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE_EXT,
    );
    for (infos, made) in [([unless_compiled, plain], [false, true]), ([or_return, plain], [false, false])] {
        // SAFETY: live infos.
        let (all, result) =
            unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None) }.expect_err("one fails");
        assert_eq!(result, vk::Result::PIPELINE_COMPILE_REQUIRED_EXT);
        assert_eq!([0, 1].map(|index: usize| all[index] != vk::Pipeline::null()), made);
        for pipeline in all {
            // SAFETY: NULL, or just created.
            unsafe { device.destroy_pipeline(pipeline, None) };
        }
    }
    // SAFETY: no pipeline is made of it any more.
    unsafe { device.destroy_shader_module(module, None) };
}

/// The application may have left anything in a structure that it chains: each of Vulkan 1.1 is written.
#[test]
fn rd4_each_structure_of_vulkan_1_1_is_written() {
    let running = Running::new(None);
    let left = 7;
    let mut multiview = vk::PhysicalDeviceMultiviewFeatures {
        multiview: left,
        multiview_geometry_shader: left,
        multiview_tessellation_shader: left,
        ..Default::default()
    };
    let mut storage = vk::PhysicalDevice16BitStorageFeatures {
        storage_buffer16_bit_access: left,
        uniform_and_storage_buffer16_bit_access: left,
        storage_push_constant16: left,
        storage_input_output16: left,
        ..Default::default()
    };
    let mut pointers = vk::PhysicalDeviceVariablePointersFeatures {
        variable_pointers_storage_buffer: left,
        variable_pointers: left,
        ..Default::default()
    };
    let mut protected = vk::PhysicalDeviceProtectedMemoryFeatures { protected_memory: left, ..Default::default() };
    let mut parameters =
        vk::PhysicalDeviceShaderDrawParametersFeatures { shader_draw_parameters: left, ..Default::default() };
    let mut features = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut multiview)
        .push_next(&mut storage)
        .push_next(&mut pointers)
        .push_next(&mut protected)
        .push_next(&mut parameters);
    // SAFETY: the instance lives, and the chain is of outputs.
    unsafe { running.instance.get_physical_device_features2(running.physical, &mut features) };
    let written = [
        multiview.multiview,
        multiview.multiview_geometry_shader,
        multiview.multiview_tessellation_shader,
        storage.storage_buffer16_bit_access,
        storage.uniform_and_storage_buffer16_bit_access,
        storage.storage_push_constant16,
        storage.storage_input_output16,
        pointers.variable_pointers_storage_buffer,
        pointers.variable_pointers,
        protected.protected_memory,
        parameters.shader_draw_parameters,
    ];
    assert_eq!(written, [vk::FALSE; 11]);
    let mut views = vk::PhysicalDeviceMultiviewProperties::default();
    let mut fault = vk::PhysicalDeviceProtectedMemoryProperties { protected_no_fault: left, ..Default::default() };
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut views).push_next(&mut fault);
    // SAFETY: the instance lives, and the chain is of outputs.
    unsafe { running.instance.get_physical_device_properties2(running.physical, &mut properties) };
    assert_eq!(fault.protected_no_fault, vk::FALSE);
    assert!(views.max_multiview_view_count >= 6 && views.max_multiview_instance_index >= (1 << 27) - 1);
}

/// What cannot be aligned, or multiplied, is refused when it is created, and never a small requirement.
#[test]
fn sizes_near_the_end_of_64_bits_are_refused() {
    let running = Running::new(None);
    let device = &running.device;
    let buffer = |size| {
        // SAFETY: a plain buffer.
        unsafe { device.create_buffer(&vk::BufferCreateInfo::default().size(size), None) }
    };
    for size in [u64::MAX, u64::MAX - 62] {
        assert_eq!(buffer(size), Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY), "{size}");
    }
    let last = u64::MAX - 63;
    let largest = buffer(last).expect("memory");
    // SAFETY: a live buffer.
    let needed = unsafe { device.get_buffer_memory_requirements(largest) };
    assert_eq!(needed.size, last);
    // SAFETY: not used any more.
    unsafe { device.destroy_buffer(largest, None) };
    let extent = |width| vk::Extent3D { width, height: u32::MAX, depth: 1 };
    for (format, width) in [(vk::Format::R32_UINT, u32::MAX), (vk::Format::R8_UINT, u32::MAX)] {
        let info = vk::ImageCreateInfo::default().format(format).extent(extent(width)).array_layers(2);
        // SAFETY: the driver reads the info alone.
        let made = unsafe { device.create_image(&info, None) };
        assert_eq!(made, Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
    }
    // Memory that no process can map.
    let info = vk::MemoryAllocateInfo::default().allocation_size(u64::MAX);
    // SAFETY: the driver reads the info alone.
    let mapped = unsafe { device.allocate_memory(&info, None) };
    assert_eq!(mapped, Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
}
