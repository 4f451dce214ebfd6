//! A draw, and the samples that a query counts of it.

use ash::vk;

use crate::application::Running;
use crate::recording::{Bound, Commands};
use crate::shader_reader::{SHADERS, words};

/// The work is that of one instance: 2^32 of them would take days.
#[test]
fn rd18_each_instance_of_a_draw_counts_its_samples() {
    let running = Running::new(None);
    let device = &running.device;
    let image = Bound::new(device, 1, 1);
    let view = vk::ImageViewCreateInfo::default().image(image.image).format(vk::Format::R32_UINT);
    // SAFETY: a live image.
    let view = unsafe { device.create_image_view(&view, None) }.expect("memory");
    let attachments = [vk::AttachmentDescription::default()];
    let colors = [vk::AttachmentReference::default()];
    let subpasses = [vk::SubpassDescription::default().color_attachments(&colors)];
    let pass = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses);
    // SAFETY: the info names nothing.
    let pass = unsafe { device.create_render_pass(&pass, None) }.expect("memory");
    let views = [view];
    let framebuffer = vk::FramebufferCreateInfo::default().attachments(&views);
    // SAFETY: a live view.
    let framebuffer = unsafe { device.create_framebuffer(&framebuffer, None) }.expect("memory");
    let queries = vk::QueryPoolCreateInfo::default().query_count(1);
    // SAFETY: the info names nothing.
    let queries = unsafe { device.create_query_pool(&queries, None) }.expect("memory");
    let area = vk::Rect2D { offset: vk::Offset2D::default(), extent: vk::Extent2D { width: 4, height: 4 } };
    let pipeline = pipeline(device, pass, area);
    let commands = Commands::new(device, None);
    for instances in [0, 1, 3, u32::MAX] {
        let begin = vk::RenderPassBeginInfo::default().render_pass(pass).framebuffer(framebuffer).render_area(area);
        let recorded = commands.record(|to| {
            // SAFETY: recording, here and below; all that is named lives.
            unsafe { device.cmd_reset_query_pool(to, queries, 0, 1) };
            // SAFETY: recording; all that is named lives.
            unsafe { device.cmd_begin_render_pass(to, &begin, vk::SubpassContents::INLINE) };
            // SAFETY: recording; all that is named lives.
            unsafe { device.cmd_bind_pipeline(to, vk::PipelineBindPoint::GRAPHICS, pipeline) };
            // SAFETY: recording; all that is named lives.
            unsafe { device.cmd_begin_query(to, queries, 0, vk::QueryControlFlags::PRECISE) };
            // SAFETY: recording. No texture is bound: the driver reads 0.
            unsafe { device.cmd_draw(to, 3, instances, 0, 0) };
            // SAFETY: recording; all that is named lives.
            unsafe { device.cmd_end_query(to, queries, 0) };
            // SAFETY: recording; all that is named lives.
            unsafe { device.cmd_end_render_pass(to) };
        });
        assert_eq!(recorded, Ok(()));
        assert_eq!(commands.submit(vk::Fence::null()), Ok(()));
        let mut samples = [u64::MAX];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: the pool has one query.
        let counted = unsafe { device.get_query_pool_results(queries, 0, &mut samples, flags) };
        assert_eq!(counted, Ok(()));
        assert_eq!(samples, [16 * u64::from(instances)], "{instances}");
    }
    commands.end();
    // SAFETY: nothing uses it any more, here and below.
    unsafe { device.destroy_pipeline(pipeline, None) };
    // SAFETY: nothing uses it any more.
    unsafe { device.destroy_query_pool(queries, None) };
    // SAFETY: nothing uses it any more.
    unsafe { device.destroy_framebuffer(framebuffer, None) };
    // SAFETY: nothing uses it any more.
    unsafe { device.destroy_render_pass(pass, None) };
    // SAFETY: nothing uses it any more.
    unsafe { device.destroy_image_view(view, None) };
    image.end();
}

/// The workload's triangle, which covers everything.
fn pipeline(device: &ash::Device, pass: vk::RenderPass, area: vk::Rect2D) -> vk::Pipeline {
    let modules = [SHADERS[1], SHADERS[2]].map(|(bytes, stage)| {
        let code = words(bytes);
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: a whole module.
        let module = unsafe { device.create_shader_module(&info, None) };
        (module.expect("memory"), stage)
    });
    let stages = modules
        .map(|(module, stage)| vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main"));
    let vertices = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let viewports =
        [vk::Viewport::default().width(area.extent.width as f32).height(area.extent.height as f32).max_depth(1.0)];
    let scissors = [area];
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewports(&viewports).scissors(&scissors);
    let raster = vk::PipelineRasterizationStateCreateInfo::default();
    let writes = [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::R)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&writes);
    let info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&vertices)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&raster)
        .color_blend_state(&blend)
        .render_pass(pass);
    let none = vk::PipelineCache::null();
    // SAFETY: what the info names lives.
    let made = unsafe { device.create_graphics_pipelines(none, &[info], None) };
    for (module, _) in modules {
        // SAFETY: the pipeline has its own copy.
        unsafe { device.destroy_shader_module(module, None) };
    }
    made.expect("the driver draws it")[0]
}
