/* Halide 21.0.0 over an instance and a device of the application's, and over regions of Steward. C++17. Include it in one file of the program: it
 * defines halide_vulkan_acquire_context and _release_context, which Halide lets a program replace.
 *
 *    vkCreateInstance and vkCreateDevice with the callbacks of bridges of yours
 *    steward_halide_device own{instance, physical, device, queue, family, &callbacks_of_a_slot, context};
 *    steward_halide_use(&own);                             before the first kernel
 *    steward_halide_region view;
 *    steward_halide_view(region, &view);                  of steward_region_create_buffer, _wrap or _crop
 *    halide_device_wrap_native(NULL, buffer, (uint64_t)(uintptr_t)&view, halide_vulkan_device_interface());
 *    ..                                                    kernels read and write the region; halide_device_detach_native; steward_region_free
 *    steward_halide_use(NULL);                             behind the last kernel
 *
 * What Halide allocates for itself comes from the context (its records) and through the callbacks (its Vulkan objects). The host reaches a
 * region by steward_region_map, not by halide_copy_to_host.
 *
 * The names and layouts below are those of 21.0.0, which has no header for them; others differ.
 */
#ifndef STEWARD_HALIDE_DEVICE_H
#define STEWARD_HALIDE_DEVICE_H

#include <mutex>

#include "HalideRuntimeVulkan.h"
#include "steward-gpu.h"

struct VkAllocationCallbacks;

/* Stays as it is while it is used. */
struct steward_halide_device {
   VkInstance instance;
   VkPhysicalDevice physical_device;
   VkDevice device;
   VkQueue queue; /* with compute; Halide alone submits to it, or under lock */
   uint32_t queue_family;
   const VkAllocationCallbacks *callbacks; /* of steward_bridge_static, since Halide loses pUserData; of what it creates on the device */
   steward_context *records;
   std::mutex lock; /* held from each acquire to its release */
   halide_vulkan_memory_allocator *allocator; /* NULL; Halide's, for what it divides itself */
};

/* A part of a VkBuffer as Halide's kernels see it: `device` of a halide_buffer_t is its address, so it stays where it is until the detach. */
struct steward_halide_region {
   const uint64_t *buffer; /* VkBuffer, of `handle` */
   size_t block_offset, bytes;
   size_t head, tail; /* that lie outside of the part, of bytes */
   bool dedicated, is_owner;
   struct {
      uint32_t hints[3];
      size_t limits[2];
   } properties; /* not read of what is not Halide's own */
   uint64_t handle; /* behind what Halide reads */
};
static_assert(sizeof(void *) == 8 && sizeof(steward_halide_region) == 88, "the layout of Halide 21.0.0, for 64 bits");

/* A copy of it would point to this one. */
inline void steward_halide_view(const steward_region &of, steward_halide_region *out)
{
   *out = {&out->handle, 0, size_t(of.buffer_offset + of.bytes), size_t(of.buffer_offset), 0, true, true, {}, of.buffer};
}

namespace Halide::Runtime::Internal {
struct SystemMemoryAllocatorFns {
   void *(*allocate)(void *, size_t);
   void (*deallocate)(void *, void *);
};
namespace Vulkan {
struct VulkanMemoryConfig {
   size_t pool_bytes, first_block, max_block, max_blocks, nearest_multiple;
};
struct VulkanMemoryAllocator {
   static VulkanMemoryAllocator *create(void *, const VulkanMemoryConfig &, VkDevice, VkPhysicalDevice, const SystemMemoryAllocatorFns &,
                                        const VkAllocationCallbacks *);
   static int destroy(void *, VulkanMemoryAllocator *);
};
/* Halide's pointers to commands, which its own context loads when it is made. */
void vk_load_vulkan_loader_functions(void *);
void vk_load_vulkan_instance_functions(void *, VkInstance);
void vk_load_vulkan_device_functions(void *, VkDevice);
} // namespace Vulkan
} // namespace Halide::Runtime::Internal

inline steward_halide_device *steward_halide_used;

/* From now on Halide works on this device; NULL ends its allocator on the one before. Neither while a kernel runs. Returns false where Halide
 * made no allocator. */
inline bool steward_halide_use(steward_halide_device *own)
{
   using namespace Halide::Runtime::Internal;
   if (steward_halide_used && steward_halide_used->allocator) {
      Vulkan::VulkanMemoryAllocator::destroy(nullptr, (Vulkan::VulkanMemoryAllocator *)steward_halide_used->allocator);
      steward_halide_used->allocator = nullptr;
   }
   steward_halide_used = own;
   if (!own)
      return true;
   Vulkan::vk_load_vulkan_loader_functions(nullptr);
   Vulkan::vk_load_vulkan_instance_functions(nullptr, own->instance);
   Vulkan::vk_load_vulkan_device_functions(nullptr, own->device);
   SystemMemoryAllocatorFns records = {
      [](void *, size_t bytes) { return steward_new(steward_halide_used->records, bytes, 16, false); },
      [](void *, void *block) { steward_delete(block); },
   };
   Vulkan::VulkanMemoryConfig blocks = {0, 4096, 0, 0, 32};
   own->allocator = (halide_vulkan_memory_allocator *)Vulkan::VulkanMemoryAllocator::create(nullptr, blocks, own->device, own->physical_device,
                                                                                            records, own->callbacks);
   return own->allocator != nullptr;
}

extern "C" int halide_vulkan_acquire_context(void *, halide_vulkan_memory_allocator **allocator, VkInstance *instance, VkDevice *device,
                                             VkPhysicalDevice *physical_device, VkQueue *queue, uint32_t *queue_family,
                                             VkDebugUtilsMessengerEXT *messenger, bool)
{
   steward_halide_device *own = steward_halide_used;
   if (!own || !own->allocator)
      return halide_error_code_device_interface_no_device;
   own->lock.lock();
   *allocator = own->allocator;
   *instance = own->instance;
   *device = own->device;
   *physical_device = own->physical_device;
   *queue = own->queue;
   *queue_family = own->queue_family;
   *messenger = nullptr;
   return halide_error_code_success;
}

extern "C" int halide_vulkan_release_context(void *, VkInstance, VkDevice, VkQueue, VkDebugUtilsMessengerEXT)
{
   steward_halide_used->lock.unlock();
   return halide_error_code_success;
}

#endif
