#include "steward_iree.h"

static iree_status_t refused(iree_host_size_t bytes)
{
   steward_refusal why = {.size = sizeof why};
   steward_last_refusal(&why);
   if (why.kind == STEWARD_REFUSAL_OVER_BUDGET)
      return iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED, "context %llu is %llu bytes short for a block of %llu",
                              (unsigned long long)why.context, (unsigned long long)why.short_by, (unsigned long long)bytes);
   if (why.kind == STEWARD_REFUSAL_CLOSED || why.kind == STEWARD_REFUSAL_MISUSE)
      return iree_make_status(IREE_STATUS_FAILED_PRECONDITION, "the context is closed, or none was named");
   return iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED, "the host has no memory for a block of %llu bytes", (unsigned long long)bytes);
}

iree_status_t steward_iree_ctl(void *self, iree_allocator_command_t command, const void *params, void **inout_ptr)
{
   if (command == IREE_ALLOCATOR_COMMAND_FREE) {
      steward_delete(*inout_ptr);
      *inout_ptr = NULL;
      return iree_ok_status();
   }
   if (command != IREE_ALLOCATOR_COMMAND_MALLOC && command != IREE_ALLOCATOR_COMMAND_CALLOC && command != IREE_ALLOCATOR_COMMAND_REALLOC)
      return iree_make_status(IREE_STATUS_UNIMPLEMENTED, "not a command of an allocator");
   iree_host_size_t bytes = ((const iree_allocator_alloc_params_t *)params)->byte_length;
   if (bytes == 0)
      return iree_make_status(IREE_STATUS_INVALID_ARGUMENT, "blocks have at least one byte");
   bool is_resize = command == IREE_ALLOCATOR_COMMAND_REALLOC && *inout_ptr != NULL;
   void *block = is_resize ? steward_resize(*inout_ptr, bytes)
                           : steward_new((const steward_context *)self, bytes, 16, command == IREE_ALLOCATOR_COMMAND_CALLOC);
   if (block == NULL)
      return refused(bytes);
   *inout_ptr = block;
   return iree_ok_status();
}

static steward_context *the_account;

void steward_iree_use(steward_context *account)
{
   the_account = account;
}

iree_status_t iree_allocator_steward_ctl(void *self, iree_allocator_command_t command, const void *params, void **inout_ptr)
{
   (void)self;
   return steward_iree_ctl(the_account, command, params, inout_ptr);
}
