/* Halide's BlockAllocator and RegionAllocator over virtual blocks: for who builds Halide's runtime and wants its book-keeping of device memory in
 * an account of Steward's. C++17. Nothing of Halide changes: compile what includes internal/block_allocator.h with
 *
 *    -include steward_halide_blocks.h -I<Halide>/src/runtime -I<Steward>/include
 *
 * and link libsteward. The names are Halide's, and so are the two headers' guards, which this file defines first.
 *
 *    steward_halide_blocks_use(context);      once, before the first allocator; the context ends after the last one
 *
 *    BlockAllocator ──> Block ──> Block        one Halide block each: BlockResource, then the list
 *                         │
 *                    RegionAllocator ──> steward_virtual    the ranges of that block
 *                         │
 *                       Region ──> Region      BlockRegion (Halide's, begins with the MemoryRegion that a caller holds), then the range's id
 *
 * All records come from that context, none from `allocators.system`. As in Halide: the caller has the lock; a released region keeps its handle for
 * the next request of its size; reclaim ends it whatever its use count; a record lasts as long as its block, so that a region that was reclaimed can
 * be named once more, which is an error. A request that Halide would assert (no bytes, a foreign region) is refused here. Seen with Halide 21.0.0
 * and abbf7ff9 of 2026-08-22.
 */
#ifndef STEWARD_HALIDE_BLOCKS_H
#define STEWARD_HALIDE_BLOCKS_H
#define HALIDE_RUNTIME_BLOCK_ALLOCATOR_H
#define HALIDE_RUNTIME_REGION_ALLOCATOR_H

#include "HalideRuntime.h"

#include "printer.h"

#include "internal/memory_resources.h"
#include "steward-gpu.h"

inline const steward_context *steward_halide_blocks_context;

inline void steward_halide_blocks_use(const steward_context *records)
{
   steward_halide_blocks_context = records;
}

namespace Halide::Runtime::Internal {

/* Where offset and size of a region are: a struct of their own since 22, and the region's fields in 21. */
template <typename Region> auto steward_halide_place(Region &of, int) -> decltype((of.allocation))
{
   return of.allocation;
}
template <typename Region> Region &steward_halide_place(Region &of, long)
{
   return of;
}

/* The ranges of one block. */
class RegionAllocator {
public:
   struct MemoryAllocators {
      SystemMemoryAllocatorFns system; /* not used */
      MemoryRegionAllocatorFns region;
   };

   RegionAllocator() = delete;
   RegionAllocator(const RegionAllocator &) = delete;
   RegionAllocator &operator=(const RegionAllocator &) = delete;
   ~RegionAllocator() = delete;

   /* NULL where the context has no memory, or none was named. */
   static RegionAllocator *create(void *, BlockResource *block, const MemoryAllocators &allocators)
   {
      const steward_context *records = steward_halide_blocks_context;
      if (!records || !block)
         return nullptr;
      /* At most 2^32 - 2 granules a virtual block. */
      uint64_t granule = 1;
      while (block->memory.size / granule > 0xfffffffe)
         granule *= 2;
      auto *made = static_cast<RegionAllocator *>(steward_new(records, sizeof(RegionAllocator), 0, true));
      if (!made)
         return nullptr;
      if (steward_virtual_new(records, block->memory.size, granule, STEWARD_VIRTUAL_GENERAL, &made->ranges)) {
         steward_delete(made);
         return nullptr;
      }
      made->block = block;
      made->allocators = allocators;
      block->allocator = made;
      return made;
   }

   static int destroy(void *user, RegionAllocator *of)
   {
      if (!of)
         return halide_error_code_internal_error;
      int result = of->destroy(user);
      if (result)
         return result;
      of->block->allocator = nullptr;
      steward_virtual_end(of->ranges);
      steward_delete(of);
      return halide_error_code_success;
   }

   static RegionAllocator *find_allocator(void *, MemoryRegion *region)
   {
      BlockResource *block = region ? reinterpret_cast<BlockRegion *>(region)->block_ptr : nullptr;
      return block ? block->allocator : nullptr;
   }

