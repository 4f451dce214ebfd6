// A program that uses Vulkan and knows nothing of the layer. The first argument says what it does, and how it ends.

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

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
struct Callbacks {
    void *data;
    void *(*allocate)(void *, size_t, size_t, int);
    void *(*reallocate)(void *, void *, size_t, size_t, int);
    void (*free)(void *, void *);
    void (*notifications[2])(void *, size_t, int, int);
};
struct MessengerInfo { int type; const void *next; uint32_t flags, severity, types; uint32_t (*callback)(void); void *data; };

static void *loader;
static GetProcAddr get_proc_addr;

static void fail(const char *what) {
    fprintf(stderr, "client: %s\n", what);
    _exit(99);
}

static void open_loader(void) {
    loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loader) fail("no loader");
    get_proc_addr = (GetProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
}

static Function of_instance(void *instance, const char *name) {
    Function function = get_proc_addr(instance, name);
    if (!function) fail(name);
    return function;
}

// A layer that the program itself enables.
static const char *named_layer;

static void *create_instance_of(const char *extension, const void *next) {
    struct InstanceInfo info = {
        .type = 1, .next = next, .layers = named_layer != NULL, .layer_names = &named_layer,
        .extensions = extension != NULL, .extension_names = &extension,
    };
    void *instance = NULL;
    int (*create)(const void *, const void *, void **) = (void *)of_instance(NULL, "vkCreateInstance");
    if (create(&info, NULL, &instance) != 0) fail("no instance");
    return instance;
}

static void *create_instance_with(const char *extension) { return create_instance_of(extension, NULL); }

static void *create_instance(void) { return create_instance_with(NULL); }

static void destroy_instance(void *instance) {
    ((void (*)(void *, const void *))of_instance(instance, "vkDestroyInstance"))(instance, NULL);
}

static void *create_device_with(void *instance, void *physical, const void *next) {
    void *device = NULL;
    float priority = 1;
    struct QueueInfo queue = {.type = 2, .count = 1, .priorities = &priority};
    struct DeviceInfo info = {.type = 3, .next = next, .queues = 1, .queue = &queue};
    int (*create)(void *, const void *, const void *, void **) = (void *)of_instance(instance, "vkCreateDevice");
    if (create(physical, &info, NULL, &device) != 0) fail("no device");
    return device;
}

static void *create_device(void *instance) {
    uint32_t count = 1;
    void *physical = NULL;
    ((int (*)(void *, uint32_t *, void **))of_instance(instance, "vkEnumeratePhysicalDevices"))(instance, &count, &physical);
    if (count != 1) fail("no device");
    return create_device_with(instance, physical, NULL);
}

static void destroy_device(void *instance, void *device) {
    ((void (*)(void *, const void *))of_instance(instance, "vkDestroyDevice"))(device, NULL);
}

// Creates so many buffers, and destroys those that are not to stay.
static void use_buffers(void *instance, void *device, int number, int stay) {
    int (*create)(void *, const void *, const void *, uint64_t *) = (void *)of_instance(instance, "vkCreateBuffer");
    void (*destroy)(void *, uint64_t, const void *) = (void *)of_instance(instance, "vkDestroyBuffer");
    struct BufferInfo info = {.type = 12, .size = 256, .usage = 32};
    for (int index = 0; index < number; index++) {
        uint64_t buffer = 0;
        if (create(device, &info, NULL, &buffer) != 0) fail("no buffer");
        if (index >= stay) destroy(device, buffer, NULL);
    }
}

struct MemoryInfo { int type; const void *next; uint64_t size; uint32_t index; };

static uint64_t allocate_memory(void *instance, void *device, uint64_t size) {
    int (*allocate)(void *, const void *, const void *, uint64_t *) = (void *)of_instance(instance, "vkAllocateMemory");
    struct MemoryInfo info = {.type = 5, .size = size};
    uint64_t memory = 0;
    if (allocate(device, &info, NULL, &memory) != 0) fail("no memory");
    return memory;
}

static void free_memory(void *instance, void *device, uint64_t memory) {
    ((void (*)(void *, uint64_t, const void *))of_instance(instance, "vkFreeMemory"))(device, memory, NULL);
}

