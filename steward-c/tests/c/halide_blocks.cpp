// Halide's block and region allocators over virtual blocks: prints nothing and returns 0.

#include "../../integrations/halide/steward_halide_blocks.h"
#include "check.h"

using namespace Halide::Runtime::Internal;

// What the application holds, and which of its callbacks says no.
static size_t blocks_asked, block_bytes, region_bytes, regions;
static bool no_block, no_region, keeps;

static int get_block(void *, MemoryBlock *block)
{
   blocks_asked++;
   if (no_block)
      return -1;
   block->handle = block;
   block_bytes += block->size;
   return 0;
}
static int put_block(void *, MemoryBlock *block)
{
   CHECK(block->handle == block);
   if (keeps)
      return -2;
   block_bytes -= block->size;
   return 0;
}
static int get_region(void *, MemoryRegion *region)
{
   CHECK(!region->handle);
   if (no_region)
      return -1;
   region->handle = region;
   region_bytes += steward_halide_place(*region, 0).size;
   regions++;
   return 0;
}
static int put_region(void *, MemoryRegion *region)
{
   CHECK(region->handle == region);
   if (keeps)
      return -2;
   region->handle = nullptr;
   region_bytes -= steward_halide_place(*region, 0).size;
   regions--;
   return 0;
}

static const MemoryRegionAllocatorFns of_regions = {get_region, put_region, nullptr};
static const BlockAllocator::MemoryAllocators callbacks = {{}, {get_block, put_block, nullptr}, of_regions};

static MemoryRequest request_of(size_t bytes, size_t alignment = 4)
{
   MemoryRequest request;
   request.size = bytes;
   request.alignment = alignment;
   request.properties.visibility = MemoryVisibility::DefaultVisibility;
   request.properties.usage = MemoryUsage::DefaultUsage;
   request.properties.caching = MemoryCaching::DefaultCaching;
   return request;
}

static size_t offset_of(MemoryRegion *region) { return steward_halide_place(*region, 0).offset; }

static void regions_of_a_block()
{
   BlockResource block;
   block.memory.size = 4096;
   RegionAllocator *of = RegionAllocator::create(nullptr, &block, {{}, of_regions});
   CHECK(of && block.allocator == of && of->block_resource() == &block);
   MemoryRegion *one = of->reserve(nullptr, request_of(64)), *two = of->reserve(nullptr, request_of(64, 256));
   CHECK(one && two && offset_of(two) % 256 == 0 && block.reserved == 320 && region_bytes == 320);
   CHECK(RegionAllocator::find_allocator(nullptr, one) == of && !of->reserve(nullptr, request_of(0)));

   // A second user, and a kept region for the next request of its size only.
   CHECK(!of->retain(nullptr, one) && !of->release(nullptr, one) && !of->collect(nullptr));
   CHECK(!of->release(nullptr, one) && of->release(nullptr, one) && of->retain(nullptr, one) && block.reserved == 256);
   MemoryRegion *other = of->reserve(nullptr, request_of(68));
   CHECK(other && other != one && regions == 3 && of->reserve(nullptr, request_of(64)) == one && regions == 3 && block.reserved == 388);

   // Ended whatever its count; its name is an error until it is another's.
   CHECK(!of->retain(nullptr, one) && !of->reclaim(nullptr, one) && of->reclaim(nullptr, one) && of->release(nullptr, one) && regions == 2);
   // What is kept goes where nothing else is left, and not for what cannot be had.
   CHECK(!of->release(nullptr, two) && !of->reserve(nullptr, request_of(4096)) && regions == 2);
   CHECK(!of->release(nullptr, other) && !of->reserve(nullptr, request_of(4100)) && regions == 2);
   MemoryRegion *whole = of->reserve(nullptr, request_of(4096));
   CHECK(whole && regions == 1 && block.reserved == 4096 && !of->reserve(nullptr, request_of(4)) && !of->collect(nullptr));

   // A callback that keeps a region is told, and nothing is lost.
   keeps = true;
   CHECK(of->reclaim(nullptr, whole) == -2 && RegionAllocator::destroy(nullptr, of) == -2 && block.reserved == 4096);
   keeps = false;
   CHECK(!of->reclaim(nullptr, whole) && block.reserved == 0);
   no_region = true;
   CHECK(!of->reserve(nullptr, request_of(64)) && block.reserved == 0);
   no_region = false;
   CHECK(of->reserve(nullptr, request_of(4096)) && !RegionAllocator::destroy(nullptr, of) && regions == 0 && !block.allocator);
}

