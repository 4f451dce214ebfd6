//! Any bytes as a shader. The fuzz target `shader_reader` runs this too.

use ash::vk::ShaderStageFlags as Stage;
use reference_driver::{Unsupported, try_shader};

/// The workload's shaders, with their stages.
pub(crate) const SHADERS: [(&[u8], Stage); 3] = [
    (include_bytes!("../../../steward/shaders/hash.comp.spv"), Stage::COMPUTE),
    (include_bytes!("../../../steward/shaders/draw.vert.spv"), Stage::VERTEX),
    (include_bytes!("../../../steward/shaders/draw.frag.spv"), Stage::FRAGMENT),
];

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

/// The first byte chooses a shader. From 128 on what follows is the module itself; below that it is how to change the
/// workload's shader, four bytes a change: where, how, and with what.
///
/// # Panics
/// When the driver does, or does not answer twice alike.
pub(crate) fn shader_reader(data: &[u8]) -> Result<(), Unsupported> {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let (original, stage) = SHADERS[usize::from(first % 128) % SHADERS.len()];
    let mut module = words(if *first < 128 { original } else { rest });
    if *first < 128 {
        for &[low, high, how, with] in rest.as_chunks().0 {
            let at = usize::from(u16::from_le_bytes([low, high])) % module.len();
            let from = module[(at + usize::from(with)) % module.len()];
            match how % 6 {
                0 => module[at] = with.into(),
                1 => module[at] ^= 1 << (with % 32),
                2 => module[at] = from,
                3 => module[at] = module[at].wrapping_add(with.into()),
                4 => module[at] = u32::MAX,
                _ => module.truncate(at.max(1)),
            }
        }
    }
    let answer = try_shader(&module, stage);
    assert_eq!(try_shader(&module, stage), answer);
    answer
}
