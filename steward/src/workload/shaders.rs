//! The compiled shaders. Their sources lie beside them in `shaders/`; a test compiles them again and compares.

#![forbid(unsafe_code)]

use ash::vk;

pub(super) const HASH_COMP: Code = Code(include_bytes!("../../shaders/hash.comp.spv"));
pub(super) const DRAW_VERT: Code = Code(include_bytes!("../../shaders/draw.vert.spv"));
pub(super) const DRAW_FRAG: Code = Code(include_bytes!("../../shaders/draw.frag.spv"));

/// A module as its file has it: words, least significant byte first.
pub(super) struct Code(&'static [u8]);

impl Code {
    /// The words, aligned as `pCode` must be.
    pub(super) fn words(&self) -> Vec<u32> {
        self.0
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect()
    }
}

/// Calls `compile` with `hash.comp`: its code, descriptor set, push constants, and a specialisation constant that makes it another kernel.
pub(crate) fn hash_kernel<R>(
    number: u32,
    compile: impl FnOnce(
        &[u32],
        &[vk::DescriptorSetLayoutCreateInfo<'_>],
        &[vk::PushConstantRange],
        &vk::SpecializationInfo<'_>,
    ) -> R,
) -> R {
    use vk::DescriptorType as Type;
    let stage = vk::ShaderStageFlags::COMPUTE;
    let types = [
        Type::STORAGE_BUFFER,
        Type::UNIFORM_TEXEL_BUFFER,
        Type::UNIFORM_BUFFER,
    ];
    let mut bindings = types.map(|kind| {
        vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(kind)
            .descriptor_count(1)
            .stage_flags(stage)
    });
    (0..)
        .zip(&mut bindings)
        .for_each(|(number, binding)| binding.binding = number);
    let sets = [vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings)];
    let ranges = [vk::PushConstantRange {
        stage_flags: stage,
        offset: 0,
        size: 4,
    }];
    let (entry, data) = (
        [vk::SpecializationMapEntry {
            constant_id: 0,
            offset: 0,
            size: 4,
        }],
        number.to_ne_bytes(),
    );
    let specialization = vk::SpecializationInfo::default()
        .map_entries(&entry)
        .data(&data);
    compile(&HASH_COMP.words(), &sets, &ranges, &specialization)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_begins_with_the_number_of_spir_v() {
        for code in [HASH_COMP, DRAW_VERT, DRAW_FRAG] {
            assert_eq!(code.0.len() % 4, 0);
            assert_eq!(code.words().first(), Some(&0x0723_0203));
        }
    }
}
