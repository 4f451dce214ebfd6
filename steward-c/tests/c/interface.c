/* The C interface, used as a driver and a program use it. Prints nothing and returns 0. */
#include <errno.h>
#include <pthread.h>
#include <wchar.h>

#include "check.h"
#include "steward-ralloc.h"

/* An allocator that counts, and refuses one request. */
struct host {
   long live, requests, refused;
};

static void *host_alloc(void *data, size_t size, size_t align, int32_t scope)
{
   struct host *host = data;
   (void)align, (void)scope;
   errno = 77;
   if (host->requests++ == host->refused)
      return NULL;
   host->live++;
   return malloc(size);
}

static void *host_resize(void *data, void *block, size_t old_size, size_t size, size_t align, int32_t scope)
{
   struct host *host = data;
   (void)old_size, (void)align, (void)scope;
   return host->requests++ == host->refused ? NULL : realloc(block, size);
}

static void host_free(void *data, void *block, size_t size, size_t align, int32_t scope)
{
   struct host *host = data;
   (void)size, (void)align, (void)scope;
   host->live--;
   free(block);
}

static steward_context *root_over(struct host *host)
{
   steward_host functions = {sizeof functions, host, host_alloc, host_resize, host_free};
   steward_context *root = NULL;
   CHECK(steward_root(&functions, "root", &root) == 0);
   return root;
}

static void collect(void *user, const char *text, size_t length)
{
   strncat(user, text, length);
}

static void contexts(void)
{
   struct host host = {0, 0, -1};
   errno = 5;
   steward_context *root = root_over(&host), *child = NULL, *soft = NULL;
   steward_options options = {sizeof options, STEWARD_SCOPE_OBJECT, STEWARD_BUDGET_EXACT, 100};
   CHECK(steward_child(root, "textures", &options, &child) == 0);
   char *block = steward_zalloc(child, 60, 8, STEWARD_SCOPE_DEFAULT);
   CHECK(block != NULL && block[59] == 0);
   CHECK(steward_alloc(child, 60, 8, STEWARD_SCOPE_DEFAULT) == NULL);
   steward_usage_info usage = {.size = sizeof usage};
   steward_usage(child, &usage);
   CHECK(usage.scopes[STEWARD_SCOPE_OBJECT].live_bytes == 60 && usage.total.live_blocks == 1);
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_OVER_BUDGET && refusal.context == usage.id && refusal.short_by == 20);
   CHECK(steward_set_limit(child, 10) == -1 && steward_set_limit(child, 200) == 0);
   block = steward_realloc(child, block, 60, 150, 8, STEWARD_SCOPE_DEFAULT);
   CHECK(block != NULL);
   steward_budget_info budget = {.size = sizeof budget};
   CHECK(steward_budget(child, &budget) == 0 && budget.charged == 150 && budget.limit == 200);
   CHECK(steward_budget(root, &budget) == -13);
   CHECK(steward_alloc(child, 8, 3, 0) == NULL && steward_alloc(child, SIZE_MAX - 15, 16, 0) == NULL);
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_TOO_LARGE);
   static char json[100000];
   CHECK(steward_snapshot_json(root, collect, json) == 0);
   CHECK(strstr(json, "\"textures\"") != NULL && json[0] == '[' && strstr(json, "150") != NULL);
   static char text[100000];
   CHECK(steward_snapshot_text(root, collect, text) == 0);
   CHECK(strncmp(text, "context ", 8) == 0 && strstr(text, "\n  c textures ") != NULL && strstr(text, " 150 B ") != NULL);
   options.budget = STEWARD_BUDGET_SOFT;
   CHECK(steward_child(root, NULL, &options, &soft) == 0);
   void *more = steward_alloc(soft, 1000, 8, STEWARD_SCOPE_CACHE);
   CHECK(more != NULL && steward_budget(soft, &budget) == 0 && budget.high > budget.limit);
   steward_free(soft, more, 1000, 8, STEWARD_SCOPE_CACHE);
   CHECK(steward_close(soft, NULL) == 0);
   steward_outstanding left = {.size = sizeof left};
   CHECK(steward_close(child, &left) == 1 && left.bytes == 150 && left.blocks == 1);
   steward_handle *handle = steward_retain(child);
   steward_free(child, block, 150, 8, STEWARD_SCOPE_DEFAULT);
   CHECK(steward_close(child, &left) == 1 && left.handles == 1 && left.bytes == 0);
   steward_release(handle);
   CHECK(steward_close(child, &left) == 0);
   CHECK(steward_close(root, NULL) == 0);
   CHECK(host.live == 0 && errno == 5);
   steward_host empty = {sizeof empty, NULL, NULL, NULL, NULL};
   CHECK(steward_root(&empty, NULL, &root) == -13 && root == NULL);
   empty.size = 0;
   CHECK(steward_root(&empty, NULL, &root) == -13 && steward_root(NULL, NULL, &root) == -13 && root == NULL);
   CHECK(steward_root_malloc("m", NULL) == -13);
   /* Fields that a header does not have are not read and not written. */
   steward_usage_info first = {.size = sizeof first.size + sizeof first.id};
   CHECK(steward_root_malloc("m", &root) == 0);
   steward_usage(root, &first);
   CHECK(first.id != 0 && first.total.live_blocks == 0);
   options.size = sizeof options.size + sizeof options.scope;
   options.budget = STEWARD_BUDGET_EXACT;
   CHECK(steward_child(root, "no budget", &options, &child) == 0 && steward_budget(child, &budget) == -13);
   CHECK(steward_close(child, NULL) == 0 && steward_close(root, NULL) == 0);
   options.size = 0;
   CHECK(steward_root_malloc("m", &root) == 0 && steward_child(root, "n", &options, &child) == -13 && child == NULL);
   CHECK(steward_close(root, NULL) == 0);
   CHECK(steward_root_malloc("m", &root) == 0 && steward_close(root, NULL) == 0);
   CHECK(steward_abi() >> 16 == 0);
}

