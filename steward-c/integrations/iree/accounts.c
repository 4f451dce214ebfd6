/* A function of a compiled module on several HAL devices, and the tree of accounts while its results live.
 *
 *    accounts FUNCTION INPUT DEVICE=MODULE..            the function takes one tensor and returns one of f32
 *    accounts module.twice 4xf32=1,2,3,4 local-task=cpu.vmfb vulkan=spirv.vmfb
 *
 * Link it with steward_iree.c, IREE's runtime (iree_runtime_unified), libsteward and the Vulkan loader.
 */
#include <stdio.h>
#include <string.h>

#include <vulkan/vulkan_core.h>

#include "iree/hal/drivers/vulkan/api.h"
#include "iree/runtime/api.h"

#include "steward_iree.h"

enum { VULKAN_SLOT = 0, MAX_DEVICES = 8, PRINTED = 16 };

typedef struct device_accounts {
   const char *name;
   steward_context *device, *session;
   steward_bridge driver; /* of Vulkan: what IREE's instance and device allocate */
   bool has_driver;
   iree_runtime_instance_t *instance;
   iree_runtime_session_t *run;
   iree_hal_buffer_view_t *result;
} device_accounts;

static int fail(const char *what)
{
   fprintf(stderr, "accounts: %s\n", what);
   return 1;
}

/* --- Vulkan, whose HAL passes NULL for pAllocator ------------------------------------------------------------------- */

static iree_status_t create_vulkan_driver(void *self, iree_string_view_t name, iree_allocator_t host, iree_hal_driver_t **out)
{
   (void)self;
   steward_get_instance_proc_addr_fn loader = (steward_get_instance_proc_addr_fn)vkGetInstanceProcAddr;
   steward_get_instance_proc_addr_fn counted = steward_bridge_proc_addr(VULKAN_SLOT, loader);
   iree_hal_vulkan_syms_t *syms = NULL;
   iree_status_t status = iree_hal_vulkan_syms_create((void *)counted, host, &syms);
   if (!iree_status_is_ok(status))
      return status;
   iree_hal_vulkan_driver_options_t options;
   iree_hal_vulkan_driver_options_initialize(&options);
   options.requested_features |= IREE_HAL_VULKAN_FEATURE_ENABLE_BUFFER_DEVICE_ADDRESSES;
   status = iree_hal_vulkan_driver_create(name, &options, syms, host, out);
   iree_hal_vulkan_syms_release(syms);
   return status;
}

static iree_status_t list_vulkan_driver(void *self, iree_host_size_t *out_count, const iree_hal_driver_info_t **out_infos)
{
   (void)self;
   static iree_hal_driver_info_t info;
   info.driver_name = iree_make_cstring_view("vulkan");
   info.full_name = iree_make_cstring_view("Vulkan, counted");
   *out_count = 1;
   *out_infos = &info;
   return iree_ok_status();
}

/* The slot has to be filled before the driver is created. IREE asks the newest factory first. */
static iree_status_t count_vulkan(device_accounts *of, iree_hal_driver_registry_t *registry)
{
   static const iree_hal_driver_factory_t factory = {.enumerate = list_vulkan_driver, .try_create = create_vulkan_driver};
   steward_context *driver;
   VkAllocationCallbacks callbacks;
   if (steward_child(of->device, "driver", NULL, &driver) != 0 || steward_bridge_init(&of->driver, driver, &callbacks) != 0)
      return iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED, "no account for the driver");
   of->has_driver = true;
   if (steward_bridge_static(VULKAN_SLOT, &of->driver, &callbacks) != 0)
      return iree_make_status(IREE_STATUS_FAILED_PRECONDITION, "another device has the slot");
   return iree_hal_driver_registry_register_factory(registry, &factory);
}

/* --- a run ---------------------------------------------------------------------------------------------------------- */

static iree_status_t create_session(device_accounts *of, const char *module)
{
   iree_allocator_t host = steward_iree_allocator(of->device);
   iree_runtime_instance_options_t instance_options;
   iree_runtime_instance_options_initialize(&instance_options);
   iree_runtime_instance_options_use_all_available_drivers(&instance_options);
   iree_status_t status = iree_ok_status();
   if (strcmp(of->name, "vulkan") == 0)
      status = count_vulkan(of, instance_options.driver_registry);
   if (iree_status_is_ok(status))
      status = iree_runtime_instance_create(&instance_options, host, &of->instance);
   iree_hal_device_t *device = NULL;
   if (iree_status_is_ok(status))
      status = iree_runtime_instance_try_create_default_device(of->instance, iree_make_cstring_view(of->name), &device);
   iree_runtime_session_options_t options;
   iree_runtime_session_options_initialize(&options);
   if (iree_status_is_ok(status))
      status = iree_runtime_session_create_with_device(of->instance, &options, device, steward_iree_allocator(of->session), &of->run);
   iree_hal_device_release(device);
   if (iree_status_is_ok(status))
      status = iree_runtime_session_append_bytecode_module_from_file(of->run, module);
   return status;
}

