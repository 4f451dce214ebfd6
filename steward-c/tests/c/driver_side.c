/* A driver's side of the interface: callbacks kept in an instance and a device, the calls of Mesa's vk_alloc.h over them, several arrays in
 * one block, and a reserve that serves a compile whose application refuses. Prints nothing and returns 0. */

#include "check.h"
#include "steward-ralloc.h"

#ifdef _WIN32
#include <malloc.h>
#define aligned_alloc(align, size) _aligned_malloc(size, align)
#define aligned_realloc(block, align, size) _aligned_realloc(block, size, align)
#define aligned_free _aligned_free
#else
#define aligned_realloc(block, align, size) realloc(block, size)
#define aligned_free free
#endif

/* The calls of Mesa's vk_alloc.h that choose between two sets of callbacks, and its vk_multialloc without a limit. */
struct vk_object_alloc {
   steward_chain chain;
};
#define vk_alloc2(parent, own, size, align, scope) steward_chain_alloc(&(parent)->chain, own, size, align, scope)
#define vk_zalloc2(parent, own, size, align, scope) steward_chain_zalloc(&(parent)->chain, own, size, align, scope)
#define vk_free2(parent, own, block, scope) steward_chain_free(&(parent)->chain, own, block, scope)

/* An application that counts what is live by level, and refuses from some request on. */
struct level {
   long live, scopes[5], requests, refused_from;
   size_t overwritten; /* bytes of a freed block */
};

static void *STEWARD_VKAPI allocation(void *user, size_t size, size_t align, int32_t scope)
{
   struct level *level = user;
   if (level->refused_from >= 0 && level->requests++ >= level->refused_from)
      return NULL;
   void *block = aligned_alloc(align < 16 ? 16 : align, (size + align + 15) / (align < 16 ? 16 : align) * (align < 16 ? 16 : align));
   if (block != NULL) {
      level->live++;
      level->scopes[scope]++;
   }
   return block;
}

static void STEWARD_VKAPI release(void *user, void *block)
{
   struct level *level = user;
   level->live -= block != NULL;
   if (block != NULL)
      memset(block, 0xdd, level->overwritten);
   aligned_free(block);
}

static void *STEWARD_VKAPI reallocation(void *user, void *block, size_t size, size_t align, int32_t scope)
{
   struct level *level = user;
   (void)align, (void)scope;
   if (level->refused_from >= 0 && level->requests++ >= level->refused_from)
      return NULL;
   return aligned_realloc(block, align < 16 ? 16 : align, size);
}

static VkAllocationCallbacks callbacks_of(struct level *level)
{
   *level = (struct level){.refused_from = -1};
   return (VkAllocationCallbacks){level, allocation, reallocation, release, NULL, NULL};
}

struct VkInstance_T {
   struct vk_object_alloc alloc;
   int number;
};

struct VkDevice_T {
   struct vk_object_alloc alloc;
};

