/* Loads two drivers as the Vulkan loader does, of which one brings a ralloc of its own and the other is linked with libsteward-ralloc, in either
 * order: each compiles with its own. Arguments: the two. Prints the blocks that the domain saw. */
#ifdef _WIN32
#include <windows.h>
#define dlopen(path, how) ((void *)LoadLibraryA(path))
#define dlsym(library, name) ((void *)GetProcAddress(library, name))
#define dlerror() "it is not loaded"
#else
#include <dlfcn.h>
#endif
#include <stdio.h>

#include "steward-ralloc.h"

static unsigned long long total(steward_context *owner)
{
   steward_usage_info usage = {.size = sizeof usage};
   steward_subtree_usage(owner, &usage);
   return usage.total.total_blocks;
}

int main(int argc, char **argv)
{
   steward_context *root, *compiler;
   steward_domain *domain;
   if (argc != 3 || steward_root_malloc("root", &root) != 0 || steward_child(root, "compiler", NULL, &compiler) != 0 ||
       steward_domain_new(compiler, NULL, &domain) != 0)
      return 1;
   steward_domain *before = steward_ralloc_enter(domain);
   for (int i = 1; i < 3; i++) {
      void *driver = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (driver == NULL) {
         puts(dlerror());
         return 1;
      }
      int (*compile)(int);
      *(void **)&compile = dlsym(driver, "compile");
      unsigned long long seen = total(root);
      int right = compile(50);
      printf("%d blocks right, %llu of the domain\n", right, total(root) - seen);
   }
   steward_ralloc_leave(before);
   steward_domain_close(domain);
   return steward_close(root, NULL);
}
