/* A process of Windows with two C runtimes, the program's and that of steward.dll, whose imports are replaced by functions that know which heap
 * gave a block. Prints how many each gave. With an argument: frees a block of the library's by the program's runtime, and prints that
 * it was seen; the heap does not get it. */
#include <windows.h>

#include "check.h"
#include "steward-ralloc.h"

/* A runtime has two: what one gives, the other does not take. */
enum { PROGRAM, PROGRAM_ALIGNED, LIBRARY, LIBRARY_ALIGNED, SYSTEM, HEAPS };

static struct { void *block; int heap; } live[20000];
static int live_count, given[HEAPS], crossed;

static void *gave(int heap, void *block)
{
   if (block != NULL) {
      CHECK(live_count < (int)(sizeof live / sizeof live[0]));
      live[live_count].block = block;
      live[live_count++].heap = heap;
      given[heap]++;
   }
   return block;
}

/* Whether the heap gave it. */
static int takes(int heap, void *block)
{
   for (int i = live_count; i-- > 0;)
      if (live[i].block == block && live[i].heap == heap) {
         live[i] = live[--live_count];
         return 1;
      }
   crossed += block != NULL;
   return 0;
}

/* A C runtime's functions, as one module imports them. */
#define RUNTIME(heap, name)                                                                                                            \
   static void *(*name##_malloc)(size_t), *(*name##_calloc)(size_t, size_t), *(*name##_realloc)(void *, size_t);                        \
   static void *(*name##_aligned_malloc)(size_t, size_t);                                                                               \
   static void (*name##_free)(void *), (*name##_aligned_free)(void *);                                                                  \
   static void *name##_mallocs(size_t size) { return gave(heap, name##_malloc(size)); }                                                 \
   static void *name##_callocs(size_t count, size_t size) { return gave(heap, name##_calloc(count, size)); }                            \
   static void *name##_reallocs(void *block, size_t size)                                                                               \
   {                                                                                                                                    \
      return block != NULL && !takes(heap, block) ? NULL : gave(heap, name##_realloc(block, size));                                     \
   }                                                                                                                                    \
   static void *name##_aligned_mallocs(size_t size, size_t align) { return gave(heap + 1, name##_aligned_malloc(size, align)); }        \
   static void name##_frees(void *block) { if (takes(heap, block)) name##_free(block); }                                                \
   static void name##_aligned_frees(void *block) { if (takes(heap + 1, block)) name##_aligned_free(block); }

RUNTIME(PROGRAM, program)
RUNTIME(LIBRARY, library)

static void *(WINAPI *heap_alloc)(HANDLE, DWORD, SIZE_T), *(WINAPI *heap_realloc)(HANDLE, DWORD, void *, SIZE_T);
static BOOL(WINAPI *heap_free)(HANDLE, DWORD, void *);

static void *WINAPI heap_allocs(HANDLE heap, DWORD flags, SIZE_T size)
{
   return gave(SYSTEM, heap_alloc(heap, flags, size));
}

static void *WINAPI heap_reallocs(HANDLE heap, DWORD flags, void *block, SIZE_T size)
{
   return takes(SYSTEM, block) ? gave(SYSTEM, heap_realloc(heap, flags, block, size)) : NULL;
}

static BOOL WINAPI heap_frees(HANDLE heap, DWORD flags, void *block)
{
   return takes(SYSTEM, block) && heap_free(heap, flags, block);
}

/* Replaces what a module imports under a name. Returns the library that it imports it from, NULL where it does not. */
static const char *replace(HMODULE module, const char *name, void *replacement, void *former)
{
   char *base = (char *)module;
   IMAGE_NT_HEADERS *headers = (IMAGE_NT_HEADERS *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
   IMAGE_DATA_DIRECTORY *directory = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
   for (IMAGE_IMPORT_DESCRIPTOR *from = (IMAGE_IMPORT_DESCRIPTOR *)(base + directory->VirtualAddress); from->Name != 0; from++) {
      IMAGE_THUNK_DATA *names = (IMAGE_THUNK_DATA *)(base + from->OriginalFirstThunk);
      IMAGE_THUNK_DATA *places = (IMAGE_THUNK_DATA *)(base + from->FirstThunk);
      for (; names->u1.AddressOfData != 0; names++, places++) {
         if (IMAGE_SNAP_BY_ORDINAL(names->u1.Ordinal) || strcmp(((IMAGE_IMPORT_BY_NAME *)(base + names->u1.AddressOfData))->Name, name) != 0)
            continue;
         DWORD before;
         CHECK(VirtualProtect(&places->u1.Function, sizeof(void *), PAGE_READWRITE, &before));
         *(void **)former = (void *)places->u1.Function;
         places->u1.Function = (ULONG_PTR)replacement;
         CHECK(VirtualProtect(&places->u1.Function, sizeof(void *), before, &before));
         return base + from->Name;
      }
   }
   return NULL;
}

#define REPLACE_ALL(module, name)                                                                                                      \
   (replace(module, "calloc", name##_callocs, &name##_calloc), replace(module, "realloc", name##_reallocs, &name##_realloc),            \
    replace(module, "_aligned_malloc", name##_aligned_mallocs, &name##_aligned_malloc),                                                 \
    replace(module, "_aligned_free", name##_aligned_frees, &name##_aligned_free), replace(module, "free", name##_frees, &name##_free), \
    replace(module, "malloc", name##_mallocs, &name##_malloc))

/* A host over the program's runtime. */
static void *host_alloc(void *data, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)align, (void)scope;
   return malloc(size);
}

static void *host_resize(void *data, void *block, size_t old_size, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)old_size, (void)align, (void)scope;
   return realloc(block, size);
}

static void host_free(void *data, void *block, size_t size, size_t align, int32_t scope)
{
   (void)data, (void)size, (void)align, (void)scope;
   free(block);
}

/* Blocks of every kind below a root. */
static void use(steward_context *root)
{
   steward_context *child, *guarded, *compiler;
   steward_domain *domain;
   CHECK(steward_child(root, "vulkan", NULL, &child) == 0);
   steward_bridge bridge;
   struct VkAllocationCallbacks vk;
   CHECK(steward_bridge_init(&bridge, child, &vk) == 0);
   void *block = steward_alloc2(&vk, NULL, 100, 64, STEWARD_SCOPE_OBJECT);
   CHECK(block != NULL && (uintptr_t)block % 64 == 0);
   steward_free2(&vk, NULL, block);
   CHECK(steward_bridge_close(&bridge, &child) == 0);
   block = steward_new(child, 10, 0, true);
   CHECK(block != NULL && (block = steward_resize(block, 1000)) != NULL);
   steward_delete(block);
   CHECK(steward_close(child, NULL) == 0);
   CHECK(steward_root_guarded(root, "cookie", "compiler", &guarded) == 0 && steward_child(guarded, "domain", NULL, &compiler) == 0);
   CHECK(steward_domain_new(compiler, NULL, &domain) == 0);
   void *top = steward_ralloc_root(domain);
   char *text = steward_ralloc_asprintf(top, "%s of %d, %.3f", "text", 7, 2.5);
   CHECK(text != NULL && strcmp(text, "text of 7, 2.500") == 0 && steward_ralloc_asprintf_append(&text, "%.400f", 1e300 / 3));
   CHECK(strlen(text) > 700);
   CHECK(steward_linear_asprintf(steward_linear_new(top, 0), "%zu", (size_t)7) != NULL);
   steward_ralloc_free(top);
   steward_domain_close(domain);
   CHECK(steward_close(guarded, NULL) == 0);
}

int main(int argc, char **argv)
{
   (void)argv;
   HMODULE library = GetModuleHandleA("steward.dll");
   const char *own = REPLACE_ALL(GetModuleHandleA(NULL), program), *its = REPLACE_ALL(library, library);
   CHECK(own != NULL && its != NULL && strcmp(own, its) != 0);
   CHECK(replace(library, "HeapReAlloc", heap_reallocs, &heap_realloc) != NULL && replace(library, "HeapFree", heap_frees, &heap_free) != NULL);
   CHECK(replace(library, "HeapAlloc", heap_allocs, &heap_alloc) != NULL);

   steward_host host = {sizeof host, NULL, host_alloc, host_resize, host_free};
   steward_context *root;
   CHECK(steward_root(&host, "the program's runtime", &root) == 0);
   use(root);
   CHECK(steward_close(root, NULL) == 0);
   use(root = root_of("the system's heap"));
   CHECK(steward_close(root, NULL) == 0);
   /* Of all alignments, from the library's runtime, which gets them back without a size. */
   void *blocks[12];
   for (int i = 0; i < 12; i++) {
      blocks[i] = steward_zalloc2(NULL, NULL, 100, (size_t)1 << i, STEWARD_SCOPE_OBJECT);
      CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % ((size_t)1 << i) == 0);
   }
   for (int i = argc > 1; i < 12; i++)
      steward_free2(NULL, NULL, blocks[i]);
   CHECK(crossed == 0);
   if (argc > 1) {
      free(blocks[0]);
      printf("%d block went to the wrong heap\n", crossed);
      return 0;
   }
   printf("%s gave %d and %d, %s gave %d and %d, the system %d\n", own, given[PROGRAM], given[PROGRAM_ALIGNED], its, given[LIBRARY],
          given[LIBRARY_ALIGNED], given[SYSTEM]);
   return 0;
}
