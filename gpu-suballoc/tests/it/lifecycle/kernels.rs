//! Compiled kernels: H29, their rollback, and files of them.

use super::*;

#[test]
fn h29_a_kernel_goes_pipelines_first_and_module_last() {
    application!(memory, driver, home);
    let context = acquire(&home, &memory, &driver);
    driver.log();
    drop(kernel(&context, 1));
    let made = [
        "vkCreateShaderModule",
        "vkCreateDescriptorSetLayout",
        "vkCreateDescriptorSetLayout",
        "vkCreatePipelineLayout",
    ];
    assert_eq!(driver.log(), [&made[..], &["a pipeline"; 2]].concat());
    assert_eq!(
        context
            .shaders()
            .cache()
            .delete_where(|_, _| true)
            .destroyed,
        1
    );
    let gone = [
        "vkDestroyPipeline",
        "vkDestroyPipeline",
        "vkDestroyPipelineLayout",
        "vkDestroyDescriptorSetLayout",
        "vkDestroyDescriptorSetLayout",
        "vkDestroyShaderModule",
    ];
    assert_eq!(driver.log(), gone);
}

#[test]
fn h29_what_was_made_before_a_refusal_goes_in_the_same_order() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
    let before = (driver.live(), host.live());
    for nth in 1..=6 {
        driver.fail(Some((nth, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)));
        let CacheError::Compile(refused) = try_kernel(&context, 1).unwrap_err() else {
            panic!("the compiler's error")
        };
        assert_eq!(refused, DeviceError::OutOfDeviceMemory.into());
        assert_eq!((driver.live(), host.live()), before, "step {nth}");
    }
    driver.fail(None);
    drop(kernel(&context, 1));
    assert_eq!(driver.live(), before.0 + 6);
}

const MINE: StoreIdentity = StoreIdentity {
    vendor: 1,
    device: 2,
    driver_version: 3,
    format: 4,
    pipeline_cache_uuid: [5; 16],
    device_uuid: [6; 16],
};

#[test]
fn kernels_and_the_pipeline_cache_go_through_a_file() {
    application!(memory, driver, home);
    let (mut code, mut cache) = (
        TryVec::new_in(memory.own.handle()),
        TryVec::new_in(memory.own.handle()),
    );
    {
        let context = acquire(&home, &memory, &driver);
        (0..3).for_each(|number| drop(kernel(&context, number)));
        let device = context.shaders().device();
        let mut writer = StoreWriter::new(&mut code, &MINE).unwrap();
        home.cache()
            .save(device, &mut writer, |_, kernel| kernel.code())
            .unwrap();
        assert_eq!(writer.finish().unwrap().0, 3);
        let mut blob = TryVec::new_in(memory.own.handle());
        context.pipeline_cache_data(&mut blob).unwrap();
        assert_eq!(*blob, *b"what was compiled");
        let mut writer = StoreWriter::new(&mut cache, &MINE).unwrap();
        writer
            .add(
                ShaderKey::content(device, ContentHash::of(b"VkPipelineCache")),
                &blob,
            )
            .unwrap();
        writer.finish().unwrap();
        drop(blob);
        context.release().unwrap();
    }
    assert_eq!(driver.live(), 0);

    let stored = StoredShaders::open(&cache, &MINE).unwrap();
    let blob = stored
        .iter(CacheDevice::new_unique())
        .next()
        .unwrap()
        .binary;
    let context = try_acquire(
        &home,
        AshContextInfo {
            pipeline_cache_data: blob,
            ..info(&memory, &driver, None)
        },
    )
    .unwrap();
    assert_eq!(driver.pipeline_cache(), b"what was compiled");
    let file = StoredShaders::open(&code, &MINE).unwrap();
    let count = context.shaders().restore(&file, |_, binary| {
        let words: Vec<u32> = binary
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        assert_eq!(words, CODE);
        let info = KernelInfo {
            code: &words,
            set_layouts: &[],
            push_constant_ranges: &[],
            pipelines: &[],
            keep_code: false,
        };
        // SAFETY: the fake looks at nothing.
        unsafe { context.compile(&info) }
    });
    assert_eq!(count.map(|counts| counts.restored), Ok(3));
    driver.log();
    assert!(
        kernel(&context, 2).code().is_none(),
        "found, as it was restored"
    );
    assert_eq!(driver.log(), [""; 0], "and not compiled again");
}
