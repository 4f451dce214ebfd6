/* Calls a bridge's callbacks as a careless driver does. Each call is answered with NULL or ignored, and told in a line on the standard error. */
#include <stdint.h>
#include <stdlib.h>

#include "steward.h"

/* As in vulkan_core.h. */
struct VkAllocationCallbacks {
   void *user;
   void *(*allocation)(void *, size_t, size_t, int32_t);
   void *(*reallocation)(void *, void *, size_t, size_t, int32_t);
   void (*free)(void *, void *);
   void (*internal_allocation)(void *, size_t, int32_t, int32_t);
   void (*internal_free)(void *, size_t, int32_t, int32_t);
};

int main(void)
{
   steward_context *root, *context;
   steward_bridge bridge;
   struct VkAllocationCallbacks callbacks;
   if (steward_root_malloc("root", &root) != 0 || steward_child(root, "vulkan", NULL, &context) != 0 ||
       steward_bridge_init(&bridge, context, &callbacks) != 0)
      return 1;
   uint64_t other[64] = {1, 2, 3};
   /* Halide's default context passes its own first argument, and alignment 0. */
   for (int i = 0; i < 31; i++)
      if (callbacks.allocation(NULL, 16, 0, 1) != NULL)
         return 2;
   if (callbacks.allocation(callbacks.user, 16, 0, 1) != NULL || callbacks.reallocation(NULL, NULL, 16, 8, 1) != NULL ||
       callbacks.reallocation(other, &other[8], 16, 8, 1) != NULL)
      return 3;
   callbacks.free(NULL, &other[8]);
   callbacks.free(callbacks.user, &other[8]);
   callbacks.internal_allocation(NULL, 16, 0, 1);
   callbacks.internal_free(other, 16, 0, 1);
   return steward_bridge_close(&bridge, &context) == 0 ? 0 : 4;
}
