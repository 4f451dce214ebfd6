// A pipeline of Halide's on an instance and a device of this program, over regions of ours: prints each account, and returns 0.
#include <cstdio>

#include <vulkan/vulkan.h>

#include "HalideBuffer.h"
#include "../../integrations/halide/steward_halide_device.h"
#include "check.h"
#include "pipeline.h"

struct Account {
   steward_context *context;
   steward_bridge bridge;
   VkAllocationCallbacks callbacks;
};

template <typename Info> static Info of(VkStructureType type)
{
   Info info{};
   info.sType = type;
   return info;
}

static void open(Account &account, steward_context *parent, const char *name)
{
   CHECK(steward_child(parent, name, nullptr, &account.context) == 0);
   CHECK(steward_bridge_init(&account.bridge, account.context, &account.callbacks) == 0);
}

static void print(const char *name, const steward_context *of)
{
   steward_scope_usage at = usage_of(of);
   std::printf("%-16s %5llu blocks %9llu bytes\n", name, (unsigned long long)at.live_blocks, (unsigned long long)at.live_bytes);
}

int main()
{
   constexpr int COUNT = 4096;
   constexpr uint64_t BYTES = COUNT * sizeof(uint32_t);
   steward_context *root, *records, *book;
   Account application, halides;
   CHECK(steward_root_malloc("program", &root) == 0);
   open(application, root, "application");
   open(halides, root, "Halide's objects");
   CHECK(steward_bridge_static(0, &halides.bridge, &halides.callbacks) == 0);
   CHECK(steward_child(root, "Halide's records", nullptr, &records) == 0 && steward_child(root, "device memory", nullptr, &book) == 0);

   auto about = of<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
   about.apiVersion = VK_API_VERSION_1_3;
   auto instance_info = of<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
   instance_info.pApplicationInfo = &about;
   VkInstance instance;
   CHECK(vkCreateInstance(&instance_info, &application.callbacks, &instance) == VK_SUCCESS);
   uint32_t one = 1;
   VkPhysicalDevice physical;
   CHECK(vkEnumeratePhysicalDevices(instance, &one, &physical) >= 0 && one == 1);
   float priority = 1;
   auto queue_info = of<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
   queue_info.queueCount = 1;
   queue_info.pQueuePriorities = &priority;
   auto bytes = of<VkPhysicalDevice8BitStorageFeatures>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
   auto halves = of<VkPhysicalDevice16BitStorageFeatures>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
   auto features = of<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
   features.pNext = &bytes;
   bytes.pNext = &halves;
   vkGetPhysicalDeviceFeatures2(physical, &features);
   auto device_info = of<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
   device_info.pNext = &features;
   device_info.queueCreateInfoCount = 1;
   device_info.pQueueCreateInfos = &queue_info;
   VkDevice device;
   CHECK(vkCreateDevice(physical, &device_info, &application.callbacks, &device) == VK_SUCCESS);
   VkQueue queue;
   vkGetDeviceQueue(device, 0, 0, &queue);

   steward_gpu_device for_regions{};
   for_regions.size = sizeof for_regions;
   for_regions.get_instance_proc_addr = (steward_get_instance_proc_addr_fn)(void *)vkGetInstanceProcAddr;
   for_regions.instance = instance;
   for_regions.physical_device = physical;
   for_regions.device = device;
   for_regions.callbacks = &application.callbacks;
   for_regions.api_version = VK_API_VERSION_1_3;
   steward_gpu *gpu;
   CHECK(steward_gpu_new(book, &for_regions, nullptr, &gpu) == 0);
   steward_region_request wanted{};
   wanted.size = sizeof wanted;
   wanted.bytes = BYTES;
   wanted.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
   wanted.required = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
   wanted.flags = STEWARD_REQUEST_MAPPED;
   wanted.name = "halide";
   // The values lie in a region of their own; the results in a crop behind a page that no kernel may touch.
   steward_region of_values{}, whole{}, of_results{};
   of_values.size = whole.size = of_results.size = sizeof of_values;
   CHECK(steward_region_create_buffer(gpu, &wanted, &of_values) == 0);
   wanted.bytes = BYTES + 4096;
   CHECK(steward_region_create_buffer(gpu, &wanted, &whole) == 0);
   CHECK(steward_region_crop(gpu, whole.id, 4096, BYTES, sizeof(uint32_t), &of_results) == 0);
   CHECK(of_results.buffer == whole.buffer && of_results.buffer_offset == whole.buffer_offset + 4096);
   auto in = (uint32_t *)of_values.mapped, out = (uint32_t *)whole.mapped;
   for (int i = 0; i < COUNT; i++)
      in[i] = i;
   for (int i = 0; i < COUNT + 1024; i++)
      out[i] = 7;

   steward_halide_device own{instance, physical, device, queue, 0, &halides.callbacks, records, {}, nullptr};
   CHECK(steward_halide_use(&own));
   steward_halide_region value_view, result_view;
   steward_halide_view(of_values, &value_view);
   steward_halide_view(of_results, &result_view);
   const halide_device_interface_t *vulkan = halide_vulkan_device_interface();
   for (int round = 0; round < 3; round++) {
      Halide::Runtime::Buffer<uint32_t, 1> values(nullptr, COUNT), results(nullptr, COUNT);
      CHECK(halide_device_wrap_native(nullptr, values.raw_buffer(), (uint64_t)(uintptr_t)&value_view, vulkan) == 0);
      CHECK(halide_device_wrap_native(nullptr, results.raw_buffer(), (uint64_t)(uintptr_t)&result_view, vulkan) == 0);
      values.set_device_dirty();
      CHECK(pipeline(values, results) == 0);
      CHECK(halide_device_sync(nullptr, results.raw_buffer()) == 0);
      int right = 0;
      for (int i = 0; i < COUNT; i++)
         right += out[1024 + i] == 2u * in[i] + 1;
      for (int i = 0; i < 1024; i++)
         CHECK(out[i] == 7);
      CHECK(right == COUNT);
      if (round == 0)
         std::printf("%d of %d right\n", right, COUNT);
      for (int i = 0; i < COUNT; i++)
         in[i] = out[1024 + i];
      CHECK(halide_device_detach_native(nullptr, values.raw_buffer()) == 0);
      CHECK(halide_device_detach_native(nullptr, results.raw_buffer()) == 0);
   }
   print("application", application.context);
   print("Halide's objects", halides.context);
   print("Halide's records", records);
   print("device memory", book);
   CHECK(usage_of(halides.context).live_blocks > 0 && usage_of(records).live_blocks > 0);

   // The regions come back whole, whatever Halide keeps.
   CHECK(steward_region_free(gpu, of_results.id) == 0 && steward_region_free(gpu, whole.id) == 0 && steward_region_free(gpu, of_values.id) == 0);
   CHECK(steward_gpu_close(gpu) == 0 && usage_of(book).live_blocks == 0);
   halide_device_release(nullptr, vulkan);
   CHECK(steward_halide_use(nullptr));
   CHECK(usage_of(records).live_blocks == 0);
   std::printf("behind the release:\n");
   print("Halide's objects", halides.context);
   vkDestroyDevice(device, &application.callbacks);
   vkDestroyInstance(instance, &application.callbacks);
   // Halide 21.0.0 never destroys the shader modules that it made on a device of the application's, nor frees what lies below them.
   print("application", application.context);
   return 0;
}