struct ModuleInfo { int type; const void *next; uint32_t flags; size_t size; const uint32_t *code; };
struct LayoutInfo { int type; const void *next; uint32_t flags, sets; const void *set; uint32_t ranges; const void *range; };
struct StageInfo { int type; const void *next; uint32_t flags, stage; uint64_t module; const char *name; const void *special; };
struct PipelineInfo { int type; const void *next; uint32_t flags; struct StageInfo stage; uint64_t layout, base; int32_t index; };

// Creates pipelines, and destroys the layout of each before it.
static void layouts_first(int number) {
    static const uint32_t empty_shader[] = {
        0x07230203, 0x00010000, 0, 6, 0, 0x00020011, 1, 0x0003000e, 0, 1, 0x0005000f, 5, 1, 0x6e69616d, 0, 0x00060010, 1, 17, 1, 1, 1,
        0x00020013, 2, 0x00030021, 3, 2, 0x00050036, 2, 1, 0, 3, 0x000200f8, 4, 0x000100fd, 0x00010038};
    typedef int (*Create)(void *, const void *, const void *, uint64_t *);
    typedef void (*Destroy)(void *, uint64_t, const void *);
    void *instance = create_instance(), *device = create_device(instance);
    Create module_of = (Create)of_instance(instance, "vkCreateShaderModule");
    Create layout_of = (Create)of_instance(instance, "vkCreatePipelineLayout");
    int (*pipeline_of)(void *, uint64_t, uint32_t, const void *, const void *, uint64_t *) =
        (void *)of_instance(instance, "vkCreateComputePipelines");
    struct ModuleInfo module_info = {.type = 16, .size = sizeof empty_shader, .code = empty_shader};
    uint64_t module = 0;
    if (module_of(device, &module_info, NULL, &module) != 0) fail("no module");
    for (int index = 0; index < number; index++) {
        struct LayoutInfo layout_info = {.type = 30};
        uint64_t layout = 0, pipeline = 0;
        if (layout_of(device, &layout_info, NULL, &layout) != 0) fail("no layout");
        struct PipelineInfo info = {
            .type = 29, .stage = {.type = 18, .stage = 32, .module = module, .name = "main"}, .layout = layout, .index = -1};
        if (pipeline_of(device, 0, 1, &info, NULL, &pipeline) != 0) fail("no pipeline");
        ((Destroy)of_instance(instance, "vkDestroyPipelineLayout"))(device, layout, NULL);
        ((Destroy)of_instance(instance, "vkDestroyPipeline"))(device, pipeline, NULL);
    }
    ((Destroy)of_instance(instance, "vkDestroyShaderModule"))(device, module, NULL);
    destroy_device(instance, device);
    destroy_instance(instance);
}

static void whole_life(int buffers) {
    void *instance = create_instance(), *device = create_device(instance);
    use_buffers(instance, device, buffers, 0);
    destroy_device(instance, device);
    destroy_instance(instance);
}

// The device of a group, as one of several would be created.
static void group(void) {
    struct Group { int type; const void *next; uint32_t count; void *devices[32]; uint32_t subset; } all = {.type = 1000070000};
    uint32_t count = 1;
    void *instance = create_instance_with("VK_KHR_device_group_creation");
    ((int (*)(void *, uint32_t *, void *))of_instance(instance, "vkEnumeratePhysicalDeviceGroupsKHR"))(instance, &count, &all);
    if (count != 1 || all.count != 1) fail("no group");
    struct { int type; const void *next; uint32_t count; void **devices; } info = {1000070001, NULL, 1, all.devices};
    void *device = create_device_with(instance, all.devices[0], &info);
    use_buffers(instance, device, 10, 0);
    destroy_device(instance, device);
    destroy_instance(instance);
}

// With settings in the chain of the create info, and the extension that allows them; prints the layer's extensions. The report goes to `file`.
static void chained_settings(const char *file) {
    const char *layer = "VK_LAYER_STEWARD_memory", *extension = "VK_EXT_layer_settings";
    struct { char name[256]; uint32_t version; } all[8];
    uint32_t count = 8;
    int (*enumerate)(const char *, uint32_t *, void *) = (void *)of_instance(NULL, "vkEnumerateInstanceExtensionProperties");
    if (enumerate(layer, &count, all) != 0) fail("no extensions of the layer");
    for (uint32_t index = 0; index < count; index++) printf("%s %u\n", all[index].name, all[index].version);
    struct { const char *layer, *name; int type; uint32_t count; const void *values; } settings[] = {
        {layer, "json", 7, 1, &file}, {layer, "check", 99, 1, &file}, {layer, "stacks", 0, 0, &count}, {layer, "interval", 7, 2, (const char *[]){"1", "2"}},
    };
    struct { int type; const void *next; uint32_t count; const void *all; } chain = {1000496000, NULL, 4, settings};
    destroy_instance(create_instance_of(extension, &chain));
}

