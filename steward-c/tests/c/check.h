/* What the programs in this folder share. A check that fails prints its line and ends the process, with 1. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steward-gpu.h"

/* No buffer is flushed and no handler runs: also a child of fork may fail, and a program that forbids malloc. */
#define CHECK(condition)                                                    \
   do {                                                                     \
      if (!(condition)) {                                                   \
         fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
         _Exit(1);                                                          \
      }                                                                     \
   } while (0)

#ifndef VULKAN_CORE_H_
/* As in vulkan_core.h. */
typedef struct VkAllocationCallbacks {
   void *pUserData;
   void *(STEWARD_VKAPI *pfnAllocation)(void *, size_t, size_t, int32_t);
   void *(STEWARD_VKAPI *pfnReallocation)(void *, void *, size_t, size_t, int32_t);
   void(STEWARD_VKAPI *pfnFree)(void *, void *);
   void(STEWARD_VKAPI *pfnInternalAllocation)(void *, size_t, int32_t, int32_t);
   void(STEWARD_VKAPI *pfnInternalFree)(void *, size_t, int32_t, int32_t);
} VkAllocationCallbacks;
#endif

static inline steward_context *root_of(const char *name)
{
   steward_context *root;
   CHECK(steward_root_malloc(name, &root) == 0);
   return root;
}

static inline steward_scope_usage usage_of(const steward_context *context)
{
   steward_usage_info usage;
   usage.size = sizeof usage;
   steward_usage(context, &usage);
   return usage.total;
}

struct text {
   char bytes[8192];
   size_t length;
};

static inline void append(void *user, const char *bytes, size_t length)
{
   struct text *text = (struct text *)user;
   CHECK(text->length + length < sizeof text->bytes);
   memcpy(text->bytes + text->length, bytes, length);
   text->length += length;
   text->bytes[text->length] = 0;
}

/* Whether the sentence of the last refusal by steward-gpu.h has these words. */
static inline int because(const char *words)
{
   struct text text;
   text.length = 0;
   return steward_gpu_last_error(append, &text) && strstr(text.bytes, words) != NULL;
}

#endif
