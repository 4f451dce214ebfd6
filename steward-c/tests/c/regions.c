/* Regions of a fake device's memory: prints nothing and returns 0. */
#include "fake_vulkan.h"

static steward_gpu *gpu_over(const steward_context *owner, const char *options)
{
   steward_gpu_device of = fake_device();
   steward_gpu *gpu;
   CHECK(steward_gpu_new(owner, &of, options, &gpu) == 0 && gpu != NULL);
   return gpu;
}

static steward_region_request bytes(uint64_t count)
{
   return (steward_region_request){.size = sizeof(steward_region_request), .bytes = count};
}

static steward_gpu_stats usage(const steward_gpu *gpu, int32_t heap)
{
   steward_gpu_stats stats = {.size = sizeof stats};
   CHECK(steward_gpu_usage(gpu, heap, &stats) == 0);
   return stats;
}

static void wrong_devices(const steward_context *owner)
{
   steward_gpu *gpu = (steward_gpu *)&gpu;
   steward_gpu_device of = fake_device();
   CHECK(steward_gpu_new(owner, NULL, NULL, &gpu) == -13 && gpu == NULL);
   CHECK(steward_gpu_new(NULL, &of, NULL, &gpu) == -13 && steward_gpu_new(owner, &of, NULL, NULL) == -13);
   CHECK(steward_gpu_new(owner, &of, "1:2:x", &gpu) == -13);
   of.device = NULL;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == -13);
   of = fake_device();
   of.get_instance_proc_addr = NULL;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == -13);
   of = fake_device();
   of.size = 0;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == -13);
   of = fake_device();
   const char *const needed[] = {
      "vkGetDeviceProcAddr", "vkGetPhysicalDeviceProperties", "vkGetPhysicalDeviceMemoryProperties", "vkAllocateMemory", "vkFreeMemory",
      "vkMapMemory", "vkUnmapMemory", "vkFlushMappedMemoryRanges", "vkInvalidateMappedMemoryRanges", "vkGetDeviceMemoryCommitment", "vkCreateBuffer", "vkDestroyBuffer",
      "vkGetBufferMemoryRequirements", "vkBindBufferMemory", "vkCreateImage", "vkDestroyImage", "vkGetImageMemoryRequirements",
      "vkBindImageMemory",
   };
   for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
      fake.missing = needed[i];
      CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == VK_ERROR_INITIALIZATION_FAILED && gpu == NULL && because(needed[i]));
   }
   fake.missing = NULL;
   of.features = 64;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == -13 && because("features"));
}

/* Options that are cut where they are no text would be "no limit". */
static void options_that_are_none(const steward_context *owner)
{
   static const struct {
      const char *options, *why;
   } wrong[] = {{"1:2:x", "decimal"}, {"\xff" "4:1:4", "UTF-8"}, {"4:1:4\xff:1", "UTF-8"}, {"4:1:4:1\xff\xff", "UTF-8"}, {"4:1:4:1:1:1", "field"}};
   steward_gpu_device of = fake_device();
   for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
      steward_gpu *gpu;
      CHECK(steward_gpu_new(owner, &of, wrong[i].options, &gpu) == -13 && gpu == NULL && because(wrong[i].why));
   }
}