static bool noted(int32_t kind)
{
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   return refusal.kind == kind;
}

/* So that the next note is seen to be a new one. */
static void forget(void)
{
   CHECK(steward_alloc2(NULL, NULL, SIZE_MAX, 8, STEWARD_SCOPE_OBJECT) == NULL && noted(STEWARD_REFUSAL_TOO_LARGE));
}

#define MISUSED(call)                          \
   do {                                        \
      forget();                                \
      CHECK(call);                             \
      CHECK(noted(STEWARD_REFUSAL_MISUSE));    \
   } while (0)

/* Where a handle is NULL or a word is none of the header's, the reason can be asked too. */
static void mistakes(void)
{
   steward_context *root = NULL, *child = (steward_context *)&root;
   steward_domain *domain = (steward_domain *)&root;
   steward_usage_info usage = {.size = sizeof usage};
   steward_budget_info budget = {.size = sizeof budget};
   CHECK(steward_root_malloc("root", &root) == 0);
   steward_options options = {sizeof options, 5, STEWARD_BUDGET_NONE, 0};
   MISUSED(steward_child(root, "scope", &options, &child) == -13 && child == NULL);
   options.scope = -2;
   MISUSED(steward_child(root, "scope", &options, &child) == -13 && child == NULL);
   options = (steward_options){sizeof options, STEWARD_SCOPE_DEFAULT, 4, 100};
   MISUSED(steward_child(root, "budget", &options, &child) == -13 && child == NULL);
   options.budget = -1;
   MISUSED(steward_child(root, "budget", &options, &child) == -13 && child == NULL);
   /* A struct of zeros has scope COMMAND, and no budget. */
   options = (steward_options){.size = sizeof options};
   CHECK(steward_child(root, "zeros", &options, &child) == 0);
   void *block = steward_alloc(child, 8, 8, STEWARD_SCOPE_DEFAULT);
   steward_usage(child, &usage);
   CHECK(block != NULL && usage.scopes[STEWARD_SCOPE_COMMAND].live_blocks == 1 && steward_budget(child, &budget) == -13);
   steward_free(child, block, 8, 8, STEWARD_SCOPE_DEFAULT);
   CHECK(steward_close(child, NULL) == 0);
   /* The largest limit is a budget as every other. */
   for (int32_t kind = STEWARD_BUDGET_LIMIT; kind <= STEWARD_BUDGET_SOFT; kind++) {
      options = (steward_options){sizeof options, STEWARD_SCOPE_DEFAULT, kind, UINT64_MAX};
      CHECK(steward_child(root, "all", &options, &child) == 0 && steward_budget(child, &budget) == 0);
      CHECK(budget.limit == UINT64_MAX - 1 && steward_set_limit(child, 100) == 0);
      CHECK(steward_close(child, NULL) == 0);
   }
   MISUSED(steward_alloc(NULL, 8, 8, 0) == NULL);
   MISUSED(steward_realloc(NULL, &usage, 8, 16, 8, 0) == NULL);
   MISUSED(steward_retain(NULL) == NULL);
   MISUSED(steward_root_malloc("m", NULL) == -13);
   MISUSED(steward_set_limit(NULL, 1) == -13);
   MISUSED(steward_budget(NULL, &budget) == -13);
   MISUSED(steward_budget(root, &budget) == -13);
   MISUSED(steward_snapshot_json(root, NULL, NULL) == -13);
   MISUSED(steward_snapshot_text(root, NULL, NULL) == -13);
   MISUSED(steward_bridge_init(NULL, root, NULL) == -13);
   MISUSED(steward_bridge_close(NULL, &child) == -13 && child == NULL);
   MISUSED(steward_domain_new(NULL, NULL, &domain) == -13 && domain == NULL);
   MISUSED(steward_domain_new(root, NULL, NULL) == -13);
   domain = (steward_domain *)&root;
   MISUSED(steward_domain_reserve(NULL, 5000, &domain) == -13 && domain == NULL);
   MISUSED(steward_gc_alloc_size(NULL, 1, 1) == NULL);
   MISUSED(steward_linear_alloc(NULL, 1) == NULL);
   MISUSED(!steward_ralloc_set_destructor(NULL, NULL));
   MISUSED(steward_alloc2(NULL, NULL, 64, 3, 0) == NULL);
   MISUSED(steward_zalloc2(NULL, NULL, 64, 8, 9) == NULL);
   struct VkAllocationCallbacks half = {NULL, NULL, NULL, NULL, NULL, NULL};
   MISUSED(steward_alloc2(&half, NULL, 64, 8, 1) == NULL);
   /* A domain that is refused leaves the context with the caller, and no address. */
   options = (steward_options){sizeof options, STEWARD_SCOPE_DEFAULT, STEWARD_BUDGET_EXACT, 10};
   CHECK(steward_child(root, "small", &options, &child) == 0);
   domain = (steward_domain *)&root;
   CHECK(steward_domain_new(child, NULL, &domain) == -1 && domain == NULL && noted(STEWARD_REFUSAL_OVER_BUDGET));
   CHECK(steward_close(child, NULL) == 0 && steward_close(root, NULL) == 0);
   /* A block that is collected collects nothing, and has no destructor. */
   void *top = steward_ralloc_size(NULL, 0), *collected = steward_gc_alloc_size(top, 8, 8);
   MISUSED(steward_gc_alloc_size(collected, 8, 8) == NULL);
   MISUSED((steward_gc_sweep_start(collected), true));
   MISUSED(!steward_ralloc_set_destructor(collected, free));
   CHECK(steward_ralloc_set_destructor(top, NULL));
   steward_ralloc_free(top);
}

