/* The adapters in integrations/, over declarations of their runtimes: prints nothing and returns 0. */
#include <stdint.h>

#include <vulkan/vulkan_core.h>

#include "../../integrations/halide/steward_halide.h"
#include "../../integrations/iree/steward_iree.c"
#include "check.h"

char the_status_message[256];

static int status(iree_allocator_t of, iree_allocator_command_t command, size_t bytes, void **block)
{
   iree_allocator_alloc_params_t params = {bytes};
   return (int)(size_t)of.ctl(of.self, command, command == IREE_ALLOCATOR_COMMAND_FREE ? NULL : &params, block);
}

static void iree(void)
{
   steward_context *root, *device[2];
   steward_options options = {sizeof options, STEWARD_SCOPE_DEFAULT, STEWARD_BUDGET_EXACT, 10000};
   CHECK(steward_root_malloc("iree", &root) == 0);
   CHECK(steward_child(root, "local-task", &options, &device[0]) == 0 && steward_child(root, "vulkan", NULL, &device[1]) == 0);
   iree_allocator_t first = steward_iree_allocator(device[0]), second = steward_iree_allocator(device[1]);
   unsigned char *block = NULL, *zeros = NULL;
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_MALLOC, 100, (void **)&block) == IREE_STATUS_OK && (uintptr_t)block % 16 == 0);
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_CALLOC, 100, (void **)&zeros) == IREE_STATUS_OK);
   for (int i = 0; i < 100; i++)
      CHECK(zeros[i] == 0);
   memset(block, 5, 100);
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_REALLOC, 1000, (void **)&block) == IREE_STATUS_OK && block[99] == 5);
   /* A refusal says whose budget, and leaves the block. */
   void *before = block;
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_REALLOC, 100000, (void **)&block) == IREE_STATUS_RESOURCE_EXHAUSTED && block == before);
   CHECK(strstr(the_status_message, "bytes short for a block of 100000") != NULL);
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_MALLOC, 0, (void **)&before) == IREE_STATUS_INVALID_ARGUMENT);
   CHECK(status(first, (iree_allocator_command_t)77, 1, (void **)&before) == IREE_STATUS_UNIMPLEMENTED);
   CHECK(status(second, IREE_ALLOCATOR_COMMAND_MALLOC, SIZE_MAX, (void **)&before) == IREE_STATUS_RESOURCE_EXHAUSTED);
   /* Another device's allocator frees it; a resize of nothing allocates. */
   CHECK(status(second, IREE_ALLOCATOR_COMMAND_FREE, 0, (void **)&block) == IREE_STATUS_OK && block == NULL);
   CHECK(status(second, IREE_ALLOCATOR_COMMAND_FREE, 0, (void **)&zeros) == IREE_STATUS_OK);
   CHECK(status(second, IREE_ALLOCATOR_COMMAND_FREE, 0, (void **)&zeros) == IREE_STATUS_OK);
   CHECK(status(second, IREE_ALLOCATOR_COMMAND_REALLOC, 10, (void **)&block) == IREE_STATUS_OK);
   CHECK(status(first, IREE_ALLOCATOR_COMMAND_FREE, 0, (void **)&block) == IREE_STATUS_OK);
   CHECK(steward_close(device[0], NULL) == 0);
   iree_allocator_t system = {NULL, iree_allocator_steward_ctl};
   CHECK(status(system, IREE_ALLOCATOR_COMMAND_MALLOC, 10, (void **)&block) == IREE_STATUS_FAILED_PRECONDITION);
   steward_iree_use(device[1]);
   CHECK(status(system, IREE_ALLOCATOR_COMMAND_MALLOC, 10, (void **)&block) == IREE_STATUS_OK && steward_owner_of(block) == device[1]);
   CHECK(status(system, IREE_ALLOCATOR_COMMAND_FREE, 0, (void **)&block) == IREE_STATUS_OK);
   CHECK(steward_close(device[1], NULL) == 0 && steward_close(root, NULL) == 0);
}

static const VkAllocationCallbacks *halides;

void halide_vulkan_set_allocation_callbacks(const struct VkAllocationCallbacks *callbacks)
{
   halides = callbacks;
}

static void halide(void)
{
   steward_context *owner;
   steward_bridge bridge;
   VkAllocationCallbacks callbacks;
   CHECK(steward_root_malloc("halide", &owner) == 0);
   CHECK(steward_halide_begin(&bridge, owner, STEWARD_SLOTS, &callbacks) == -13 && halides == NULL);
   CHECK(steward_halide_begin(&bridge, owner, 0, &callbacks) == 0 && halides == &callbacks);
   /* As Halide 21.0.0 calls them. */
   void *block = halides->pfnAllocation(NULL, 64, 0, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
   CHECK(block != NULL && steward_bridge_close(&bridge, &owner) == 1);
   halides->pfnFree(NULL, block);
   CHECK(steward_bridge_close(&bridge, &owner) == 0 && steward_close(owner, NULL) == 0);
}

int main(void)
{
   iree();
   halide();
   return 0;
}
