//! The driver's reader of SPIR-V.

use ash::vk;
use reference_driver::{Unsupported, try_shader};

pub(crate) const COMPUTE: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../../steward/shaders/hash.comp.spv"),
    vk::ShaderStageFlags::COMPUTE,
);
pub(crate) const VERTEX: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../../steward/shaders/draw.vert.spv"),
    vk::ShaderStageFlags::VERTEX,
);
pub(crate) const FRAGMENT: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../../steward/shaders/draw.frag.spv"),
    vk::ShaderStageFlags::FRAGMENT,
);

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect()
}

#[test]
fn rd19_the_three_shaders_run_and_every_instruction_outside_is_refused() {
    for (bytes, stage) in [COMPUTE, VERTEX, FRAGMENT] {
        let words = words(bytes);
        assert_eq!(try_shader(&words, stage), Ok(()));
        let other = vk::ShaderStageFlags::GEOMETRY;
        assert_eq!(try_shader(&words, other), Err(Unsupported), "another stage");
        assert_eq!(
            try_shader(&words[..words.len() - 2], stage),
            Err(Unsupported),
            "cut"
        );
        // One instruction more, of each code there is, at the end of the module, where no function is.
        let known = (0..=0xFFFF_u32).filter(|code| {
            let mut longer = words.clone();
            longer.push((1 << 16) | code);
            try_shader(&longer, stage).is_ok()
        });
        let known: Vec<_> = known.collect();
        // OpBranch, OpBranchConditional, OpLoopMerge, OpKill, OpAtomicIAdd, OpUndef, OpPhi
        for outside in [249, 250, 246, 252, 234, 1, 245] {
            assert!(!known.contains(&outside), "{outside}");
        }
        assert!((20..70).contains(&known.len()), "{known:?}");
    }
}

/// 10^5 modules with some words changed: an answer for each, and no panic.
#[test]
fn rd19_mutated_modules_are_answered() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let modules = [COMPUTE, VERTEX, FRAGMENT].map(|(bytes, stage)| (words(bytes), stage));
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..100_000 {
        let (original, stage) = &modules[round % modules.len()];
        let mut words = original.clone();
        for _ in 0..1 + random(3) {
            let at = random(words.len());
            words[at] = match random(4) {
                0 => random(300) as u32,
                1 => words[at] ^ (1 << random(32)),
                2 => words[random(words.len())],
                _ => u32::MAX,
            };
        }
        match try_shader(&words, *stage) {
            Ok(()) => accepted += 1,
            Err(Unsupported) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}