static void *STEWARD_VKAPI refuse(void *user, size_t size, size_t align, int32_t scope)
{
   (void)user, (void)size, (void)align, (void)scope;
   return NULL;
}

static void callbacks(void)
{
   struct host host = {0, 0, -1};
   steward_context *root = root_over(&host), *device = NULL, *back = NULL;
   CHECK(steward_child(root, "device", NULL, &device) == 0);
   steward_bridge bridge;
   struct VkAllocationCallbacks vk;
   CHECK(steward_bridge_init(&bridge, device, &vk) == 0);
   void *block = vk.pfnAllocation(vk.pUserData, 100, 16, STEWARD_SCOPE_DEVICE);
   back = root;
   CHECK(block != NULL && steward_bridge_close(&bridge, &back) == 1 && back == NULL);
   struct VkAllocationCallbacks refusing = vk;
   refusing.pfnAllocation = refuse;
   CHECK(steward_zalloc2(&refusing, NULL, 100, 8, STEWARD_SCOPE_CACHE) == NULL);
   steward_refusal none = {.size = sizeof none};
   steward_last_refusal(&none);
   CHECK(none.kind == STEWARD_REFUSAL_OUT_OF_MEMORY && none.bytes == 100 && none.scope == STEWARD_SCOPE_CACHE);
   /* A driver over them: its own root, the chain, and a compiler's domain. */
   steward_context *driver = NULL;
   CHECK(steward_root_from_callbacks(&vk, STEWARD_SCOPE_OBJECT, "driver", &driver) == 0);
   steward_domain *domain = NULL;
   CHECK(steward_domain_new(driver, NULL, &domain) == 0);
   steward_domain *before = steward_ralloc_enter(domain);
   char *shader = steward_ralloc_asprintf(NULL, "%s", "shader");
   steward_ralloc_leave(before);
   CHECK(shader != NULL && steward_ralloc_strdup(shader, "child") != NULL);
   steward_usage_info usage = {.size = sizeof usage};
   steward_subtree_usage(root, &usage);
   CHECK(usage.scopes[STEWARD_SCOPE_OBJECT].live_blocks == 5); /* root, its label, the record of the domain, two blocks */
   long live = host.live;
   char *own = steward_ralloc_strdup(NULL, "in the process's own domain");
   CHECK(own != NULL && host.live == live);
   steward_ralloc_steal(shader, own);
   steward_domain_close(domain);
   CHECK(steward_ralloc_size(shader, 1) == NULL);
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_CLOSED);
   steward_ralloc_free(shader);
   CHECK(host.live == live - 5);
   char *two = steward_zalloc2(NULL, &vk, 64, 64, STEWARD_SCOPE_OBJECT);
   CHECK(two != NULL && two[63] == 0 && (uintptr_t)two % 64 == 0);
   steward_free2(NULL, &vk, two);
   two = steward_alloc2(NULL, NULL, 64, 64, STEWARD_SCOPE_OBJECT);
   CHECK(two != NULL && steward_alloc2(NULL, NULL, 64, 3, 0) == NULL && steward_alloc2(NULL, NULL, 64, 8, 9) == NULL);
   steward_free2(NULL, NULL, two);
   vk.pfnFree(vk.pUserData, block);
   CHECK(steward_bridge_close(&bridge, &back) == 0);
   CHECK(steward_close(back, NULL) == 0 && steward_close(root, NULL) == 0);
   CHECK(host.live == 0);
}