/* A refused call changes nothing: no call of the device either. A region whose id the caller has no place for could never be freed. */
static void refused_calls_change_nothing(const steward_context *owner)
{
   steward_gpu *gpu = gpu_over(owner, NULL);
   steward_region_request wanted = bytes(200 << 20);
   wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
   int calls = fake.calls;
   steward_region region;
   memset(&region, 0, sizeof region);
   for (size_t size = 0; size < 24; size++) {
      region.size = size;
      CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("place"));
      CHECK(steward_region_create_buffer(gpu, &wanted, &region) == -13 && region.id.words[0] == 0);
   }
   CHECK(steward_region_alloc(gpu, &wanted, NULL) == -13 && steward_region_create_buffer(gpu, &wanted, NULL) == -13);
   CHECK(fake.calls == calls && usage(gpu, -1).blocks == 0);
   region.size = 24;
   wanted.bytes = 1000;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == 0);
   CHECK(steward_region_crop(gpu, region.id, 0, 8, 1, NULL) == -13 && usage(gpu, -1).crops == 0);
   /* Each refusal has a sentence of its own. */
   CHECK(steward_gpu_close(gpu) == VK_NOT_READY && because("steward_gpu_json"));
   steward_gpu_stats stats = {.size = sizeof stats};
   CHECK(steward_gpu_usage(gpu, 99, &stats) == -13 && because("heap"));
   CHECK(steward_region_alloc(gpu, NULL, &region) == -13 && because("request"));
   wanted.lifetime = 9;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("lifetime"));
   wanted.lifetime = 0, wanted.kind = 9;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("kind"));
   CHECK(steward_region_free(NULL, region.id) == -13 && because("NULL"));
   steward_wrap_request wrap = {.size = sizeof wrap, .buffer = 1, .bytes = 16, .memory = 2, .memory_bytes = 16, .properties = 0x200000000};
   CHECK(steward_region_wrap(gpu, &wrap, &region) == -13 && because("properties"));
   CHECK(steward_region_free(gpu, region.id) == 0 && steward_gpu_close(gpu) == 0);
}

/* Many regions in few blocks, none over another; ids that are never used again. */
static void many(const steward_context *owner)
{
   enum { COUNT = 200 };
   steward_gpu *gpu = gpu_over(owner, NULL);
   steward_region regions[COUNT];
   for (int i = 0; i < COUNT; i++) {
      steward_region_request wanted = bytes(1000);
      wanted.align = 64;
      wanted.lifetime = i % 3;
      regions[i].size = sizeof regions[i];
      CHECK(steward_region_alloc(gpu, &wanted, &regions[i]) == 0);
      CHECK(regions[i].memory != 0 && regions[i].offset % 64 == 0 && regions[i].bytes >= 1000 && regions[i].buffer == 0);
      for (int j = 0; j < i; j++)
         CHECK(regions[j].memory != regions[i].memory || regions[j].offset + regions[j].bytes <= regions[i].offset ||
               regions[i].offset + regions[i].bytes <= regions[j].offset);
   }
   steward_gpu_stats all = usage(gpu, -1), local = usage(gpu, 0), other = usage(gpu, 1);
   CHECK(all.regions == COUNT && all.region_bytes >= COUNT * 1000 && all.blocks == (uint64_t)fake.memories && all.blocks < 10);
   CHECK(all.block_bytes == local.block_bytes + other.block_bytes && all.host_bytes > 0);
   CHECK(steward_gpu_usage(gpu, 16, &all) == -13 && steward_gpu_usage(gpu, -2, &all) == -13);
   steward_region_id first = regions[0].id;
   uint64_t key = regions[0].slot_key;
   CHECK(steward_region_free(gpu, first) == 0);
   CHECK(steward_region_free(gpu, first) == -13 && because("no such region"));
   steward_region_request wanted = bytes(1000);
   wanted.align = 64;
   CHECK(steward_region_alloc(gpu, &wanted, &regions[0]) == 0 && memcmp(&regions[0].id, &first, sizeof first) != 0);
   CHECK(steward_region_info(gpu, first, &regions[0]) == -13);
   /* One number names a region as its id does, and no freed one. */
   steward_region_id same = steward_region_of_key(gpu, regions[0].slot_key), old = steward_region_of_key(gpu, key);
   CHECK(key != 0 && regions[0].slot_key != 0 && regions[0].slot_key != key && memcmp(&same, &regions[0].id, sizeof same) == 0);
   CHECK(memcmp(&old, &first, sizeof old) == 0 && steward_region_free(gpu, old) == -13);
   CHECK(steward_region_free(gpu, steward_region_of_key(gpu, 0)) == -13 && steward_region_of_key(NULL, key).words[0] == 0);
   CHECK(steward_gpu_close(gpu) == VK_NOT_READY);
   for (int i = 0; i < COUNT; i++)
      CHECK(steward_region_free(gpu, regions[i].id) == 0);
   CHECK(steward_gpu_trim(gpu, UINT64_MAX) > 0 && fake.memories == 0);
   CHECK(steward_gpu_close(gpu) == 0);
}