static void chain(void)
{
   struct level of_instance, of_device, of_object;
   VkAllocationCallbacks instance_callbacks = callbacks_of(&of_instance), device_callbacks = callbacks_of(&of_device),
                         object_callbacks = callbacks_of(&of_object);
   struct level *levels[] = {&of_object, &of_device, &of_instance};
   /* Which level serves, for each combination of callbacks and each scope; 3 is the C library. */
   for (int given = 0; given < 8; given++) {
      struct VkInstance_T instance;
      struct VkDevice_T device;
      VkAllocationCallbacks for_a_moment = device_callbacks;
      CHECK(steward_chain_init(&instance.alloc.chain, given & 4 ? &instance_callbacks : NULL, NULL) == 0);
      CHECK(steward_chain_init(&device.alloc.chain, given & 2 ? &for_a_moment : NULL, &instance.alloc.chain) == 0);
      memset(&for_a_moment, 0, sizeof for_a_moment); /* the application may free its struct after the call */
      const VkAllocationCallbacks *own = given & 1 ? &object_callbacks : NULL;
      for (int32_t scope = 0; scope < 5; scope++) {
         int first = scope <= STEWARD_SCOPE_CACHE ? 0 : scope == STEWARD_SCOPE_DEVICE ? 1 : 2;
         int expected = first;
         while (expected < 3 && !(given & 1 << expected))
            expected++;
         char *block = vk_zalloc2(&device.alloc, own, 100, 64, scope);
         CHECK(block != NULL && (uintptr_t)block % 64 == 0 && block[0] == 0 && block[99] == 0);
         for (int level = 0; level < 3; level++)
            CHECK(levels[level]->live == (level == expected));
         CHECK(expected == 3 || levels[expected]->scopes[scope] > 0);
         vk_free2(&device.alloc, own, block, scope);
         for (int level = 0; level < 3; level++)
            CHECK(levels[level]->live == 0);
      }
   }
   struct VkInstance_T instance;
   struct VkDevice_T device, second;
   VkAllocationCallbacks half = {NULL, allocation, reallocation, NULL, NULL, NULL};
   CHECK(steward_chain_init(&instance.alloc.chain, &half, NULL) == -13 && steward_chain_init(NULL, NULL, NULL) == -13);
   CHECK(steward_chain_init(&instance.alloc.chain, &instance_callbacks, NULL) == 0);
   CHECK(steward_chain_init(&device.alloc.chain, &device_callbacks, &instance.alloc.chain) == 0);
   CHECK(steward_chain_init(&second.alloc.chain, NULL, &device.alloc.chain) == -13); /* a device below a device */
   CHECK(vk_alloc2(&device.alloc, NULL, 100, 3, 1) == NULL && vk_alloc2(&device.alloc, NULL, 100, 8, 7) == NULL);
   CHECK(vk_alloc2(&device.alloc, NULL, 0, 8, 1) == NULL && vk_alloc2(&device.alloc, &half, 8, 8, 1) == NULL);
   of_device.refused_from = 0;
   CHECK(vk_alloc2(&device.alloc, NULL, 100, 8, STEWARD_SCOPE_DEVICE) == NULL && of_device.live == 0 && of_instance.live == 0);
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_OUT_OF_MEMORY && refusal.bytes == 100 && refusal.scope == STEWARD_SCOPE_DEVICE);
   vk_free2(&device.alloc, NULL, NULL, 1);
}

/* An instance and a device that are freed by the chain that lies in them. */
static void own_block(void)
{
   struct level of_instance, of_device;
   VkAllocationCallbacks instance_callbacks = callbacks_of(&of_instance), device_callbacks = callbacks_of(&of_device);
   of_instance.overwritten = sizeof(struct VkInstance_T);
   of_device.overwritten = sizeof(struct VkDevice_T);
   steward_chain chain;
   CHECK(steward_chain_init(&chain, &instance_callbacks, NULL) == 0);
   struct VkInstance_T *instance = steward_chain_zalloc(&chain, NULL, sizeof *instance, 8, STEWARD_SCOPE_INSTANCE);
   CHECK(instance != NULL && steward_chain_init(&instance->alloc.chain, &instance_callbacks, NULL) == 0);
   CHECK(steward_chain_init(&chain, &device_callbacks, &instance->alloc.chain) == 0);
   struct VkDevice_T *device = steward_chain_zalloc(&chain, NULL, sizeof *device, 8, STEWARD_SCOPE_DEVICE);
   CHECK(device != NULL && steward_chain_init(&device->alloc.chain, &device_callbacks, &instance->alloc.chain) == 0);
   CHECK(of_instance.live == 1 && of_device.live == 1);
   vk_free2(&device->alloc, NULL, device, STEWARD_SCOPE_DEVICE);
   CHECK(of_instance.live == 1 && of_device.live == 0);
   vk_free2(&instance->alloc, NULL, instance, STEWARD_SCOPE_INSTANCE);
   CHECK(of_instance.live == 0);
}