static void work(steward_domain *domain)
{
   void *top = steward_ralloc_root(domain);
   if (top == NULL)
      return;
   char *text = steward_ralloc_strdup(top, "text");
   if (text != NULL) {
      steward_ralloc_asprintf_append(&text, " %d", 12345);
      steward_ralloc_strcat(&text, " and much more that needs another block, since it is longer than what was there");
      CHECK(strncmp(text, "text", 4) == 0 && steward_ralloc_parent(text) == top);
   }
   for (int i = 0; i < 20; i++)
      steward_gc_alloc_size(top, 10, 8);
   steward_gc_sweep_start(top);
   void *kept = steward_gc_zalloc_size(top, 5000, 16);
   steward_gc_sweep_end(top);
   CHECK(kept == NULL || ((char *)kept)[4999] == 0);
   void *linear = steward_linear_new(top, 20);
   for (int i = 0; linear != NULL && i < 30; i++)
      steward_linear_asprintf(linear, "%0*d", i * 10, i);
   void *unsized_linear = steward_linear_context(top, 0);
   char *both = NULL;
   for (int i = 0; unsized_linear != NULL && i < 10; i++)
      steward_linear_strcat(unsized_linear, &both, "a text of some length, which is longer with each time that it is said; ");
   int *array = steward_ralloc_array_size(top, sizeof(int), 10);
   array = steward_rerzalloc_array_size(top, array, sizeof(int), 10, 3000);
   CHECK(array == NULL || array[2999] == 0);
   steward_ralloc_free(top);
}

/* Every request is refused once: nothing is lost, nothing crashes; and a fallback serves them all. */
static void refusals(void)
{
   int times_asked = 0;
   for (int with_fallback = 0; with_fallback < 2; with_fallback++) {
      for (long refused = 0, hit = 1; hit; refused++) {
         struct host host = {0, 0, -1}, reserve_host = {0, 0, -1};
         steward_context *root = root_over(&host), *reserve_root = root_over(&reserve_host);
         steward_domain *domain = NULL, *reserve = NULL;
         CHECK(steward_domain_new(reserve_root, NULL, &reserve) == 0);
         CHECK(steward_domain_new(root, with_fallback ? reserve : NULL, &domain) == 0);
         host.requests = 0;
         host.refused = refused;
         work(domain);
         hit = host.requests > refused;
         /* A block that cannot grow may find another place in the same domain. */
         bool asked = steward_domain_reset_refused(domain);
         CHECK(!asked || (with_fallback && hit));
         times_asked += asked;
         CHECK(host.live == 3); /* the root, its label, the record of the domain */
         CHECK(hit || refused > 20);
         steward_domain_close(domain);
         steward_domain_close(reserve);
         CHECK(host.live == 0 && reserve_host.live == 0);
      }
   }
   CHECK(times_asked > 20);
}

