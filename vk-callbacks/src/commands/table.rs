//! The rows of single commands, in the order of their names, which the look-up needs and a test checks.

#![forbid(unsafe_code)]

use super::row::{
    CommandRow, CommandSignature as Sig, allocate, create, create_cache, destroy, destroy_cache,
    end, free, join, merge, on_pool, plain, reset,
};

pub(super) const TABLE: &[CommandRow] = &[
    allocate("vkAllocateCommandBuffers", "VkCommandBuffer"),
    allocate("vkAllocateDescriptorSets", "VkDescriptorSet"),
    create("vkAllocateMemory", "VkDeviceMemory"),
    reset("vkBeginCommandBuffer"),
    plain("vkBuildAccelerationStructuresKHR").deferrable(),
    plain("vkBuildMicromapsEXT").deferrable(),
    plain("vkCopyAccelerationStructureKHR").deferrable(),
    plain("vkCopyAccelerationStructureToMemoryKHR").deferrable(),
    plain("vkCopyMemoryToAccelerationStructureKHR").deferrable(),
    plain("vkCopyMemoryToMicromapEXT").deferrable(),
    plain("vkCopyMicromapEXT").deferrable(),
    plain("vkCopyMicromapToMemoryEXT").deferrable(),
    create(
        "vkCreateAccelerationStructure2KHR",
        "VkAccelerationStructureKHR",
    ),
    create(
        "vkCreateAccelerationStructureKHR",
        "VkAccelerationStructureKHR",
    ),
    create(
        "vkCreateAccelerationStructureNV",
        "VkAccelerationStructureNV",
    ),
    create("vkCreateAndroidSurfaceKHR", "VkSurfaceKHR").on_instance(),
    create("vkCreateBuffer", "VkBuffer"),
    create(
        "vkCreateBufferCollectionFUCHSIA",
        "VkBufferCollectionFUCHSIA",
    ),
    create("vkCreateBufferView", "VkBufferView"),
    create("vkCreateCommandPool", "VkCommandPool"),
    create("vkCreateComputePipelines", "VkPipeline")
        .with(Sig::CreatePipelines)
        .fills_cache()
        .many(),
    create("vkCreateCuFunctionNVX", "VkCuFunctionNVX"),
    create("vkCreateCuModuleNVX", "VkCuModuleNVX"),
    create("vkCreateCudaFunctionNV", "VkCudaFunctionNV"),
    create("vkCreateCudaModuleNV", "VkCudaModuleNV"),
    create(
        "vkCreateDataGraphPipelineSessionARM",
        "VkDataGraphPipelineSessionARM",
    ),
    create("vkCreateDataGraphPipelinesARM", "VkPipeline")
        .with(Sig::CreateDeferredPipelines)
        .fills_cache()
        .many()
        .deferrable(),
    create("vkCreateDebugReportCallbackEXT", "VkDebugReportCallbackEXT").on_instance(),
    create("vkCreateDebugUtilsMessengerEXT", "VkDebugUtilsMessengerEXT").on_instance(),
    create("vkCreateDeferredOperationKHR", "VkDeferredOperationKHR").with(Sig::CreateWithoutInfo),
    create("vkCreateDescriptorPool", "VkDescriptorPool"),
    create("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout"),
    create(
        "vkCreateDescriptorUpdateTemplate",
        "VkDescriptorUpdateTemplate",
    ),
    create(
        "vkCreateDescriptorUpdateTemplateKHR",
        "VkDescriptorUpdateTemplate",
    ),
    create("vkCreateDevice", "VkDevice").on_instance(),
    create("vkCreateDirectFBSurfaceEXT", "VkSurfaceKHR").on_instance(),
    create("vkCreateDisplayModeKHR", "VkDisplayModeKHR")
        .with(Sig::CreateForDisplay)
        .on_instance(),
    create("vkCreateDisplayPlaneSurfaceKHR", "VkSurfaceKHR").on_instance(),
    create("vkCreateEvent", "VkEvent"),
    create("vkCreateExecutionGraphPipelinesAMDX", "VkPipeline")
        .with(Sig::CreatePipelines)
        .fills_cache()
        .many(),
    create("vkCreateExternalComputeQueueNV", "VkExternalComputeQueueNV"),
    create("vkCreateFence", "VkFence"),
    create("vkCreateFramebuffer", "VkFramebuffer"),
    create("vkCreateGpaSessionAMD", "VkGpaSessionAMD"),
    create("vkCreateGraphicsPipelines", "VkPipeline")
        .with(Sig::CreatePipelines)
        .fills_cache()
        .many(),
    create("vkCreateHeadlessSurfaceEXT", "VkSurfaceKHR").on_instance(),
    create("vkCreateIOSSurfaceMVK", "VkSurfaceKHR").on_instance(),
    create("vkCreateImage", "VkImage"),
    create("vkCreateImagePipeSurfaceFUCHSIA", "VkSurfaceKHR").on_instance(),
    create("vkCreateImageView", "VkImageView"),
    create(
        "vkCreateIndirectCommandsLayoutEXT",
        "VkIndirectCommandsLayoutEXT",
    ),
    create(
        "vkCreateIndirectCommandsLayoutNV",
        "VkIndirectCommandsLayoutNV",
    ),
    create(
        "vkCreateIndirectExecutionSetEXT",
        "VkIndirectExecutionSetEXT",
    ),
    create("vkCreateInstance", "VkInstance")
        .with(Sig::CreateInstance)
        .without_instance(),
    create("vkCreateMacOSSurfaceMVK", "VkSurfaceKHR").on_instance(),
    create("vkCreateMetalSurfaceEXT", "VkSurfaceKHR").on_instance(),
    create("vkCreateMicromapEXT", "VkMicromapEXT"),
    create("vkCreateOpticalFlowSessionNV", "VkOpticalFlowSessionNV"),
    create("vkCreatePipelineBinariesKHR", "VkPipelineBinaryKHR")
        .with(Sig::CreateList)
        .many(),
    create_cache("vkCreatePipelineCache", "VkPipelineCache"),
    create("vkCreatePipelineLayout", "VkPipelineLayout"),
    create("vkCreatePrivateDataSlot", "VkPrivateDataSlot"),
    create("vkCreatePrivateDataSlotEXT", "VkPrivateDataSlot"),
    create("vkCreateQueryPool", "VkQueryPool"),
    create("vkCreateRayTracingPipelinesKHR", "VkPipeline")
        .with(Sig::CreateDeferredPipelines)
        .fills_cache()
        .many()
        .deferrable(),
    create("vkCreateRayTracingPipelinesNV", "VkPipeline")
        .with(Sig::CreatePipelines)
        .fills_cache()
        .many(),
    create("vkCreateRenderPass", "VkRenderPass"),
    create("vkCreateRenderPass2", "VkRenderPass"),
    create("vkCreateRenderPass2KHR", "VkRenderPass"),
    create("vkCreateSampler", "VkSampler"),
    create("vkCreateSamplerYcbcrConversion", "VkSamplerYcbcrConversion"),
    create(
        "vkCreateSamplerYcbcrConversionKHR",
        "VkSamplerYcbcrConversion",
    ),
    create("vkCreateScreenSurfaceQNX", "VkSurfaceKHR").on_instance(),
    create("vkCreateSemaphore", "VkSemaphore"),
    create("vkCreateSemaphoreSciSyncPoolNV", "VkSemaphoreSciSyncPoolNV"),
    create(
        "vkCreateShaderInstrumentationARM",
        "VkShaderInstrumentationARM",
    ),
    create("vkCreateShaderModule", "VkShaderModule").fills_cache(),
    create("vkCreateShadersEXT", "VkShaderEXT")
        .with(Sig::CreateMany)
        .many(),
    create("vkCreateSharedSwapchainsKHR", "VkSwapchainKHR")
        .with(Sig::CreateMany)
        .many(),
    create("vkCreateStreamDescriptorSurfaceGGP", "VkSurfaceKHR").on_instance(),
    create("vkCreateSurfaceOHOS", "VkSurfaceKHR").on_instance(),
    create("vkCreateSwapchainKHR", "VkSwapchainKHR"),
    create("vkCreateTensorARM", "VkTensorARM"),
    create("vkCreateTensorViewARM", "VkTensorViewARM"),
    create("vkCreateUbmSurfaceSEC", "VkSurfaceKHR").on_instance(),
    create_cache("vkCreateValidationCacheEXT", "VkValidationCacheEXT"),
    create("vkCreateViSurfaceNN", "VkSurfaceKHR").on_instance(),
    create("vkCreateVideoSessionKHR", "VkVideoSessionKHR"),
    create(
        "vkCreateVideoSessionParametersKHR",
        "VkVideoSessionParametersKHR",
    ),
    create("vkCreateWaylandSurfaceKHR", "VkSurfaceKHR").on_instance(),
    create("vkCreateWin32SurfaceKHR", "VkSurfaceKHR").on_instance(),
    create("vkCreateXcbSurfaceKHR", "VkSurfaceKHR").on_instance(),
    create("vkCreateXlibSurfaceKHR", "VkSurfaceKHR").on_instance(),
    join("vkDeferredOperationJoinKHR"),
    destroy(
        "vkDestroyAccelerationStructureKHR",
        "VkAccelerationStructureKHR",
    ),
    destroy(
        "vkDestroyAccelerationStructureNV",
        "VkAccelerationStructureNV",
    ),
    destroy("vkDestroyBuffer", "VkBuffer"),
    destroy(
        "vkDestroyBufferCollectionFUCHSIA",
        "VkBufferCollectionFUCHSIA",
    ),
    destroy("vkDestroyBufferView", "VkBufferView"),
    destroy("vkDestroyCommandPool", "VkCommandPool"),
    destroy("vkDestroyCuFunctionNVX", "VkCuFunctionNVX"),
    destroy("vkDestroyCuModuleNVX", "VkCuModuleNVX"),
    destroy("vkDestroyCudaFunctionNV", "VkCudaFunctionNV"),
    destroy("vkDestroyCudaModuleNV", "VkCudaModuleNV"),
    destroy(
        "vkDestroyDataGraphPipelineSessionARM",
        "VkDataGraphPipelineSessionARM",
    ),
    destroy(
        "vkDestroyDebugReportCallbackEXT",
        "VkDebugReportCallbackEXT",
    )
    .on_instance(),
    destroy(
        "vkDestroyDebugUtilsMessengerEXT",
        "VkDebugUtilsMessengerEXT",
    )
    .on_instance(),
    destroy("vkDestroyDeferredOperationKHR", "VkDeferredOperationKHR"),
    destroy("vkDestroyDescriptorPool", "VkDescriptorPool"),
    destroy("vkDestroyDescriptorSetLayout", "VkDescriptorSetLayout"),
    destroy(
        "vkDestroyDescriptorUpdateTemplate",
        "VkDescriptorUpdateTemplate",
    ),
    destroy(
        "vkDestroyDescriptorUpdateTemplateKHR",
        "VkDescriptorUpdateTemplate",
    ),
    destroy("vkDestroyDevice", "VkDevice").with(Sig::DestroyParent),
    destroy("vkDestroyEvent", "VkEvent"),
    destroy(
        "vkDestroyExternalComputeQueueNV",
        "VkExternalComputeQueueNV",
    ),
    destroy("vkDestroyFence", "VkFence"),
    destroy("vkDestroyFramebuffer", "VkFramebuffer"),
    destroy("vkDestroyGpaSessionAMD", "VkGpaSessionAMD"),
    destroy("vkDestroyImage", "VkImage"),
    destroy("vkDestroyImageView", "VkImageView"),
    destroy(
        "vkDestroyIndirectCommandsLayoutEXT",
        "VkIndirectCommandsLayoutEXT",
    ),
    destroy(
        "vkDestroyIndirectCommandsLayoutNV",
        "VkIndirectCommandsLayoutNV",
    ),
    destroy(
        "vkDestroyIndirectExecutionSetEXT",
        "VkIndirectExecutionSetEXT",
    ),
    destroy("vkDestroyInstance", "VkInstance")
        .with(Sig::DestroyParent)
        .on_instance(),
    destroy("vkDestroyMicromapEXT", "VkMicromapEXT"),
    destroy("vkDestroyOpticalFlowSessionNV", "VkOpticalFlowSessionNV"),
    destroy("vkDestroyPipeline", "VkPipeline"),
    destroy("vkDestroyPipelineBinaryKHR", "VkPipelineBinaryKHR"),
    destroy_cache("vkDestroyPipelineCache", "VkPipelineCache"),
    destroy("vkDestroyPipelineLayout", "VkPipelineLayout"),
    destroy("vkDestroyPrivateDataSlot", "VkPrivateDataSlot"),
    destroy("vkDestroyPrivateDataSlotEXT", "VkPrivateDataSlot"),
    destroy("vkDestroyQueryPool", "VkQueryPool"),
    destroy("vkDestroyRenderPass", "VkRenderPass"),
    destroy("vkDestroySampler", "VkSampler"),
    destroy(
        "vkDestroySamplerYcbcrConversion",
        "VkSamplerYcbcrConversion",
    ),
    destroy(
        "vkDestroySamplerYcbcrConversionKHR",
        "VkSamplerYcbcrConversion",
    ),
    destroy("vkDestroySemaphore", "VkSemaphore"),
    destroy(
        "vkDestroySemaphoreSciSyncPoolNV",
        "VkSemaphoreSciSyncPoolNV",
    ),
    destroy("vkDestroyShaderEXT", "VkShaderEXT"),
    destroy(
        "vkDestroyShaderInstrumentationARM",
        "VkShaderInstrumentationARM",
    ),
    destroy("vkDestroyShaderModule", "VkShaderModule"),
    destroy("vkDestroySurfaceKHR", "VkSurfaceKHR").on_instance(),
    destroy("vkDestroySwapchainKHR", "VkSwapchainKHR"),
    destroy("vkDestroyTensorARM", "VkTensorARM"),
    destroy("vkDestroyTensorViewARM", "VkTensorViewARM"),
    destroy_cache("vkDestroyValidationCacheEXT", "VkValidationCacheEXT"),
    destroy("vkDestroyVideoSessionKHR", "VkVideoSessionKHR"),
    destroy(
        "vkDestroyVideoSessionParametersKHR",
        "VkVideoSessionParametersKHR",
    ),
    end("vkEndCommandBuffer"),
    free("vkFreeCommandBuffers", "VkCommandBuffer"),
    free("vkFreeDescriptorSets", "VkDescriptorSet"),
    destroy("vkFreeMemory", "VkDeviceMemory"),
    on_pool("vkGetCommandPoolMemoryConsumption", "VkCommandPool"),
    merge("vkMergePipelineCaches", "VkPipelineCache"),
    merge("vkMergeValidationCachesEXT", "VkValidationCacheEXT"),
    create("vkRegisterDeviceEventEXT", "VkFence"),
    create("vkRegisterDisplayEventEXT", "VkFence").with(Sig::CreateForDisplay),
    destroy("vkReleaseCapturedPipelineDataKHR", "VkPipeline").with(Sig::Release),
    reset("vkResetCommandBuffer"),
    on_pool("vkResetCommandPool", "VkCommandPool"),
    on_pool("vkResetDescriptorPool", "VkDescriptorPool"),
    on_pool("vkTrimCommandPool", "VkCommandPool"),
    on_pool("vkTrimCommandPoolKHR", "VkCommandPool"),
];
