/* Regions of device memory: few large allocations of a VkDevice, divided into many regions.
 *
 * An allocator takes its book-keeping from a context, calls the device's own commands, and may be used from any thread. A region is known by its
 * id, a number that is never used again: the id of a freed region is refused.
 *
 * Results are Vulkan's. 0 is success; the caller's mistakes are -13 (VK_ERROR_UNKNOWN); what the host's memory refuses is -1; else what the device
 * answers, -2 or -10 where a limit would be exceeded, -8 where no memory type fits, -5 for memory that cannot be mapped. steward_gpu_last_error
 * says it in a sentence. A refused call changed nothing but for an imported handle: steward_gpu_driver_owns_import.
 *
 * What the caller owes, in every call: what buffers and images are created with is valid for the device; a resource that a request names is live;
 * what is wrapped lives as long as it is wrapped, and lies where the request says; the device has no more use for what is freed. A child of fork
 * calls none of these functions: allocators stay its parent's, as the device does.
 */
#ifndef STEWARD_GPU_H
#define STEWARD_GPU_H

#include "steward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As in vulkan_core.h, which is not needed here. Handles that are no pointers on every platform are uint64_t. */
struct VkImageCreateInfo;

typedef struct steward_gpu steward_gpu;

/* Of all zeros names nothing. */
typedef struct steward_region_id {
  uint32_t words[4];
} steward_region_id;

enum {
  STEWARD_GPU_DEDICATED_ALLOCATION = 1, /* VK_KHR_dedicated_allocation; of Vulkan 1.1 anyway */
  STEWARD_GPU_EXTERNAL_MEMORY = 2,      /* VK_KHR_external_memory; of Vulkan 1.1 anyway */
  STEWARD_GPU_MEMORY_BUDGET = 4,        /* VK_EXT_memory_budget */
  STEWARD_GPU_MEMORY_PRIORITY = 8,      /* VK_EXT_memory_priority with its feature */
  STEWARD_GPU_BUFFER_DEVICE_ADDRESS = 16,
  STEWARD_GPU_DEVICE_COHERENT_MEMORY = 32
};

/* A device that outlives the allocator, which destroys neither device nor instance. */
typedef struct steward_gpu_device {
  size_t size;
  steward_get_instance_proc_addr_fn get_instance_proc_addr;
  void *instance;        /* VkInstance */
  void *physical_device; /* VkPhysicalDevice */
  void *device;          /* VkDevice */
  const struct VkAllocationCallbacks *callbacks; /* copied; NULL is none */
  uint32_t api_version; /* the lesser of VkApplicationInfo's and the physical device's */
  uint32_t features;    /* STEWARD_GPU_*, of those that the device was made with */
} steward_gpu_device;

enum { STEWARD_LIFETIME_UNKNOWN = 0, STEWARD_LIFETIME_TRANSIENT = 1, STEWARD_LIFETIME_PERSISTENT = 2 };
/* Which regions may share a page of bufferImageGranularity. */
enum { STEWARD_KIND_LINEAR = 0, STEWARD_KIND_OPTIMAL = 1, STEWARD_KIND_UNKNOWN = 2 };
/* A memory object of its own. */
enum { STEWARD_DEDICATED_ALLOWED = 0, STEWARD_DEDICATED_NEVER = 1, STEWARD_DEDICATED_PREFERRED = 2, STEWARD_DEDICATED_REQUIRED = 3 };