static void wrong_sizes(void)
{
   void *top = steward_ralloc_size(NULL, 0);
   CHECK(steward_ralloc_size(top, SIZE_MAX - 15) == NULL && steward_rzalloc_size(top, SIZE_MAX) == NULL);
   CHECK(steward_ralloc_array_size(top, SIZE_MAX / 4, 8) == NULL);
   void *child = steward_ralloc_size(top, 8);
   CHECK(steward_reralloc_size(top, child, SIZE_MAX - 31) == NULL);
   steward_ralloc_steal(child, top);
   steward_ralloc_adopt(child, top);
   steward_ralloc_adopt(top, top);
   CHECK(steward_ralloc_parent(top) == NULL && steward_ralloc_parent(child) == top);
   CHECK(steward_ralloc_block_size(child) == 8);
   steward_ralloc_free(top);
   steward_ralloc_free(NULL);
   CHECK(steward_ralloc_strdup(NULL, NULL) == NULL && steward_gc_alloc_size(NULL, 1, 1) == NULL);
}

/* A sum that wraps and a start behind the text are refused as too large, and the reason can be asked; the text is as it was. Without a text, start is not read. */
static void wrong_texts(void)
{
   const size_t starts[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4, 5, 6, 100, 1 << 20};
   steward_context *root = NULL;
   char *top = steward_ralloc_size(NULL, 0), *text = steward_ralloc_strdup(top, "text");
   void *linear = steward_linear_new(top, 0);
   char *other = steward_linear_strdup(linear, "text");
   for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
      size_t start = starts[i];
      CHECK(steward_root(NULL, NULL, &root) == -13 && noted(STEWARD_REFUSAL_MISUSE));
      CHECK(!steward_ralloc_asprintf_rewrite_tail(&text, &start, "more") && noted(STEWARD_REFUSAL_TOO_LARGE));
      CHECK(steward_root(NULL, NULL, &root) == -13 && noted(STEWARD_REFUSAL_MISUSE));
      CHECK(!steward_linear_asprintf_rewrite_tail(linear, &other, &start, "more") && noted(STEWARD_REFUSAL_TOO_LARGE));
      CHECK(steward_root(NULL, NULL, &root) == -13 && noted(STEWARD_REFUSAL_MISUSE));
      CHECK(!steward_ralloc_str_append(&text, "more", starts[i], 4) && noted(STEWARD_REFUSAL_TOO_LARGE));
      CHECK(start == starts[i] && strcmp(text, "text") == 0 && strcmp(other, "text") == 0);
   }
   CHECK(steward_root(NULL, NULL, &root) == -13 && noted(STEWARD_REFUSAL_MISUSE));
   CHECK(steward_ralloc_array_size(top, SIZE_MAX / 4, 8) == NULL && noted(STEWARD_REFUSAL_TOO_LARGE));
   CHECK(steward_root(NULL, NULL, &root) == -13 && noted(STEWARD_REFUSAL_MISUSE));
   CHECK(steward_rerzalloc_array_size(top, NULL, 8, 1, SIZE_MAX / 4) == NULL && noted(STEWARD_REFUSAL_TOO_LARGE));
   char *none = NULL, *linear_none = NULL;
   size_t start = 1000, linear_start = 1000;
   CHECK(steward_ralloc_asprintf_rewrite_tail(&none, &start, "%s", "tail") && start == 4 && strcmp(none, "tail") == 0);
   CHECK(steward_linear_asprintf_rewrite_tail(linear, &linear_none, &linear_start, "%s", "tail"));
   CHECK(linear_start == 4 && strcmp(linear_none, "tail") == 0);
   steward_ralloc_free(none);
   /* A character that the C library cannot write sets errno there. One of Windows has 16 bits, and mingw's writes all. */
