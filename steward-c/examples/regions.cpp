// What a runtime does with device memory: one allocator for a VkDevice, a region to upload from, one for the device, crops of both, a copy from
// crop to crop, and the result read back. The book-keeping is memory of a context.
//
//   c++ -std=c++17 regions.cpp $(pkg-config --cflags --libs steward vulkan)
#include <cstdio>
#include <cstring>

#include "device.hpp"

#include <steward-gpu.h>
#include <steward.hpp>

namespace {

void print(void *, const char *text, size_t length) { std::printf("%.*s", int(length), text); }

#define TRY(call)                                     \
   do {                                               \
      int32_t result = (call);                        \
      if (result != 0) {                              \
         std::printf("%s: %d: ", #call, result);      \
         steward_gpu_last_error(print, nullptr);      \
         std::printf("\n");                           \
         return 1;                                    \
      }                                               \
   } while (0)

// A device with one queue, destroyed last.
struct vulkan {
   VkInstance instance{};
   VkPhysicalDevice physical{};
   VkDevice device{};
   VkQueue queue{};

   ~vulkan()
   {
      if (device)
         vkDestroyDevice(device, nullptr);
      if (instance)
         vkDestroyInstance(instance, nullptr);
   }
   int create()
   {
      TRY(create_instance(VK_API_VERSION_1_1, nullptr, &instance));
      TRY(create_device(instance, nullptr, &physical, &device));
      vkGetDeviceQueue(device, 0, 0, &queue);
      return 0;
   }

   // From one region to another, as many bytes as the first has, and waits for it.
   int copy(const steward_region &from, const steward_region &to) const
   {
      VkCommandPoolCreateInfo pool_info{};
      pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
      VkCommandPool pool;
      TRY(vkCreateCommandPool(device, &pool_info, nullptr, &pool));
      VkCommandBufferAllocateInfo allocate_info{};
      allocate_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
      allocate_info.commandPool = pool;
      allocate_info.commandBufferCount = 1;
      VkCommandBuffer commands;
      TRY(vkAllocateCommandBuffers(device, &allocate_info, &commands));
      VkCommandBufferBeginInfo begin_info{};
      begin_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
      TRY(vkBeginCommandBuffer(commands, &begin_info));
      VkBufferCopy range{from.buffer_offset, to.buffer_offset, from.bytes};
      vkCmdCopyBuffer(commands, VkBuffer(from.buffer), VkBuffer(to.buffer), 1, &range);
      VkMemoryBarrier to_host{};
      to_host.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
      to_host.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
      to_host.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
      vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                           &to_host, 0, nullptr, 0, nullptr);
      TRY(vkEndCommandBuffer(commands));
      VkSubmitInfo submit{};
      submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      submit.commandBufferCount = 1;
      submit.pCommandBuffers = &commands;
      TRY(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
      TRY(vkQueueWaitIdle(queue));
      vkDestroyCommandPool(device, pool, nullptr);
      return 0;
   }
};

int run(const vulkan &vk, steward_gpu *gpu)
{
   steward_region_request wanted{};
   wanted.size = sizeof wanted;
   wanted.bytes = 64 << 10;
   wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
   wanted.required = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
   wanted.lifetime = STEWARD_LIFETIME_TRANSIENT;
   wanted.name = "staging";
   steward_region staging{}, kept{}, source{}, target{}, back{};
   staging.size = kept.size = source.size = target.size = back.size = sizeof staging;
   TRY(steward_region_create_buffer(gpu, &wanted, &staging));
   wanted.required = 0;
   wanted.preferred = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
   wanted.lifetime = STEWARD_LIFETIME_PERSISTENT;
   wanted.name = "weights";
   TRY(steward_region_create_buffer(gpu, &wanted, &kept));
   TRY(steward_region_crop(gpu, staging.id, 4096, 1024, 4, &source));
   TRY(steward_region_crop(gpu, kept.id, 512, 1024, 4, &target));
   TRY(steward_region_crop(gpu, staging.id, 16384, 1024, 4, &back));

   void *written, *read;
   TRY(steward_region_map(gpu, source.id, &written));
   for (int i = 0; i < 1024; i++)
      static_cast<unsigned char *>(written)[i] = static_cast<unsigned char>(i * 7);
   TRY(steward_region_flush(gpu, source.id, 0, 1024));
   TRY(vk.copy(source, target));
   TRY(vk.copy(target, back));
   TRY(steward_region_map(gpu, back.id, &read));
   TRY(steward_region_invalidate(gpu, back.id, 0, 1024));
   std::printf("read back: %s\n", std::memcmp(written, read, 1024) == 0 ? "right" : "wrong");
   TRY(steward_region_unmap(gpu, back.id));
   TRY(steward_region_unmap(gpu, source.id));

   steward_gpu_stats stats{};
   stats.size = sizeof stats;
   TRY(steward_gpu_usage(gpu, -1, &stats));
   std::printf("%llu regions with %llu crops in %llu blocks\n", (unsigned long long)stats.regions, (unsigned long long)stats.crops,
               (unsigned long long)stats.blocks);
   for (steward_region_id id : {source.id, target.id, back.id, staging.id, kept.id})
      TRY(steward_region_free(gpu, id));
   return 0;
}

} // namespace

int main()
{
   vulkan vk;
   if (vk.create() != 0)
      return 1;
   steward::context root = steward::context::over_malloc("program");
   steward::context memory = root.child("device memory");
   steward_gpu_device device{};
   device.size = sizeof device;
   device.get_instance_proc_addr = reinterpret_cast<steward_get_instance_proc_addr_fn>(vkGetInstanceProcAddr);
   device.instance = vk.instance;
   device.physical_device = vk.physical;
   device.device = vk.device;
   device.api_version = VK_API_VERSION_1_1;
   steward_gpu *gpu;
   TRY(steward_gpu_new(memory.get(), &device, nullptr, &gpu));
   if (run(vk, gpu) != 0)
      return 1;
   TRY(steward_gpu_close(gpu));
   std::printf("book-keeping left: %llu bytes\n", (unsigned long long)memory.usage().total.live_bytes);
   return memory.close() || root.close();
}
