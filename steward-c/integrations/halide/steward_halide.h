/* Halide's Vulkan runtime over a context of Steward: its default context's callbacks, in three calls.
 *
 *    steward_bridge bridge;
 *    struct VkAllocationCallbacks callbacks;                stays as long
 *    steward_halide_begin(&bridge, context, 0, &callbacks); before the first kernel
 *    ..
 *    halide_device_release(NULL, halide_vulkan_device_interface());
 *    steward_bridge_close(&bridge, &context);               Halide 21.0.0 leaves one block of 8 bytes at each release
 *
 * Halide calls the callbacks with its own first argument in the place of pUserData, and with alignment 0: those of a slot serve all the same.
 */
#ifndef STEWARD_HALIDE_H
#define STEWARD_HALIDE_H

#include "HalideRuntimeVulkan.h"
#include "steward.h"

/* The context becomes the bridge's, and stays the caller's where this is refused. slot is below STEWARD_SLOTS: empty it by
 * steward_bridge_static(slot, NULL, NULL) once Halide is done, since the block that it leaves keeps the bridge open. */
static inline int32_t steward_halide_begin(steward_bridge *bridge, steward_context *owner, uint32_t slot,
                                           struct VkAllocationCallbacks *callbacks)
{
   int32_t result = steward_bridge_init(bridge, owner, callbacks);
   if (result != 0)
      return result;
   result = steward_bridge_static(slot, bridge, callbacks);
   if (result == 0)
      halide_vulkan_set_allocation_callbacks(callbacks);
   else
      steward_bridge_close(bridge, &owner);
   return result;
}

#endif