typedef struct steward_region_request {
  size_t size;
  uint64_t bytes;
  uint64_t align;        /* of VkMemoryRequirements, or more; 0 is 1. A created buffer or image has the larger one of this and its own */
  uint32_t memory_types; /* memoryTypeBits; 0 is any. For an import those that vkGetMemoryFdPropertiesKHR allows too. A created buffer or
                          * image has its own besides */
  uint32_t usage;        /* VkBufferUsageFlags, of a buffer */
  uint32_t required;     /* VkMemoryPropertyFlags that the memory must have, */
  uint32_t preferred;    /* .. should have (1, DEVICE_LOCAL, suits what the host does not reach), */
  uint32_t avoided;      /* .. should not have */
  int32_t lifetime;      /* STEWARD_LIFETIME_* */
  int32_t kind;          /* STEWARD_KIND_*. Checked, not used, for a created buffer or image */
  int32_t dedicated;     /* STEWARD_DEDICATED_*. dedicated_buffer or dedicated_image, next and export_types make a memory object of its own
                          * even with STEWARD_DEDICATED_NEVER */
  uint64_t tag;          /* a word of the caller's own, for reports */
  const char *name;      /* for reports; copied, up to 255 bytes; NULL is none */
  /* The caller's own resource, not bound yet, which alone will be bound to the memory of steward_region_alloc, at 0; the region's end does not
   * destroy it. One that requires a memory object of its own must be named. */
  uint64_t dedicated_buffer; /* VkBuffer, */
  uint64_t dedicated_image;  /* .. or VkImage */
  const void *next; /* structures behind VkMemoryAllocateInfo, as an import, but those of dedicated memory, export and flags; not copied */
  uint32_t export_types;   /* VkExternalMemoryHandleTypeFlags of the memory's export */
  uint32_t external_types; /* .. of what a created buffer or image may be bound to; needs STEWARD_GPU_EXTERNAL_MEMORY */
  uint64_t flags;          /* STEWARD_REQUEST_* below */
} steward_region_request;

enum {
  STEWARD_REQUEST_WITHIN_BUDGET = 1, /* refused rather than past the heap's budget, as steward_gpu_usage has it */
  STEWARD_REQUEST_MAPPED = 2         /* mapped as long as it lives, where its memory is HOST_VISIBLE; it is not unmapped */
};

typedef struct steward_wrap_request {
  size_t size;
  uint64_t buffer; /* VkBuffer of the application's */
  uint64_t offset; /* where the region begins in it */
  uint64_t bytes;  /* 0 is all from there to the buffer's end */
  uint64_t buffer_bytes; /* 0 is not known */
  uint64_t memory; /* VkDeviceMemory behind it, for what is to be mapped; 0 is not known, and the next four are not read then */
  uint64_t memory_offset; /* where the buffer begins in it */
  uint64_t memory_bytes;
  uint64_t properties; /* VkMemoryPropertyFlags of its type */
  void *mapped; /* where the application has mapped the memory from its start, as long as it is wrapped; NULL where it has not, nor will */
  uint64_t tag;
  const char *name;
} steward_wrap_request;

enum { STEWARD_REGION_OWNED = 0, STEWARD_REGION_WRAPPED = 1, STEWARD_REGION_CROP = 2 };

typedef struct steward_region {
  size_t size;
  steward_region_id id;
  steward_region_id root; /* what a crop was cut from; else the region itself */
  uint64_t bytes;
  uint64_t memory;        /* VkDeviceMemory to bind to; 0 where it is not known */
  uint64_t offset;        /* in it */
  uint64_t buffer;        /* VkBuffer; 0 for a region without */
  uint64_t buffer_offset; /* in it: what copies and descriptors are given */
  int32_t memory_type;    /* -1 where it is not known */
  int32_t ownership;      /* STEWARD_REGION_OWNED, .. */
  uint32_t crops;
  uint32_t maps;
  uint64_t tag;
  uint64_t image;         /* VkImage; 0 for a region without */
  void *mapped;           /* of a region with STEWARD_REQUEST_MAPPED, or a crop of it; NULL of others */
  uint64_t memory_bytes;  /* of the whole VkDeviceMemory, as importers name it; 0 where it is not known */
  uint32_t properties;    /* VkMemoryPropertyFlags of its type; 0 where they are not known */
  uint32_t is_dedicated;  /* 1 for a memory object of its own */
  uint64_t reserved;      /* bytes that it, or the region that a crop was cut from, takes of its memory: whole granules, and its margin */
  uint64_t slot_key;      /* the id as one number, never 0: no other region of this allocator ever has it. steward_region_of_key has the id */
} steward_region;