static iree_status_t call_function(device_accounts *of, const char *function, const char *input)
{
   iree_hal_device_t *device = iree_runtime_session_device(of->run);
   iree_hal_allocator_t *memory = iree_runtime_session_device_allocator(of->run);
   iree_runtime_call_t call;
   iree_status_t status = iree_runtime_call_initialize_by_name(of->run, iree_make_cstring_view(function), &call);
   if (!iree_status_is_ok(status))
      return status;
   iree_hal_buffer_view_t *argument = NULL;
   status = iree_hal_buffer_view_parse(iree_make_cstring_view(input), device, memory, &argument);
   if (iree_status_is_ok(status))
      status = iree_runtime_call_inputs_push_back_buffer_view(&call, argument);
   iree_hal_buffer_view_release(argument);
   if (iree_status_is_ok(status))
      status = iree_runtime_call_invoke(&call, 0);
   if (iree_status_is_ok(status))
      status = iree_runtime_call_outputs_pop_front_buffer_view(&call, &of->result);
   iree_runtime_call_deinitialize(&call);
   return status;
}

/* The first numbers of the result. They are copied by a buffer of this program's, since Vulkan's result cannot be mapped, and
 * lavapipe has no HOST_LOCAL memory for iree_hal_device_transfer_d2h. */
static iree_status_t print_result(const device_accounts *of)
{
   float numbers[PRINTED];
   iree_device_size_t bytes = iree_hal_buffer_view_byte_length(of->result);
   if (bytes > sizeof numbers)
      bytes = sizeof numbers;
   iree_hal_buffer_params_t params = {.type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL | IREE_HAL_MEMORY_TYPE_HOST_VISIBLE,
                                      .usage = IREE_HAL_BUFFER_USAGE_TRANSFER | IREE_HAL_BUFFER_USAGE_MAPPING};
   iree_hal_buffer_t *copy = NULL;
   iree_status_t status = iree_hal_allocator_allocate_buffer(iree_runtime_session_device_allocator(of->run), params, bytes, &copy);
   if (iree_status_is_ok(status))
      status = iree_hal_device_transfer_d2d(iree_runtime_session_device(of->run), iree_hal_buffer_view_buffer(of->result), 0, copy, 0, bytes,
                                            IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT, iree_infinite_timeout());
   if (iree_status_is_ok(status))
      status = iree_hal_buffer_map_read(copy, 0, numbers, bytes);
   iree_hal_buffer_release(copy);
   if (!iree_status_is_ok(status))
      return status;
   printf("%s:", of->name);
   for (size_t i = 0; i < bytes / sizeof *numbers; i++)
      printf(" %g", numbers[i]);
   puts("");
   return status;
}

/* False, and a sentence, where the device or the module is refused: the others go on. */
static bool run(device_accounts *of, steward_context *root, const char *module, const char *function, const char *input)
{
   if (steward_child(root, of->name, NULL, &of->device) != 0 || steward_child(of->device, "session", NULL, &of->session) != 0) {
      fail("no account for a device");
      return false;
   }
   iree_status_t status = create_session(of, module);
   if (iree_status_is_ok(status))
      status = call_function(of, function, input);
   if (iree_status_is_ok(status))
      status = print_result(of);
   bool is_right = iree_status_is_ok(status);
   if (!is_right)
      iree_status_fprint(stderr, status);
   iree_status_ignore(status);
   return is_right;
}

/* --- the end -------------------------------------------------------------------------------------------------------- */

static bool close_account(const char *device, const char *account, steward_context *of)
{
   steward_outstanding left = {.size = sizeof left};
   if (of == NULL || steward_close(of, &left) == 0)
      return true;
   printf("%s, %s: %llu bytes in %llu blocks are left\n", device, account, (unsigned long long)left.bytes, (unsigned long long)left.blocks);
   return false;
}

static bool end(device_accounts *of)
{
   iree_hal_buffer_view_release(of->result);
   iree_runtime_session_release(of->run);
   iree_runtime_instance_release(of->instance);
   steward_context *driver = NULL;
   bool is_empty = true;
   if (of->has_driver && steward_bridge_close(&of->driver, &driver) != 0) {
      printf("%s, driver: blocks are left\n", of->name);
      is_empty = false;
   }
   is_empty = close_account(of->name, "driver", driver) && is_empty;
   is_empty = close_account(of->name, "session", of->session) && is_empty;
   return close_account(of->name, "device", of->device) && is_empty;
}

static void write_text(void *file, const char *text, size_t length)
{
   fwrite(text, 1, length, (FILE *)file);
}

int main(int argc, char **argv)
{
   if (argc < 4 || argc - 3 > MAX_DEVICES)
      return fail("usage: accounts FUNCTION INPUT DEVICE=MODULE..");
   steward_context *root;
   if (steward_root_malloc("iree", &root) != 0)
      return fail("no root");
   device_accounts devices[MAX_DEVICES] = {0};
   int count = argc - 3;
   bool is_right = true;
   for (int i = 0; i < count; i++) {
      char *module = strchr(argv[i + 3], '=');
      if (module == NULL)
         return fail("a device without a module");
      *module = 0;
      devices[i].name = argv[i + 3];
      is_right = run(&devices[i], root, module + 1, argv[1], argv[2]) && is_right;
   }
   steward_snapshot_text(root, write_text, stdout);
   for (int i = count; i-- > 0;)
      is_right = end(&devices[i]) && is_right;
   is_right = close_account("iree", "root", root) && is_right;
   puts(is_right ? "every account is empty" : "not every device ran, or not every account is empty");
   return is_right ? 0 : 1;
}
