/* A Vulkan 1.0 driver in three hundred lines, as far as memory, buffers and images go, with the extensions that tell of dedicated memory and of
 * budgets: its memory is the C library's, and it counts. Type 0 is DEVICE_LOCAL, type 1 HOST_VISIBLE and not coherent. */
#ifndef FAKE_VULKAN_H
#define FAKE_VULKAN_H


#include <vulkan/vulkan_core.h>

#include "check.h"

enum { ATOM = 64 };

static struct {
   int memories, buffers, images, mapped, calls;
   int flushes, invalidates;
   VkResult next, next_bind; /* what the next vkAllocateMemory and vkBind*Memory answer */
   VkMemoryDedicatedAllocateInfo dedicated; /* of the last vkAllocateMemory */
   VkExternalMemoryHandleTypeFlags exported;
   int imports; /* handles that it owns */
   VkDeviceSize budget; /* of heap 0 */
   const char *missing;
} fake;

struct fake_memory {
   VkDeviceSize size;
   uint32_t type;
   char *bytes;
   int mapped;
   struct fake_memory *next, **at;
};

static struct fake_memory *all_memories;

struct fake_buffer { /* or image */
   VkDeviceSize size;
   struct fake_memory *memory;
   VkDeviceSize offset;
};

static char the_instance, the_physical_device, the_device;

static void VKAPI_CALL fake_memory_properties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out)
{
   CHECK((char *)physical == &the_physical_device);
   memset(out, 0, sizeof *out);
   out->memoryTypeCount = 2;
   out->memoryTypes[0] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
   out->memoryTypes[1] = (VkMemoryType){VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 1};
   out->memoryHeapCount = 2;
   out->memoryHeaps[0] = (VkMemoryHeap){1u << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
   out->memoryHeaps[1] = (VkMemoryHeap){1u << 30, 0};
}

static void VKAPI_CALL fake_memory_properties2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *out)
{
   fake_memory_properties(physical, &out->memoryProperties);
   VkPhysicalDeviceMemoryBudgetPropertiesEXT *budgets = out->pNext;
   if (budgets == NULL)
      return;
   CHECK(budgets->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
   budgets->heapBudget[0] = fake.budget != 0 ? fake.budget : 1u << 30;
   budgets->heapBudget[1] = 1u << 30;
   budgets->heapUsage[0] = budgets->heapUsage[1] = 0;
}

static void VKAPI_CALL fake_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out)
{
   CHECK((char *)physical == &the_physical_device);
   memset(out, 0, sizeof *out);
   out->limits.bufferImageGranularity = 1;
   out->limits.nonCoherentAtomSize = ATOM;
   out->limits.maxMemoryAllocationCount = 4096;
   out->limits.minMemoryMapAlignment = 64;
   out->limits.minStorageBufferOffsetAlignment = 16;
   out->limits.minUniformBufferOffsetAlignment = 16;
   out->limits.minTexelBufferOffsetAlignment = 16;
   out->limits.optimalBufferCopyOffsetAlignment = 1;
}

static VkResult VKAPI_CALL fake_allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks,
                                         VkDeviceMemory *out)
{
   (void)callbacks;
   CHECK((char *)device == &the_device);
   fake.calls++;
   if (fake.next != VK_SUCCESS) {
      VkResult result = fake.next;
      fake.next = VK_SUCCESS;
      return result;
   }
   fake.dedicated = (VkMemoryDedicatedAllocateInfo){0};
   fake.exported = 0;
   for (const VkBaseInStructure *next = info->pNext; next != NULL; next = next->pNext) {
      if (next->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO)
         fake.dedicated = *(const VkMemoryDedicatedAllocateInfo *)next;
      if (next->sType == VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO)
         fake.exported = ((const VkExportMemoryAllocateInfo *)next)->handleTypes;
      fake.imports += next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
   }
   struct fake_memory *memory = calloc(1, sizeof *memory);
   *memory = (struct fake_memory){info->allocationSize, info->memoryTypeIndex, malloc(info->allocationSize), 0, all_memories, &all_memories};
   CHECK(memory->bytes != NULL);
   if (all_memories != NULL)
      all_memories->at = &memory->next;
   all_memories = memory;
   fake.memories++;
   *out = (VkDeviceMemory)memory;
   return VK_SUCCESS;
}