   MemoryRegion *reserve(void *user, const MemoryRequest &request)
   {
      MemoryRequest conformed = request;
      if (!request.size || conform(user, &conformed) || !conformed.size || conformed.size > block->memory.size - block->reserved)
         return nullptr;
      if (Region *kept = kept_for(conformed)) {
         kept->halide.status = AllocationStatus::InUse;
         kept->halide.usage_count = 1;
         block->reserved += conformed.size;
         return &kept->halide.memory;
      }
      steward_virtual_range range = {};
      range.size = sizeof range;
      /* Kept regions go where nothing else is left. */
      if (steward_virtual_alloc(ranges, conformed.size, conformed.alignment, 0, 0, &range) &&
          (!collect(user) || steward_virtual_alloc(ranges, conformed.size, conformed.alignment, 0, 0, &range)))
         return nullptr;
      Region *region = spare;
      if (region)
         spare = next(region);
      else
         region = static_cast<Region *>(steward_new(steward_halide_blocks_context, sizeof(Region), 0, false));
      if (!region) {
         steward_virtual_free(ranges, range.id);
         return nullptr;
      }
      region->halide = BlockRegion{};
      region->id = range.id;
      MemoryRegion &memory = region->halide.memory;
      auto &place = steward_halide_place(memory, 0);
      place.offset = range.offset;
      place.size = conformed.size;
      memory.dedicated = conformed.dedicated;
      memory.properties = conformed.properties;
      region->halide.block_ptr = block;
      if (allocators.region.allocate(user, &memory)) {
         steward_virtual_free(ranges, range.id);
         put_aside(region);
         return nullptr;
      }
      region->halide.status = AllocationStatus::InUse;
      region->halide.usage_count = 1;
      region->halide.next_ptr = block->regions;
      if (block->regions)
         block->regions->prev_ptr = &region->halide;
      block->regions = &region->halide;
      block->reserved += conformed.size;
      return &memory;
   }

   int conform(void *user, MemoryRequest *request) const
   {
      if (allocators.region.conform)
         return allocators.region.conform(user, request);
      const MemoryProperties &of = block->memory.properties;
      request->alignment = conform_alignment(request->alignment, of.alignment);
      request->offset = aligned_offset(request->offset, request->alignment);
      request->size = conform_size(request->offset, request->size, request->alignment, of.nearest_multiple);
      return halide_error_code_success;
   }

   int retain(void *, MemoryRegion *memory)
   {
      Region *region = used(memory);
      if (!region)
         return halide_error_code_internal_error;
      region->halide.usage_count++;
      return halide_error_code_success;
   }

   int release(void *, MemoryRegion *memory)
   {
      Region *region = used(memory);
      if (!region)
         return halide_error_code_internal_error;
      if (--region->halide.usage_count == 0) {
         region->halide.status = AllocationStatus::Available;
         block->reserved -= steward_halide_place(*memory, 0).size;
      }
      return halide_error_code_success;
   }

   int reclaim(void *user, MemoryRegion *memory)
   {
      Region *region = own(memory);
      return region ? end(user, region) : int(halide_error_code_internal_error);
   }

   /* Returns whether a kept region went. */
   bool collect(void *user)
   {
      bool went = false;
      for (BlockRegion *at = block->regions, *following; at; at = following) {
         following = at->next_ptr;
         if (at->status == AllocationStatus::Available && !end(user, reinterpret_cast<Region *>(at)))
            went = true;
      }
      return went;
   }

   /* Ends all regions, used ones as well. What its callback refuses to free stays, and is the result. */
   int destroy(void *user)
   {
      int result = halide_error_code_success;
      for (BlockRegion *at = block->regions, *following; at; at = following) {
         following = at->next_ptr;
         if (int refused = end(user, reinterpret_cast<Region *>(at)))
            result = refused;
      }
      while (Region *region = spare) {
         spare = next(region);
         steward_delete(region);
      }
      return result;
   }

   BlockResource *block_resource() const { return block; }

private:
   /* A MemoryRegion of Halide's callers is the address of its record. */
   struct Region {
      BlockRegion halide;
      steward_virtual_id id;
   };

   static Region *next(Region *region) { return reinterpret_cast<Region *>(region->halide.next_ptr); }

   Region *own(MemoryRegion *memory) const
   {
      auto *region = reinterpret_cast<Region *>(memory);
      bool lives = region && region->halide.block_ptr == block && region->halide.status != AllocationStatus::InvalidStatus;
      return lives ? region : nullptr;
   }

