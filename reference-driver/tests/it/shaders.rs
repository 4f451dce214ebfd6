//! The driver's reader of SPIR-V.

use ash::vk;
use reference_driver::{Unsupported, try_shader};
use testkit::Rng;

use crate::shader_reader::{SHADERS, shader_reader, words};

#[test]
fn rd19_the_three_shaders_run_and_every_instruction_outside_is_refused() {
    for (bytes, stage) in SHADERS {
        let words = words(bytes);
        assert_eq!(try_shader(&words, stage), Ok(()));
        let other = vk::ShaderStageFlags::GEOMETRY;
        assert_eq!(try_shader(&words, other), Err(Unsupported), "another stage");
        assert_eq!(try_shader(&words[..words.len() - 2], stage), Err(Unsupported), "cut");
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

/// 10^5 modules with some words changed, and what the fuzzer begins with: an answer for each, and no panic.
#[test]
fn rd19_mutated_modules_are_answered() {
    testkit::programs::replay_seeds("shader_reader", |bytes| {
        let _ = shader_reader(bytes);
    });
    let mut rng = Rng::new(0x5917);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..100_000 {
        let changes = 1 + rng.below(3) as usize;
        let mut recipe = rng.bytes(1 + 4 * changes);
        // A shader cut short is refused soon: one in a hundred is enough.
        if round % 100 > 0 {
            (0..changes).for_each(|change| recipe[3 + 4 * change] %= 5);
        }
        recipe[0] %= 128;
        match shader_reader(&recipe) {
            Ok(()) => accepted += 1,
            Err(Unsupported) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}
