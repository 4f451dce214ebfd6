/* Calls a bridge's callbacks as a careless driver does. Each call is answered with NULL or ignored, and told in a line on the standard error. */
#include <stdint.h>

#include "check.h"

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
      if (callbacks.pfnAllocation(NULL, 16, 0, 1) != NULL)
         return 2;
   if (callbacks.pfnAllocation(callbacks.pUserData, 16, 0, 1) != NULL || callbacks.pfnReallocation(NULL, NULL, 16, 8, 1) != NULL ||
       callbacks.pfnReallocation(other, &other[8], 16, 8, 1) != NULL)
      return 3;
   callbacks.pfnFree(NULL, &other[8]);
   callbacks.pfnFree(callbacks.pUserData, &other[8]);
   callbacks.pfnInternalAllocation(NULL, 16, 0, 1);
   callbacks.pfnInternalFree(other, 16, 0, 1);
   return steward_bridge_close(&bridge, &context) == 0 ? 0 : 4;
}
