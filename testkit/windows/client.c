/* A program that uses Vulkan through vulkan-1.dll, built by `.ci/run windows` for the tests of the program. The first argument says what it
 * does besides: `leak` leaves a buffer, `overflow` writes past the driver's block of a buffer, `wait` creates and destroys buffers until its
 * input ends, `crash` reads an address of nobody, `exit` ends with the code that the second argument is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* What is needed of vulkan_core.h, which need not be installed. */
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
typedef int (*CreateBuffer)(void *, const void *, const void *, uint64_t *);
typedef void (*DestroyBuffer)(void *, uint64_t, const void *);

static GetProcAddr get_proc_addr;

static void fail(const char *what) {
  fprintf(stderr, "client: %s\n", what);
  exit(99);
}

static Function function_of(void *instance, const char *name) {
  const Function function = get_proc_addr(instance, name);
  if (!function) fail(name);
  return function;
}

static uint64_t buffer_of(void *instance, void *device) {
  const struct BufferInfo info = {.type = 12, .size = 256, .usage = 32};
  uint64_t buffer = 0;
  const CreateBuffer create = (CreateBuffer)(void *)function_of(instance, "vkCreateBuffer");
  if (create(device, &info, NULL, &buffer) != 0) fail("no buffer");
  return buffer;
}

static void destroy(void *instance, void *device, uint64_t buffer) {
  ((DestroyBuffer)(void *)function_of(instance, "vkDestroyBuffer"))(device, buffer, NULL);
}

__attribute__((noinline)) static void leave_a_buffer(void *instance, void *device) {
  if (buffer_of(instance, device) == 0) fail("no handle"); /* left */
}

__attribute__((noinline)) static void write_too_far(void *instance, void *device) {
  const uint64_t buffer = buffer_of(instance, device);
  /* The handle is the driver's block, and a guard has put that before the end of a page. */
  volatile char *end = (volatile char *)(uintptr_t)((buffer | 4095) + 1);
  *end = 1; /* too far */
  destroy(instance, device, buffer);
}

int main(int count, char **arguments) {
  const char *mode = count > 1 ? arguments[1] : "";
  if (strcmp(mode, "crash") == 0) return *(volatile char *)8;
  if (strcmp(mode, "exit") == 0 && count > 2) ExitProcess(strtoul(arguments[2], NULL, 0));
  const HMODULE loader = LoadLibraryA("vulkan-1.dll");
  if (!loader) fail("no loader");
  get_proc_addr = (GetProcAddr)(void *)GetProcAddress(loader, "vkGetInstanceProcAddr");
  const struct InstanceInfo instance_info = {.type = 1};
  void *instance = NULL, *physical = NULL, *device = NULL;
  if (((int (*)(const void *, const void *, void **))(void *)function_of(NULL, "vkCreateInstance"))(&instance_info, NULL, &instance) != 0)
    fail("no instance");
  uint32_t devices = 1;
  ((int (*)(void *, uint32_t *, void **))(void *)function_of(instance, "vkEnumeratePhysicalDevices"))(instance, &devices, &physical);
  const float priority = 1;
  const struct QueueInfo queue = {.type = 2, .count = 1, .priorities = &priority};
  const struct DeviceInfo device_info = {.type = 3, .queues = 1, .queue = &queue};
  if (((int (*)(void *, const void *, const void *, void **))(void *)function_of(instance, "vkCreateDevice"))(physical, &device_info, NULL, &device) != 0)
    fail("no device");
  if (strcmp(mode, "leak") == 0) leave_a_buffer(instance, device);
  if (strcmp(mode, "overflow") == 0) write_too_far(instance, device);
  if (strcmp(mode, "wait") == 0) {
    printf("%lu\n", GetCurrentProcessId());
    fflush(stdout);
    /* The reader of the output closes this one's input. */
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    DWORD available = 0;
    while (PeekNamedPipe(input, NULL, 0, NULL, &available, NULL)) {
      destroy(instance, device, buffer_of(instance, device));
      Sleep(1);
    }
  }
  ((void (*)(void *, const void *))(void *)function_of(instance, "vkDestroyDevice"))(device, NULL);
  ((void (*)(void *, const void *))(void *)function_of(instance, "vkDestroyInstance"))(instance, NULL);
  return 0;
}
