// A layer that wraps physical devices, to stand above and below another one. What it finds wrong is a line on the error output that begins
// "layer:" and the end of the process. LAYER_CREATES_WITH says which instance it looks up vkCreateDevice with: null, instance or stale.
// LAYER_OWN_DEVICE: it creates a device of its own, too. LAYER_NAMES names a file of names, which it looks up in every way; it prints those
// that are answered.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What is needed of vulkan_core.h and vk_layer.h, which need not be installed.
typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void *, const char *);
struct Link { struct Link *next; GetProcAddr instance, device; };
typedef int (*CreateOwnDevice)(void *, void *, const void *, const void *, void **, GetProcAddr, GetProcAddr *);
struct OwnDevices { CreateOwnDevice create; void (*destroy)(void *, const void *, Function); };
struct LinkInfo { int type; const struct LinkInfo *next; int function; union { struct Link *link; struct OwnDevices own; } u; };
struct Info { int type; const struct LinkInfo *next; };
struct DeviceInfo { int type; const void *next; uint64_t rest[7]; };
struct Group { int type; const void *next; uint32_t count; void *devices[32]; uint32_t subset; };
struct GroupInfo { int type; const void *next; uint32_t count; void *const *devices; };
enum { OF_INSTANCE = 47, OF_DEVICE = 48, LINK = 0, CREATE_DEVICE = 2, GROUP_INFO = 1000070001 };

// A physical device, as the layer above and the loader know it.
struct Wrapped { void *table, *real; uint64_t magic; };
static const uint64_t magic = 0x77726170706564;

// The commands of the layer below. They are looked up inside vkCreateInstance: later the loader answers with the first layer's.
static const char *const names[] = {
    "vkDestroyInstance", "vkEnumeratePhysicalDevices", "vkEnumeratePhysicalDeviceGroups", "vkEnumeratePhysicalDeviceGroupsKHR",
    "vkEnumerateDeviceExtensionProperties", "vkGetPhysicalDeviceProperties", "vkGetPhysicalDeviceMemoryProperties",
    "vkGetPhysicalDeviceFeatures", "vkGetPhysicalDeviceQueueFamilyProperties",
};
enum { NAMES = sizeof names / sizeof *names };
// Each instance has a chain of its own. They are found by the first word of its handles.
static struct Chain { void *table, *instance; GetProcAddr next; struct OwnDevices own; Function below[NAMES]; } chains[64];
static struct Device { void *table; GetProcAddr next; } devices[1024];
// Whether this thread is inside the layer below's vkCreateDevice, or in the loader's function that creates a device for a layer: that calls
// this layer with the handle that it was given.
static __thread int creating, own;

static void fail(const char *what, const char *name) {
    fprintf(stderr, "layer: %s: %s\n", what, name);
    _exit(98);
}

static void *table_of(void *handle) { return *(void **)handle; }

static struct Chain *chain_of(void *handle) {
    for (int index = 0; index < 64; index++)
        if (chains[index].table == table_of(handle)) return &chains[index];
    fail("no instance of", "a handle");
    return NULL;
}

static Function next_of(void *handle, const char *name) {
    struct Chain *chain = chain_of(handle);
    for (int index = 0; index < NAMES; index++)
        if (strcmp(names[index], name) == 0 && chain->below[index]) return chain->below[index];
    fail("the layer below lacks", name);
    return NULL;
}

static void *unwrapped(void *device, const char *name) {
    struct Wrapped *wrapped = device;
    if (own) return device;
    if (creating) fail("called from below", name);
    if (wrapped->magic != magic) fail("a handle that is not wrapped", name);
    return wrapped->real;
}