static void sizes_are_conformed()
{
   BlockAllocator::Config config;
   config.minimum_block_size = 1024;
   config.nearest_multiple = 96;
   config.maximum_block_size = 2048;
   BlockAllocator *of = BlockAllocator::create(nullptr, config, callbacks);
   MemoryRequest request = request_of(1);
   CHECK(of && !of->conform(nullptr, &request) && request.size == 1024);
   request.size = 1030;
   CHECK(!of->conform(nullptr, &request) && request.size == 1056);
   MemoryRegion *region = of->reserve(nullptr, request_of(4));
   CHECK(region && region_bytes == 96 && of->current_config().nearest_multiple == 96 && of->default_config().nearest_multiple == 0);
   // Larger than a block may be: refused before a block is.
   size_t asked = blocks_asked;
   CHECK(!of->reserve(nullptr, request_of(3000)) && of->block_count() == 1 && blocks_asked == asked);
   BlockAllocator::destroy(nullptr, of);
}

static void blocks_have_limits()
{
   BlockAllocator::Config config;
   config.minimum_block_size = 1024;
   config.maximum_block_count = 2;
   config.maximum_pool_size = 2500;
   BlockAllocator *of = BlockAllocator::create(nullptr, config, callbacks);
   MemoryRegion *one = of->reserve(nullptr, request_of(1000)), *two = of->reserve(nullptr, request_of(1000));
   CHECK(one && two && of->block_count() == 2 && of->pool_size() == 2048 && block_bytes == 2048 && !of->reserve(nullptr, request_of(1000)));
   BlockRegion stray;
   CHECK(of->release(nullptr, &stray.memory) && of->reclaim(nullptr, nullptr) && of->retain(nullptr, nullptr));
   CHECK(!of->reclaim(nullptr, one) && of->collect(nullptr) && of->block_count() == 1 && !of->collect(nullptr));
   CHECK(!of->reserve(nullptr, request_of(1500)) && of->block_count() == 1);

   // Memory of its own is nobody else's; other properties are another block's.
   MemoryRequest alone = request_of(8);
   alone.dedicated = true;
   MemoryRegion *dedicated = of->reserve(nullptr, alone);
   CHECK(dedicated && dedicated->dedicated && of->block_count() == 2 && !of->reserve(nullptr, request_of(600)));
   // As long as it is in use: then it is the next one's, with its handle where it was kept.
   CHECK(!of->release(nullptr, dedicated) && of->reserve(nullptr, alone) == dedicated && !of->reclaim(nullptr, dedicated));
   alone.size = 80;
   CHECK((dedicated = of->reserve(nullptr, alone)) && of->block_count() == 2 && !of->reclaim(nullptr, dedicated) && of->collect(nullptr));
   MemoryRequest local = request_of(8);
   local.properties.visibility = MemoryVisibility::DeviceOnly;
   CHECK(of->reserve(nullptr, local) && of->block_count() == 2);

   keeps = true;
   CHECK(of->destroy(nullptr) == -2 && of->block_count() == 2);
   keeps = false;
   CHECK(!of->destroy(nullptr) && of->block_count() == 0 && block_bytes == 0 && regions == 0);
   no_block = true;
   CHECK(!of->reserve(nullptr, request_of(8)) && of->block_count() == 0);
   no_block = false;
   BlockAllocator::destroy(nullptr, of);
}

// Each request to the host is refused once: what was asked for is NULL or of another block, and nothing is lost.
static void refused_memory(const steward_context *root)
{
   BlockAllocator::Config config;
   config.minimum_block_size = 1024;
   int nulls = 0;
   for (int nth = 2; nth < 150; nth++) {
      char words[32];
      snprintf(words, sizeof words, "nth=%d", nth);
      steward_context *failing;
      CHECK(!steward_root_failing(root, words, "", &failing));
      steward_halide_blocks_use(failing);
      steward_scope_usage before = usage_of(failing);
      BlockAllocator *of = BlockAllocator::create(nullptr, config, callbacks);
      nulls += !of;
      for (size_t bytes = 4; of && bytes < 800; bytes += 40)
         nulls += !of->reserve(nullptr, request_of(bytes));
      BlockAllocator::destroy(nullptr, of);
      CHECK(usage_of(failing).live_bytes == before.live_bytes && block_bytes == 0 && regions == 0);
      CHECK(!steward_close(failing, nullptr));
   }
   CHECK(nulls > 1);
}

int main()
{
   CHECK(!BlockAllocator::create(nullptr, {}, callbacks));
   steward_context *root = root_of("halide");
   steward_halide_blocks_use(root);
   steward_scope_usage before = usage_of(root);
   regions_of_a_block();
   sizes_are_conformed();
   blocks_have_limits();
   CHECK(usage_of(root).live_bytes == before.live_bytes && usage_of(root).total_blocks > before.total_blocks);
   refused_memory(root);
   CHECK(!steward_close(root, nullptr));
   return 0;
}
