/* As much of IREE's runtime as a program with a session a device meets, declared anew: names and types are IREE's (main of 2026-08-21), values need not be. */
#ifndef IREE_RUNTIME_API_H_
#define IREE_RUNTIME_API_H_

#include <stdint.h>

#include "iree/base/api.h"

typedef struct iree_hal_device_t iree_hal_device_t;
typedef struct iree_hal_allocator_t iree_hal_allocator_t;
typedef struct iree_hal_driver_t iree_hal_driver_t;
typedef struct iree_hal_driver_registry_t iree_hal_driver_registry_t;
typedef struct iree_hal_buffer_view_t iree_hal_buffer_view_t;
typedef struct iree_runtime_instance_t iree_runtime_instance_t;
typedef struct iree_runtime_session_t iree_runtime_session_t;

typedef struct iree_hal_driver_info_t {
   iree_string_view_t driver_name, full_name;
} iree_hal_driver_info_t;

typedef struct iree_hal_driver_factory_t {
   void *self;
   iree_status_t (*enumerate)(void *self, iree_host_size_t *out_count, const iree_hal_driver_info_t **out_infos);
   iree_status_t (*try_create)(void *self, iree_string_view_t name, iree_allocator_t host_allocator, iree_hal_driver_t **out_driver);
} iree_hal_driver_factory_t;

iree_status_t iree_hal_driver_registry_register_factory(iree_hal_driver_registry_t *registry, const iree_hal_driver_factory_t *factory);
void iree_hal_device_release(iree_hal_device_t *device);
iree_status_t iree_hal_buffer_view_parse(iree_string_view_t value, iree_hal_device_t *device, iree_hal_allocator_t *device_allocator,
                                         iree_hal_buffer_view_t **out_buffer_view);
typedef uint64_t iree_device_size_t;
typedef struct iree_hal_buffer_t iree_hal_buffer_t;
typedef struct iree_timeout_t {
   int type;
   int64_t nanos;
} iree_timeout_t;
enum { IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT = 0 };

static inline iree_timeout_t iree_infinite_timeout(void)
{
   iree_timeout_t never = {0, INT64_MAX};
   return never;
}

iree_hal_buffer_t *iree_hal_buffer_view_buffer(const iree_hal_buffer_view_t *buffer_view);
iree_device_size_t iree_hal_buffer_view_byte_length(const iree_hal_buffer_view_t *buffer_view);
void iree_hal_buffer_view_release(iree_hal_buffer_view_t *buffer_view);

enum { IREE_HAL_MEMORY_TYPE_HOST_VISIBLE = 1 << 1, IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL = 1 << 4 | 1 << 5 };
enum { IREE_HAL_BUFFER_USAGE_TRANSFER = 3, IREE_HAL_BUFFER_USAGE_MAPPING = 1 << 24 };

typedef struct iree_hal_buffer_params_t {
   uint32_t usage;
   uint16_t access;
   uint32_t type;
} iree_hal_buffer_params_t;

iree_status_t iree_hal_allocator_allocate_buffer(iree_hal_allocator_t *allocator, iree_hal_buffer_params_t params,
                                                 iree_device_size_t allocation_size, iree_hal_buffer_t **out_buffer);
iree_status_t iree_hal_device_transfer_d2d(iree_hal_device_t *device, iree_hal_buffer_t *source, iree_device_size_t source_offset,
                                           iree_hal_buffer_t *target, iree_device_size_t target_offset, iree_device_size_t data_length,
                                           uint64_t flags, iree_timeout_t timeout);
iree_status_t iree_hal_buffer_map_read(iree_hal_buffer_t *source_buffer, iree_device_size_t source_offset, void *target_buffer,
                                       iree_device_size_t data_length);
void iree_hal_buffer_release(iree_hal_buffer_t *buffer);

typedef struct iree_runtime_instance_options_t {
   iree_hal_driver_registry_t *driver_registry;
} iree_runtime_instance_options_t;

void iree_runtime_instance_options_initialize(iree_runtime_instance_options_t *out_options);
void iree_runtime_instance_options_use_all_available_drivers(iree_runtime_instance_options_t *options);
iree_status_t iree_runtime_instance_create(const iree_runtime_instance_options_t *options, iree_allocator_t host_allocator,
                                           iree_runtime_instance_t **out_instance);
iree_status_t iree_runtime_instance_try_create_default_device(iree_runtime_instance_t *instance, iree_string_view_t driver_name,
                                                              iree_hal_device_t **out_device);
void iree_runtime_instance_release(iree_runtime_instance_t *instance);

typedef struct iree_runtime_session_options_t {
   uint32_t context_flags;
   uint64_t builtin_modules;
} iree_runtime_session_options_t;

void iree_runtime_session_options_initialize(iree_runtime_session_options_t *out_options);
iree_status_t iree_runtime_session_create_with_device(iree_runtime_instance_t *instance, const iree_runtime_session_options_t *options,
                                                      iree_hal_device_t *device, iree_allocator_t host_allocator,
                                                      iree_runtime_session_t **out_session);
iree_status_t iree_runtime_session_append_bytecode_module_from_file(iree_runtime_session_t *session, const char *file_path);
iree_hal_device_t *iree_runtime_session_device(const iree_runtime_session_t *session);
iree_hal_allocator_t *iree_runtime_session_device_allocator(const iree_runtime_session_t *session);
void iree_runtime_session_release(iree_runtime_session_t *session);

typedef struct iree_runtime_call_t {
   iree_runtime_session_t *session;
} iree_runtime_call_t;

iree_status_t iree_runtime_call_initialize_by_name(iree_runtime_session_t *session, iree_string_view_t full_name, iree_runtime_call_t *out_call);
iree_status_t iree_runtime_call_inputs_push_back_buffer_view(iree_runtime_call_t *call, iree_hal_buffer_view_t *buffer_view);
iree_status_t iree_runtime_call_invoke(iree_runtime_call_t *call, uint32_t flags);
iree_status_t iree_runtime_call_outputs_pop_front_buffer_view(iree_runtime_call_t *call, iree_hal_buffer_view_t **out_buffer_view);
void iree_runtime_call_deinitialize(iree_runtime_call_t *call);

#endif
