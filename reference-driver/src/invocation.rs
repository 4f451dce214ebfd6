use ash::vk;

use crate::bytes::Bytes;
use crate::descriptors::{Descriptor, Slot};
use crate::edge::Items;
use crate::exec::Bound;
use crate::interpreter::{Output, World};
use crate::pipelines::has_builtin;

pub(crate) struct InvocationWorld<'b> {
    pub(crate) bound: &'b Bound,
    pub(crate) stage: vk::ShaderStageFlags,
    pub(crate) builtin: [u32; 4],
    pub(crate) position: [u32; 4],
    pub(crate) color: [u32; 4],
}

impl InvocationWorld<'_> {
    fn descriptor(&self, binding: u32) -> Descriptor {
        let point = match self.stage {
            vk::ShaderStageFlags::COMPUTE => &self.bound.compute,
            _ => &self.bound.graphics,
        };
        let set = point.sets.get((binding >> 16) as usize);
        // SAFETY: valid usage: bound sets outlive the work, and do not change.
        let slots = set.and_then(|set| unsafe { Items::<((), Slot)>::get(*set) });
        let found = slots
            .and_then(|(_, slots)| slots.iter().find(|slot| slot.binding == binding & 0xFFFF && slot.element == 0));
        found.map_or(Descriptor::None, |slot| slot.descriptor)
    }

    fn bytes(&self, binding: u32) -> Bytes {
        match self.descriptor(binding) {
            Descriptor::Bytes(bytes) => bytes,
            _ => Bytes::NONE,
        }
    }
}

impl World for InvocationWorld<'_> {
    fn builtin(&self, number: u32) -> Option<[u32; 4]> {
        has_builtin(self.stage, number).then_some(self.builtin)
    }
    fn push_constant(&self, offset: u32) -> u32 {
        let word = self.bound.push.get((offset / 4) as usize);
        word.copied().unwrap_or(0)
    }
    fn load(&self, binding: u32, offset: u32) -> u32 {
        self.bytes(binding).word(offset.into())
    }
    fn store(&mut self, binding: u32, offset: u32, word: u32) {
        self.bytes(binding).set_word(offset.into(), word);
    }
    fn fetch(&self, binding: u32, index: u32) -> u32 {
        self.bytes(binding).word(4 * u64::from(index))
    }
    fn sample(&self, binding: u32, [x, y]: [f32; 2]) -> u32 {
        let Descriptor::Picture(surface, [u, v]) = self.descriptor(binding) else {
            return 0;
        };
        let at = (wrap(x, surface.width, u), wrap(y, surface.height, v));
        let offset = match at {
            (Some(x), Some(y)) => surface.offset(x, y),
            // The border is transparent black.
            _ => None,
        };
        offset.map_or(0, |offset| surface.bytes.word(offset))
    }
    fn output(&mut self, output: Output, words: [u32; 4]) {
        match output {
            Output::Position => self.position = words,
            Output::Location(0) => self.color = words,
            Output::Location(_) => {}
        }
    }
}

/// `at` is from 0 to 1. `None` on a border.
fn wrap(at: f32, size: u32, mode: vk::SamplerAddressMode) -> Option<u32> {
    let (texel, size) = ((at * size as f32).floor() as i64, i64::from(size).max(1));
    let texel = match mode {
        vk::SamplerAddressMode::REPEAT => texel.rem_euclid(size),
        vk::SamplerAddressMode::MIRRORED_REPEAT => {
            let twice = texel.rem_euclid(2 * size);
            twice.min(2 * size - 1 - twice)
        }
        vk::SamplerAddressMode::CLAMP_TO_EDGE => texel.clamp(0, size - 1),
        _ => texel,
    };
    u32::try_from(texel).ok().filter(|texel| i64::from(*texel) < size)
}