/* A region that is mapped as long as it lives, in a block and alone. */
static void mapped(const steward_context *owner)
{
   steward_gpu *gpu = gpu_over(owner, "4:1:4");
   for (int32_t dedicated = STEWARD_DEDICATED_NEVER; dedicated <= STEWARD_DEDICATED_REQUIRED; dedicated += 2) {
      steward_region_request wanted = bytes(1000);
      wanted.required = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, wanted.flags = STEWARD_REQUEST_MAPPED, wanted.dedicated = dedicated;
      steward_region region = {.size = sizeof region}, part = region;
      CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && region.mapped != NULL && region.bytes == 1000);
      const struct fake_memory *memory = (const struct fake_memory *)region.memory;
      CHECK(region.mapped == memory->bytes + region.offset && region.memory_bytes == memory->size);
      CHECK(region.properties == VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT && region.is_dedicated == (dedicated == STEWARD_DEDICATED_REQUIRED));
      CHECK(region.reserved == (region.is_dedicated ? 1000 : 1024));
      memset(region.mapped, 7, 1000);
      CHECK(steward_region_flush(gpu, region.id, 0, 1000) == 0 && steward_region_free(gpu, region.id) == 0);
      wanted.required = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
      CHECK(steward_region_alloc(gpu, &wanted, &part) == 0 && part.mapped == NULL && steward_region_free(gpu, part.id) == 0);
   }
   fake.flushes = 0;
   CHECK(steward_gpu_close(gpu) == 0);
}

