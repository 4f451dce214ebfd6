/* What runtimes need that have an allocator interface of their own. Prints nothing and returns 0. */
#include <pthread.h>

#include "fake_vulkan.h"

enum { MANY = 1000 };

static void end(steward_context *root)
{
   CHECK(steward_close(root, NULL) == 0);
}

static uint64_t live(const steward_context *of)
{
   return usage_of(of).live_bytes;
}

/* --- blocks that know size and owner ------------------------------------------------------------------------------ */

static char pool[16384];
static size_t pooled;

static void *pool_alloc(void *data, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)scope;
   size_t at = (pooled + align - 1) / align * align;
   pooled = at + size;
   return pooled <= sizeof pool ? pool + at : NULL;
}

static void pool_free(void *data, void *block, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)block, (void)size, (void)align, (void)scope;
}

static void *deletes(void *block)
{
   steward_delete(block);
   return NULL;
}

static void blocks(void)
{
   steward_context *owner = root_of("owner"), *other, *small;
   CHECK(steward_child(owner, "other", NULL, &other) == 0);
   steward_options limit = {sizeof limit, STEWARD_SCOPE_DEFAULT, STEWARD_BUDGET_EXACT, 4096};
   CHECK(steward_child(owner, "small", &limit, &small) == 0);
   uint64_t before = live(owner);
   for (size_t align = 0; align <= 4096; align = align == 0 ? 1 : align * 2)
      for (size_t size = 0; size < 200; size += 33) {
         char *block = steward_new(owner, size, align, true);
         CHECK(block != NULL && (uintptr_t)block % (align < 16 ? 16 : align) == 0);
         for (size_t i = 0; i < size; i++)
            CHECK(block[i] == 0);
         CHECK(steward_size_of(block) == size && steward_owner_of(block) == owner);
         CHECK(live(owner) == before + size + (align < 16 ? 16 : align));
         memset(block, 7, size);
         char *moved = steward_resize(block, 5000);
         CHECK(moved != NULL && (uintptr_t)moved % (align < 16 ? 16 : align) == 0 && steward_size_of(moved) == 5000);
         for (size_t i = 0; i < size; i++)
            CHECK(moved[i] == 7);
         steward_delete(moved);
         CHECK(live(owner) == before);
      }
   CHECK(steward_new(owner, 8, 3, false) == NULL && steward_new(NULL, 8, 8, false) == NULL);
   CHECK(steward_new(owner, SIZE_MAX - 8, 8, false) == NULL && steward_new(owner, SIZE_MAX / 8, 8, false) == NULL);
   CHECK(steward_resize(NULL, 8) == NULL && steward_size_of(NULL) == 0 && steward_owner_of(NULL) == NULL);
   steward_delete(NULL);
   /* Another thread frees it, and it is told whose it is. */
   void *block = steward_new(other, 100, 0, false);
   CHECK(steward_owner_of(block) == other);
   pthread_t thread;
   CHECK(pthread_create(&thread, NULL, deletes, block) == 0 && pthread_join(thread, NULL) == 0);
   /* A resize that is refused leaves the block. */
   char *kept = steward_new(small, 1000, 8, false);
   memset(kept, 3, 1000);
   CHECK(steward_resize(kept, 100000) == NULL && steward_size_of(kept) == 1000 && kept[999] == 3);
   steward_refusal why = {.size = sizeof why};
   steward_last_refusal(&why);
   CHECK(why.kind == STEWARD_REFUSAL_OVER_BUDGET);
   CHECK(steward_resize(kept, SIZE_MAX) == NULL && kept[0] == 3);
   steward_delete(kept);
   end(small);
   end(other);
   end(owner);
   /* A block outlives an abandoned context, and is deleted without its allocator. */
   steward_host host = {sizeof host, NULL, pool_alloc, NULL, pool_free};
   CHECK(steward_root(&host, "pool", &owner) == 0);
   void *late = steward_new(owner, 10, 0, false);
   CHECK((char *)late > pool && (char *)late < pool + sizeof pool);
   steward_handle *handle = steward_retain(owner);
   steward_abandon(owner, NULL);
   CHECK(steward_size_of(late) == 10);
   steward_delete(late);
   steward_release(handle);
}

