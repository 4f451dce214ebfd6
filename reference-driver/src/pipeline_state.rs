use ash::vk;

use crate::edge::{Items, raw, slice};
use crate::objects::ColorTarget;
use crate::pipelines::UNSUPPORTED;

/// All but the shaders.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// Words of the first shader.
    pub(crate) first: usize,
    pub(crate) viewport: vk::Viewport,
    pub(crate) scissor: vk::Rect2D,
    pub(crate) names: [EntryName; 2],
}

/// At most 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryName {
    bytes: [u8; 32],
    len: usize,
}

impl EntryName {
    const NONE: Self = Self { bytes: [0; 32], len: 0 };

    pub(crate) fn new(name: &[u8]) -> Result<Self, vk::Result> {
        let mut new = Self { len: name.len(), ..Self::NONE };
        let place = new.bytes.get_mut(..name.len()).ok_or(UNSUPPORTED)?;
        place.copy_from_slice(name);
        Ok(new)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// `None` if the driver cannot draw with it.
pub(crate) fn graphics_state(info: &vk::GraphicsPipelineCreateInfo<'_>) -> Option<State> {
    // SAFETY: valid usage: NULL, or a valid state.
    let vertices = unsafe { info.p_vertex_input_state.as_ref() }?;
    // SAFETY: valid usage: NULL, or a valid state.
    let assembly = unsafe { info.p_input_assembly_state.as_ref() }?;
    // SAFETY: valid usage: NULL, or a valid state.
    let raster = unsafe { info.p_rasterization_state.as_ref() }?;
    // SAFETY: valid usage: NULL, or a valid state.
    let viewport = unsafe { info.p_viewport_state.as_ref() }?;
    // SAFETY: valid usage: NULL, or a valid state.
    let blend = unsafe { info.p_color_blend_state.as_ref() }?;
    // SAFETY: valid usage: NULL, or a valid state.
    let dynamic = unsafe { info.p_dynamic_state.as_ref() };
    // SAFETY: valid usage: so many attachments.
    let writes = unsafe { slice(blend.p_attachments, blend.attachment_count) };
    // SAFETY: valid usage: a live pass.
    let pass = unsafe { Items::<(ColorTarget, bool)>::get(raw(info.render_pass)) };
    // SAFETY: valid usage: so many viewports, or NULL.
    let viewports = unsafe { slice(viewport.p_viewports, viewport.viewport_count) };
    // SAFETY: valid usage: so many scissors, or NULL.
    let scissors = unsafe { slice(viewport.p_scissors, viewport.scissor_count) };
    let writes_red = matches!(writes, [one] if one.blend_enable == vk::FALSE
        && one.color_write_mask.contains(vk::ColorComponentFlags::R));
    let plain = vertices.vertex_attribute_description_count == 0
        && assembly.topology == vk::PrimitiveTopology::TRIANGLE_LIST
        && raster.cull_mode == vk::CullModeFlags::NONE
        && raster.polygon_mode == vk::PolygonMode::FILL
        && raster.rasterizer_discard_enable == vk::FALSE
        && blend.logic_op_enable == vk::FALSE
        && dynamic.is_none_or(|dynamic| dynamic.dynamic_state_count == 0)
        && pass.is_some_and(|(color, _)| *color != ColorTarget::Unsupported);
    match (viewports, scissors) {
        (&[viewport], &[scissor]) if plain && writes_red => Some(State { viewport, scissor, ..NO_STATE }),
        _ => None,
    }
}

pub(crate) const NO_STATE: State = State {
    first: 0,
    viewport: vk::Viewport { x: 0.0, y: 0.0, width: 0.0, height: 0.0, min_depth: 0.0, max_depth: 0.0 },
    scissor: vk::Rect2D { offset: vk::Offset2D { x: 0, y: 0 }, extent: vk::Extent2D { width: 0, height: 0 } },
    names: [EntryName::NONE; 2],
};