// A buffer of no bytes, which is against Vulkan's rules.
static void mistake(void) {
    void *instance = create_instance(), *device = create_device(instance);
    int (*create)(void *, const void *, const void *, uint64_t *) = (void *)of_instance(instance, "vkCreateBuffer");
    void (*destroy)(void *, uint64_t, const void *) = (void *)of_instance(instance, "vkDestroyBuffer");
    struct BufferInfo info = {.type = 12, .usage = 32};
    uint64_t buffer = 0;
    if (create(device, &info, NULL, &buffer) == 0) destroy(device, buffer, NULL);
    destroy_device(instance, device);
    destroy_instance(instance);
}

// What one buffer's own callbacks were called for.
struct OwnData { uint64_t magic; long allocated, reallocated, freed; };
static const uint64_t magic = 0x5eed5eed5eed5eed;

static struct OwnData *own_data(void *data) {
    struct OwnData *own = data;
    if (own->magic != magic) fail("strange user data");
    return own;
}

static void *own_allocate(void *data, size_t size, size_t align, int scope) {
    void *block = NULL;
    (void)scope;
    own_data(data)->allocated++;
    return posix_memalign(&block, align < 16 ? 16 : align, size) ? NULL : block;
}

static void *own_reallocate(void *data, void *old, size_t size, size_t align, int scope) {
    (void)scope;
    own_data(data)->reallocated++;
    return align > 16 ? NULL : realloc(old, size);
}

static void own_free(void *data, void *block) {
    own_data(data)->freed += block != NULL;
    free(block);
}

// In a struct that nobody may use once the command is back.
static int call_with_own(struct OwnData *own, int (*call)(void *, const struct Callbacks *), void *with) {
    struct Callbacks given = {.data = own, .allocate = own_allocate, .reallocate = own_reallocate, .free = own_free};
    int result = call(with, &given);
    for (volatile unsigned char *byte = (void *)&given; byte < (unsigned char *)(&given + 1); byte++) *byte = 0xee;
    return result;
}

struct BufferCall { void *device, *function; uint64_t *buffer; };

static int create_one(void *with, const struct Callbacks *given) {
    struct BufferCall *call = with;
    struct BufferInfo info = {.type = 12, .size = 256, .usage = 32};
    return ((int (*)(void *, const void *, const void *, uint64_t *))call->function)(call->device, &info, given, call->buffer);
}

static int destroy_one(void *with, const struct Callbacks *given) {
    struct BufferCall *call = with;
    ((void (*)(void *, uint64_t, const void *))call->function)(call->device, *call->buffer, given);
    return 0;
}

// So many buffers at once, each with user data of its own. Prints what all of them were called for.
static void with_own_callbacks(int number) {
    void *instance = create_instance(), *device = create_device(instance);
    struct OwnData *own = calloc(number, sizeof *own), all = {0};
    uint64_t *buffers = calloc(number, sizeof *buffers);
    for (int index = 0; index < number; index++) {
        struct BufferCall call = {device, (void *)of_instance(instance, "vkCreateBuffer"), &buffers[index]};
        own[index].magic = magic;
        if (call_with_own(&own[index], create_one, &call) != 0) fail("no buffer");
    }
    for (int index = 0; index < number; index++) {
        int other = (index + number / 2) % number;
        struct BufferCall call = {device, (void *)of_instance(instance, "vkDestroyBuffer"), &buffers[other]};
        call_with_own(&own[other], destroy_one, &call);
        if (own[other].allocated != own[other].freed) fail("a buffer's callbacks got what is another's");
        all.allocated += own[other].allocated;
        all.reallocated += own[other].reallocated;
        all.freed += own[other].freed;
    }
    printf("%ld %ld %ld\n", all.allocated, all.reallocated, all.freed);
    destroy_device(instance, device);
    destroy_instance(instance);
    free(buffers);
    free(own);
}

