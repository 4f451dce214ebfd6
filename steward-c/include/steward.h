/* Steward: host memory that somebody answers for. The C interface.
 *
 * A context is where memory is allocated, counted and limited. It inherits its parent's allocator: C functions, Vulkan's VkAllocationCallbacks,
 * or the C library's. docs/contracts/c-abi.md says what holds of this interface.
 *
 * Results are Vulkan's: 0 is success, 1 VK_NOT_READY, -1 VK_ERROR_OUT_OF_HOST_MEMORY, -13 VK_ERROR_UNKNOWN (the caller's mistake). Functions that
 * allocate return NULL instead; steward_last_refusal says why. A pointer that a refused call would have written is NULL. errno is left as it was.
 * Nothing unwinds into the caller: a mistake of the library is printed in one line, and the process ends. Functions that are passed (an
 * allocator's, Vulkan's callbacks, writers, destructors) must not unwind, by a C++ exception or longjmp: what happens then is undefined.
 *
 * Who frees what: a block goes back by this interface's own function, to the context or callbacks that gave it, and never by free or delete of C;
 * and only what the caller's functions gave is passed to them. So no block goes from one C runtime to another, of which a process of Windows
 * may have several. errno is that of the runtime which the library is linked with.
 *
 * Contexts, handles, bridges and numbers may be used from any thread. No function may be called from a signal handler. A child of fork uses what
 * its parent made, whatever other threads were doing; what they held stays allocated there. A child of a raw clone does not. A child uses no
 * allocator of device memory (steward-gpu.h). No other call uses what a call ends, on another thread or around it: an allocator's
 * functions do not close the context that asks them. */
#ifndef STEWARD_H
#define STEWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How Vulkan's commands and the functions of VkAllocationCallbacks are called. Functions of this interface, and those of steward_host, are
 * called as C's are. */
#if defined(_WIN32)
#define STEWARD_VKAPI __stdcall
#else
#define STEWARD_VKAPI
#endif

/* What is compiled with STEWARD_DLL for steward.dll saves a jump at each call. */
#if defined(_WIN32) && defined(STEWARD_DLL)
#define STEWARD_API __declspec(dllimport)
#else
#define STEWARD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As in vulkan_core.h, which is not needed here. */
struct VkAllocationCallbacks;

/* The owner of a context: one, closed by steward_close. */
typedef struct steward_context steward_context;
/* A counted handle: a context cannot be closed before it is released, and the record of one that was abandoned stays until then. */
typedef struct steward_handle steward_handle;

/* VkSystemAllocationScope; STEWARD_SCOPE_DEFAULT is the context's own. A struct of zeros says COMMAND, not the default. */
enum {
  STEWARD_SCOPE_DEFAULT = -1,
  STEWARD_SCOPE_COMMAND = 0,
  STEWARD_SCOPE_OBJECT = 1,
  STEWARD_SCOPE_CACHE = 2,
  STEWARD_SCOPE_DEVICE = 3,
  STEWARD_SCOPE_INSTANCE = 4
};

enum {
  STEWARD_BUDGET_NONE = 0,
  STEWARD_BUDGET_LIMIT = 1, /* never exceeded; threads lease slices of it */
  STEWARD_BUDGET_EXACT = 2, /* never exceeded, and never refused early */
  STEWARD_BUDGET_SOFT = 3   /* refuses nothing: steward_budget tells whether high exceeds limit */
};

enum {
  STEWARD_REFUSAL_NONE = 0,
  STEWARD_REFUSAL_OUT_OF_MEMORY = 1, /* the allocator at the root: bytes, scope */
  STEWARD_REFUSAL_OVER_BUDGET = 2,   /* whose budget, how many bytes short */
  STEWARD_REFUSAL_CLOSED = 3,        /* which context */
  STEWARD_REFUSAL_TOO_LARGE = 4,
  STEWARD_REFUSAL_MISUSE = 5
};

