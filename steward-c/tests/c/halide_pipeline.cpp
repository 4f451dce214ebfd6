// A pipeline of Halide's, compiled ahead of time, over its default context and a bridge of ours: prints what was counted, and returns 0.
#include <cstdio>
#include <vector>

#include <vulkan/vulkan.h>

#include "HalideBuffer.h"
#include "../../integrations/halide/steward_halide.h"
#include "check.h"
#include "pipeline.h"

static uint64_t live(const steward_context *of)
{
   return usage_of(of).live_blocks;
}

int main()
{
   constexpr int COUNT = 4096;
   steward_context *owner = root_of("halide");
   steward_bridge bridge;
   VkAllocationCallbacks callbacks;
   CHECK(steward_halide_begin(&bridge, owner, 0, &callbacks) == 0);
   uint64_t before = live(owner);
   {
      Halide::Runtime::Buffer<uint32_t, 1> values(COUNT), results(COUNT);
      for (int i = 0; i < COUNT; i++)
         values(i) = i;
      values.set_host_dirty();
      CHECK(pipeline(values, results) == 0);
      results.copy_to_host();
      int right = 0;
      for (int i = 0; i < COUNT; i++)
         right += results(i) == 2u * i + 1;
      CHECK(right == COUNT);
      CHECK(live(owner) > before + 50);
      std::printf("%d of %d right, %llu blocks\n", right, COUNT, (unsigned long long)(live(owner) - before));
   }
   halide_device_release(nullptr, halide_vulkan_device_interface());
   std::printf("%llu left\n", (unsigned long long)(live(owner) - before));
   // Halide 21.0.0 leaves one block of 8 bytes at each release: the close is refused, and says so.
   CHECK(live(owner) - before <= 1);
   return 0;
}