typedef struct steward_gpu_stats {
  size_t size;
  uint64_t blocks; /* VkDeviceMemory objects */
  uint64_t block_bytes;
  uint64_t dedicated; /* of the blocks */
  uint64_t regions;
  uint64_t region_bytes;
  uint64_t wrapped; /* this, and what follows, of all heaps together alone */
  uint64_t wrapped_bytes;
  uint64_t crops;
  uint64_t host_bytes; /* of the context, for book-keeping */
  uint64_t budget; /* of one heap alone, of VK_EXT_memory_budget, as read last; without it the heap's size */
  uint64_t budget_used; /* .. by the whole process; without it the allocator's own */
} steward_gpu_stats;

typedef struct steward_gpu_options {
  size_t size;
  uint64_t max_bytes;        /* of all memory objects together; no limit */
  uint64_t first_block;      /* of a pool; by default 8 MiB, or a 64th of the heap where that is less */
  uint64_t max_block;        /* requests above half of it have a memory object of their own; by default blocks grow to 256 MiB, 32 MiB of memory that
                              * is not DEVICE_LOCAL, or an eighth of the heap */
  uint64_t nearest_multiple; /* that sizes of blocks are rounded up to; 1 */
  uint64_t keep_empty;       /* bytes of empty blocks that a pool keeps; STEWARD_GPU_KEEP_NONE for none. By default a first block, or an eighth
                              * of what lives in the pool */
  uint64_t max_reusable_bytes; /* of buffers that steward_region_release keeps; 64 MiB */
  uint32_t max_blocks;         /* memory objects; what the device allows */
  uint32_t max_reusable;       /* buffers that are kept, up to 1024; 64. STEWARD_GPU_REUSE_NONE for none */
  uint32_t granule;            /* a power of two, 16 to 4096, that regions begin and end at; 256 */
  uint32_t margin;             /* bytes of a pattern behind each region that the host can see, checked when it is freed; none */
} steward_gpu_options;

#define STEWARD_GPU_KEEP_NONE UINT64_MAX
#define STEWARD_GPU_REUSE_NONE UINT32_MAX

/* options may be NULL, or five numbers as Halide's users write them, the last ones optional, 0 for no limit or the default:
 * "pool_MB:min_block_MB:max_block_MB:max_blocks:nearest_multiple". The context, which stays the caller's, cannot be closed before the
 * allocator. */
STEWARD_API int32_t steward_gpu_new(const steward_context *owner, const steward_gpu_device *device, const char *options, steward_gpu **out);
/* The same with options in bytes, which begin with their size. Of all others 0 is the default. */
STEWARD_API int32_t steward_gpu_new_with(const steward_context *owner, const steward_gpu_device *device, const steward_gpu_options *options,
                                         steward_gpu **out);
/* Frees all device memory, and ends the allocator. VK_NOT_READY while regions are left, which steward_gpu_json names; it goes on then. No other
 * call uses it meanwhile. */
STEWARD_API int32_t steward_gpu_close(steward_gpu *gpu);
/* Ends the allocator without a call of the device, as for one that is lost: its memory goes with the device. */
STEWARD_API void steward_gpu_abandon(steward_gpu *gpu);
/* Frees empty blocks until so many bytes are freed, UINT64_MAX for all; returns how many were. */
STEWARD_API uint64_t steward_gpu_trim(const steward_gpu *gpu, uint64_t bytes);
/* heap is a VkMemoryHeap's index, or -1 for all together. */
STEWARD_API int32_t steward_gpu_usage(const steward_gpu *gpu, int32_t heap, steward_gpu_stats *out);
/* A new number reads the budgets again, and frees the empty blocks of heaps above theirs: call it once a frame, or ahead of a large request.
 * False for the number of the call before, for NULL, and where the device reports none. */