/* --- callbacks and commands without pUserData ---------------------------------------------------------------------- */

struct object {
   VkAllocationCallbacks callbacks;
};

static int created, destroyed;

static VkResult make(const VkAllocationCallbacks *callbacks, void **out, VkSystemAllocationScope scope)
{
   CHECK(callbacks != NULL);
   struct object *object = callbacks->pfnAllocation(callbacks->pUserData, sizeof *object, 8, scope);
   CHECK(object != NULL);
   object->callbacks = *callbacks;
   created++;
   *out = object;
   return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks, VkInstance *out)
{
   (void)info;
   return make(callbacks, (void **)out, VK_SYSTEM_ALLOCATION_SCOPE_INSTANCE);
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                         VkDevice *out)
{
   (void)physical, (void)info;
   return make(callbacks, (void **)out, VK_SYSTEM_ALLOCATION_SCOPE_DEVICE);
}

static void destroy(void *of, const VkAllocationCallbacks *callbacks)
{
   CHECK(callbacks != NULL);
   callbacks->pfnFree(callbacks->pUserData, of);
   destroyed++;
}

static void VKAPI_CALL destroy_instance(VkInstance of, const VkAllocationCallbacks *callbacks)
{
   destroy(of, callbacks);
}

static void VKAPI_CALL destroy_device(VkDevice of, const VkAllocationCallbacks *callbacks)
{
   destroy(of, callbacks);
}

static void VKAPI_CALL wait_idle(VkDevice of)
{
   (void)of;
}

static PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name);

static PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char *name)
{
   if (strcmp(name, "vkCreateInstance") == 0)
      return (PFN_vkVoidFunction)create_instance;
   if (instance == NULL)
      return NULL;
   if (strcmp(name, "vkDestroyInstance") == 0)
      return (PFN_vkVoidFunction)destroy_instance;
   if (strcmp(name, "vkCreateDevice") == 0)
      return (PFN_vkVoidFunction)create_device;
   if (strcmp(name, "vkGetDeviceProcAddr") == 0)
      return (PFN_vkVoidFunction)device_proc;
   return device_proc(NULL, name);
}

static PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name)
{
   (void)device;
   if (strcmp(name, "vkDestroyDevice") == 0)
      return (PFN_vkVoidFunction)destroy_device;
   if (strcmp(name, "vkGetDeviceProcAddr") == 0)
      return (PFN_vkVoidFunction)device_proc;
   return strcmp(name, "vkDeviceWaitIdle") == 0 ? (PFN_vkVoidFunction)wait_idle : NULL;
}

#define GET(proc, of, name) ((PFN_##name)(void *)((PFN_vkGetInstanceProcAddr)(void *)(proc))((VkInstance)(of), #name))

