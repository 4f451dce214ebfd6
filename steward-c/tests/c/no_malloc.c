/* No byte goes past the allocator that was given, but for what steward_attach_thread says: malloc and its kin end the process while a function of
 * the interface runs over a host of the program's own. Prints "nothing was asked of malloc" and how often the host was asked. With an argument:
 * asks malloc on purpose. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "steward-ralloc.h"

static atomic_int forbidden;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

static void check(const char *name)
{
   if (atomic_load(&forbidden)) {
      (void)!write(2, name, strlen(name));
      (void)!write(2, " was called\n", 12);
      _exit(3);
   }
}

void *malloc(size_t size) { check("malloc"); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { check("calloc"); return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { check("realloc"); return __libc_realloc(block, size); }
void *memalign(size_t align, size_t size) { check("memalign"); return __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { check("aligned_alloc"); return __libc_memalign(align, size); }
int posix_memalign(void **out, size_t align, size_t size) { check("posix_memalign"); *out = __libc_memalign(align, size); return *out == NULL ? 12 : 0; }

/* A host whose memory is static: blocks are never used again. */
static _Alignas(4096) char memory[16 << 20];
static atomic_size_t used, asked;

static void *host_alloc(void *data, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)scope;
   atomic_fetch_add(&asked, 1);
   size_t start = atomic_fetch_add(&used, size + align);
   return start + size + align > sizeof memory ? NULL : memory + (start + align - 1) / align * align;
}

static void host_free(void *data, void *block, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)block, (void)size, (void)align, (void)scope;
}

static void ignore(void *user, const char *text, size_t length)
{
   (void)text;
   *(size_t *)user += length;
}

static void trees(steward_domain *domain)
{
   steward_domain *before = steward_ralloc_enter(domain);
   void *top = steward_ralloc_root(domain);
   char *text = steward_ralloc_asprintf(NULL, "%d %s", 7, "text");
   CHECK(top != NULL && text != NULL && steward_ralloc_asprintf_append(&text, "%x", 300));
   steward_ralloc_steal(top, text);
   for (int i = 0; i < 100; i++)
      CHECK(steward_gc_alloc_size(top, 40, 8) != NULL);
   steward_gc_sweep_start(top);
   steward_gc_sweep_end(top);
   void *linear = steward_linear_new(top, 10);
   CHECK(linear != NULL && steward_linear_strdup(linear, "linear") != NULL && steward_linear_zalloc(linear, 9000) != NULL);
   CHECK(steward_reralloc_size(NULL, steward_ralloc_array_size(top, 4, 10), 4000) != NULL);
   steward_ralloc_free(top);
   steward_ralloc_leave(before);
}

static pthread_barrier_t barrier;

/* Counts on a thread that counted nothing yet, and whose end folds what it counted. */
static void *on_a_thread(void *domain)
{
   CHECK(steward_attach_thread());
   pthread_barrier_wait(&barrier); /* until malloc is forbidden */
   pthread_barrier_wait(&barrier);
   trees(domain);
   pthread_barrier_wait(&barrier);
   return NULL;
}

int main(int argc, char **argv)
{
   (void)argv;
   pthread_t thread;
   steward_host host = {sizeof host, NULL, host_alloc, NULL, host_free};
   steward_context *root, *device, *driver, *compiler, *back;
   steward_domain *domain, *reserve;
   steward_bridge bridge;
   steward_chain instance, of_device;
   struct VkAllocationCallbacks callbacks;
   size_t length = 0;
   CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
   /* The C library itself buffers what is printed, and prepares the thread. */
   printf("begin\n");
   fflush(stdout);
   if (argc > 1) {
      atomic_store(&forbidden, 1);
      steward_context *over_malloc;
      steward_root_malloc("on purpose", &over_malloc);
   }
   static steward_domain *given;
   CHECK(steward_attach_thread());
   atomic_store(&forbidden, 1);
   CHECK(steward_root(&host, "root", &root) == 0);
   steward_options options = {sizeof options, STEWARD_SCOPE_OBJECT, STEWARD_BUDGET_LIMIT, 8 << 20};
   CHECK(steward_child(root, "device", &options, &device) == 0);
   void *block = steward_zalloc(device, 100, 64, STEWARD_SCOPE_CACHE);
   CHECK((block = steward_realloc(device, block, 100, 5000, 64, STEWARD_SCOPE_CACHE)) != NULL);
   steward_free(device, block, 5000, 64, STEWARD_SCOPE_CACHE);
   CHECK(steward_alloc(device, 9 << 20, 8, STEWARD_SCOPE_CACHE) == NULL);
   steward_release(steward_retain(device));
   CHECK(steward_snapshot_json(root, ignore, &length) == 0 && length > 100);
   CHECK(steward_snapshot_text(root, ignore, &length) == 0 && length > 200);
   CHECK(steward_bridge_init(&bridge, device, &callbacks) == 0);
   CHECK(steward_chain_init(&instance, &callbacks, NULL) == 0 && steward_chain_init(&of_device, NULL, &instance) == 0);
   block = steward_chain_zalloc(&of_device, NULL, 500, 16, STEWARD_SCOPE_OBJECT);
   CHECK(block != NULL);
   steward_chain_free(&of_device, NULL, block, STEWARD_SCOPE_OBJECT);
   CHECK(steward_root_from_callbacks(&callbacks, STEWARD_SCOPE_OBJECT, "driver", &driver) == 0);
   CHECK(steward_child(driver, "compiler", NULL, &compiler) == 0);
   CHECK(steward_domain_reserve(driver, 64 << 10, &reserve) == 0);
   CHECK(steward_domain_new(compiler, reserve, &domain) == 0);
   trees(domain);
   trees(reserve);
   given = domain;
   atomic_store(&forbidden, 0);
   CHECK(pthread_create(&thread, NULL, on_a_thread, given) == 0);
   pthread_barrier_wait(&barrier);
   atomic_store(&forbidden, 1);
   pthread_barrier_wait(&barrier);
   trees(domain);
   pthread_barrier_wait(&barrier);
   atomic_store(&forbidden, 0);
   CHECK(pthread_join(thread, NULL) == 0);
   atomic_store(&forbidden, 1);
   steward_domain_close(domain);
   steward_domain_close(reserve);
   CHECK(steward_close(driver, NULL) == 0);
   CHECK(steward_bridge_close(&bridge, &back) == 0 && steward_close(back, NULL) == 0 && steward_close(root, NULL) == 0);
   atomic_store(&forbidden, 0);
   printf("nothing was asked of malloc, and %s of the host\n", asked > 300 ? "hundreds of blocks" : "too little");
   return 0;
}
