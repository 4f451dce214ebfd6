// A program that knows where its driver's host memory goes: each kind of object has a context, whose callbacks the driver gets. Prints the tree while
// all objects live, and what is left when they are gone.
//
//   c++ -std=c++17 tracked.cpp $(pkg-config --cflags --libs steward vulkan)
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "device.hpp"

#include <steward.hpp>

namespace {

// A context for one kind of object, and the callbacks that the driver gets.
struct tracked {
   const char *name;
   steward::context owner;
   steward_context *seen; // the bridge owns the context meanwhile
   steward::bridge<VkAllocationCallbacks> bridge;

   tracked(const char *name, const steward::context &root) : name(name), owner(root.child(name)), seen(owner.get()), bridge(owner) {}
   const VkAllocationCallbacks *callbacks() const { return bridge.get(); }
};

void print(const char *name, const steward_usage_info &usage)
{
   static const char *const scopes[] = {"command", "object", "cache", "device", "instance"};
   std::printf("%-10s %8llu bytes in %4llu blocks", name, (unsigned long long)usage.total.live_bytes,
               (unsigned long long)usage.total.live_blocks);
   for (int scope = 0; scope < 5; scope++)
      if (usage.scopes[scope].total_blocks != 0)
         std::printf("  %s %llu of %llu", scopes[scope], (unsigned long long)usage.scopes[scope].live_blocks,
                     (unsigned long long)usage.scopes[scope].total_blocks);
   std::printf("\n");
}

void print_tree(const steward::context &root, const std::vector<tracked *> &kinds)
{
   print("program", root.subtree_usage());
   for (const tracked *kind : kinds) {
      steward_usage_info usage{};
      usage.size = sizeof usage;
      steward_usage(kind->seen, &usage);
      print((std::string("  ") + kind->name).c_str(), usage);
   }
}

#define TRY(call)                                                      \
   do {                                                                \
      VkResult result = (call);                                        \
      if (result != VK_SUCCESS) {                                      \
         std::printf("%s: %d\n", #call, result);                       \
         return 1;                                                     \
      }                                                                \
   } while (0)

int run(const std::vector<tracked *> &kinds, const steward::context &root)
{
   const auto &[of_instance, of_device, of_buffers, of_pools] = std::tie(*kinds[0], *kinds[1], *kinds[2], *kinds[3]);

   VkInstance instance;
   TRY(create_instance(VK_API_VERSION_1_0, of_instance.callbacks(), &instance));
   VkPhysicalDevice physical;
   VkDevice device;
   TRY(create_device(instance, of_device.callbacks(), &physical, &device));

   std::vector<VkBuffer> buffers(10);
   for (VkBuffer &buffer : buffers) {
      VkBufferCreateInfo buffer_info{};
      buffer_info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
      buffer_info.size = 4096;
      buffer_info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
      TRY(vkCreateBuffer(device, &buffer_info, of_buffers.callbacks(), &buffer));
   }
   VkCommandPoolCreateInfo pool_info{};
   pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
   VkCommandPool pool;
   TRY(vkCreateCommandPool(device, &pool_info, of_pools.callbacks(), &pool));

   print_tree(root, kinds);

   vkDestroyCommandPool(device, pool, of_pools.callbacks());
   for (VkBuffer buffer : buffers)
      vkDestroyBuffer(device, buffer, of_buffers.callbacks());
   vkDestroyDevice(device, of_device.callbacks());
   vkDestroyInstance(instance, of_instance.callbacks());
   return 0;
}

} // namespace

int main()
{
   steward::context root = steward::context::over_malloc("program");
   tracked instance("instance", root), device("device", root), buffers("buffers", root), pools("pools", root);
   const std::vector<tracked *> kinds{&instance, &device, &buffers, &pools};
   if (int failed = run(kinds, root))
      return failed;
   // A bridge closes when Vulkan holds nothing of it any more.
   for (tracked *kind : kinds)
      if (kind->bridge.close(kind->owner) != 0 || kind->owner.close() != 0) {
         std::printf("%s: the driver kept something\n", kind->name);
         return 1;
      }
   std::printf("the driver gave everything back\n");
   return root.close();
}
