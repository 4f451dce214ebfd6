/* As much of IREE's allocators and statuses as an adapter meets, declared anew: names and values are IREE's (main of 2026-08-21). */
#ifndef IREE_BASE_API_H_
#define IREE_BASE_API_H_

#include <stddef.h>
#include <stdio.h>

typedef size_t iree_host_size_t;
typedef enum { IREE_STATUS_OK = 0, IREE_STATUS_INVALID_ARGUMENT = 3, IREE_STATUS_RESOURCE_EXHAUSTED = 8,
               IREE_STATUS_FAILED_PRECONDITION = 9, IREE_STATUS_UNIMPLEMENTED = 12 } iree_status_code_t;
typedef struct iree_status_handle_t *iree_status_t;

extern char the_status_message[256];
#define iree_ok_status() ((iree_status_t)0)
#define iree_status_is_ok(status) ((status) == iree_ok_status())
#define iree_status_ignore(status) ((void)(status))
void iree_status_fprint(FILE *file, iree_status_t status);
#define iree_make_status(code, ...) (snprintf(the_status_message, sizeof the_status_message, __VA_ARGS__), (iree_status_t)(size_t)(code))

typedef enum iree_allocator_command_e {
   IREE_ALLOCATOR_COMMAND_MALLOC = 0,
   IREE_ALLOCATOR_COMMAND_CALLOC = 1,
   IREE_ALLOCATOR_COMMAND_REALLOC = 2,
   IREE_ALLOCATOR_COMMAND_FREE = 3
} iree_allocator_command_t;

typedef struct iree_allocator_alloc_params_t {
   iree_host_size_t byte_length;
} iree_allocator_alloc_params_t;

typedef iree_status_t (*iree_allocator_ctl_fn_t)(void *self, iree_allocator_command_t command, const void *params, void **inout_ptr);

typedef struct iree_allocator_t {
   void *self;
   iree_allocator_ctl_fn_t ctl;
} iree_allocator_t;

typedef struct iree_string_view_t {
   const char *data;
   iree_host_size_t size;
} iree_string_view_t;

static inline iree_string_view_t iree_make_cstring_view(const char *text)
{
   iree_string_view_t view = {text, 0};
   while (text[view.size] != 0)
      view.size++;
   return view;
}

#endif