/* A buffer of the allocator's, and one of the application's: mapped, flushed in whole atoms, cropped. */
static void buffers(const steward_context *owner)
{
   steward_gpu *gpu = gpu_over(owner, "0:1:16");
   steward_region_request wanted = bytes(4096);
   wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
   wanted.required = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
   wanted.name = "upload";
   wanted.tag = 77;
   steward_region whole = {.size = sizeof whole}, part = whole, inner = whole;
   CHECK(steward_region_create_buffer(gpu, &wanted, &whole) == 0 && whole.buffer != 0 && whole.memory_type == 1 && whole.tag == 77);
   CHECK(whole.ownership == STEWARD_REGION_OWNED && fake.buffers == 1);
   char *start;
   CHECK(steward_region_flush(gpu, whole.id, 0, 10) == -13);
   CHECK(steward_region_map(gpu, whole.id, (void **)&start) == 0);
   memset(start, 7, 4096);
   CHECK(steward_region_flush(gpu, whole.id, 100, 10) == 0 && steward_region_invalidate(gpu, whole.id, 0, UINT64_MAX) == 0);
   CHECK(steward_region_flush(gpu, whole.id, 0, 0) == 0 && steward_region_invalidate(gpu, whole.id, 0, 0) == 0);
   CHECK(fake.flushes == 1 && fake.invalidates == 1 && steward_region_flush(gpu, whole.id, 4090, 10) == -13);
   CHECK(steward_region_free(gpu, whole.id) == -13 && because("mapped"));

   CHECK(steward_region_crop(gpu, whole.id, 1004, 2000, 4, &part) == 0 && steward_region_crop(gpu, part.id, 36, 64, 4, &inner) == 0);
   CHECK(inner.buffer == whole.buffer && inner.buffer_offset == 1040 && inner.ownership == STEWARD_REGION_CROP);
   CHECK(memcmp(&inner.root, &whole.id, sizeof whole.id) == 0);
   CHECK(steward_region_crop(gpu, part.id, 1, 64, 4, &inner) == -13 && steward_region_crop(gpu, part.id, 0, 4096, 4, &inner) == -13);
   char *inside;
   CHECK(steward_region_map(gpu, inner.id, (void **)&inside) == 0 && inside == start + 1040 && *inside == 7);
   CHECK(steward_region_info(gpu, whole.id, &whole) == 0 && whole.crops == 2 && whole.maps == 1);
   struct text json = {.length = 0};
   CHECK(steward_gpu_json(gpu, append, &json) == 0 && strstr(json.bytes, "\"upload\"") != NULL);
   CHECK(steward_region_unmap(gpu, inner.id) == 0 && steward_region_unmap(gpu, inner.id) == -13);
   CHECK(steward_region_unmap(gpu, whole.id) == 0 && steward_region_free(gpu, whole.id) == -13 && because("crop"));
   CHECK(steward_region_free(gpu, inner.id) == 0 && steward_region_free(gpu, part.id) == 0 && steward_region_free(gpu, whole.id) == 0);
   CHECK(fake.buffers == 0);

   VkMemoryAllocateInfo memory_info = {.allocationSize = 1000, .memoryTypeIndex = 1};
   VkBufferCreateInfo buffer_info = {.size = 500};
   VkDeviceMemory memory;
   VkBuffer buffer;
   fake_allocate((VkDevice)&the_device, &memory_info, NULL, &memory);
   fake_create_buffer((VkDevice)&the_device, &buffer_info, NULL, &buffer);
   fake_bind_buffer((VkDevice)&the_device, buffer, memory, 256);
   steward_wrap_request wrap = {.size = sizeof wrap, .buffer = (uint64_t)buffer, .offset = 100, .buffer_bytes = 500};
   CHECK(steward_region_wrap(gpu, &wrap, &whole) == 0 && whole.ownership == STEWARD_REGION_WRAPPED && whole.bytes == 400);
   CHECK(steward_region_map(gpu, whole.id, (void **)&start) == -5 && start == NULL);
   CHECK(steward_region_free(gpu, whole.id) == 0);
   wrap.memory = (uint64_t)memory, wrap.memory_offset = 256, wrap.memory_bytes = 1000;
   wrap.properties = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
   CHECK(steward_region_wrap(gpu, &wrap, &whole) == 0 && steward_region_map(gpu, whole.id, (void **)&start) == 0);
   CHECK(start == ((struct fake_memory *)memory)->bytes + 256 + 100 && usage(gpu, -1).wrapped_bytes == 400);
   CHECK(steward_region_flush(gpu, whole.id, 0, 1) == 0 && fake.flushes == 2);
   wrap.bytes = 401;
   CHECK(steward_region_wrap(gpu, &wrap, &part) == -13);
   CHECK(steward_gpu_close(gpu) == VK_NOT_READY && steward_region_unmap(gpu, whole.id) == 0 && steward_region_free(gpu, whole.id) == 0);
   CHECK(fake.buffers == 1);
   fake_destroy_buffer((VkDevice)&the_device, buffer, NULL);
   fake_free((VkDevice)&the_device, memory, NULL);
   CHECK(steward_gpu_close(gpu) == 0);
}

static steward_gpu *gpu_with_extensions(const steward_context *owner)
{
   steward_gpu_device of = fake_device();
   of.features = STEWARD_GPU_DEDICATED_ALLOCATION | STEWARD_GPU_EXTERNAL_MEMORY | STEWARD_GPU_MEMORY_BUDGET;
   steward_gpu *gpu;
   CHECK(steward_gpu_new(owner, &of, NULL, &gpu) == 0);
   return gpu;
}

static VkImageCreateInfo picture(void)
{
   return (VkImageCreateInfo){
      .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
      .imageType = VK_IMAGE_TYPE_2D,
      .format = VK_FORMAT_R8G8B8A8_UNORM,
      .extent = {64, 32, 1},
      .mipLevels = 1,
      .arrayLayers = 1,
      .samples = VK_SAMPLE_COUNT_1_BIT,
      .usage = VK_IMAGE_USAGE_SAMPLED_BIT,
   };
}

