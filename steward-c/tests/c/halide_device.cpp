// The adapter for a device of the application's, over a pretended allocator of Halide's: prints nothing and returns 0.

#include <vulkan/vulkan_core.h>

#include "../../integrations/halide/steward_halide_device.h"
#include "check.h"

static int loaded, made;
static bool refuses;

namespace Halide::Runtime::Internal::Vulkan {
static void (*deallocate)(void *, void *);
void vk_load_vulkan_loader_functions(void *) { loaded++; }
void vk_load_vulkan_instance_functions(void *, VkInstance) { loaded++; }
void vk_load_vulkan_device_functions(void *, VkDevice) { loaded++; }
VulkanMemoryAllocator *VulkanMemoryAllocator::create(void *, const VulkanMemoryConfig &config, VkDevice, VkPhysicalDevice,
                                                     const SystemMemoryAllocatorFns &records, const VkAllocationCallbacks *)
{
   CHECK(loaded == 3 && config.first_block == 4096);
   loaded = 0;
   deallocate = records.deallocate;
   void *block = refuses ? nullptr : records.allocate(nullptr, 200);
   made += block != nullptr;
   return (VulkanMemoryAllocator *)block;
}
int VulkanMemoryAllocator::destroy(void *, VulkanMemoryAllocator *allocator)
{
   made--;
   deallocate(nullptr, allocator);
   return 0;
}
} // namespace Halide::Runtime::Internal::Vulkan

static int acquire(halide_vulkan_memory_allocator **allocator, VkDevice *device)
{
   VkInstance instance;
   VkPhysicalDevice physical;
   VkQueue queue;
   uint32_t family;
   VkDebugUtilsMessengerEXT messenger;
   return halide_vulkan_acquire_context(nullptr, allocator, &instance, device, &physical, &queue, &family, &messenger, true);
}

int main()
{
   steward_context *records;
   CHECK(steward_root_malloc("records", &records) == 0);
   halide_vulkan_memory_allocator *allocator;
   VkDevice device;
   CHECK(acquire(&allocator, &device) == halide_error_code_device_interface_no_device);
   steward_halide_device first{nullptr, nullptr, (VkDevice)(uintptr_t)16, nullptr, 3, nullptr, records, {}, nullptr};
   steward_halide_device second{nullptr, nullptr, (VkDevice)(uintptr_t)32, nullptr, 3, nullptr, records, {}, nullptr};
   CHECK(steward_halide_use(&first) && acquire(&allocator, &device) == 0 && device == first.device && allocator == first.allocator);
   CHECK(steward_owner_of(allocator) == records && !first.lock.try_lock());
   CHECK(halide_vulkan_release_context(nullptr, nullptr, device, nullptr, nullptr) == 0 && first.lock.try_lock());
   first.lock.unlock();
   CHECK(steward_halide_use(&second) && made == 1 && first.allocator == nullptr && steward_halide_use(nullptr) && made == 0);
   // Without an allocator of Halide's there is no context to acquire.
   refuses = true;
   CHECK(!steward_halide_use(&second) && acquire(&allocator, &device) == halide_error_code_device_interface_no_device);
   CHECK(steward_halide_use(nullptr) && steward_close(records, nullptr) == 0);

   steward_region crop{};
   crop.buffer = 7;
   crop.buffer_offset = 4096;
   crop.bytes = 100;
   steward_halide_region view;
   steward_halide_view(crop, &view);
   CHECK(*view.buffer == 7 && view.bytes - view.head - view.tail == 100 && view.head == 4096 && view.is_owner);
   return 0;
}