   Region *used(MemoryRegion *memory) const
   {
      Region *region = own(memory);
      return region && region->halide.usage_count ? region : nullptr;
   }

   Region *kept_for(const MemoryRequest &request) const
   {
      for (BlockRegion *at = block->regions; at; at = at->next_ptr) {
         const MemoryRegion &memory = at->memory;
         const auto &place = steward_halide_place(memory, 0);
         bool aligned = !request.alignment || place.offset % request.alignment == 0;
         if (at->status == AllocationStatus::Available && place.size == request.size && aligned &&
             memory.dedicated == request.dedicated)
            return reinterpret_cast<Region *>(at);
      }
      return nullptr;
   }

   int end(void *user, Region *region)
   {
      MemoryRegion &memory = region->halide.memory;
      if (int refused = allocators.region.deallocate(user, &memory))
         return refused;
      steward_virtual_free(ranges, region->id);
      if (region->halide.status == AllocationStatus::InUse)
         block->reserved -= steward_halide_place(memory, 0).size;
      if (region->halide.prev_ptr)
         region->halide.prev_ptr->next_ptr = region->halide.next_ptr;
      else
         block->regions = region->halide.next_ptr;
      if (region->halide.next_ptr)
         region->halide.next_ptr->prev_ptr = region->halide.prev_ptr;
      put_aside(region);
      return halide_error_code_success;
   }

   void put_aside(Region *region)
   {
      region->halide.status = AllocationStatus::InvalidStatus;
      region->halide.usage_count = 0;
      region->halide.next_ptr = spare ? &spare->halide : nullptr;
      spare = region;
   }

   BlockResource *block;
   MemoryAllocators allocators;
   steward_virtual *ranges;
   Region *spare; /* records without a region */
};

/* The blocks. */
class BlockAllocator {
public:
   struct MemoryAllocators {
      SystemMemoryAllocatorFns system; /* not used */
      MemoryBlockAllocatorFns block;
      MemoryRegionAllocatorFns region;
   };

   /* Bytes, and 0 for no limit, as in Halide. */
   struct Config {
      size_t initial_capacity = 0; /* not used: no table grows here */
      size_t maximum_pool_size = 0;
      size_t minimum_block_size = 0;
      size_t maximum_block_size = 0;
      size_t maximum_block_count = 0;
      size_t nearest_multiple = 0;
   };

   BlockAllocator() = delete;
   BlockAllocator(const BlockAllocator &) = delete;
   BlockAllocator &operator=(const BlockAllocator &) = delete;
   ~BlockAllocator() = delete;

   static BlockAllocator *create(void *user, const Config &config, const MemoryAllocators &allocators)
   {
      const steward_context *records = steward_halide_blocks_context;
      void *made = records ? steward_new(records, sizeof(BlockAllocator), 0, true) : nullptr;
      if (!made) {
         error(user) << "BlockAllocator: no memory of steward_halide_blocks_use's context\n";
         return nullptr;
      }
      auto *of = static_cast<BlockAllocator *>(made);
      of->config = config;
      of->allocators = allocators;
      return of;
   }

   static void destroy(void *user, BlockAllocator *of)
   {
      if (of && !of->destroy(user))
         steward_delete(of);
   }

   MemoryRegion *reserve(void *user, const MemoryRequest &request)
   {
      if (!request.size)
         return nullptr;
      for (Block *block = blocks; block; block = block->following) {
         const MemoryBlock &memory = block->halide.memory;
         bool alone = memory.dedicated ? block->halide.reserved != 0 : request.dedicated;
         if (alone || !serves(memory.properties, request.properties))
            continue;
         if (MemoryRegion *region = block->halide.allocator->reserve(user, request))
            return region;
      }
      Block *block = new_block(user, request);
      if (!block)
         return nullptr;
      MemoryRegion *region = block->halide.allocator->reserve(user, request);
      if (!region)
         end(user, block);
      return region;
   }

   /* The size of a block for the request. */
   int conform(void *user, MemoryRequest *request) const
   {
      size_t multiple = max(config.nearest_multiple, request->properties.nearest_multiple);
      request->properties.nearest_multiple = multiple;
      if (multiple)
         request->size = (request->size + multiple - 1) / multiple * multiple;
      request->size = clamped_size(request->size, config.minimum_block_size, config.maximum_block_size ? config.maximum_block_size : ~size_t(0));
      return allocators.block.conform ? allocators.block.conform(user, request) : int(halide_error_code_success);
   }