/* Images of the allocator's, as Vulkan describes them, and what it does not make. */
static void images(const steward_context *owner)
{
   steward_gpu *gpu = gpu_over(owner, "4:1:4");
   VkImageCreateInfo info = picture();
   steward_region_request wanted = bytes(0);
   steward_region region = {.size = sizeof region}, buffer = region;
   uint32_t families[] = {0, 3};
   info.sharingMode = VK_SHARING_MODE_CONCURRENT, info.queueFamilyIndexCount = 2, info.pQueueFamilyIndices = families;
   wanted.align = 4096, wanted.memory_types = 2, wanted.name = "picture";
   for (int i = 0; i < 2; i++) {
      CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == 0 && fake.images == 1);
      CHECK(region.image != 0 && region.buffer == 0 && region.bytes == 8192 && region.offset % 4096 == 0 && region.memory_type == 1);
      /* Memory and buffers are aligned and of a type likewise. */
      wanted.bytes = 100, wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
      CHECK(steward_region_create_buffer(gpu, &wanted, &buffer) == 0 && buffer.image == 0);
      CHECK(buffer.offset % 4096 == 0 && buffer.memory_type == 1 && buffer.memory == region.memory);
      CHECK(steward_region_free(gpu, buffer.id) == 0 && steward_region_alloc(gpu, &wanted, &buffer) == 0);
      CHECK(buffer.offset % 4096 == 0 && buffer.memory_type == 1 && steward_region_free(gpu, buffer.id) == 0);
      CHECK(steward_region_info(gpu, region.id, &buffer) == 0 && buffer.image == region.image);
      CHECK(steward_region_free(gpu, region.id) == 0 && fake.images == 0);
   }
   int calls = fake.calls;
   wanted.align = 24;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("power of two"));
   wanted.align = 0;
   CHECK(steward_region_create_image(gpu, NULL, &wanted, &region) == -13 && steward_region_create_image(gpu, &info, NULL, &region) == -13);
   CHECK(steward_region_create_image(gpu, &info, &wanted, NULL) == -13 && because("place"));
   families[1] = 64;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("family"));
   info = picture(), info.sharingMode = VK_SHARING_MODE_CONCURRENT, info.queueFamilyIndexCount = 2;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("pQueueFamilyIndices"));
   info.sharingMode = (VkSharingMode)2;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("sharingMode"));
   info = picture(), info.pNext = &info;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("pNext"));
   info = picture(), info.tiling = VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("tiling"));
   info = picture(), info.flags = VK_IMAGE_CREATE_SPARSE_BINDING_BIT;
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("sparse"));
   CHECK(fake.calls == calls && steward_gpu_close(gpu) == 0);
}

/* Memory for the caller's own image or buffer alone, which stays the caller's. */
static void own_resources(const steward_context *owner)
{
   steward_gpu *gpu = gpu_with_extensions(owner);
   VkImageCreateInfo info = picture();
   VkBufferCreateInfo buffer_info = {.size = 500};
   VkImage image;
   VkBuffer buffer;
   fake_create_image((VkDevice)&the_device, &info, NULL, &image);
   fake_create_buffer((VkDevice)&the_device, &buffer_info, NULL, &buffer);
   steward_region_request wanted = bytes(8192);
   steward_region region = {.size = sizeof region};
   wanted.kind = STEWARD_KIND_OPTIMAL, wanted.dedicated_image = (uint64_t)image;
   wanted.export_types = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && region.bytes == 8192 && region.offset == 0 && region.image == 0);
   CHECK(fake.dedicated.image == image && fake.exported == wanted.export_types && usage(gpu, -1).dedicated == 1);
   CHECK(fake_bind_image((VkDevice)&the_device, image, (VkDeviceMemory)region.memory, region.offset) == 0);
   CHECK(steward_region_free(gpu, region.id) == 0 && fake.images == 1 && fake.memories == 0);
   wanted = bytes(512), wanted.dedicated_buffer = (uint64_t)buffer;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && fake.dedicated.buffer == buffer && fake.dedicated.image == 0);
   CHECK(steward_region_free(gpu, region.id) == 0 && fake.buffers == 1);
   wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == -13);
   wanted.dedicated_image = (uint64_t)image;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("both"));
   fake_destroy_image((VkDevice)&the_device, image, NULL);
   fake_destroy_buffer((VkDevice)&the_device, buffer, NULL);
   CHECK(steward_gpu_close(gpu) == 0);
}