static void VKAPI_CALL fake_free(VkDevice device, VkDeviceMemory of, const VkAllocationCallbacks *callbacks)
{
   (void)device, (void)callbacks;
   struct fake_memory *memory = (struct fake_memory *)of;
   fake.calls++;
   fake.memories--;
   fake.mapped -= memory->mapped;
   *memory->at = memory->next;
   if (memory->next != NULL)
      memory->next->at = memory->at;
   free(memory->bytes);
   free(memory);
}

/* What a device takes along when it is destroyed. */
static void fake_destroy_device(void)
{
   while (all_memories != NULL)
      fake_free((VkDevice)&the_device, (VkDeviceMemory)all_memories, NULL);
}

static VkResult VKAPI_CALL fake_map(VkDevice device, VkDeviceMemory of, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags,
                                    void **out)
{
   (void)device, (void)size, (void)flags;
   struct fake_memory *memory = (struct fake_memory *)of;
   CHECK(memory->type == 1 && !memory->mapped);
   fake.calls++;
   fake.mapped++;
   memory->mapped = 1;
   *out = memory->bytes + offset;
   return VK_SUCCESS;
}

static void VKAPI_CALL fake_unmap(VkDevice device, VkDeviceMemory of)
{
   (void)device;
   struct fake_memory *memory = (struct fake_memory *)of;
   CHECK(memory->mapped);
   fake.calls++;
   fake.mapped--;
   memory->mapped = 0;
}

static VkResult fake_sync(uint32_t count, const VkMappedMemoryRange *ranges)
{
   fake.calls++;
   for (uint32_t i = 0; i < count; i++) {
      const struct fake_memory *memory = (const struct fake_memory *)ranges[i].memory;
      VkDeviceSize end = ranges[i].offset + ranges[i].size;
      CHECK(memory->mapped && ranges[i].offset % ATOM == 0 && (end % ATOM == 0 || end == memory->size) && end <= memory->size);
   }
   return VK_SUCCESS;
}

static VkResult VKAPI_CALL fake_flush(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
   (void)device;
   fake.flushes++;
   return fake_sync(count, ranges);
}

static VkResult VKAPI_CALL fake_invalidate(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
   (void)device;
   fake.invalidates++;
   return fake_sync(count, ranges);
}

static VkResult VKAPI_CALL fake_create_buffer(VkDevice device, const VkBufferCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                              VkBuffer *out)
{
   (void)device, (void)callbacks;
   struct fake_buffer *buffer = calloc(1, sizeof *buffer);
   buffer->size = info->size;
   fake.calls++;
   fake.buffers++;
   *out = (VkBuffer)buffer;
   return VK_SUCCESS;
}

static void VKAPI_CALL fake_destroy_buffer(VkDevice device, VkBuffer buffer, const VkAllocationCallbacks *callbacks)
{
   (void)device, (void)callbacks;
   fake.calls++;
   fake.buffers--;
   free((void *)buffer);
}

static void VKAPI_CALL fake_buffer_requirements(VkDevice device, VkBuffer of, VkMemoryRequirements *out)
{
   (void)device;
   const struct fake_buffer *buffer = (const struct fake_buffer *)of;
   *out = (VkMemoryRequirements){(buffer->size + 15) / 16 * 16, 16, 3};
}

static VkResult VKAPI_CALL fake_bind_buffer(VkDevice device, VkBuffer of, VkDeviceMemory to, VkDeviceSize offset)
{
   (void)device;
   struct fake_buffer *buffer = (struct fake_buffer *)of;
   struct fake_memory *memory = (struct fake_memory *)to;
   VkResult result = fake.next_bind;
   fake.next_bind = VK_SUCCESS;
   if (result != VK_SUCCESS)
      return result;
   CHECK(buffer->memory == NULL && offset % 16 == 0 && offset + buffer->size <= memory->size);
   buffer->memory = memory;
   buffer->offset = offset;
   return VK_SUCCESS;
}

static VkResult VKAPI_CALL fake_create_image(VkDevice device, const VkImageCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                             VkImage *out)
{
   (void)device, (void)callbacks;
   struct fake_buffer *image = calloc(1, sizeof *image);
   image->size = (VkDeviceSize)info->extent.width * info->extent.height * info->extent.depth * 4;
   fake.calls++;
   fake.images++;
   *out = (VkImage)image;
   return VK_SUCCESS;
}

static void VKAPI_CALL fake_destroy_image(VkDevice device, VkImage image, const VkAllocationCallbacks *callbacks)
{
   (void)device, (void)callbacks;
   fake.calls++;
   fake.images--;
   free((void *)image);
}