// An instance and a device with three buffers, all of which stay.
static void leave(void) {
    void *instance = create_instance();
    use_buffers(instance, create_device(instance), 4, 3);
}

extern char **environ;
static volatile sig_atomic_t signals_seen;

static void count_signal(int number) {
    (void)number;
    signals_seen++;
}

// Works until a signal ends it. With `handle` it ends by itself a moment after the first one and says how many came; with `once` the second
// one ends it. With `retitle` it overwrites its environment, as programs do that show a title of their own. With `memory` it has device memory:
// 4 MiB, and every other time 1 MiB more.
static void serve(const char *how) {
    int has_memory = strcmp(how, "memory") == 0;
    uint64_t held = 0, passing = 0;
    int is_once = strcmp(how, "once") == 0;
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = is_once ? (int)SA_RESETHAND : 0};
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (int index = 0; index < 4 && strcmp(how, "default") != 0; index++) sigaction(numbers[index], &action, NULL);
    void *instance = create_instance(), *device = create_device(instance);
    use_buffers(instance, device, 4, 3);
    for (char **variable = environ; strcmp(how, "retitle") == 0 && *variable; variable++) memset(*variable, 0, strlen(*variable));
    printf("%d\n", getpid());
    fflush(stdout);
    if (has_memory) held = allocate_memory(instance, device, 4 << 20);
    for (int after = 0; after < 40; after += signals_seen && !is_once) {
        use_buffers(instance, device, 1, 0);
        if (has_memory && passing) {
            free_memory(instance, device, passing);
            passing = 0;
        } else if (has_memory) passing = allocate_memory(instance, device, 1 << 20);
        usleep(10000);
    }
    printf("%d\n", (int)signals_seen);
    free_memory(instance, device, held);
    free_memory(instance, device, passing);
    destroy_device(instance, device);
    destroy_instance(instance);
}

static void *use_one_buffer(void *objects) {
    use_buffers(((void **)objects)[0], ((void **)objects)[1], 1, 0);
    return NULL;
}

// So many devices at once, each with a buffer; destroyed from the middle on.
static void many_devices(int number) {
    void *instance = create_instance(), **devices = calloc(number, sizeof *devices);
    for (int index = 0; index < number; index++) {
        devices[index] = create_device(instance);
        use_buffers(instance, devices[index], 1, 0);
    }
    for (int index = 0; index < number; index++) {
        void *device = devices[(index + number / 2) % number];
        use_buffers(instance, device, 1, 0);
        destroy_device(instance, device);
    }
    free(devices);
    destroy_instance(instance);
}

// In a copy of this file that is a library: it opens the loader itself, and what it leaves is nobody's when it is unloaded.
void of_library(void) {
    open_loader();
    whole_life(10);
    leave();
}

static void use_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    ((void (*)(void))dlsym(library, "of_library"))();
    dlclose(library);
}

static void *eight_lives(void *unused) {
    for (int index = 0; index < 8; index++) whole_life(500);
    return unused;
}

static void *leave_and_exit(void *unused) {
    leave();
    exit(0);
    return unused;
}

static long resident_kilobytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1) fail("no statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int mappings_of_layer(void) {
    char line[4096];
    int number = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file)) {
        number += strstr(line, "libVkLayer_steward") && strstr(line, " 00000000 ");
    }
    if (file) fclose(file);
    return number;
}

static void in_child(void (*work)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        work();
        exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) fail("the child failed");
}

static void nothing(void) {}
static void one_instance(void) { destroy_instance(create_instance()); }
static uint32_t message(void) { return 0; }

static void leak_messenger(void) {
    void *instance = create_instance_with("VK_EXT_debug_utils");
    struct MessengerInfo info = {.type = 1000128004, .severity = 0x1000, .types = 1, .callback = message};
    uint64_t messenger = 0;
    int (*create)(void *, const void *, const void *, uint64_t *) = (void *)of_instance(instance, "vkCreateDebugUtilsMessengerEXT");
    if (create(instance, &info, NULL, &messenger) != 0) fail("no messenger");
    destroy_instance(instance);
}

// Is its own loader, since the real one opens no layer by name in a process with raised privileges.
struct Link { struct Link *next; GetProcAddr instance, device; };
struct LinkInfo { int type; const void *next; int function; struct Link *link; };
struct Negotiation { int type; void *next; uint32_t version; GetProcAddr instance, device, physical; };
static int replaced;
static void *fake_instance[1] = {fake_instance};

