/* IREE's host allocator over a context of Steward: one account for each HAL device, or for what else is given an iree_allocator_t.
 *
 * As the system's allocator: configure IREE with -DIREE_ALLOCATOR_SYSTEM=steward, IREE_ALLOCATOR_STEWARD_SRCS (steward_iree.c), _COPTS (-I where
 * steward.h is) and _DEPS (libsteward.so). steward_iree_use names the context before the first call. The context outlives what was allocated from it.
 */
#ifndef STEWARD_IREE_H
#define STEWARD_IREE_H

#include "iree/base/api.h"
#include "steward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* self is a steward_context. Any thread may call it. Blocks are aligned to 16 bytes. A block is freed by its address alone, also by another
 * device's allocator. A refusal is RESOURCE_EXHAUSTED, with the budget and the shortfall. */
iree_status_t steward_iree_ctl(void *self, iree_allocator_command_t command, const void *params, void **inout_ptr);

static inline iree_allocator_t steward_iree_allocator(steward_context *account)
{
   iree_allocator_t allocator = {account, steward_iree_ctl};
   return allocator;
}

/* The context behind iree_allocator_system(), whose self is NULL. IREE's CMake finds the second function by its name. */
void steward_iree_use(steward_context *account);
iree_status_t iree_allocator_steward_ctl(void *self, iree_allocator_command_t command, const void *params, void **inout_ptr);

#ifdef __cplusplus
}
#endif

#endif