static void two_instances_with_null(void)
{
   enum { TWO = 2 };
   steward_context *owner[TWO] = {root_of("first"), root_of("second")};
   steward_bridge bridge[TWO];
   VkAllocationCallbacks callbacks[TWO], own[TWO];
   steward_get_instance_proc_addr_fn proc[TWO];
   VkInstance instance[TWO];
   VkDevice device[TWO];
   uint64_t before[TWO];
   for (uint32_t i = 0; i < TWO; i++) {
      CHECK(steward_bridge_init(&bridge[i], owner[i], &callbacks[i]) == 0);
      before[i] = live(owner[i]);
      CHECK(steward_bridge_static(i, &bridge[i], &own[i]) == 0 && own[i].pUserData == NULL);
      proc[i] = steward_bridge_proc_addr(i, (steward_get_instance_proc_addr_fn)(void *)instance_proc);
      CHECK(proc[i] != NULL && proc[i](NULL, "vkDestroyInstance") == NULL && proc[i](NULL, "vkNoCommand") == NULL);
   }
   /* A slot holds one bridge, and there are eight. */
   CHECK(steward_bridge_static(0, &bridge[1], &own[1]) == -13 && steward_bridge_static(STEWARD_SLOTS, &bridge[1], &own[1]) == -13);
   CHECK(steward_bridge_proc_addr(STEWARD_SLOTS, proc[0]) == NULL && steward_bridge_proc_addr(0, NULL) == NULL);
   CHECK(steward_bridge_static(2, &bridge[1], NULL) == -13);
   for (int i = 0; i < TWO; i++) {
      CHECK(GET(proc[i], NULL, vkCreateInstance)(NULL, NULL, &instance[i]) == VK_SUCCESS);
      CHECK(live(owner[i]) > before[i]);
      CHECK(GET(proc[i], instance[i], vkCreateDevice)(NULL, NULL, NULL, &device[i]) == VK_SUCCESS);
      CHECK((void *)GET(proc[i], instance[i], vkGetInstanceProcAddr) == NULL); /* as below */
   }
   CHECK(((struct object *)instance[0])->callbacks.pfnAllocation != ((struct object *)instance[1])->callbacks.pfnAllocation);
   /* The device's own lookup, or the instance's. */
   PFN_vkGetDeviceProcAddr lookup = GET(proc[0], instance[0], vkGetDeviceProcAddr);
   CHECK(lookup(device[0], "vkDeviceWaitIdle") == (PFN_vkVoidFunction)wait_idle && lookup(device[0], "vkNoCommand") == NULL);
   CHECK(((PFN_vkGetDeviceProcAddr)lookup(device[0], "vkGetDeviceProcAddr"))(device[0], "vkDestroyDevice") == lookup(device[0], "vkDestroyDevice"));
   ((PFN_vkDestroyDevice)lookup(device[0], "vkDestroyDevice"))(device[0], NULL);
   GET(proc[1], instance[1], vkDestroyDevice)(device[1], NULL);
   /* What the runtime passes itself stays. */
   VkDevice given;
   CHECK(GET(proc[0], instance[0], vkCreateDevice)(NULL, NULL, &callbacks[0], &given) == VK_SUCCESS);
   CHECK(((struct object *)given)->callbacks.pUserData == callbacks[0].pUserData);
   GET(proc[0], instance[0], vkDestroyDevice)(given, &callbacks[0]);
   for (int i = 0; i < TWO; i++) {
      GET(proc[i], instance[i], vkDestroyInstance)(instance[i], NULL);
      CHECK(live(owner[i]) == before[i]);
      CHECK(steward_bridge_close(&bridge[i], &owner[i]) == 0);
      end(owner[i]);
   }
   CHECK(created == 5 && destroyed == 5);
}