STEWARD_API bool steward_gpu_set_frame(const steward_gpu *gpu, uint32_t frame);
/* Every block and region as JSON, with the keys of vmaBuildStatsString, in pieces. The copy that is written is memory of the context. */
STEWARD_API int32_t steward_gpu_json(const steward_gpu *gpu, steward_writer_fn writer, void *user);
/* Writes why a call of this header was refused last on this thread; false where none was. Takes no memory. */
STEWARD_API bool steward_gpu_last_error(steward_writer_fn writer, void *user);

/* Whether the driver owns the handle that the call which was refused last on this thread imported: the memory was allocated, and what followed
 * was refused. Else it is still the caller's, to close or to import again. */
STEWARD_API bool steward_gpu_driver_owns_import(void);

/* Memory for what the caller binds: memory and offset of *out. */
STEWARD_API int32_t steward_region_alloc(const steward_gpu *gpu, const steward_region_request *wanted, steward_region *out);
/* A VkBuffer with its memory, bound, destroyed with the region. */
STEWARD_API int32_t steward_region_create_buffer(const steward_gpu *gpu, const steward_region_request *wanted, steward_region *out);
/* A VkImage likewise. Its pNext is NULL, and it is neither sparse nor disjoint; bytes and usage of the request are not read. One that
 * needs more, as DRM modifiers, the caller creates itself, and allocates for dedicated_image. */
STEWARD_API int32_t steward_region_create_image(const steward_gpu *gpu, const struct VkImageCreateInfo *info, const steward_region_request *wanted,
                                                steward_region *out);
/* The application's buffer as a region, never destroyed by it. */
STEWARD_API int32_t steward_region_wrap(const steward_gpu *gpu, const steward_wrap_request *wanted, steward_region *out);
/* A part of a region, of a crop or of a wrapped buffer. The region or wrapped buffer cannot be freed before it; a crop can, also before crops
 * of it. Offset and bytes are multiples of element_bytes. */
STEWARD_API int32_t steward_region_crop(const steward_gpu *gpu, steward_region_id of, uint64_t offset, uint64_t bytes, uint64_t element_bytes,
                                        steward_region *out);
/* Refused while the region has crops or is mapped by steward_region_map. */
STEWARD_API int32_t steward_region_free(const steward_gpu *gpu, steward_region_id of);
/* The same, but a region with crops or maps goes with the last of them; its id is stale at once. So users are counted: each has a crop of the whole
 * region and frees it, and whoever made the region calls this whenever it is done. */
STEWARD_API int32_t steward_region_free_when_unused(const steward_gpu *gpu, steward_region_id of);
/* As steward_region_free, but keeps a created buffer with its memory for the next one of the same size, usage and request, and refuses wrapped
 * ones. The id is stale at once. Kept buffers are freed by steward_gpu_trim, when memory is short, and the oldest above the limits of steward_gpu_options. */
STEWARD_API int32_t steward_region_release(const steward_gpu *gpu, steward_region_id of);
STEWARD_API int32_t steward_region_info(const steward_gpu *gpu, steward_region_id of, steward_region *out);
/* The id of a slot_key of this allocator, for tables with room for one number. Any other number, and that of a freed region, gives an id that
 * every call refuses. */
STEWARD_API steward_region_id steward_region_of_key(const steward_gpu *gpu, uint64_t slot_key);
/* Maps of one region are counted: unmap as often. */
STEWARD_API int32_t steward_region_map(const steward_gpu *gpu, steward_region_id of, void **out);
STEWARD_API int32_t steward_region_unmap(const steward_gpu *gpu, steward_region_id of);
/* Of a mapped region, in bytes from its start. UINT64_MAX bytes reach to the region's end, 0 bytes do nothing. Coherent memory needs
 * neither. */
STEWARD_API int32_t steward_region_flush(const steward_gpu *gpu, steward_region_id of, uint64_t offset, uint64_t bytes);
STEWARD_API int32_t steward_region_invalidate(const steward_gpu *gpu, steward_region_id of, uint64_t offset, uint64_t bytes);

/* Virtual blocks: ranges of something that the library never touches, as a buffer of the caller's, memory of another API, an address space or
 * descriptors, in units of the caller's choice, here called bytes. A block takes its book-keeping from a context, and is used by one thread at a
 * time. Results and steward_gpu_last_error are those above; -2 where no hole is large enough. */
