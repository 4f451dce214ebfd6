//! Compiled kernels: H29, their rollback, and files of them.

use super::*;

use crate::operations::caches::IDENTITY;

#[test]
fn h29_a_kernel_goes_pipelines_first_and_module_last() {
    application!(memory, driver, home, context);
    driver.log();
    drop(kernel(&context, 1));
    let made = [
        "vkCreateShaderModule",
        "vkCreateDescriptorSetLayout",
        "vkCreateDescriptorSetLayout",
        "vkCreatePipelineLayout",
    ];
    assert_eq!(driver.log(), [&made[..], &["a pipeline"; 2]].concat());
    assert_eq!(context.shaders().cache().delete_where(|_, _| true).destroyed, 1);
    let gone = [
        "vkDestroyPipeline",
        "vkDestroyPipeline",
        "vkDestroyPipelineLayout",
        "vkDestroyDescriptorSetLayout",
        "vkDestroyDescriptorSetLayout",
        "vkDestroyShaderModule",
    ];
    assert_eq!(driver.log(), gone);
    driver.fail(Some((4, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)));
    let Err(CacheError::Compile(refused)) = try_kernel(&context, 1) else { panic!("the compiler's error") };
    assert_eq!(refused, OutOfDeviceMemory.into());
    driver.fail(None);
    driver.log();
    driver.refuse_created_pipelines(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
    let Err(CacheError::Compile(refused)) = try_kernel(&context, 1) else { panic!("the compiler's error") };
    assert_eq!(refused, OutOfHostMemory.into());
    let refused = [&made[..], &["a pipeline"], &gone[1..]].concat();
    assert_eq!(driver.log(), refused, "the pipeline that was made goes too");
}

#[test]
fn kernels_and_the_pipeline_cache_go_through_a_file() {
    application!(memory, driver, home);
    let [mut code, mut blob] = each(|| TryVec::new_in(memory.own.handle()));
    {
        let context = acquire(&home, &memory, &driver);
        (0..3).for_each(|number| drop(kernel(&context, number)));
        let device = context.shaders().device();
        let mut writer = StoreWriter::new(&mut code, &IDENTITY).unwrap();
        home.cache().save(device, &mut writer, |_, kernel| kernel.code()).unwrap();
        assert_eq!(writer.finish().unwrap().0, 3);
        context.pipeline_cache_data(&mut blob).unwrap();
        context.release().unwrap();
    }
    assert_eq!(driver.live(), 0);

    let again = AshContextInfo { pipeline_cache_data: &blob, ..info(&memory, &driver, None) };
    let context = try_acquire(&home, again).unwrap();
    assert_eq!(driver.pipeline_cache(), b"what was compiled");
    let file = StoredShaders::open(&code, &IDENTITY).unwrap();
    let count = context.shaders().restore(&file, |_, binary| {
        let words: Vec<u32> = binary.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words, CODE);
        let info =
            KernelInfo { code: &words, set_layouts: &[], push_constant_ranges: &[], pipelines: &[], keep_code: false };
        // SAFETY: the fake looks at nothing.
        unsafe { context.compile(&info) }
    });
    assert_eq!(count.map(|counts| counts.restored), Ok(3));
    driver.log();
    assert!(kernel(&context, 2).code().is_none(), "found, as it was restored");
    assert_eq!(driver.log(), [""; 0], "and not compiled again");
}
