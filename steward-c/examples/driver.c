/* What a driver does when an object is created and destroyed: its memory comes from the most specific callbacks, its compiler's from a
 * domain over them. The application here is a bridge over a context, whose tree is printed while the pipeline lives. */
#include <stdio.h>

#include "steward-ralloc.h"

/* As in vulkan_core.h, which a driver includes. */
struct VkAllocationCallbacks {
   void *user;
   void *(STEWARD_VKAPI *allocation)(void *, size_t, size_t, int32_t);
   void *(STEWARD_VKAPI *reallocation)(void *, void *, size_t, size_t, int32_t);
   void(STEWARD_VKAPI *free)(void *, void *);
   void(STEWARD_VKAPI *internal_allocation)(void *, size_t, int32_t, int32_t);
   void(STEWARD_VKAPI *internal_free)(void *, size_t, int32_t, int32_t);
};

struct device {
   /* Those of vkCreateDevice, or else of vkCreateInstance: a copy, since the application may free its struct after the call. */
   struct VkAllocationCallbacks callbacks;
};

struct pipeline {
   steward_domain *compiler;
   char *code; /* memory of the compiler's domain */
};

static void destroy_pipeline(struct device *device, struct pipeline *pipeline, const struct VkAllocationCallbacks *own)
{
   steward_ralloc_free(pipeline->code);
   steward_domain_close(pipeline->compiler);
   steward_free2(own, &device->callbacks, pipeline);
}

static int32_t create_pipeline(struct device *device, const struct VkAllocationCallbacks *own, struct pipeline **out)
{
   struct pipeline *pipeline = steward_zalloc2(own, &device->callbacks, sizeof *pipeline, 8, STEWARD_SCOPE_OBJECT);
   if (pipeline == NULL)
      return -1;
   steward_context *root;
   int32_t result = steward_root_from_callbacks(own ? own : &device->callbacks, STEWARD_SCOPE_OBJECT, "pipeline", &root);
   if (result == 0) {
      result = steward_domain_new(root, NULL, &pipeline->compiler);
      if (result != 0)
         steward_close(root, NULL);
   }
   if (result != 0) {
      steward_free2(own, &device->callbacks, pipeline);
      return result;
   }
   /* The compile: blocks without a parent are the domain's as well. */
   steward_domain *before = steward_ralloc_enter(pipeline->compiler);
   pipeline->code = steward_ralloc_asprintf(NULL, "code for %d instructions", 100);
   steward_ralloc_leave(before);
   if (pipeline->code == NULL) {
      destroy_pipeline(device, pipeline, own);
      return -1;
   }
   *out = pipeline;
   return 0;
}

static void print(void *user, const char *text, size_t length)
{
   fwrite(text, 1, length, user);
}

int main(void)
{
   steward_context *application, *device_context;
   if (steward_root_malloc("application", &application) != 0 || steward_child(application, "device", NULL, &device_context) != 0)
      return 1;
   steward_bridge bridge;
   struct VkAllocationCallbacks callbacks;
   if (steward_bridge_init(&bridge, device_context, &callbacks) != 0)
      return 1;

   struct device device = {callbacks};
   struct pipeline *pipeline;
   if (create_pipeline(&device, NULL, &pipeline) != 0)
      return 1;
   steward_usage_info usage = {.size = sizeof usage};
   steward_subtree_usage(application, &usage);
   printf("object: %llu blocks\n", (unsigned long long)usage.scopes[STEWARD_SCOPE_OBJECT].live_blocks);
   steward_snapshot_text(application, print, stdout);
   destroy_pipeline(&device, pipeline, NULL);

   if (steward_bridge_close(&bridge, &device_context) != 0)
      return 1;
   puts("everything came back");
   return steward_close(device_context, NULL) != 0 || steward_close(application, NULL) != 0;
}