static void callbacks_called_wrongly(void)
{
   steward_context *owner = root_of("halide");
   steward_bridge bridge;
   VkAllocationCallbacks real, own;
   CHECK(steward_bridge_init(&bridge, owner, &real) == 0);
   CHECK(steward_bridge_static(7, &bridge, &own) == 0);
   uint64_t before = live(owner);
   char *block = own.pfnAllocation(NULL, 100, 0, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   CHECK(block != NULL && (uintptr_t)block % 16 == 0 && live(owner) > before);
   memset(block, 9, 100);
   block = own.pfnReallocation((void *)&own, block, 1000, 0, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   CHECK(block != NULL && block[99] == 9);
   CHECK(own.pfnAllocation(NULL, 100, 3, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT) == NULL);
   own.pfnInternalAllocation(NULL, 10, VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   own.pfnInternalFree(NULL, 10, VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   steward_context *none;
   CHECK(steward_bridge_close(&bridge, &none) == 1);
   own.pfnFree(NULL, block);
   CHECK(live(owner) == before);
   CHECK(steward_bridge_close(&bridge, &owner) == 0);
   /* Closed: the slot is empty, and another bridge's. */
   CHECK(own.pfnAllocation(NULL, 100, 8, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT) == NULL);
   own.pfnFree(NULL, NULL);
   /* Emptied by hand, as where a runtime keeps a block for ever. */
   CHECK(steward_bridge_init(&bridge, owner, &real) == 0 && steward_bridge_static(7, &bridge, &own) == 0);
   block = own.pfnAllocation(NULL, 100, 8, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   CHECK(steward_bridge_static(7, NULL, NULL) == 0 && own.pfnAllocation(NULL, 100, 8, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT) == NULL);
   real.pfnFree(real.pUserData, block);
   CHECK(steward_bridge_close(&bridge, &owner) == 0);
   CHECK(steward_bridge_init(&bridge, owner, &real) == 0 && steward_bridge_static(7, &bridge, &own) == 0);
   CHECK(steward_bridge_close(&bridge, &owner) == 0);
   end(owner);
}

/* --- device memory ------------------------------------------------------------------------------------------------- */

static steward_gpu_stats usage(const steward_gpu *gpu)
{
   steward_gpu_stats stats = {.size = sizeof stats};
   CHECK(steward_gpu_usage(gpu, -1, &stats) == 0);
   return stats;
}

/* Blocks of 1 KiB, which no text of MiB can say. */
static void options_in_bytes(void)
{
   steward_context *owner = root_of("device");
   steward_gpu_device of = fake_device();
   steward_gpu *gpu = (steward_gpu *)&gpu;
   steward_gpu_options options = {.size = sizeof options, .first_block = 1024, .max_block = 1024, .granule = 16, .keep_empty = STEWARD_GPU_KEEP_NONE};
   options.size = 0;
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == -13 && gpu == NULL && because("size"));
   options.size = sizeof options;
   options.granule = 24;
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == -13 && gpu == NULL);
   options.granule = 16;
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == 0);
   steward_region_id ids[MANY];
   for (int i = 0; i < MANY; i++) {
      steward_region_request wanted = {.size = sizeof wanted, .bytes = 4 + 4 * (uint64_t)(i % 31)};
      steward_region region = {.size = sizeof region};
      CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && region.memory_bytes == 1024 && region.offset + region.bytes <= 1024);
      ids[i] = region.id;
   }
   CHECK(usage(gpu).regions == MANY && usage(gpu).block_bytes == usage(gpu).blocks * 1024);
   for (int i = 0; i < MANY; i++)
      CHECK(steward_region_free(gpu, ids[i]) == 0);
   steward_gpu_trim(gpu, UINT64_MAX);
   CHECK(usage(gpu).blocks == 0 && fake.memories == 0);
   CHECK(steward_gpu_close(gpu) == 0);
   /* A limit of all, and of memory objects. */
   options = (steward_gpu_options){.size = sizeof options, .first_block = 1 << 20, .max_block = 1 << 20, .max_bytes = 3 << 20, .max_blocks = 2};
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == 0);
   steward_region_request wanted = {.size = sizeof wanted, .bytes = 1 << 20};
   steward_region region = {.size = sizeof region};
   CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && steward_region_alloc(gpu, &wanted, &region) == 0);
   CHECK(steward_region_alloc(gpu, &wanted, &region) == VK_ERROR_TOO_MANY_OBJECTS);
   steward_gpu_abandon(gpu);
   fake_destroy_device();
   /* None is the default. */
   CHECK(steward_gpu_new_with(owner, &of, NULL, &gpu) == 0 && steward_gpu_close(gpu) == 0);
   end(owner);
}

