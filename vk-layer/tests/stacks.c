// A program whose call stacks tests look for. The first argument says what it does; as a library it is a plugin of the program.

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

// What is needed of vulkan_core.h, which need not be installed.
typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void *, const char *);
struct QueueInfo { int type; const void *next; uint32_t flags, family, count; const float *priorities; };
struct InstanceInfo {
    int type; const void *next; uint32_t flags; const void *application;
    uint32_t layers; const char *const *layer_names; uint32_t extensions; const char *const *extension_names;
};
struct DeviceInfo {
    int type; const void *next; uint32_t flags, queues; const struct QueueInfo *queue;
    uint32_t layers; const char *const *layer_names; uint32_t extensions; const char *const *extension_names;
    const void *features;
};
struct BufferInfo {
    int type; const void *next; uint32_t flags; uint64_t size; uint32_t usage; int sharing; uint32_t families; const uint32_t *family;
};
struct MemoryInfo { int type; const void *next; uint64_t size; uint32_t memory_type; };

static GetProcAddr get_proc_addr;
static void *instance, *device;

static void fail(const char *what) {
    fprintf(stderr, "client: %s\n", what);
    _exit(99);
}

static Function find(const char *name) {
    Function function = get_proc_addr(instance, name);
    if (!function) fail(name);
    return function;
}

static uint64_t create_buffer(void) {
    struct BufferInfo info = {.type = 12, .size = 4096, .usage = 32};
    uint64_t buffer = 0;
    int (*create)(void *, const void *, const void *, uint64_t *) = (void *)find("vkCreateBuffer");
    if (create(device, &info, NULL, &buffer) != 0) fail("no buffer");
    return buffer;
}

static void destroy_buffer(uint64_t buffer) {
    ((void (*)(void *, uint64_t, const void *))find("vkDestroyBuffer"))(device, buffer, NULL);
}

static uint64_t allocate(uint64_t bytes) {
    struct MemoryInfo info = {.type = 5, .size = bytes};
    uint64_t memory = 0;
    int (*allocate)(void *, const void *, const void *, uint64_t *) = (void *)find("vkAllocateMemory");
    if (allocate(device, &info, NULL, &memory) != 0) fail("no memory");
    return memory;
}

static void free_memory(uint64_t memory) {
    ((void (*)(void *, uint64_t, const void *))find("vkFreeMemory"))(device, memory, NULL);
}

#ifdef PLUGIN
// Its function leaks so many buffers of the program.
KEPT void PLUGIN(GetProcAddr get, void *with_instance, void *with_device, int number) {
    get_proc_addr = get;
    instance = with_instance;
    device = with_device;
    for (int index = 0; index < number; index++) create_buffer();
    (void)destroy_buffer, (void)allocate, (void)free_memory;
}
#else

static void open_device(void) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL), *physical = NULL;
    if (!loader) fail("no loader");
    get_proc_addr = (GetProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
    struct InstanceInfo of_instance = {.type = 1};
    int (*create_instance)(const void *, const void *, void **) = (void *)find("vkCreateInstance");
    if (create_instance(&of_instance, NULL, &instance) != 0) fail("no instance");
    uint32_t count = 1;
    ((int (*)(void *, uint32_t *, void **))find("vkEnumeratePhysicalDevices"))(instance, &count, &physical);
    if (count != 1) fail("no device");
    float priority = 1;
    struct QueueInfo queue = {.type = 2, .count = 1, .priorities = &priority};
    struct DeviceInfo info = {.type = 3, .queues = 1, .queue = &queue};
    int (*create)(void *, const void *, const void *, void **) = (void *)find("vkCreateDevice");
    if (create(physical, &info, NULL, &device) != 0) fail("no device");
}

static void close_device(void) {
    ((void (*)(void *, const void *))find("vkDestroyDevice"))(device, NULL);
    ((void (*)(void *, const void *))find("vkDestroyInstance"))(instance, NULL);
}

static void submit(void) {
    void *queue = NULL;
    ((void (*)(void *, uint32_t, uint32_t, void **))find("vkGetDeviceQueue"))(device, 0, 0, &queue);
    ((int (*)(void *, uint32_t, const void *, uint64_t))find("vkQueueSubmit"))(queue, 0, NULL, 0);
}

enum { CHUNKS = 40, BUFFERS = 400 };
static uint64_t chunks[CHUNKS], buffers[BUFFERS];

KEPT static void load_level(void) {
    for (int index = 0; index < CHUNKS; index++) {
        chunks[index] = allocate(1 << 20);
        submit();
    }
}

KEPT static void load_menu(void) {
    for (int index = 0; index < CHUNKS; index++) chunks[index] = allocate(1 << 16);
}

static void unload(void) {
    for (int index = 0; index < CHUNKS; index++) free_memory(chunks[index]);
}

KEPT static void fill_scene(void) {
    for (int index = 0; index < BUFFERS; index++) buffers[index] = create_buffer();
}

static void empty_scene(void) {
    for (int index = 0; index < BUFFERS; index++) destroy_buffer(buffers[index]);
}

KEPT static void keep_one(void) { allocate(1 << 18); }

KEPT static void use_plugin(const char *path, const char *name) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) fail(dlerror());
    void (*leak)(GetProcAddr, void *, void *, int) = (void *)dlsym(plugin, name);
    if (!leak) fail(dlerror());
    leak(get_proc_addr, instance, device, 50);
    printf("%s at %p\n", name, (void *)leak);
    fflush(stdout);
    dlclose(plugin);
}

int main(int number, char **arguments) {
    const char *mode = number > 1 ? arguments[1] : "";
    open_device();
    if (strcmp(mode, "freed") == 0) {
        // The most device memory is the level's, the most blocks are the scene's; what is alive at the end is neither.
        load_menu();
        unload();
        load_level();
        unload();
        fill_scene();
        empty_scene();
        keep_one();
        load_menu();
        unload();
    } else if (strcmp(mode, "plugins") == 0) {
        for (int index = 2; index + 1 < number; index += 2) use_plugin(arguments[index], arguments[index + 1]);
        close_device();
    } else {
        load_level();
        fill_scene();
        empty_scene();
        keep_one();
        if (strcmp(mode, "die-of-plugin") == 0 && number > 3) {
            use_plugin(arguments[2], arguments[3]);
            raise(SIGKILL);
        }
        if (strcmp(mode, "fork") == 0) {
            // What a child does to its parent's objects is not the parent's.
            fill_scene();
            pid_t child = fork();
            if (child == 0) {
                empty_scene();
                unload();
                _exit(0);
            }
            int status = 0;
            if (waitpid(child, &status, 0) != child || status != 0) fail("the child failed");
            raise(SIGKILL);
        }
        if (strcmp(mode, "segv") == 0) *(volatile int *)8 = 1;
        if (strcmp(mode, "kill") == 0) raise(SIGKILL);
        if (strcmp(mode, "abort") == 0) abort();
        if (strcmp(mode, "_exit") == 0) _exit(3);
    }
    return 0;
}
#endif