#ifndef _WIN32
   errno = 5;
   CHECK(steward_ralloc_asprintf(top, "%lc", (wint_t)0x7fffffff) == NULL && errno == 5 && noted(STEWARD_REFUSAL_TOO_LARGE));
   CHECK(steward_linear_asprintf(linear, "%lc", (wint_t)0x7fffffff) == NULL && errno == 5);
#endif
   steward_ralloc_free(top);
}

/* Every resize moves the block, and spoils the place that it had. */
static void *moving_resize(void *data, void *block, size_t old_size, size_t size, size_t align, int32_t scope)
{
   void *moved = host_alloc(data, size, align, scope);
   if (moved != NULL) {
      memcpy(moved, block, old_size < size ? old_size : size);
      memset(block, '#', old_size);
      host_free(data, block, old_size, align, scope);
   }
   return moved;
}

/* A text may be appended to itself, in part and in whole, and be its own format and argument, also where its block moves. */
static void texts_of_themselves(void)
{
   struct host host = {0, 0, -1};
   steward_host functions = {sizeof functions, &host, host_alloc, moving_resize, host_free};
   steward_context *root = NULL;
   steward_domain *domain = NULL;
   CHECK(steward_root(&functions, "root", &root) == 0 && steward_domain_new(root, NULL, &domain) == 0);
   void *top = steward_ralloc_root(domain);
   char *text = steward_ralloc_strdup(top, "abc"), *before = text;
   CHECK(steward_ralloc_strcat(&text, text) && strcmp(text, "abcabc") == 0 && text != before);
   CHECK(steward_ralloc_strcat(&text, text + 4) && strcmp(text, "abcabcbc") == 0);
   CHECK(steward_ralloc_strncat(&text, text + 2, 2) && strcmp(text, "abcabcbcca") == 0);
   CHECK(steward_ralloc_strcat(&text, text + strlen(text)) && strcmp(text, "abcabcbcca") == 0);
   /* What is appended overlaps its new place; and lies where a smaller block would end before it. */
   CHECK(steward_ralloc_str_append(&text, text + 1, 3, 6) && strcmp(text, "abcbcabcb") == 0);
   CHECK(steward_ralloc_str_append(&text, text + 7, 1, 2) && strcmp(text, "acb") == 0);
   before = text;
   CHECK(steward_ralloc_asprintf_append(&text, "<%s,%s>", text, text + 1) && strcmp(text, "acb<acb,cb>") == 0 && text != before);
   size_t start = 3;
   CHECK(steward_ralloc_asprintf_rewrite_tail(&text, &start, "%s", text + 4) && start == 10 && strcmp(text, "acbacb,cb>") == 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
   CHECK(steward_ralloc_asprintf_append(&text, text) && strcmp(text, "acbacb,cb>acbacb,cb>") == 0);
#pragma GCC diagnostic pop
   /* Of all lengths up to some that are formatted in a block of their own, which does not stay. */
   char expected[5000] = "x";
   text[0] = 'x', text[1] = 0;
   long live = host.live;
   for (size_t length = 1; length < 2000; length = strlen(text)) {
      CHECK(steward_ralloc_asprintf_append(&text, "%s%c", text, 'a' + (int)(length % 26)));
      memcpy(expected + length, expected, length);
      expected[2 * length] = 'a' + (int)(length % 26), expected[2 * length + 1] = 0;
      CHECK(strcmp(text, expected) == 0 && steward_ralloc_parent(text) == top && host.live == live);
   }
   /* Refused, whichever request it is: the text is as it was. */
   for (long refused = 0; refused < 2; refused++) {
      host.requests = 0, host.refused = refused, before = text;
      CHECK(!steward_ralloc_asprintf_append(&text, "%s", text) && text == before && strcmp(text, expected) == 0 && host.live == live);
   }
   host.refused = -1;
   CHECK(steward_ralloc_strcat(&text, text) && strlen(text) == 2 * strlen(expected));
   steward_ralloc_free(top);
   steward_domain_close(domain);
   CHECK(host.live == 0);
}

/* Without sizes: no gap between suballocations, text calls all the same, and nothing can be resized. */
static void unsized_linear(void)
{
   void *top = steward_ralloc_size(NULL, 0), *linear = steward_linear_context(top, 8192);
   CHECK(linear != NULL && steward_ralloc_parent(steward_linear_block(linear)) == top);
   char *first = steward_linear_alloc(linear, 1024), *text = NULL;
   for (int i = 1; i < 8; i++)
      CHECK((char *)steward_linear_alloc(linear, 1024) == first + 1024 * i);
   size_t start = 7;
   CHECK(steward_linear_strcat(linear, &text, "hello, ") && steward_linear_strcat(linear, &text, "all the world"));
   CHECK(steward_linear_asprintf_rewrite_tail(linear, &text, &start, "%s", "linear") && start == 13);
   CHECK(strcmp(text, "hello, linear") == 0 && steward_linear_asprintf_append(linear, &text, " %d", 25));
   CHECK(strcmp(text, "hello, linear 25") == 0);
   CHECK(steward_linear_realloc(linear, text, 100) == NULL && noted(STEWARD_REFUSAL_MISUSE));
   CHECK(steward_linear_context(top, SIZE_MAX - 20) == NULL && noted(STEWARD_REFUSAL_TOO_LARGE));
   steward_ralloc_free(top);
}

/* Both forms of a format give the same text. */
static char *formatted(const void *parent, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   char *text = steward_ralloc_vasprintf(parent, format, arguments);
   va_end(arguments);
   return text;
}

static void formats(void)
{
   void *top = steward_ralloc_size(NULL, 0);
   void *linear = steward_linear_new(top, 0);
   unsigned random = 1;
   for (int i = 0; i < 10000; i++) {
      random = random * 1103515245u + 12345u;
      char format[64], expected[256];
      snprintf(format, sizeof format, "%%%s%u.%ud|%%-%us|%%%sg", random & 1 ? "0" : "+", random >> 8 & 31, random >> 13 & 7,
               random >> 16 & 31, random & 2 ? "#" : "");
      double real = random / 1000.0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      snprintf(expected, sizeof expected, format, (int)random, "text", real);
      char *one = steward_ralloc_asprintf(top, format, (int)random, "text", real);
      char *two = formatted(top, format, (int)random, "text", real);
      char *three = steward_linear_asprintf(linear, format, (int)random, "text", real);
#pragma GCC diagnostic pop
      CHECK(one && two && three);
      CHECK(strcmp(one, expected) == 0 && strcmp(two, expected) == 0 && strcmp(three, expected) == 0);
      steward_ralloc_free(one);
      steward_ralloc_free(two);
   }
   steward_ralloc_free(top);
}

#define BLOCKS 200000

static void *build(void *domain)
{
   char *top = steward_ralloc_root(domain);
   for (int i = 0; i < BLOCKS; i++) {
      void *block = steward_ralloc_size(top, 8);
      if (i % 3 == 0)
         steward_ralloc_free(block);
   }
   return top;
}

static void threads(void)
{
   steward_context *root = NULL, *compiler = NULL;
   steward_domain *domain = NULL;
   CHECK(steward_root_malloc("root", &root) == 0 && steward_child(root, "compiler", NULL, &compiler) == 0);
   CHECK(steward_domain_new(compiler, NULL, &domain) == 0);
   pthread_t thread[4];
   void *tree[4];
   for (int i = 0; i < 4; i++)
      CHECK(pthread_create(&thread[i], NULL, build, domain) == 0);
   for (int i = 0; i < 4; i++)
      CHECK(pthread_join(thread[i], &tree[i]) == 0);
   steward_usage_info usage = {.size = sizeof usage};
   steward_subtree_usage(root, &usage);
   /* Both contexts' records, their labels, the domain's record, and per thread the top and two thirds of its blocks. */
   CHECK(usage.total.live_blocks == 2 + 2 + 1 + 4 * (1 + BLOCKS - (BLOCKS + 2) / 3));
   for (int i = 1; i < 4; i++)
      steward_ralloc_steal(tree[0], tree[i]);
   steward_domain_close(domain);
   CHECK(steward_close(root, NULL) == 1);
   steward_ralloc_free(tree[0]);
   CHECK(steward_close(root, NULL) == 0);
}

int main(void)
{
   contexts();
   mistakes();
   callbacks();
   refusals();
   wrong_sizes();
   wrong_texts();
   texts_of_themselves();
   unsized_linear();
   formats();
   threads();
   return 0;
}
