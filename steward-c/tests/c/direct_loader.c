/* Vulkan's commands of one driver, as a library that the examples in C++ are linked with: Windows has no loader of its own. STEWARD_DRIVER names
 * the driver's library. */
#include <windows.h>

#include <stdlib.h>

#include <vulkan/vulkan.h>

static VkInstance the_instance;

__declspec(dllexport) PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
   static PFN_vkGetInstanceProcAddr next;
   if (next == NULL)
      *(void **)&next = (void *)GetProcAddress(LoadLibraryA(getenv("STEWARD_DRIVER")), "vk_icdGetInstanceProcAddr");
   return next(instance, name);
}

#define COMMAND(result, name, parameters, arguments)                                           \
   __declspec(dllexport) result VKAPI_CALL name parameters                                     \
   {                                                                                           \
      static PFN_##name next;                                                                  \
      if (next == NULL)                                                                        \
         *(PFN_vkVoidFunction *)&next = vkGetInstanceProcAddr(the_instance, #name);            \
      return next arguments;                                                                   \
   }

__declspec(dllexport) VkResult VKAPI_CALL vkCreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                                           VkInstance *out)
{
   PFN_vkCreateInstance next = (PFN_vkCreateInstance)vkGetInstanceProcAddr(NULL, "vkCreateInstance");
   VkResult result = next(info, callbacks, out);
   the_instance = *out;
   return result;
}

COMMAND(void, vkDestroyInstance, (VkInstance a, const VkAllocationCallbacks *b), (a, b))
COMMAND(VkResult, vkEnumeratePhysicalDevices, (VkInstance a, uint32_t *b, VkPhysicalDevice *c), (a, b, c))
COMMAND(void, vkGetPhysicalDeviceProperties, (VkPhysicalDevice a, VkPhysicalDeviceProperties *b), (a, b))
COMMAND(VkResult, vkCreateDevice, (VkPhysicalDevice a, const VkDeviceCreateInfo *b, const VkAllocationCallbacks *c, VkDevice *d), (a, b, c, d))
COMMAND(void, vkDestroyDevice, (VkDevice a, const VkAllocationCallbacks *b), (a, b))
COMMAND(void, vkGetDeviceQueue, (VkDevice a, uint32_t b, uint32_t c, VkQueue *d), (a, b, c, d))
COMMAND(VkResult, vkCreateBuffer, (VkDevice a, const VkBufferCreateInfo *b, const VkAllocationCallbacks *c, VkBuffer *d), (a, b, c, d))
COMMAND(void, vkDestroyBuffer, (VkDevice a, VkBuffer b, const VkAllocationCallbacks *c), (a, b, c))
COMMAND(VkResult, vkCreateCommandPool, (VkDevice a, const VkCommandPoolCreateInfo *b, const VkAllocationCallbacks *c, VkCommandPool *d), (a, b, c, d))
COMMAND(void, vkDestroyCommandPool, (VkDevice a, VkCommandPool b, const VkAllocationCallbacks *c), (a, b, c))
COMMAND(VkResult, vkAllocateCommandBuffers, (VkDevice a, const VkCommandBufferAllocateInfo *b, VkCommandBuffer *c), (a, b, c))
COMMAND(VkResult, vkBeginCommandBuffer, (VkCommandBuffer a, const VkCommandBufferBeginInfo *b), (a, b))
COMMAND(VkResult, vkEndCommandBuffer, (VkCommandBuffer a), (a))
COMMAND(void, vkCmdCopyBuffer, (VkCommandBuffer a, VkBuffer b, VkBuffer c, uint32_t d, const VkBufferCopy *e), (a, b, c, d, e))
COMMAND(void, vkCmdPipelineBarrier,
        (VkCommandBuffer a, VkPipelineStageFlags b, VkPipelineStageFlags c, VkDependencyFlags d, uint32_t e, const VkMemoryBarrier *f, uint32_t g,
         const VkBufferMemoryBarrier *h, uint32_t i, const VkImageMemoryBarrier *j),
        (a, b, c, d, e, f, g, h, i, j))
COMMAND(VkResult, vkQueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d), (a, b, c, d))
COMMAND(VkResult, vkQueueWaitIdle, (VkQueue a), (a))
