use ash::vk;

use super::device::Device;
use super::error::WorkloadError;
use super::expect::SIDE;
use super::object::Guard;
use super::pipelines::guard;
use super::resources::FORMAT;

/// Fields are in reverse order of creation.
pub(super) struct Graphics<'d> {
    pub(super) pipeline: Guard<'d, vk::Pipeline>,
    pub(super) framebuffer: Guard<'d, vk::Framebuffer>,
    pub(super) render_pass: Guard<'d, vk::RenderPass>,
}

impl<'d> Graphics<'d> {
    pub(super) fn new(
        device: &'d Device<'d>,
        cache: vk::PipelineCache,
        shaders: [vk::ShaderModule; 2],
        layout: vk::PipelineLayout,
        target: vk::ImageView,
    ) -> Result<Self, WorkloadError> {
        let render_pass = render_pass(device)?;
        let attachments = [target];
        let info = vk::FramebufferCreateInfo::default()
            .render_pass(*render_pass)
            .attachments(&attachments)
            .width(SIDE)
            .height(SIDE)
            .layers(1);
        // SAFETY: the view has the render pass's format and the framebuffer's size.
        let framebuffer = unsafe { device.create(&info) }?;
        let pipeline = draw_pipeline(device, cache, shaders, layout, *render_pass)?;
        Ok(Self { pipeline, framebuffer, render_pass })
    }
}

fn render_pass<'d>(device: &'d Device<'d>) -> Result<Guard<'d, vk::RenderPass>, WorkloadError> {
    let attachments = [vk::AttachmentDescription::default()
        .format(FORMAT)
        .samples(vk::SampleCountFlags::TYPE_1)
        .load_op(vk::AttachmentLoadOp::CLEAR)
        .store_op(vk::AttachmentStoreOp::STORE)
        .stencil_load_op(vk::AttachmentLoadOp::DONT_CARE)
        .stencil_store_op(vk::AttachmentStoreOp::DONT_CARE)
        .initial_layout(vk::ImageLayout::UNDEFINED)
        .final_layout(vk::ImageLayout::TRANSFER_SRC_OPTIMAL)];
    let colors = [vk::AttachmentReference { attachment: 0, layout: vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL }];
    let subpasses = [vk::SubpassDescription::default()
        .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
        .color_attachments(&colors)];
    let then_copy = [vk::SubpassDependency::default()
        .src_subpass(0)
        .dst_subpass(vk::SUBPASS_EXTERNAL)
        .src_stage_mask(vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT)
        .dst_stage_mask(vk::PipelineStageFlags::TRANSFER)
        .src_access_mask(vk::AccessFlags::COLOR_ATTACHMENT_WRITE)
        .dst_access_mask(vk::AccessFlags::TRANSFER_READ)];
    let info =
        vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses).dependencies(&then_copy);
    // SAFETY: the references name the one attachment and the one subpass; all arrays outlive the call.
    unsafe { device.create(&info) }
}

fn draw_pipeline<'d>(
    device: &'d Device<'d>,
    cache: vk::PipelineCache,
    [vertex, fragment]: [vk::ShaderModule; 2],
    layout: vk::PipelineLayout,
    render_pass: vk::RenderPass,
) -> Result<Guard<'d, vk::Pipeline>, WorkloadError> {
    let stage = |stage, module| vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main");
    let stages = [stage(vk::ShaderStageFlags::VERTEX, vertex), stage(vk::ShaderStageFlags::FRAGMENT, fragment)];
    let no_vertices = vk::PipelineVertexInputStateCreateInfo::default();
    let triangles = vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let side = SIDE as f32;
    let viewports = [vk::Viewport { x: 0.0, y: 0.0, width: side, height: side, min_depth: 0.0, max_depth: 1.0 }];
    let scissors = [area()];
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewports(&viewports).scissors(&scissors);
    let rasterization = vk::PipelineRasterizationStateCreateInfo::default()
        .polygon_mode(vk::PolygonMode::FILL)
        .cull_mode(vk::CullModeFlags::NONE)
        .line_width(1.0);
    let multisample =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let writes = [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&writes);
    let info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&no_vertices)
        .input_assembly_state(&triangles)
        .viewport_state(&viewport)
        .rasterization_state(&rasterization)
        .multisample_state(&multisample)
        .color_blend_state(&blend)
        .layout(layout)
        .render_pass(render_pass);

    let (mut handle, none) = (vk::Pipeline::null(), std::ptr::null());
    let (create, this) = (device.fp_v1_0().create_graphics_pipelines, device.handle());
    let out = &raw mut handle;
    // SAFETY: modules, layout, render pass and cache live and fit one another; the states outlive the call.
    let made = unsafe { create(this, cache, 1, &raw const info, none, out) };
    // SAFETY: a handle that is not NULL was created by this command, and nothing else destroys it.
    let guarded = unsafe { guard(device, handle) };
    made.result().map_err(WorkloadError::of("vkCreateGraphicsPipelines"))?;
    guarded.ok_or(WorkloadError::Command { command: "vkCreateGraphicsPipelines", result: vk::Result::ERROR_UNKNOWN })
}

pub(super) fn area() -> vk::Rect2D {
    vk::Rect2D { offset: vk::Offset2D { x: 0, y: 0 }, extent: vk::Extent2D { width: SIDE, height: SIDE } }
}