typedef struct steward_virtual steward_virtual;

/* Stale behind the range's end, and never used again. Of all zeros names nothing. */
typedef struct steward_virtual_id {
  uint32_t words[4];
} steward_virtual_id;

enum {
  STEWARD_VIRTUAL_GENERAL = 0,      /* any order */
  STEWARD_VIRTUAL_STACK = 1,        /* the newest is freed first */
  STEWARD_VIRTUAL_DOUBLE_STACK = 2, /* a stack at each end */
  STEWARD_VIRTUAL_RING = 3          /* the oldest is freed first */
};

enum { STEWARD_VIRTUAL_UPPER = 1 }; /* at a hole's high end, or on the upper stack */

typedef struct steward_virtual_range {
  size_t size;
  steward_virtual_id id; /* zeros, of a hole */
  uint64_t offset;
  uint64_t bytes;   /* whole granules; of steward_virtual_info as requested */
  uint32_t tag;     /* the caller's own */
  uint32_t note;    /* of steward_virtual_alloc: that of the hole; 0 else */
} steward_virtual_range;

typedef struct steward_virtual_stats {
  size_t size;
  uint64_t bytes; /* of the block, in whole granules */
  uint64_t used;  /* bytes of its ranges, likewise */
  uint64_t ranges;
  uint64_t holes;
  uint64_t largest_hole;
  uint64_t host_bytes; /* of the context, for ranges and holes */
} steward_virtual_stats;

typedef uint32_t (*steward_virtual_merge_fn)(void *user, uint32_t hole, uint32_t other);
typedef void (*steward_virtual_walk_fn)(void *user, const steward_virtual_range *piece);

/* At most 2^32 - 2 granules. granule is a power of two up to 2^31 that sizes are rounded up to; 0 is 1. algorithm is a STEWARD_VIRTUAL_*. The
 * context, which stays the caller's, cannot be closed before the block. */
STEWARD_API int32_t steward_virtual_new(const steward_context *owner, uint64_t bytes, uint64_t granule, int32_t algorithm, steward_virtual **out);
STEWARD_API void steward_virtual_end(steward_virtual *of);
/* align is a power of two; 0 is 1. flags are 0 or STEWARD_VIRTUAL_UPPER. */
STEWARD_API int32_t steward_virtual_alloc(steward_virtual *of, uint64_t bytes, uint64_t align, uint32_t flags, uint32_t tag, steward_virtual_range *out);
/* Of a stack or a ring the range must be the next to go. */
STEWARD_API int32_t steward_virtual_free(steward_virtual *of, steward_virtual_id id);
/* The same with a note on the hole, as an index of the caller's own: until when a device may still use it. A joined hole has the merged note of all,
 * both parts of a split keep it, and steward_virtual_alloc tells it. Free all ranges of a block by this, or none. merge is called at most twice,
 * before anything changes, with the note of a hole and the other's; it must not use the block. */
STEWARD_API int32_t steward_virtual_free_noted(steward_virtual *of, steward_virtual_id id, uint32_t note, steward_virtual_merge_fn merge, void *user);
/* Frees all ranges; the block's note is 0. */
STEWARD_API void steward_virtual_clear(steward_virtual *of);
STEWARD_API int32_t steward_virtual_set_tag(steward_virtual *of, steward_virtual_id id, uint32_t tag);
STEWARD_API int32_t steward_virtual_info(steward_virtual *of, steward_virtual_id id, steward_virtual_range *out);
/* Examines each hole of about the size of the largest. */
STEWARD_API int32_t steward_virtual_usage(steward_virtual *of, steward_virtual_stats *out);
/* Every range and every hole in order of offset; together they tile the block. The function must not use the block. */
STEWARD_API int32_t steward_virtual_walk(steward_virtual *of, steward_virtual_walk_fn see, void *user);

#ifdef __cplusplus
}
#endif

#endif