/* Functions of an allocator. Any thread may call them, with this data. NULL is a refusal. resize may be NULL. */
typedef void *(*steward_alloc_fn)(void *data, size_t size, size_t align, int32_t scope);
typedef void *(*steward_resize_fn)(void *data, void *block, size_t old_size, size_t size, size_t align, int32_t scope);
typedef void (*steward_free_fn)(void *data, void *block, size_t size, size_t align, int32_t scope);
typedef void (*steward_writer_fn)(void *user, const char *text, size_t length);

/* Whoever calls sets the size of each struct to its sizeof, also of those that are filled in: no byte beyond it is read or written. A struct
 * whose size was not set is refused, or left as it is. */
typedef struct steward_host {
  size_t size;
  void *data;
  steward_alloc_fn alloc;
  steward_resize_fn resize;
  steward_free_fn free;
} steward_host;

typedef struct steward_options {
  size_t size;
  int32_t scope;  /* STEWARD_SCOPE_DEFAULT: the parent's */
  int32_t budget; /* STEWARD_BUDGET_* */
  uint64_t limit; /* bytes, of the budget; UINT64_MAX - 1 is the largest */
} steward_options;

typedef struct steward_outstanding {
  size_t size;
  uint64_t bytes;
  uint64_t blocks;
  uint64_t foreign_bytes;
  uint64_t contexts;
  uint64_t handles;
} steward_outstanding;

typedef struct steward_refusal {
  size_t size;
  int32_t kind;  /* STEWARD_REFUSAL_* */
  int32_t scope; /* -1 where there is none */
  uint64_t bytes;
  uint64_t context;         /* id, as in steward_usage_info */
  uint64_t short_by;        /* bytes */
  uint64_t leased_elsewhere; /* bytes of that budget that other threads hold unused */
} steward_refusal;

typedef struct steward_scope_usage {
  uint64_t live_bytes;
  uint64_t live_blocks;
  uint64_t total_bytes;
  uint64_t total_blocks;
  uint64_t peak_bytes;
} steward_scope_usage;

typedef struct steward_usage_info {
  size_t size;
  uint64_t id;
  steward_scope_usage scopes[5];
  steward_scope_usage total;
} steward_usage_info;

typedef struct steward_budget_info {
  size_t size;
  uint64_t limit;
  uint64_t charged;
  uint64_t high;
} steward_budget_info;

/* Memory of the caller's in which a bridge lies. It may be moved by copying. */
typedef struct steward_bridge {
  size_t words[16];
} steward_bridge;

/* Major version << 16 | minor version. The major one changes when a program must be compiled anew. */
STEWARD_API uint32_t steward_abi(void);

/* Roots. Names are copied; NULL is none. */
STEWARD_API int32_t steward_root_malloc(const char *name, steward_context **out);
STEWARD_API int32_t steward_root(const steward_host *host, const char *name, steward_context **out);
/* Copies *callbacks, which may be NULL: then the C library serves. */
STEWARD_API int32_t steward_root_from_callbacks(const struct VkAllocationCallbacks *callbacks, int32_t scope, const char *name,
                                                steward_context **out);

/* Roots over a context, for tests and for programs that are to be watched; the context, which stays the caller's, cannot be closed before them.
 * VK_ERROR_UNKNOWN is the answer to words that are not understood, and to what the kernel does not offer.
 * guarded, as --guard=: "fence", "strict", "cookie", "sampled", "sampled=N". Misuse of a block is written to the standard error with the
 * block's owner, and the process is aborted.
 * failing, as --fail=: "nth=17", "scope=object:3", "size>4096", .. : requests are refused on purpose. The root's own record is request 0, its
 * name request 1. */
STEWARD_API int32_t steward_root_guarded(const steward_context *owner, const char *words, const char *name, steward_context **out);
STEWARD_API int32_t steward_root_failing(const steward_context *owner, const char *words, const char *name, steward_context **out);

/* A context below another one, whose memory its record is. options may be NULL; a scope or budget that is none of the above is refused. */
STEWARD_API int32_t steward_child(steward_context *parent, const char *name, const steward_options *options, steward_context **out);