static int fake_create(const void *info, const void *allocator, void **instance) {
    (void)info;
    replaced = allocator != NULL;
    *instance = fake_instance;
    return 0;
}

static void fake_destroy(void *instance, const void *allocator) { (void)instance, (void)allocator; }

// A driver that takes the C library's heap and the callbacks for one another. Through pointers, so that no compiler says it knows better.
static void (*volatile c_free)(void *) = free;
static void *(*volatile c_realloc)(void *, size_t) = realloc;

static void *free_on_thread(void *block) {
    c_free(block);
    return NULL;
}

static int careless_create(const void *info, const void *allocator, void **instance) {
    const struct Callbacks *given = allocator;
    unsigned char *blocks[3], seven[64];
    pthread_t thread;
    memset(seven, 7, sizeof seven);
    for (int index = 0; index < 3; index++) {
        blocks[index] = given->allocate(given->data, sizeof seven, 8, 4);
        if (!blocks[index]) fail("no block");
        memcpy(blocks[index], seven, sizeof seven);
    }
    c_free(blocks[0]);
    if (c_realloc(blocks[1], 128)) fail("the block was reallocated");
    pthread_create(&thread, NULL, free_on_thread, blocks[2]);
    pthread_join(thread, NULL);
    for (int index = 0; index < 3; index++) {
        if (memcmp(blocks[index], seven, sizeof seven) != 0) fail("the block is gone");
    }
    void *of_heap = malloc(64);
    given->free(given->data, of_heap);
    c_free(of_heap);
    return fake_create(info, allocator, instance);
}

static int (*create_with)(const void *, const void *, void **) = fake_create;

static Function fake_get(void *instance, const char *name) {
    (void)instance;
    if (strcmp(name, "vkCreateInstance") == 0) return (Function)create_with;
    return strcmp(name, "vkDestroyInstance") == 0 ? (Function)fake_destroy : NULL;
}

static void one_life_of_fake(const char *library) {
    void *layer = dlopen(library, RTLD_NOW);
    if (!layer) fail(dlerror());
    struct Negotiation negotiation = {.type = 1, .version = 2};
    int (*negotiate)(void *) = (int (*)(void *))dlsym(layer, "vkNegotiateLoaderLayerInterfaceVersion");
    if (!negotiate || negotiate(&negotiation) != 0) fail("no layer");
    struct Link link = {.instance = fake_get};
    struct LinkInfo chain = {.type = 47, .link = &link};
    struct InstanceInfo info = {.type = 1, .next = &chain};
    void *instance = NULL;
    int (*create)(const void *, const void *, void **) = (void *)negotiation.instance(NULL, "vkCreateInstance");
    if (create(&info, NULL, &instance) != 0) fail("no instance");
    ((void (*)(void *, const void *))negotiation.instance(instance, "vkDestroyInstance"))(instance, NULL);
}

static void secure(const char *library) {
    one_life_of_fake(library);
    printf("privileged %d replaced %d\n", getauxval(AT_SECURE) != 0, replaced);
}

static const char *mode = "";
static void *of_constructor;

__attribute__((constructor)) static void before_main(int number, char **arguments) {
    if (number > 1) mode = arguments[1];
    if (strcmp(mode, "static") == 0) {
        open_loader();
        of_constructor = create_instance();
    }
}

__attribute__((destructor)) static void after_main(void) {
    if (of_constructor) destroy_instance(of_constructor);
}

static void *late_instance, *late_device;

static void end_late(void) {
    destroy_device(late_instance, late_device);
}