   int release(void *user, MemoryRegion *region) { return at(user, region, &RegionAllocator::release); }
   int reclaim(void *user, MemoryRegion *region) { return at(user, region, &RegionAllocator::reclaim); }
   int retain(void *user, MemoryRegion *region) { return at(user, region, &RegionAllocator::retain); }

   /* Returns whether a block went. */
   bool collect(void *user)
   {
      bool went = false;
      for (Block *block = blocks, *following; block; block = following) {
         following = block->following;
         block->halide.allocator->collect(user);
         if (!block->halide.regions && !end(user, block))
            went = true;
      }
      return went;
   }

   /* Ends all regions and blocks. What a callback refuses to free stays, and is the result. */
   int destroy(void *user)
   {
      int result = halide_error_code_success;
      for (Block *block = blocks, *following; block; block = following) {
         following = block->following;
         if (int refused = end(user, block))
            result = refused;
      }
      return result;
   }

   const MemoryAllocators &current_allocators() const { return allocators; }
   const Config &current_config() const { return config; }
   const Config &default_config() const
   {
      static constexpr Config none{};
      return none;
   }

   size_t block_count() const
   {
      size_t count = 0;
      for (const Block *block = blocks; block; block = block->following)
         count++;
      return count;
   }

   size_t pool_size() const
   {
      size_t bytes = 0;
      for (const Block *block = blocks; block; block = block->following)
         bytes += block->halide.memory.size;
      return bytes;
   }

private:
   struct Block {
      BlockResource halide;
      Block *following;
   };

   static bool serves(const MemoryProperties &of, const MemoryProperties &wanted)
   {
      bool caching = wanted.caching == MemoryCaching::DefaultCaching || wanted.caching == of.caching;
      bool visibility = wanted.visibility == MemoryVisibility::DefaultVisibility || wanted.visibility == of.visibility;
      bool usage = wanted.usage == MemoryUsage::DefaultUsage || wanted.usage == of.usage;
      return caching && visibility && usage;
   }

   int at(void *user, MemoryRegion *region, int (RegionAllocator::*what)(void *, MemoryRegion *))
   {
      RegionAllocator *of = RegionAllocator::find_allocator(user, region);
      return of ? (of->*what)(user, region) : int(halide_error_code_internal_error);
   }

   Block *new_block(void *user, const MemoryRequest &request)
   {
      MemoryRequest conformed = request;
      if (conform(user, &conformed) || conformed.size < request.size)
         return nullptr;
      if (config.maximum_block_count && block_count() >= config.maximum_block_count)
         return nullptr;
      size_t room = config.maximum_pool_size ? config.maximum_pool_size : ~size_t(0), have = pool_size();
      if (have > room || conformed.size > room - have)
         return nullptr;
      void *made = steward_new(steward_halide_blocks_context, sizeof(Block), 0, false);
      if (!made)
         return nullptr;
      auto *block = static_cast<Block *>(made);
      block->halide = BlockResource{};
      MemoryBlock &memory = block->halide.memory;
      memory.size = conformed.size;
      memory.dedicated = conformed.dedicated;
      memory.properties = conformed.properties;
      /* The ranges first: what a callback gave would have to go back. */
      RegionAllocator::MemoryAllocators of_regions = {allocators.system, allocators.region};
      if (RegionAllocator::create(user, &block->halide, of_regions)) {
         if (!allocators.block.allocate(user, &memory)) {
            block->following = blocks;
            blocks = block;
            return block;
         }
         RegionAllocator::destroy(user, block->halide.allocator);
      }
      steward_delete(block);
      return nullptr;
   }

   int end(void *user, Block *block)
   {
      if (int refused = block->halide.allocator->destroy(user))
         return refused;
      if (int refused = allocators.block.deallocate(user, &block->halide.memory))
         return refused;
      RegionAllocator::destroy(user, block->halide.allocator);
      Block **at = &blocks;
      while (*at != block)
         at = &(*at)->following;
      *at = block->following;
      steward_delete(block);
      return halide_error_code_success;
   }

   Config config;
   MemoryAllocators allocators;
   Block *blocks;
};

} // namespace Halide::Runtime::Internal

#endif