/* Ends a context. VK_NOT_READY while blocks, contexts or handles are left; left, which may be NULL, says what, and the owner stays. */
STEWARD_API int32_t steward_close(steward_context *owner, steward_outstanding *left);
/* Call this before a context's allocator goes away. After it returns and other threads are done with the tree, the allocator is not called
 * again. The records of contexts lie in memory that it gave, which stays readable and writable until every context, handle,
 * block and domain of the tree is gone. */
STEWARD_API void steward_abandon(steward_context *owner, steward_outstanding *left);

STEWARD_API steward_handle *steward_retain(const steward_context *owner);
STEWARD_API void steward_release(steward_handle *handle);

/* Blocks. align is a power of two, scope a STEWARD_SCOPE_*. Nothing stands in front of a block, so free and realloc name its size, alignment
 * and scope. Size 0 is an address that is not NULL and must not be read. NULL for an alignment or a scope that does not exist. */
STEWARD_API void *steward_alloc(const steward_context *owner, size_t size, size_t align, int32_t scope);
STEWARD_API void *steward_zalloc(const steward_context *owner, size_t size, size_t align, int32_t scope);
STEWARD_API void *steward_realloc(const steward_context *owner, void *block, size_t old_size, size_t size, size_t align, int32_t scope);
STEWARD_API void steward_free(const steward_context *owner, void *block, size_t size, size_t align, int32_t scope);

/* Blocks that know their size and their context, for interfaces like malloc, realloc and free: in 16 bytes in front of them, or as many as their
 * alignment if that is more. Any thread may resize and delete them. align is a power of two, 0 is 16, and stays; the scope is the context's. A
 * refused resize is NULL and leaves the block. A block goes before its context ends; that of an abandoned one while a handle of it is held.
 * size_of NULL is 0, owner_of NULL is NULL. */
STEWARD_API void *steward_new(const steward_context *owner, size_t size, size_t align, bool zero);
STEWARD_API void *steward_resize(void *block, size_t size);
STEWARD_API void steward_delete(void *block);
STEWARD_API size_t steward_size_of(const void *block);
STEWARD_API const steward_context *steward_owner_of(const void *block);

/* Why a call on this thread was refused last; kind is STEWARD_REFUSAL_NONE where none was. Takes no memory. */
STEWARD_API void steward_last_refusal(steward_refusal *out);

/* Numbers: of the context alone, and with all below it. Exact whenever all threads pause. */
STEWARD_API void steward_usage(const steward_context *owner, steward_usage_info *out);
STEWARD_API void steward_subtree_usage(const steward_context *owner, steward_usage_info *out);
/* VK_ERROR_UNKNOWN where the context was made without a budget. */
STEWARD_API int32_t steward_budget(const steward_context *owner, steward_budget_info *out);
STEWARD_API int32_t steward_set_limit(const steward_context *owner, uint64_t limit);
/* The tree from this context down, in pieces: as JSON, where the name that a context was given is its "label", or as a table for people,
 * where it stands behind "c". The copy that is written is memory of the context. */
STEWARD_API int32_t steward_snapshot_json(const steward_context *owner, steward_writer_fn writer, void *user);
STEWARD_API int32_t steward_snapshot_text(const steward_context *owner, steward_writer_fn writer, void *user);

/* Prepares the calling thread for counting, which its first block does else. The C library takes 32 bytes a thread for it. False on a thread
 * that is ending. */
STEWARD_API bool steward_attach_thread(void);

/* The application's side: the context becomes the bridge's, and *out what to pass as pAllocator. The context must be unused. A callback that is
 * called with a wrong pUserData, alignment, size, scope or pointer is answered with NULL or ignored, and told in a line on the standard error. */
STEWARD_API int32_t steward_bridge_init(steward_bridge *place, steward_context *owner, struct VkAllocationCallbacks *out);
/* Gives the context back. VK_NOT_READY, and the bridge stays, while Vulkan holds blocks or a callback runs on this thread; *out is NULL then. */
STEWARD_API int32_t steward_bridge_close(steward_bridge *place, steward_context **out);

