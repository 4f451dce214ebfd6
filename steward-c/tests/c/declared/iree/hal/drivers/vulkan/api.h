/* As much of IREE's Vulkan driver as a program with a vkGetInstanceProcAddr of its own meets, declared anew: names and values are IREE's (main of
 * 2026-08-21). */
#ifndef IREE_HAL_DRIVERS_VULKAN_API_H_
#define IREE_HAL_DRIVERS_VULKAN_API_H_

#include "iree/runtime/api.h"

enum { IREE_HAL_VULKAN_FEATURE_ENABLE_BUFFER_DEVICE_ADDRESSES = 1 << 6 };

typedef struct iree_hal_vulkan_syms_t iree_hal_vulkan_syms_t;

typedef struct iree_hal_vulkan_driver_options_t {
   uint32_t requested_features;
} iree_hal_vulkan_driver_options_t;

iree_status_t iree_hal_vulkan_syms_create(void *vkGetInstanceProcAddr_fn, iree_allocator_t host_allocator, iree_hal_vulkan_syms_t **out_syms);
void iree_hal_vulkan_syms_release(iree_hal_vulkan_syms_t *syms);
void iree_hal_vulkan_driver_options_initialize(iree_hal_vulkan_driver_options_t *out_options);
iree_status_t iree_hal_vulkan_driver_create(iree_string_view_t identifier, const iree_hal_vulkan_driver_options_t *options,
                                            iree_hal_vulkan_syms_t *syms, iree_allocator_t host_allocator, iree_hal_driver_t **out_driver);

#endif
