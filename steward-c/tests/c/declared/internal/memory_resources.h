/* Halide's records of blocks and regions and its rules of sizes, declared anew, with what the block allocator uses. HALIDE_21: a region's place
 * is in its own fields there. */
#ifndef HALIDE_RUNTIME_MEMORY_RESOURCES_H
#define HALIDE_RUNTIME_MEMORY_RESOURCES_H

namespace Halide::Runtime::Internal {

enum class AllocationStatus { InvalidStatus, InUse, Available };
enum class MemoryVisibility { InvalidVisibility, DeviceOnly, DefaultVisibility };
enum class MemoryUsage { InvalidUsage, DefaultUsage };
enum class MemoryCaching { InvalidCaching, DefaultCaching };

struct MemoryProperties {
   MemoryVisibility visibility = MemoryVisibility::InvalidVisibility;
   MemoryUsage usage = MemoryUsage::InvalidUsage;
   MemoryCaching caching = MemoryCaching::InvalidCaching;
   size_t alignment = 0, nearest_multiple = 0;
};
struct MemoryBlock {
   void *handle = nullptr;
   size_t size = 0;
   bool dedicated = false;
   MemoryProperties properties;
};
struct MemoryRegion {
   void *handle = nullptr;
#ifdef HALIDE_21
   size_t offset = 0, size = 0;
#else
   struct {
      size_t offset = 0, size = 0;
   } allocation;
#endif
   bool dedicated = false;
   MemoryProperties properties;
};
struct MemoryRequest {
   size_t offset = 0, size = 0, alignment = 0;
   bool dedicated = false;
   MemoryProperties properties;
};

class RegionAllocator;
struct BlockRegion;
struct BlockResource {
   MemoryBlock memory;
   RegionAllocator *allocator = nullptr;
   BlockRegion *regions = nullptr;
   size_t reserved = 0;
};
struct BlockRegion {
   MemoryRegion memory;
   uint32_t usage_count = 0;
   AllocationStatus status = AllocationStatus::InvalidStatus;
   BlockRegion *next_ptr = nullptr, *prev_ptr = nullptr;
   BlockResource *block_ptr = nullptr;
};

inline size_t max(size_t a, size_t b) { return a > b ? a : b; }
inline size_t clamped_size(size_t size, size_t least, size_t most) { return size > most ? most : max(size, least); }
inline size_t conform_alignment(size_t asked, size_t required) { return max(asked, required); }
inline size_t aligned_offset(size_t offset, size_t alignment) { return alignment ? (offset + alignment - 1) & ~(alignment - 1) : offset; }
inline size_t conform_size(size_t, size_t size, size_t alignment, size_t multiple)
{
   size = max(size, alignment);
   return multiple ? (size + multiple - 1) / multiple * multiple : size;
}

struct SystemMemoryAllocatorFns {
   void *(*allocate)(void *, size_t) = nullptr;
   void (*deallocate)(void *, void *) = nullptr;
};
struct MemoryBlockAllocatorFns {
   int (*allocate)(void *, MemoryBlock *) = nullptr;
   int (*deallocate)(void *, MemoryBlock *) = nullptr;
   int (*conform)(void *, MemoryRequest *) = nullptr;
};
struct MemoryRegionAllocatorFns {
   int (*allocate)(void *, MemoryRegion *) = nullptr;
   int (*deallocate)(void *, MemoryRegion *) = nullptr;
   int (*conform)(void *, MemoryRequest *) = nullptr;
};

} // namespace Halide::Runtime::Internal

#endif