/* An import goes to a type that its handle allows, and a refusal says whose the handle is. */
static void imports(const steward_context *owner)
{
   steward_gpu *gpu = gpu_with_extensions(owner);
   VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, .fd = 7};
   VkImageCreateInfo info = picture();
   steward_region_request wanted = bytes(4096);
   steward_region region = {.size = sizeof region};
   wanted.next = &import, wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT, wanted.memory_types = 2;
   wanted.external_types = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
   fake.imports = 0;
   for (int i = 0; i < 2; i++) {
      int owned = fake.imports;
      fake.next = VK_ERROR_INVALID_EXTERNAL_HANDLE;
      int32_t refused = i == 0 ? steward_region_create_buffer(gpu, &wanted, &region) : steward_region_create_image(gpu, &info, &wanted, &region);
      CHECK(refused == VK_ERROR_INVALID_EXTERNAL_HANDLE && !steward_gpu_driver_owns_import() && fake.imports == owned);
      fake.next_bind = VK_ERROR_OUT_OF_DEVICE_MEMORY;
      refused = i == 0 ? steward_region_create_buffer(gpu, &wanted, &region) : steward_region_create_image(gpu, &info, &wanted, &region);
      CHECK(refused == VK_ERROR_OUT_OF_DEVICE_MEMORY && steward_gpu_driver_owns_import() && fake.imports == owned + 1);
      CHECK(steward_region_free(gpu, region.id) == -13 && !steward_gpu_driver_owns_import());
   }
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == 0 && region.memory_type == 1 && fake.imports == 3);
   CHECK(fake.dedicated.buffer == 0 && fake.dedicated.image == 0);
   CHECK(steward_region_free(gpu, region.id) == 0 && fake.memories == 0 && fake.images == 0 && steward_gpu_close(gpu) == 0);
}

/* What may be bound to external memory is refused on a device without. */
static void no_external_memory(const steward_context *owner)
{
   steward_gpu *gpu = gpu_over(owner, NULL);
   VkImageCreateInfo info = picture();
   steward_region_request wanted = bytes(4096);
   steward_region region = {.size = sizeof region};
   wanted.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT, wanted.external_types = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
   int calls = fake.calls;
   CHECK(steward_region_create_buffer(gpu, &wanted, &region) == -13 && because("not enabled"));
   CHECK(steward_region_create_image(gpu, &info, &wanted, &region) == -13 && because("not enabled"));
   CHECK(fake.calls == calls && steward_gpu_close(gpu) == 0);
}

/* The budget is the device's of now, once a frame says so. */
static void budgets(const steward_context *owner)
{
   steward_gpu *gpu = gpu_with_extensions(owner);
   steward_region_request wanted = bytes(200 << 20);
   steward_region region = {.size = sizeof region};
   CHECK(usage(gpu, 0).budget == 1 << 30 && usage(gpu, -1).budget == 0);
   fake.budget = 100 << 20;
   CHECK(steward_gpu_set_frame(gpu, 1) && usage(gpu, 0).budget == 100 << 20 && usage(gpu, 1).budget == 1 << 30);
   CHECK(!steward_gpu_set_frame(gpu, 1));
   wanted.memory_types = 1, wanted.flags = STEWARD_REQUEST_WITHIN_BUDGET;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -2 && because("heap 0"));
   wanted.flags = 0;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == 0 && usage(gpu, 0).budget_used >= 200 << 20);
   wanted.flags = UINT64_C(1) << 32;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("flags"));
   wanted.flags = 4;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13 && because("flags"));
   CHECK(steward_region_free(gpu, region.id) == 0 && !steward_gpu_set_frame(NULL, 2) && steward_gpu_close(gpu) == 0);
   fake.budget = 0;
   gpu = gpu_over(owner, NULL);
   CHECK(!steward_gpu_set_frame(gpu, 1) && usage(gpu, 0).budget == 1 << 30 && steward_gpu_close(gpu) == 0);
}

