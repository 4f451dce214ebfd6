/* calloc is a context, also for the C library itself: what it takes for the exit hook of a thread comes back into the call that the hook is for. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static steward_context *root;
static _Thread_local int depth;

static void *from_libc(void *data, size_t size, size_t align, int32_t scope) { (void)data, (void)align, (void)scope; return __libc_malloc(size); }
static void to_libc(void *data, void *block, size_t size, size_t align, int32_t scope) { (void)data, (void)size, (void)align, (void)scope; __libc_free(block); }

void *calloc(size_t count, size_t size)
{
   size_t bytes = count * size;
   void *block;
   if (root == NULL) {
      block = __libc_malloc(bytes);
   } else {
      if (++depth > 100) _exit(3);
      block = steward_alloc(root, bytes, 16, 1);
      depth--;
   }
   return block == NULL ? NULL : memset(block, 0, bytes);
}

static void *takes(void *nothing)
{
   (void)nothing;
   void *block = calloc(3, 8);
   CHECK(block != NULL && depth == 0);
   /* Listed or not, the next one is counted as well. */
   CHECK(calloc(3, 8) != NULL);
   return NULL;
}

int main(void)
{
   steward_host host = { .size = sizeof host, .alloc = from_libc, .free = to_libc };
   CHECK(steward_root(&host, "calloc", &root) == 0);
   uint64_t before = usage_of(root).live_bytes;
   pthread_t thread;
   for (int i = 0; i < 3; i++) {
      CHECK(pthread_create(&thread, NULL, takes, NULL) == 0);
      CHECK(pthread_join(thread, NULL) == 0);
   }
   /* What glibc takes for a thread itself and for its hook is counted besides. */
   CHECK(usage_of(root).live_bytes - before >= 3 * 2 * 24);
   puts("no call called itself");
   return 0;
}
