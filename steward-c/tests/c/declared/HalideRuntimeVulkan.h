/* What the adapters name of Halide's, declared anew. */
#ifndef HALIDE_HALIDERUNTIMEVULKAN_H
#define HALIDE_HALIDERUNTIMEVULKAN_H

#ifdef __cplusplus
extern "C" {
enum { halide_error_code_success = 0, halide_error_code_device_interface_no_device = -36 };
struct halide_vulkan_memory_allocator;
#endif

struct VkAllocationCallbacks;
extern void halide_vulkan_set_allocation_callbacks(const struct VkAllocationCallbacks *callbacks);

#ifdef __cplusplus
}
#endif

#endif