/* Released buffers come back for the next exact fit, with the same handles. */
static void released_buffers(void)
{
   steward_context *owner = root_of("device");
   steward_gpu_device of = fake_device();
   steward_gpu *gpu;
   steward_gpu_options options = {.size = sizeof options, .max_reusable = MANY};
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == 0);
   static steward_region regions[MANY];
   static uint64_t handles[MANY];
   for (int round = 0; round < 2; round++) {
      for (int i = 0; i < MANY; i++) {
         steward_region_request wanted = {.size = sizeof wanted, .bytes = 16 * (uint64_t)(i + 1), .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
         regions[i].size = sizeof regions[i];
         CHECK(steward_region_create_buffer(gpu, &wanted, &regions[i]) == 0);
         CHECK(round == 0 || regions[i].buffer == handles[i]);
         handles[i] = regions[i].buffer;
      }
      CHECK(fake.buffers == MANY);
      for (int i = 0; i < MANY; i++)
         CHECK(steward_region_release(gpu, regions[i].id) == 0);
      CHECK(fake.buffers == MANY);
      CHECK(steward_region_release(gpu, regions[0].id) == -13);
   }
   steward_gpu_trim(gpu, UINT64_MAX);
   CHECK(fake.buffers == 0);
   CHECK(steward_gpu_close(gpu) == 0);
   /* None is kept. */
   options.max_reusable = STEWARD_GPU_REUSE_NONE;
   CHECK(steward_gpu_new_with(owner, &of, &options, &gpu) == 0);
   steward_region_request wanted = {.size = sizeof wanted, .bytes = 64, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
   steward_region region = {.size = sizeof region};
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == 0 && steward_region_release(gpu, region.id) == 0 && fake.buffers == 0);
   CHECK(steward_gpu_close(gpu) == 0);
   end(owner);
}

/* A crop of a whole region is a user of it, counted; the region goes with the last one, where its maker has freed it. */
static void counted_users(void)
{
   enum { USERS = 3 };
   steward_context *owner = root_of("device");
   steward_gpu_device of = fake_device();
   steward_gpu *gpu;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == 0);
   steward_region_request wanted = {.size = sizeof wanted, .bytes = 640, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
   steward_region region = {.size = sizeof region}, users[USERS], seen = {.size = sizeof seen};
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == 0);
   for (uint32_t i = 0; i < USERS; i++) {
      users[i].size = sizeof users[i];
      /* A user makes the next one: of a crop, too. */
      CHECK(steward_region_crop(gpu, i == 0 ? region.id : users[i - 1].id, 0, region.bytes, 1, &users[i]) == 0);
      CHECK(users[i].buffer == region.buffer && users[i].bytes == region.bytes);
      CHECK(steward_region_info(gpu, region.id, &seen) == 0 && seen.crops == i + 1);
   }
   CHECK(steward_region_free(gpu, region.id) == -13 && because("crops"));
   CHECK(steward_region_free_when_unused(gpu, region.id) == 0 && fake.buffers == 1);
   CHECK(steward_region_info(gpu, region.id, &seen) == -13 && steward_region_free_when_unused(gpu, region.id) == -13);
   CHECK(steward_gpu_close(gpu) == 1);
   for (int i = 0; i < USERS; i++) {
      CHECK(fake.buffers == 1 && steward_region_info(gpu, users[i].id, &seen) == 0 && seen.buffer == region.buffer);
      CHECK(steward_region_free(gpu, users[i].id) == 0);
   }
   CHECK(fake.buffers == 0);
   /* One without users goes at once. */
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == 0 && fake.buffers == 1);
   CHECK(steward_region_free_when_unused(gpu, region.id) == 0 && fake.buffers == 0);
   CHECK(steward_region_free_when_unused(NULL, region.id) == -13);
   CHECK(steward_gpu_close(gpu) == 0);
   end(owner);
}

int main(void)
{
   blocks();
   two_instances_with_null();
   callbacks_called_wrongly();
   options_in_bytes();
   released_buffers();
   counted_users();
   return 0;
}