/* For runtimes that lose pUserData, or pass NULL for pAllocator: a slot has callbacks of its own, which find the bridge in it whatever pUserData is,
 * and take alignment 0 for 16. slot is below STEWARD_SLOTS, and holds one bridge, until that is closed, or until bridge is NULL here, which empties
 * the slot; an empty slot allocates nothing. No function of the slot runs while it is filled or emptied. Fill it before the runtime creates what its
 * callbacks serve, and leave it until that is destroyed. -13 for a slot in which another bridge is. */
enum { STEWARD_SLOTS = 8 };
STEWARD_API int32_t steward_bridge_static(uint32_t slot, const steward_bridge *bridge, struct VkAllocationCallbacks *out);

typedef void(STEWARD_VKAPI *steward_void_fn)(void);
/* PFN_vkGetInstanceProcAddr, to be cast: the loader's, or a driver's. */
typedef steward_void_fn(STEWARD_VKAPI *steward_get_instance_proc_addr_fn)(void *instance, const char *name);

/* A vkGetInstanceProcAddr over the next one, for a runtime that can be given one. Where that passes NULL to create or destroy an instance or a
 * device, the slot's callbacks stand, and drivers take all else from the device's. A slot serves instances of one loader. NULL for a slot that
 * does not exist. */
STEWARD_API steward_get_instance_proc_addr_fn steward_bridge_proc_addr(uint32_t slot, steward_get_instance_proc_addr_fn next);

/* The driver's side: own is the object's pAllocator, parent what its device or instance keeps, each NULL where there is none; without both
 * the C library serves. A block is freed with the callbacks that it was allocated with. Size 0 is refused, as it is below. */
STEWARD_API void *steward_alloc2(const struct VkAllocationCallbacks *own, const struct VkAllocationCallbacks *parent, size_t size, size_t align,
                                 int32_t scope);
STEWARD_API void *steward_zalloc2(const struct VkAllocationCallbacks *own, const struct VkAllocationCallbacks *parent, size_t size,
                                  size_t align, int32_t scope);
STEWARD_API void steward_free2(const struct VkAllocationCallbacks *own, const struct VkAllocationCallbacks *parent, void *block);

/* The same for a driver that keeps the callbacks in its VkInstance and VkDevice. The struct lies there, and stays where it is. */
typedef struct steward_chain {
  size_t words[12];
} steward_chain;

/* Copies *own, the pAllocator of vkCreateInstance or vkCreateDevice, which may be NULL. parent is NULL in an instance, and in a device its
 * instance's chain, which outlives it. Takes no memory, and needs no end. */
STEWARD_API int32_t steward_chain_init(steward_chain *place, const struct VkAllocationCallbacks *own, const steward_chain *parent);
/* Blocks from the most specific allocator for the scope: COMMAND, OBJECT and CACHE from own (the pAllocator of the command, of a pool's child
 * its pool's, of memory of a cache the cache's), DEVICE from the device's; where that is NULL, from the next of device, instance and C library. */
STEWARD_API void *steward_chain_alloc(const steward_chain *chain, const struct VkAllocationCallbacks *own, size_t size, size_t align, int32_t scope);
STEWARD_API void *steward_chain_zalloc(const steward_chain *chain, const struct VkAllocationCallbacks *own, size_t size, size_t align,
                                       int32_t scope);
/* own is what it was at the allocation, or compatible with it. The block may be the instance or device in which the chain lies. */
STEWARD_API void steward_chain_free(const steward_chain *chain, const struct VkAllocationCallbacks *own, void *block, int32_t scope);

/* Several arrays in one block, as many as wanted. Begin with a struct of zeros, add arrays, and allocate plan.bytes with plan.align by any
 * function above. An array without bytes has no place: STEWARD_ARRAY is NULL. A plan whose bytes are 0 needs no block. No allocator serves a
 * plan that is too large. */
typedef struct steward_multialloc {
  size_t bytes;
  size_t align;
} steward_multialloc;

/* Where the array begins, for STEWARD_ARRAY. */
STEWARD_API size_t steward_multialloc_add(steward_multialloc *plan, size_t count, size_t size, size_t align);
#define STEWARD_ARRAY(type, block, offset) ((offset) == SIZE_MAX ? (type *)NULL : (type *)((char *)(block) + (offset)))

#ifdef __cplusplus
}
#endif

#endif
