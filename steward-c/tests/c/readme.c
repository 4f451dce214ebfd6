/* Around the samples of README.md, which the test puts in place of words in capitals. Vulkan's header is not needed. */
#include <stddef.h>
#include <stdint.h>

typedef struct VkAllocationCallbacks {
   void *pUserData;
   void *(*pfnAllocation)(void *, size_t, size_t, int32_t);
   void *(*pfnReallocation)(void *, void *, size_t, size_t, int32_t);
   void (*pfnFree)(void *, void *);
   void (*pfnInternalAllocation)(void *, size_t, int32_t, int32_t);
   void (*pfnInternalFree)(void *, size_t, int32_t, int32_t);
} VkAllocationCallbacks;
typedef enum VkResult { VK_SUCCESS = 0, VK_ERROR_OUT_OF_HOST_MEMORY = -1, VK_ERROR_INITIALIZATION_FAILED = -3 } VkResult;

DRIVER
INCLUDE

static uint64_t blocks(const steward_context *root)
{
   steward_usage_info usage = {.size = sizeof usage};
   steward_subtree_usage(root, &usage);
   return usage.scopes[STEWARD_SCOPE_INSTANCE].live_blocks + usage.scopes[STEWARD_SCOPE_DEVICE].live_blocks;
}

int main(void)
{
   steward_context *application, *vulkan;
   const steward_options object = {.size = sizeof object, .scope = STEWARD_SCOPE_OBJECT};
   if (steward_root_malloc("application", &application) != 0 || steward_child(application, "vulkan", &object, &vulkan) != 0)
      return 1;
   steward_bridge bridge;
   VkAllocationCallbacks callbacks;
   const VkAllocationCallbacks *pAllocator = &callbacks;
   struct instance *instance;
   if (steward_bridge_init(&bridge, vulkan, &callbacks) != 0)
      return 2;
   const uint64_t before_all = blocks(application);
   if (create_instance(pAllocator, &instance) != VK_SUCCESS || blocks(application) != before_all + 1)
      return 3;
   {
BODY
   }
   destroy_instance(instance);
   return steward_bridge_close(&bridge, &vulkan) != 0 || steward_close(vulkan, NULL) != 0 || steward_close(application, NULL) != 0 ? 4 : 0;
}