// One wrapper for each, which stays: the loader compares handles.
static void *wrap(void *real) {
    static struct Wrapped *all[256];
    for (int index = 0; index < 256; index++) {
        struct Wrapped *new = all[index];
        if (new && new->real == real && new->table == table_of(real)) return new;
        if (new) continue;
        new = malloc(sizeof *new);
        *new = (struct Wrapped){table_of(real), real, magic};
        struct Wrapped *none = NULL;
        if (__atomic_compare_exchange_n(&all[index], &none, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return new;
        free(new);
        index--;
    }
    fail("too many", "physical devices");
    return NULL;
}

static int enumerate(void *instance, uint32_t *count, void **all) {
    int result = ((int (*)(void *, uint32_t *, void **))next_of(instance, "vkEnumeratePhysicalDevices"))(instance, count, all);
    for (uint32_t index = 0; all && index < *count; index++) all[index] = wrap(all[index]);
    return result;
}

static int groups(const char *name, void *instance, uint32_t *count, struct Group *all) {
    int result = ((int (*)(void *, uint32_t *, struct Group *))next_of(instance, name))(instance, count, all);
    for (uint32_t index = 0; all && index < *count; index++)
        for (uint32_t at = 0; at < all[index].count; at++) all[index].devices[at] = wrap(all[index].devices[at]);
    return result;
}

static int groups_core(void *instance, uint32_t *count, void *all) { return groups("vkEnumeratePhysicalDeviceGroups", instance, count, all); }
static int groups_khr(void *instance, uint32_t *count, void *all) { return groups("vkEnumeratePhysicalDeviceGroupsKHR", instance, count, all); }

static int extensions(void *device, const char *layer, uint32_t *count, void *all) {
    void *real = unwrapped(device, "vkEnumerateDeviceExtensionProperties");
    Function function = next_of(real, "vkEnumerateDeviceExtensionProperties");
    return ((int (*)(void *, const char *, uint32_t *, void *))function)(real, layer, count, all);
}

#define PROPERTIES(what) \
    static void get_##what(void *device, void *first, void *second) { \
        void *real = unwrapped(device, "vkGetPhysicalDevice" #what); \
        ((void (*)(void *, void *, void *))next_of(real, "vkGetPhysicalDevice" #what))(real, first, second); \
    }
PROPERTIES(Properties)
PROPERTIES(MemoryProperties)
PROPERTIES(Features)
PROPERTIES(QueueFamilyProperties)

static Function get_of_instance(void *instance, const char *name);

// Prints the names that are answered, in each way of looking up.
static void search_names(const char *way, GetProcAddr get, void *handle) {
    const char *file = getenv("LAYER_NAMES");
    FILE *all = file ? fopen(file, "r") : NULL;
    char name[128];
    while (all && fscanf(all, "%127s", name) == 1)
        if (get(handle, name)) printf("%s %s\n", way, name);
    if (all) fclose(all);
}

static struct Link *take_link(const void *info, int type, struct OwnDevices *own) {
    struct Link *link = NULL;
    for (struct LinkInfo *at = (void *)((struct Info *)info)->next; at; at = (void *)at->next) {
        if (at->type != type) continue;
        if (at->function == LINK) {
            link = at->u.link;
            at->u.link = link->next;
        } else if (at->function == CREATE_DEVICE && own) {
            *own = at->u.own;
        }
    }
    if (!link) fail("no link in", "the chain");
    return link;
}

static int create_instance(const void *info, const void *callbacks, void **instance) {
    struct OwnDevices own = {0};
    GetProcAddr next = take_link(info, OF_INSTANCE, &own)->instance;
    search_names("before", next, NULL);
    Function function = next(NULL, "vkCreateInstance");
    if (!function) fail("the layer below lacks", "vkCreateInstance");
    int result = ((int (*)(const void *, const void *, void **))function)(info, callbacks, instance);
    if (result != 0) return result;
    for (int index = 0; index < 64; index++) {
        void *none = NULL;
        if (!__atomic_compare_exchange_n(&chains[index].table, &none, table_of(*instance), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
        chains[index].instance = *instance;
        chains[index].next = next;
        chains[index].own = own;
        for (int at = 0; at < NAMES; at++) chains[index].below[at] = next(*instance, names[at]);
        search_names("null", next, NULL);
        search_names("instance", next, *instance);
        return 0;
    }
    fail("too many", "instances");
    return -1;
}

static void destroy_instance(void *instance, const void *callbacks) {
    if (!instance) return;
    struct Chain *chain = chain_of(instance);
    Function function = next_of(instance, "vkDestroyInstance");
    chain->table = NULL;
    ((void (*)(void *, const void *))function)(instance, callbacks);
}

static void own_device(struct Chain *chain, void *real, const struct DeviceInfo *info) {
    void *device = NULL;
    GetProcAddr next = NULL;
    // Without what the loader has put in front of the program's chain.
    struct DeviceInfo copy = *info;
    copy.next = NULL;
    if (!chain->own.create) fail("no function for", "devices of layers");
    own = 1;
    if (chain->own.create(chain->instance, real, &copy, NULL, &device, get_of_instance, &next) != 0) fail("no device of", "its own");
    own = 0;
    chain->own.destroy(device, NULL, next(device, "vkDestroyDevice"));
}

static int create_device(void *wrapped, const struct DeviceInfo *info, const void *callbacks, void **device) {
    void *real = unwrapped(wrapped, "vkCreateDevice");
    struct Chain *chain = chain_of(real);
    struct Link *link = take_link(info, OF_DEVICE, NULL);
    const char *with = getenv("LAYER_CREATES_WITH");
    void *instance = NULL;
    if (with && strcmp(with, "instance") == 0) instance = chain->instance;
    // Nobody may look at what such a handle points to.
    if (with && strcmp(with, "stale") == 0) instance = (void *)8;
    Function function = link->instance(instance, "vkCreateDevice");
    if (!function) fail("the layer below lacks", "vkCreateDevice");
    // Devices of a group come in the chain. It is the loader's copy.
    for (struct GroupInfo *group = (void *)info->next; group; group = (void *)group->next) {
        if (group->type != GROUP_INFO) continue;
        void **all = calloc(group->count, sizeof *all);
        for (uint32_t index = 0; index < group->count; index++) all[index] = unwrapped(group->devices[index], "VkDeviceGroupDeviceCreateInfo");
        group->devices = all;
    }
    creating = 1;
    int result = ((int (*)(void *, const void *, const void *, void **))function)(real, info, callbacks, device);
    creating = 0;
    if (result != 0) return result;
    for (int index = 0; index < 1024; index++) {
        void *none = NULL;
        if (!__atomic_compare_exchange_n(&devices[index].table, &none, table_of(*device), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
        devices[index].next = link->device;
        search_names("device", link->device, *device);
        if (getenv("LAYER_OWN_DEVICE")) own_device(chain, real, info);
        return 0;
    }
    fail("too many", "devices");
    return -1;
}

static struct Device *device_of(void *device) {
    for (int index = 0; index < 1024; index++)
        if (devices[index].table == table_of(device)) return &devices[index];
    fail("no such", "device");
    return NULL;
}

static void destroy_device(void *device, const void *callbacks) {
    if (!device) return;
    struct Device *known = device_of(device);
    Function function = known->next(device, "vkDestroyDevice");
    known->table = NULL;
    ((void (*)(void *, const void *))function)(device, callbacks);
}

static Function get_of_device(void *device, const char *name) {
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (Function)get_of_device;
    if (strcmp(name, "vkDestroyDevice") == 0) return (Function)destroy_device;
    return device_of(device)->next(device, name);
}

static Function get_of_instance(void *instance, const char *name) {
    static const struct { const char *name; void *function; } hooks[] = {
        {"vkGetInstanceProcAddr", get_of_instance}, {"vkCreateInstance", create_instance}, {"vkDestroyInstance", destroy_instance},
        {"vkCreateDevice", create_device}, {"vkDestroyDevice", destroy_device}, {"vkGetDeviceProcAddr", get_of_device},
        {"vkEnumeratePhysicalDevices", enumerate}, {"vkEnumeratePhysicalDeviceGroups", groups_core},
        {"vkEnumeratePhysicalDeviceGroupsKHR", groups_khr}, {"vkEnumerateDeviceExtensionProperties", extensions},
        {"vkGetPhysicalDeviceProperties", get_Properties}, {"vkGetPhysicalDeviceMemoryProperties", get_MemoryProperties},
        {"vkGetPhysicalDeviceFeatures", get_Features}, {"vkGetPhysicalDeviceQueueFamilyProperties", get_QueueFamilyProperties},
    };
    for (unsigned index = 0; index < sizeof hooks / sizeof *hooks; index++)
        if (strcmp(name, hooks[index].name) == 0) return (Function)hooks[index].function;
    return instance ? chain_of(instance)->next(instance, name) : NULL;
}

struct Negotiation { int type; void *next; uint32_t version; GetProcAddr instance, device, physical; };

__attribute__((visibility("default"))) int vkNegotiateLoaderLayerInterfaceVersion(struct Negotiation *negotiation) {
    negotiation->version = 2;
    negotiation->instance = get_of_instance;
    negotiation->device = get_of_device;
    negotiation->physical = NULL;
    return 0;
}