static void VKAPI_CALL fake_image_requirements(VkDevice device, VkImage of, VkMemoryRequirements *out)
{
   fake_buffer_requirements(device, (VkBuffer)of, out);
}

static VkResult VKAPI_CALL fake_bind_image(VkDevice device, VkImage of, VkDeviceMemory to, VkDeviceSize offset)
{
   return fake_bind_buffer(device, (VkBuffer)of, to, offset);
}

static void VKAPI_CALL fake_buffer_requirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2 *info, VkMemoryRequirements2 *out)
{
   fake_buffer_requirements(device, info->buffer, &out->memoryRequirements);
}

static void VKAPI_CALL fake_image_requirements2(VkDevice device, const VkImageMemoryRequirementsInfo2 *info, VkMemoryRequirements2 *out)
{
   fake_image_requirements(device, info->image, &out->memoryRequirements);
}

static void VKAPI_CALL fake_unused(void)
{
   CHECK(!"a command that no test needs");
}

static PFN_vkVoidFunction VKAPI_CALL fake_device_proc(VkDevice device, const char *name)
{
   static const struct {
      const char *name;
      PFN_vkVoidFunction function;
   } commands[] = {
      {"vkAllocateMemory", (PFN_vkVoidFunction)fake_allocate},
      {"vkFreeMemory", (PFN_vkVoidFunction)fake_free},
      {"vkMapMemory", (PFN_vkVoidFunction)fake_map},
      {"vkUnmapMemory", (PFN_vkVoidFunction)fake_unmap},
      {"vkFlushMappedMemoryRanges", (PFN_vkVoidFunction)fake_flush},
      {"vkInvalidateMappedMemoryRanges", (PFN_vkVoidFunction)fake_invalidate},
      {"vkCreateBuffer", (PFN_vkVoidFunction)fake_create_buffer},
      {"vkDestroyBuffer", (PFN_vkVoidFunction)fake_destroy_buffer},
      {"vkGetBufferMemoryRequirements", (PFN_vkVoidFunction)fake_buffer_requirements},
      {"vkBindBufferMemory", (PFN_vkVoidFunction)fake_bind_buffer},
      {"vkGetDeviceMemoryCommitment", fake_unused},
      {"vkCreateImage", (PFN_vkVoidFunction)fake_create_image},
      {"vkDestroyImage", (PFN_vkVoidFunction)fake_destroy_image},
      {"vkGetImageMemoryRequirements", (PFN_vkVoidFunction)fake_image_requirements},
      {"vkBindImageMemory", (PFN_vkVoidFunction)fake_bind_image},
      {"vkGetBufferMemoryRequirements2KHR", (PFN_vkVoidFunction)fake_buffer_requirements2},
      {"vkGetImageMemoryRequirements2KHR", (PFN_vkVoidFunction)fake_image_requirements2},
   };
   CHECK((char *)device == &the_device);
   for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
      if (strcmp(name, commands[i].name) == 0 && (fake.missing == NULL || strcmp(name, fake.missing) != 0))
         return commands[i].function;
   return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL fake_instance_proc(VkInstance instance, const char *name)
{
   CHECK(instance == NULL || (char *)instance == &the_instance);
   if (fake.missing != NULL && strcmp(name, fake.missing) == 0)
      return NULL;
   if (strcmp(name, "vkGetDeviceProcAddr") == 0)
      return (PFN_vkVoidFunction)fake_device_proc;
   if (strcmp(name, "vkGetPhysicalDeviceProperties") == 0)
      return (PFN_vkVoidFunction)fake_properties;
   if (strcmp(name, "vkGetPhysicalDeviceMemoryProperties") == 0)
      return (PFN_vkVoidFunction)fake_memory_properties;
   if (strcmp(name, "vkGetPhysicalDeviceMemoryProperties2KHR") == 0)
      return (PFN_vkVoidFunction)fake_memory_properties2;
   return NULL;
}

/* What steward_gpu_new is given of it. */
static steward_gpu_device fake_device(void)
{
   return (steward_gpu_device){
      .size = sizeof(steward_gpu_device),
      .get_instance_proc_addr = (steward_get_instance_proc_addr_fn)fake_instance_proc,
      .instance = &the_instance,
      .physical_device = &the_physical_device,
      .device = &the_device,
      .api_version = VK_API_VERSION_1_0,
   };
}

#endif