/* What device, host, limits and types refuse, and words that are none. */
static void refusals(steward_context *root)
{
   steward_options limited = {.size = sizeof limited, .scope = STEWARD_SCOPE_DEFAULT, .budget = STEWARD_BUDGET_EXACT, .limit = 1 << 20};
   steward_context *owner;
   CHECK(steward_child(root, "regions", &limited, &owner) == 0);
   steward_gpu *gpu = gpu_over(owner, "4:1:4");
   steward_region region = {.size = sizeof region};
   steward_region_request wanted = bytes(1000);
   fake.next = VK_ERROR_DEVICE_LOST;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == VK_ERROR_DEVICE_LOST);
   wanted = bytes(8 << 20);
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -2);
   wanted = bytes(1000), wanted.memory_types = 1, wanted.required = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -8);
   CHECK(steward_region_alloc(gpu, NULL, &region) == -13 && steward_region_alloc(NULL, &wanted, &region) == -13);
   const int32_t unknown[] = {3, 3, 4};
   for (int i = 0; i < 3; i++) {
      wanted = bytes(1000);
      *(i == 0 ? &wanted.lifetime : i == 1 ? &wanted.kind : &wanted.dedicated) = unknown[i];
      CHECK(steward_region_alloc(gpu, &wanted, &region) == -13);
   }
   wanted = bytes(0);
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -13);
   wanted = bytes(1000);
   CHECK(steward_region_alloc(gpu, &wanted, NULL) == -13 && usage(gpu, -1).regions == 0);
   /* The host's memory: names are kept in it. */
   steward_budget_info budget = {.size = sizeof budget};
   CHECK(steward_budget(owner, &budget) == 0 && steward_set_limit(owner, budget.charged) == 0);
   wanted = bytes(1000), wanted.name = "a name";
   CHECK(steward_region_alloc(gpu, &wanted, &region) == -1 && because("budget"));
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_OVER_BUDGET && refusal.short_by > 0);
   CHECK(steward_set_limit(owner, 1 << 20) == 0 && steward_region_alloc(gpu, &wanted, &region) == 0);
   CHECK(steward_close(owner, NULL) == VK_NOT_READY);
   /* A lost device is not called. */
   int calls = fake.calls;
   steward_gpu_abandon(gpu);
   CHECK(fake.calls == calls && fake.memories > 0);
   fake_destroy_device();
   CHECK(steward_close(owner, NULL) == 0);
}

int main(void)
{
   steward_context *root, *owner;
   CHECK(steward_root_malloc("root", &root) == 0 && steward_child(root, "device memory", NULL, &owner) == 0);
   wrong_devices(owner);
   options_that_are_none(owner);
   refused_calls_change_nothing(owner);
   many(owner);
   mapped(owner);
   buffers(owner);
   images(owner);
   own_resources(owner);
   imports(owner);
   no_external_memory(owner);
   budgets(owner);
   CHECK(usage_of(owner).live_bytes == 0 && usage_of(owner).total_blocks > 0);
   CHECK(fake.memories == 0 && fake.buffers == 0 && fake.images == 0 && fake.mapped == 0);
   CHECK(steward_close(owner, NULL) == 0);
   refusals(root);
   CHECK(steward_close(root, NULL) == 0);
   return 0;
}
