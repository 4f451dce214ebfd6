//! Compiled kernels: H29, their rollback, and their pipeline cache. That they go through a file is in `cache::store`
//! and `live_lifecycle`.

use super::*;

#[test]
fn h29_a_kernel_goes_pipelines_first_and_module_last() {
    application!(memory, driver, home, context);
    driver.log();
    let words = |code: &[u8]| code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).eq(CODE.iter().copied());
    assert!(kernel(&context, 1).code().is_some_and(words), "least significant byte first");
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
fn a_pipeline_cache_begins_with_what_the_last_one_had() {
    application!(memory, driver, home, context);
    let mut data = TryVec::new_in(memory.own.handle());
    context.pipeline_cache_data(&mut data).unwrap();
    let again = AshContextInfo { pipeline_cache_data: &data, ..info(&memory, &driver, None) };
    drop((context, try_acquire(&home, again).unwrap()));
    assert_eq!(driver.pipeline_cache(), b"what was compiled");
}
