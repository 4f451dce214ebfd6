//! For each kind of finding the shortest log that leads to it, and to nothing else.

use vk_callbacks::check::FindingKind;

/// The owners that all logs know, and in what chain they stand.
pub(crate) const OWNERS: &str = "o,1,0,VkInstance\no,2,1,VkDevice\no,3,2,VkBuffer\no,4,2,VkImage\no,5,2,VkPipelineCache\n\
    o,6,2,VkDescriptorPool\no,7,2,VkCommandPool\no,8,2,VkDeferredOperationKHR\n";

/// The lines of the log.
pub(crate) fn log(kind: FindingKind) -> &'static str {
    use FindingKind as Kind;
    match kind {
        Kind::MissingAllocation => "s,0,3,0,no-pfnAllocation",
        Kind::MissingReallocation => "s,0,3,0,no-pfnReallocation",
        Kind::MissingFree => "s,0,3,0,no-pfnFree",
        Kind::HalfInternal => "s,0,3,0,half-internal",
        Kind::UnknownUserData => "e,1,3,vkCreateBuffer s,1,0,0,unknown-user-data l,1,0",
        Kind::OutsideChain => "e,1,4,vkCreateImage a,1,3,1,64,8,0 f,1,3,1 l,1,0",
        Kind::OldStructUsed => "e,1,3,vkDestroyBuffer s,1,3,0,old-struct l,1,0",
        Kind::BadAlignment => "e,1,3,vkCreateBuffer a,1,3,1,64,24,1 f,1,3,1 l,1,0",
        Kind::SizeZero => "e,1,3,vkCreateBuffer a,1,3,1,0,8,1 f,1,3,1 l,1,0",
        Kind::MisalignedAnswer => "e,1,3,vkCreateBuffer a,1,3,1,64,64,1 s,1,3,1,misaligned f,1,3,1 l,1,0",
        Kind::LiveBlockGivenAgain => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 a,1,3,1,64,8,1 f,1,3,1 l,1,0",
        Kind::OutOfMemoryWithoutNull => "e,1,3,vkCreateBuffer l,1,-1",
        Kind::OtherErrorAfterNull => "e,1,3,vkCreateBuffer a,1,3,0,64,8,1 l,1,-3",
        Kind::ReallocatedUnknown => "e,1,3,vkCreateBuffer b,1,3,?1 r,1,3,?1,0,64,8,1 l,1,-1",
        Kind::ReallocatedFreed => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 f,1,3,1 b,1,3,1 r,1,3,1,0,64,8,1 l,1,-1",
        Kind::ReallocatedThroughOther => {
            "e,1,2,vkCreateDevice a,1,2,1,64,8,3 l,1,0 e,1,3,vkCreateBuffer b,1,3,1 r,1,3,1,0,128,8,1 l,1,0 \
             e,1,2,vkDestroyDevice f,1,2,1 l,1,0"
        }
        Kind::ZeroAnswered => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 r,1,3,1,2,0,8,1 f,1,3,2 l,1,0",
        Kind::OtherAlignment => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 r,1,3,1,2,128,16,1 f,1,3,2 l,1,0",
        Kind::OldBlockGivenAway => {
            "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 r,1,3,1,0,128,8,1 a,1,3,1,64,8,1 f,1,3,1 l,1,0"
        }
        Kind::NullFree => "e,1,3,vkDestroyBuffer f,1,3,0 l,1,0",
        Kind::FreedUnknown => "e,1,3,vkDestroyBuffer f,1,3,?1 l,1,0",
        Kind::FreedTwice => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 f,1,3,1 f,1,3,1 l,1,0",
        Kind::FreedInTransit => {
            "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 e,2,3,vkDestroyBuffer f,2,3,1 l,2,0 r,1,3,1,2,128,8,1 f,1,3,2 l,1,0"
        }
        Kind::FreedThroughOther => {
            "e,1,2,vkCreateDevice a,1,2,1,64,8,3 l,1,0 e,1,3,vkDestroyBuffer f,1,3,1 l,1,0 e,1,2,vkDestroyDevice f,1,2,1 l,1,0"
        }
        Kind::InternalType => "e,1,3,vkCreateBuffer i,1,3,64,1,1 l,1,0",
        Kind::InternalNegative => "e,1,3,vkCreateBuffer i,1,3,64,0,1 j,1,3,65,0,1 l,1,0",
        Kind::InternalLeft => {
            "e,1,3,vkCreateBuffer i,1,3,64,0,1 l,1,0 c,1,3,100,VkBuffer e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer"
        }
        Kind::InternalAtEnd => "e,1,3,vkCreateBuffer i,1,3,64,0,1 l,1,0 c,1,3,100,VkBuffer",
        Kind::NotifiedBetweenCommands => {
            "e,1,3,vkCreateBuffer l,1,0 i,1,3,64,0,1 e,1,3,vkDestroyBuffer j,1,3,64,0,1 l,1,0"
        }
        Kind::NotifiedOnForeignThread => "e,1,3,vkCreateBuffer i,2,3,64,0,1 j,1,3,64,0,1 l,1,0",
        Kind::AskedBetweenCommands => "e,1,3,vkCreateBuffer l,1,0 a,1,3,1,64,8,1 e,1,3,vkDestroyBuffer f,1,3,1 l,1,0",
        Kind::FreedBetweenCommands => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 f,1,3,1",
        Kind::AskedOnForeignThread => "e,1,3,vkCreateBuffer a,2,3,1,64,8,1 f,1,3,1 l,1,0",
        Kind::FreedOnForeignThread => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 f,2,3,1 l,1,0",
        Kind::CommandInCallback => {
            "e,1,3,vkCreateBuffer b,1,3,0 e,1,3,vkGetBufferMemoryRequirements l,1,0 r,1,3,0,1,64,8,1 f,1,3,1 l,1,0"
        }
        Kind::OutsideDeferred => "e,1,8,vkDeferredOperationJoinKHR a,1,3,1,64,8,1 f,1,3,1 l,1,0",
        Kind::CommandBlockLeft => "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,0 l,1,0 e,1,2,vkDeviceWaitIdle f,1,2,1 l,1,0",
        Kind::CommandLessSpecific => "e,1,3,vkCreateBuffer a,1,2,1,64,8,0 f,1,2,1 l,1,0",
        Kind::CacheElsewhere => {
            "e,1,5,vkCreatePipelineCache a,1,2,1,64,8,2 l,1,0 e,1,5,vkDestroyPipelineCache f,1,2,1 l,1,0"
        }
        Kind::CacheAsObject => {
            "e,1,5,vkCreatePipelineCache a,1,5,1,120,8,1 l,1,0 e,1,5,vkDestroyPipelineCache f,1,5,1 l,1,0"
        }
        Kind::ObjectLessSpecific => "e,1,3,vkCreateBuffer a,1,2,1,4064,8,1 f,1,2,1 l,1,0",
        Kind::OtherScope => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 r,1,3,1,2,128,8,0 f,1,3,2 l,1,0",
        Kind::DeviceLessSpecific => "e,1,2,vkDeviceWaitIdle a,1,1,1,64,8,3 f,1,1,1 l,1,0",
        Kind::DeviceTooSpecific => "e,1,3,vkCreateBuffer a,1,3,1,64,8,3 f,1,3,1 l,1,0",
        Kind::InstanceElsewhere => "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,4 f,1,2,1 l,1,0",
        Kind::PoolPassedOver => {
            "e,1,6,vkAllocateDescriptorSets a,1,2,1,120,8,1 l,1,0 e,1,6,vkFreeDescriptorSets f,1,2,1 l,1,0"
        }
        Kind::PoolNeverAsked => "e,1,6,vkAllocateDescriptorSets l,1,0",
        Kind::BadScope => "e,1,3,vkCreateBuffer a,1,3,1,64,8,9 f,1,3,1 l,1,0",
        Kind::DeviceScopeInCreate => "e,1,3,vkCreateBuffer a,1,2,1,376,8,3 f,1,2,1 l,1,0",
        Kind::CacheScopeElsewhere => {
            "e,1,3,vkCreateBuffer a,1,2,1,64,8,2 l,1,0 e,1,5,vkDestroyPipelineCache f,1,2,1 l,1,0"
        }
        Kind::DescriptorPoolElsewhere => "e,1,3,vkCreateBuffer a,1,6,1,64,8,1 f,1,6,1 l,1,0",
        Kind::CommandPoolElsewhere => "e,1,3,vkCreateBuffer a,1,7,1,64,8,1 f,1,7,1 l,1,0",
        Kind::ObjectOutsideCreate => "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,1 l,1,0 e,1,3,vkDestroyBuffer f,1,2,1 l,1,0",
        Kind::LiveAfterDestroy => {
            "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 c,1,3,100,VkBuffer e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer"
        }
        Kind::FreedInOtherCommand => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 e,1,2,vkDeviceWaitIdle f,1,3,1 l,1,0",
        Kind::LiveAtEnd => "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0",
        Kind::OtherGroupAtDestroy => {
            "e,1,3,vkCreateBuffer l,1,0 c,1,3,100,VkBuffer e,1,4,vkDestroyBuffer l,1,0 d,1,4,100,VkBuffer"
        }
        Kind::NoneAtDestroy => {
            "e,1,3,vkCreateBuffer l,1,0 c,1,3,100,VkBuffer e,1,0,vkDestroyBuffer l,1,0 d,1,0,100,VkBuffer"
        }
        Kind::OnlyAtDestroy => {
            "e,1,0,vkCreateBuffer l,1,0 c,1,0,100,VkBuffer e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer"
        }
        Kind::UnknownHandle => "e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer",
    }
}