int main(int number, char **arguments) {
    if (strcmp(mode, "secure") == 0 && number > 2) {
        secure(arguments[2]);
        return 0;
    }
    if (strcmp(mode, "past-callbacks") == 0 && number > 2) {
        create_with = careless_create;
        one_life_of_fake(arguments[2]);
        puts("went on");
        return 0;
    }
    if (strcmp(mode, "static") == 0) return 0;
    if (strcmp(mode, "library") == 0 && number > 2) {
        use_library(arguments[2]);
        return 0;
    }
    // The driver stays loaded: what comes and goes is the loader.
    if (strcmp(mode, "many") == 0 || strcmp(mode, "dlclose") == 0) dlopen("libvulkan_lvp.so", RTLD_NOW);
    if (strcmp(mode, "dlclose") != 0) open_loader();
    if (strcmp(mode, "plain") == 0) {
        whole_life(10);
    } else if (strcmp(mode, "group") == 0) {
        group();
    } else if (strcmp(mode, "settings") == 0 && number > 2) {
        chained_settings(arguments[2]);
    } else if (strcmp(mode, "named") == 0 && number > 2) {
        named_layer = arguments[2];
        whole_life(10);
    } else if (strcmp(mode, "mistake") == 0) {
        mistake();
    } else if (strcmp(mode, "layouts") == 0) {
        layouts_first(300);
    } else if (strcmp(mode, "leave") == 0) {
        leave();
    } else if (strcmp(mode, "serve") == 0 && number > 2) {
        serve(arguments[2]);
    } else if (strcmp(mode, "second-thread") == 0) {
        void *objects[2] = {create_instance()};
        objects[1] = create_device(objects[0]);
        pthread_t thread;
        pthread_create(&thread, NULL, use_one_buffer, objects);
        pthread_join(thread, NULL);
        destroy_device(objects[0], objects[1]);
        destroy_instance(objects[0]);
    } else if (strcmp(mode, "threads") == 0) {
        pthread_t threads[6];
        for (int index = 0; index < 6; index++) pthread_create(&threads[index], NULL, eight_lives, NULL);
        for (int index = 0; index < 6; index++) pthread_join(threads[index], NULL);
    } else if (strcmp(mode, "many") == 0) {
        long after_ten = 0;
        for (int index = 0; index < 300; index++) {
            one_instance();
            if (index == 9) after_ten = resident_kilobytes();
        }
        printf("%ld\n", resident_kilobytes() - after_ten);
    } else if (strcmp(mode, "dlclose") == 0) {
        long after_ten = 0;
        for (int index = 0; index < 60; index++) {
            open_loader();
            one_instance();
            dlclose(loader);
            if (index == 9) after_ten = resident_kilobytes();
        }
        printf("%ld %d\n", resident_kilobytes() - after_ten, mappings_of_layer());
    } else if (strcmp(mode, "fork") == 0) {
        void *instance = create_instance();
        in_child(nothing);
        in_child(one_instance);
        destroy_instance(instance);
    } else if (strcmp(mode, "devices") == 0) {
        many_devices(300);
    } else if (strcmp(mode, "exec") == 0 && number > 2) {
        // Its own program again, or another one, in the same process: what it holds is gone then.
        leave();
        execv(number > 3 ? arguments[3] : arguments[0], (char *[]){arguments[0], arguments[2], NULL});
        fail("no exec");
    } else if (strcmp(mode, "exit-from-thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, leave_and_exit, NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(mode, "late") == 0) {
        // Before the layer is there, so that its handler runs first. The instance stays.
        atexit(end_late);
        late_instance = create_instance();
        late_device = create_device(late_instance);
        use_buffers(late_instance, late_device, 5, 0);
    } else if (strcmp(mode, "app") == 0) {
        with_own_callbacks(8);
    } else if (strcmp(mode, "app5000") == 0) {
        with_own_callbacks(5000);
    } else if (strcmp(mode, "messenger") == 0) {
        leak_messenger();
    } else {
        leave();
        if (strcmp(mode, "kill") == 0) raise(SIGKILL);
        if (strcmp(mode, "abort") == 0) abort();
        if (strcmp(mode, "_exit") == 0) _exit(3);
        if (strcmp(mode, "segv") == 0) raise(SIGSEGV);
        if (strcmp(mode, "usr1") == 0) raise(SIGUSR1);
        if (strcmp(mode, "idle") == 0) {
            printf("%d\n", getpid());
            fflush(stdout);
            for (;;) pause();
        }
        if (strcmp(mode, "signal") == 0) {
            raise(SIGUSR2);
            leave();
            _exit(3);
        }
        if (strcmp(mode, "request") == 0 && number > 2) {
            fclose(fopen(arguments[2], "w"));
            leave();
            // So many commands that the layer looks for the file.
            whole_life(100);
            _exit(3);
        }
        if (strcmp(mode, "wait") == 0) {
            printf("%d\n", getpid());
            fflush(stdout);
            return getchar() == EOF ? 0 : 1;
        }
        fail("no such mode");
    }
    return 0;
}