static void arrays(void)
{
   struct level of_device;
   VkAllocationCallbacks callbacks = callbacks_of(&of_device);
   struct VkInstance_T instance;
   struct VkDevice_T device;
   CHECK(steward_chain_init(&instance.alloc.chain, NULL, NULL) == 0);
   CHECK(steward_chain_init(&device.alloc.chain, &callbacks, &instance.alloc.chain) == 0);
   /* More arrays than Mesa's eight, each filled to its last byte. */
   steward_multialloc plan = {0, 0};
   size_t places[100];
   for (size_t i = 0; i < 100; i++)
      places[i] = steward_multialloc_add(&plan, i, i % 7 + 1, (size_t)1 << i % 7);
   CHECK(plan.align == 64);
   char *block = vk_zalloc2(&device.alloc, NULL, plan.bytes, plan.align, STEWARD_SCOPE_OBJECT);
   CHECK(block != NULL && of_device.live == 1);
   for (size_t i = 0; i < 100; i++) {
      unsigned char *array = STEWARD_ARRAY(unsigned char, block, places[i]);
      CHECK((array == NULL) == (i == 0) && (uintptr_t)array % ((size_t)1 << i % 7) == 0);
      for (size_t byte = 0; byte < i * (i % 7 + 1); byte++) {
         CHECK(array[byte] == 0); /* nobody else's */
         array[byte] = 1;
      }
   }
   vk_free2(&device.alloc, NULL, block, STEWARD_SCOPE_OBJECT);
   CHECK(steward_multialloc_add(&plan, SIZE_MAX / 2, 4, 4) == SIZE_MAX);
   CHECK(vk_alloc2(&device.alloc, NULL, plan.bytes, plan.align, STEWARD_SCOPE_OBJECT) == NULL && of_device.live == 0);
   CHECK(steward_multialloc_add(NULL, 1, 1, 1) == SIZE_MAX);
}

/* Never looks at NULL, as Mesa's compiler does not. */
static int compile(void)
{
   char *shader = steward_rzalloc_size(NULL, 200);
   int sum = 0;
   for (int i = 1; i < 60; i++) {
      char *pass = steward_ralloc_size(shader, (size_t)i * 7);
      memset(pass, i, (size_t)i * 7);
      if (i % 3 == 0) {
         pass = steward_reralloc_size(shader, pass, (size_t)i * 20);
         pass[i * 20 - 1] = 1;
      }
      sum += pass[0];
      if (i % 2 == 0)
         steward_ralloc_free(pass);
   }
   steward_ralloc_free(shader);
   return sum;
}

/* vkCreateGraphicsPipelines of a driver whose compiler cannot survive a refusal. */
static int32_t create_pipeline(const VkAllocationCallbacks *callbacks, const steward_domain *reserve, bool *is_right)
{
   steward_context *root;
   steward_domain *domain;
   int32_t result = steward_root_from_callbacks(callbacks, STEWARD_SCOPE_OBJECT, "pipeline", &root);
   if (result != 0)
      return result;
   result = steward_domain_new(root, reserve, &domain);
   if (result != 0) {
      steward_close(root, NULL);
      return result;
   }
   steward_domain *before = steward_ralloc_enter(domain);
   int sum = compile();
   steward_ralloc_leave(before);
   *is_right = sum == 1770;
   if (steward_domain_reset_refused(domain))
      result = -1;
   steward_domain_close(domain);
   return result;
}

/* Every request, and all after every request, are refused: no crash, the right answer, nothing left. */
static void refused_compiles(void)
{
   struct level of_device, of_command;
   VkAllocationCallbacks device_callbacks = callbacks_of(&of_device), command_callbacks = callbacks_of(&of_command);
   steward_context *device;
   steward_domain *reserve;
   CHECK(steward_root_from_callbacks(&device_callbacks, STEWARD_SCOPE_DEVICE, "device", &device) == 0);
   long before = of_device.live;
   CHECK(steward_domain_reserve(device, 200, &reserve) == -1 && reserve == NULL && of_device.live == before);
   CHECK(steward_domain_reserve(NULL, 200, &reserve) == -13 && steward_domain_reserve(device, 200, NULL) == -13);
   CHECK(steward_domain_reserve(device, 64 << 10, &reserve) == 0 && of_device.live == before + 1);
   CHECK(steward_close(device, NULL) == 1);
   int refused = 0, succeeded = 0;
   for (long first = 0; succeeded == 0; first++) {
      of_command = (struct level){.refused_from = first};
      bool is_right = true;
      int32_t result = create_pipeline(&command_callbacks, reserve, &is_right);
      CHECK(is_right && of_command.live == 0 && of_device.live == before + 1);
      CHECK(result == (of_command.requests > first ? -1 : 0));
      refused += result == -1;
      succeeded += result == 0;
   }
   CHECK(refused > 60);
   steward_domain_close(reserve);
   CHECK(of_device.live == before && steward_close(device, NULL) == 0 && of_device.live == 0);
}

int main(void)
{
   chain();
   own_block();
   arrays();
   refused_compiles();
   return 0;
}
