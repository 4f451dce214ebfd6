// Creates an instance. It brings an allocator of its own, and one of its blocks is the C library's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

static _Alignas(16) unsigned char memory[1 << 28];
static size_t used;

// The size of a block is in front of it.
static void *allocate(size_t align, size_t size) {
    size_t all = size + align + 32;
    if (all < size || used > sizeof memory - all)
        return errno = ENOMEM, NULL;
    uintptr_t at = (uintptr_t)memory + __atomic_fetch_add(&used, all, __ATOMIC_RELAXED) + 16;
    at = (at + align - 1) / align * align;
    ((size_t *)at)[-1] = size;
    return (void *)at;
}

void *malloc(size_t size) { return allocate(16, size); }
void *calloc(size_t count, size_t size) { return allocate(16, count * size); }
void *memalign(size_t align, size_t size) { return allocate(align < 16 ? 16 : align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **block, size_t align, size_t size) {
    return (*block = memalign(align, size)) ? 0 : ENOMEM;
}
void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (block && old) {
        size_t before = ((size_t *)old)[-1];
        memcpy(block, old, before < size ? before : size);
    }
    return block;
}
void free(void *block) { (void)block; }

typedef struct { int type; const void *next; int flags; const void *application; uint32_t counts[6]; void *end; } Info;

int main(void) {
    void *(*of_c)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    void *vulkan = dlopen("libvulkan.so.1", RTLD_NOW);
    if (!vulkan || !of_c || !of_c(8))
        return 2;
    int (*create)(const Info *, const void *, void **) = (int (*)(const Info *, const void *, void **))dlsym(vulkan, "vkCreateInstance");
    void (*destroy)(void *, const void *) = (void (*)(void *, const void *))dlsym(vulkan, "vkDestroyInstance");
    Info info = { .type = 1 };
    void *instance;
    if (!create || !destroy || create(&info, NULL, &instance))
        return 3;
    destroy(instance, NULL);
    return 0;
}
