/* Virtual blocks, in the scenarios of the allocators of offsets that runtimes have: prints nothing and returns 0. */
#include "check.h"


enum { MIB = 1 << 20, MANY = 1000 };

static steward_context *owner;

static steward_virtual *block(uint64_t bytes, uint64_t granule)
{
   steward_virtual *block;
   CHECK(steward_virtual_new(owner, bytes, granule, STEWARD_VIRTUAL_GENERAL, &block) == 0);
   return block;
}

static steward_virtual_range take(steward_virtual *of, uint64_t bytes)
{
   steward_virtual_range range = {.size = sizeof range};
   CHECK(steward_virtual_alloc(of, bytes, 0, 0, 0, &range) == 0);
   return range;
}

static int32_t refuse(steward_virtual *of, uint64_t bytes, uint64_t align)
{
   steward_virtual_range range = {.size = sizeof range, .offset = 77};
   int32_t result = steward_virtual_alloc(of, bytes, align, 0, 0, &range);
   CHECK(result != 0 && range.offset == 77);
   return result;
}

static steward_virtual_stats stats(steward_virtual *of)
{
   steward_virtual_stats stats = {.size = sizeof stats};
   CHECK(steward_virtual_usage(of, &stats) == 0);
   return stats;
}

static int is_whole(steward_virtual *of, uint64_t bytes)
{
   steward_virtual_stats now = stats(of);
   return now.bytes == bytes && now.used == 0 && now.ranges == 0 && now.holes == 1 && now.largest_hole == bytes;
}

static uint64_t host_bytes(void)
{
   return usage_of(owner).live_bytes;
}

/* A new block is one hole, of whole granules. What is none is refused. */
static void lifecycle(void)
{
   static const struct {
      uint64_t bytes, granule, whole;
   } good[] = {{MIB, 16, MIB}, {MIB, 0, MIB}, {1000, 16, 992}, {16, 16, 16}, {UINT64_C(1) << 40, 1024, UINT64_C(1) << 40}};
   for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
      steward_virtual *of = block(good[i].bytes, good[i].granule);
      CHECK(is_whole(of, good[i].whole));
      steward_virtual_end(of);
   }
   static const struct {
      uint64_t bytes, granule;
      int32_t algorithm;
      const char *why;
   } bad[] = {{0, 16, 0, "size of 0"}, {MIB, 17, 0, "power of two"}, {8, 16, 0, "size of 0"}, {MIB, 16, 4, "algorithm"}, {MIB, 16, -1, "algorithm"},
              {UINT64_MAX, 16, 0, "more than"}};
   for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      steward_virtual *of = (steward_virtual *)&of;
      CHECK(steward_virtual_new(owner, bad[i].bytes, bad[i].granule, bad[i].algorithm, &of) < 0 && of == NULL && because(bad[i].why));
   }
   steward_virtual *of;
   CHECK(steward_virtual_new(NULL, MIB, 16, 0, &of) == -13 && of == NULL && steward_virtual_new(owner, MIB, 16, 0, NULL) == -13);
   steward_virtual_end(NULL);
   /* The host's memory of a large range is that of a small one. */
   uint64_t before = host_bytes();
   of = block(64 * MIB, 256);
   take(of, 1);
   CHECK(host_bytes() - before < 16 << 10);
   steward_virtual_end(of);
   CHECK(host_bytes() == before);
}

static void allocates(void)
{
   steward_virtual *of = block(MIB, 16);
   steward_virtual_range first = take(of, 256), second = take(of, 512), third = take(of, 128);
   CHECK(first.offset == 0 && first.bytes == 256 && second.offset == 256 && third.offset == 768);
   CHECK(stats(of).ranges == 3 && stats(of).used == 896 && stats(of).bytes == MIB);
   CHECK(take(of, 1).bytes == 16);
   CHECK(refuse(of, 0, 0) == -13 && refuse(of, 2 * MIB, 0) == -2 && refuse(of, UINT64_MAX, 0) == -2 && refuse(of, UINT64_MAX - 14, 0) == -2);
   CHECK(refuse(of, 16, 3) == -13 && refuse(of, 16, UINT64_C(1) << 40) == -2);
   CHECK(refuse(NULL, 16, 0) == -13 && steward_virtual_alloc(of, 16, 0, 2, 0, &first) == -13 && because("flags"));
   first.size = sizeof(size_t);
   CHECK(steward_virtual_alloc(of, 16, 0, 0, 0, &first) == -13 && steward_virtual_alloc(of, 16, 0, 0, 0, NULL) == -13);
   CHECK(stats(of).ranges == 4);
   steward_virtual_end(of);
   /* Offsets are aligned, in any block. */
   of = block(MIB, 1);
   for (uint64_t align = 1; align <= 65536; align *= 2) {
      steward_virtual_range range = {.size = sizeof range};
      CHECK(steward_virtual_alloc(of, 3, align, 0, 9, &range) == 0 && range.offset % align == 0 && range.tag == 9 && range.note == 0);
   }
   steward_virtual_end(of);
}

/* A hole joins what is free beside it, whichever is freed last. */
static void joins(void)
{
   static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
   for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
      steward_virtual *of = block(MIB, 16);
      steward_virtual_range range[3] = {take(of, 256), take(of, 256), take(of, 256)};
      for (int step = 0; step < 3; step++)
         CHECK(steward_virtual_free(of, range[orders[i][step]].id) == 0);
      CHECK(is_whole(of, MIB));
      steward_virtual_end(of);
   }
   /* Not across a live one. */
   steward_virtual *of = block(1024, 16);
   steward_virtual_range range[4] = {take(of, 256), take(of, 256), take(of, 256), take(of, 256)};
   CHECK(refuse(of, 16, 0) == -2 && because("no hole") && stats(of).holes == 0 && stats(of).largest_hole == 0);
   CHECK(steward_virtual_free(of, range[0].id) == 0 && steward_virtual_free(of, range[2].id) == 0);
   CHECK(stats(of).holes == 2 && stats(of).largest_hole == 256 && refuse(of, 512, 0) == -2);
   /* A hole that fits is used again. */
   CHECK(take(of, 256).offset % 512 == 0);
   steward_virtual_end(of);
}

/* Each id once: a stale one, that of another block, and nothing are refused, and change nothing. */
static void ids(void)
{
   steward_virtual *of = block(MIB, 16), *other = block(MIB, 16);
   steward_virtual_range range = take(of, 64), foreign = take(other, 64), again;
   CHECK(steward_virtual_free(of, foreign.id) == -13 && because("another block"));
   CHECK(steward_virtual_free(of, range.id) == 0 && steward_virtual_free(of, range.id) == -13 && because("freed before"));
   again = take(of, 64);
   CHECK(again.offset == range.offset && memcmp(&again.id, &range.id, sizeof range.id) != 0);
   CHECK(steward_virtual_free(of, range.id) == -13 && steward_virtual_info(of, range.id, &foreign) == -13);
   CHECK(steward_virtual_set_tag(of, range.id, 1) == -13);
   steward_virtual_id none = {{0, 0, 0, 0}}, wild = {{UINT32_MAX, 7, UINT32_MAX, 0}};
   CHECK(steward_virtual_free(of, none) == -13 && steward_virtual_free(of, wild) == -13 && steward_virtual_free(NULL, again.id) == -13);
   CHECK(steward_virtual_set_tag(of, again.id, 42) == 0);
   steward_virtual_range info = {.size = sizeof info};
   CHECK(steward_virtual_info(of, again.id, &info) == 0 && info.tag == 42 && info.bytes == 64 && info.offset == again.offset);
   CHECK(steward_virtual_info(of, again.id, NULL) == -13 && steward_virtual_usage(of, NULL) == -13);
   steward_virtual_clear(of);
   CHECK(is_whole(of, MIB) && steward_virtual_free(of, again.id) == -13);
   steward_virtual_end(other);
   steward_virtual_end(of);
}

/* Four to 124 bytes in blocks of 1 KiB, freed in the order in which they came. */
static void many_small_ones(void)
{
   enum { BLOCKS = 100 };
   static steward_virtual *blocks[BLOCKS];
   static struct {
      int block;
      steward_virtual_id id;
   } taken[MANY];
   uint64_t before = host_bytes();
   int used = 0;
   for (int i = 0; i < MANY; i++) {
      uint64_t bytes = 4 * (uint64_t)(i % 32 > 1 ? i % 32 : 1);
      steward_virtual_range range = {.size = sizeof range};
      int at = 0;
      while (at < used && steward_virtual_alloc(blocks[at], bytes, 4, 0, (uint32_t)i, &range) != 0)
         at++;
      if (at == used) {
         CHECK(used < BLOCKS);
         blocks[used++] = block(1024, 4);
         CHECK(steward_virtual_alloc(blocks[at], bytes, 4, 0, (uint32_t)i, &range) == 0);
      }
      taken[i].block = at;
      taken[i].id = range.id;
   }
   for (int i = 0; i < MANY; i++)
      CHECK(steward_virtual_free(blocks[taken[i].block], taken[i].id) == 0);
   for (int i = 0; i < used; i++) {
      CHECK(is_whole(blocks[i], 1024));
      steward_virtual_end(blocks[i]);
   }
   CHECK(host_bytes() == before);
}

struct walk {
   uint64_t end, used, holes;
   int ranges;
};

static void see(void *user, const steward_virtual_range *piece)
{
   struct walk *walk = user;
   static const steward_virtual_id none;
   CHECK(piece->offset == walk->end && piece->bytes > 0);
   int is_hole = memcmp(&piece->id, &none, sizeof none) == 0;
   walk->end += piece->bytes;
   walk->holes += is_hole;
   walk->used += is_hole ? 0 : piece->bytes;
   walk->ranges += !is_hole;
}

/* A random churn against a map of bytes: no two ranges overlap, and the walk tiles the block. */
static void churn(void)
{
   enum { BYTES = 16384, SLOTS = 100 };
   static unsigned char map[BYTES];
   static steward_virtual_range live[SLOTS];
   steward_virtual *of = block(BYTES, 4);
   uint32_t random = 12345;
   for (int step = 0; step < 20000; step++) {
      random = random * 1664525 + 1013904223;
      uint32_t at = (random >> 8) % SLOTS;
      if (live[at].bytes != 0) {
         CHECK(steward_virtual_free(of, live[at].id) == 0);
         memset(map + live[at].offset, 0, live[at].bytes);
         live[at].bytes = 0;
         continue;
      }
      steward_virtual_range range = {.size = sizeof range};
      uint64_t align = UINT64_C(1) << (random >> 3 & 7);
      if (steward_virtual_alloc(of, 1 + (random >> 16) % 700, align, random >> 7 & 1, at, &range) != 0)
         continue;
      CHECK(range.offset % align == 0 && range.offset + range.bytes <= BYTES);
      for (uint64_t i = 0; i < range.bytes; i++)
         CHECK(map[range.offset + i]++ == 0);
      live[at] = range;
      if (step % 100 == 0) {
         struct walk walk = {0, 0, 0, 0};
         CHECK(steward_virtual_walk(of, see, &walk) == 0);
         steward_virtual_stats now = stats(of);
         CHECK(walk.end == BYTES && walk.used == now.used && walk.holes == now.holes && walk.ranges == (int)now.ranges);
      }
   }
   CHECK(steward_virtual_walk(of, NULL, NULL) == -13 && steward_virtual_walk(NULL, see, NULL) == -13);
   steward_virtual_end(of);
}

/* A stack and a ring free in order. */
static void linear(void)
{
   steward_virtual *of;
   CHECK(steward_virtual_new(owner, 1024, 16, STEWARD_VIRTUAL_STACK, &of) == 0);
   steward_virtual_range first = take(of, 512), second = take(of, 512);
   CHECK(steward_virtual_free(of, first.id) == -13 && because("not the next"));
   CHECK(steward_virtual_free(of, second.id) == 0 && steward_virtual_free(of, first.id) == 0);
   steward_virtual_end(of);
   CHECK(steward_virtual_new(owner, 1024, 16, STEWARD_VIRTUAL_RING, &of) == 0);
   first = take(of, 600);
   second = take(of, 400);
   CHECK(refuse(of, 200, 0) == -2 && steward_virtual_free(of, second.id) == -13 && steward_virtual_free(of, first.id) == 0);
   CHECK(take(of, 200).offset == 0);
   steward_virtual_end(of);
   CHECK(steward_virtual_new(owner, 1024, 16, STEWARD_VIRTUAL_DOUBLE_STACK, &of) == 0);
   steward_virtual_range upper = {.size = sizeof upper};
   CHECK(take(of, 16).offset == 0 && steward_virtual_alloc(of, 16, 0, STEWARD_VIRTUAL_UPPER, 0, &upper) == 0 && upper.offset == 1008);
   steward_virtual_end(of);
}

/* --- notes: until when a device uses what was freed ------------------------------------------------------------------ */

enum { TAINTED = UINT16_MAX };

/* The later of two, as epochs of one queue. What is tainted stays so. */
static uint32_t later(void *user, uint32_t hole, uint32_t other)
{
   ++*(int *)user;
   return hole > other ? hole : other;
}

static int merges;

static void free_until(steward_virtual *of, steward_virtual_range range, uint32_t epoch)
{
   CHECK(steward_virtual_free_noted(of, range.id, epoch, later, &merges) == 0);
}

/* Both parts of a split keep the note, also a third part behind a range that is placed in the middle. */
static void a_split_keeps_the_note(void)
{
   steward_virtual *of = block(4096, 16);
   steward_virtual_range first = take(of, 1024);
   CHECK(first.note == 0);
   free_until(of, first, 10);
   CHECK(take(of, 256).note == 10 && take(of, 256).note == 10 && take(of, 3584).note == 10 && stats(of).holes == 0);
   steward_virtual_clear(of);
   CHECK(take(of, 4096).note == 0);
   steward_virtual_clear(of);
   first = take(of, 16);
   steward_virtual_range rest = take(of, 4080), middle = {.size = sizeof middle};
   free_until(of, rest, 7);
   CHECK(steward_virtual_alloc(of, 64, 1024, 0, 0, &middle) == 0 && middle.offset == 1024 && middle.note == 7);
   CHECK(take(of, 1000).note == 7 && take(of, 2000).note == 7);
   steward_virtual_end(of);
}

/* A joined hole has the merged note of all that it was made of, whichever is freed last. */
static void a_join_merges_notes(void)
{
   static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
   static const uint32_t notes[][3] = {{1, 2, 3}, {3, 2, 1}, {0, 0, 5}, {TAINTED, 4, 4}, {4, TAINTED, 0}, {0, 0, 0}};
   for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
      for (size_t j = 0; j < sizeof notes / sizeof *notes; j++) {
         steward_virtual *of = block(768, 16);
         steward_virtual_range range[3] = {take(of, 256), take(of, 256), take(of, 256)};
         uint32_t all = 0;
         merges = 0;
         for (int step = 0; step < 3; step++) {
            int at = orders[i][step];
            free_until(of, range[at], notes[j][at]);
            all = notes[j][at] > all ? notes[j][at] : all;
         }
         CHECK(merges == 2 && take(of, 768).note == all);
         steward_virtual_end(of);
      }
   /* Not across a live range; and what is freed again has its own note, without the one before. */
   steward_virtual *of = block(768, 16);
   steward_virtual_range range[3] = {take(of, 256), take(of, 256), take(of, 256)};
   merges = 0;
   free_until(of, range[0], 9);
   free_until(of, range[2], 4);
   CHECK(merges == 0);
   steward_virtual_range again = take(of, 256);
   CHECK(again.note == (again.offset == 0 ? 9 : 4));
   free_until(of, again, 2);
   steward_virtual_range last = take(of, 256);
   CHECK(last.note == (last.offset == again.offset ? 2 : last.offset == 0 ? 9 : 4));
   steward_virtual_end(of);
}

/* A refused free merges nothing. */
static void a_refused_free_merges_nothing(void)
{
   steward_virtual *of = block(768, 16);
   steward_virtual_range range = take(of, 256);
   free_until(of, range, 9);
   merges = 0;
   CHECK(steward_virtual_free_noted(of, range.id, 1, later, &merges) == -13 && merges == 0 && because("freed before"));
   CHECK(steward_virtual_free_noted(of, range.id, 1, NULL, NULL) == -13 && steward_virtual_free_noted(NULL, range.id, 1, later, &merges) == -13);
   CHECK(take(of, 768).note == 9);
   steward_virtual_end(of);
}

/* Every range of a random churn is told at least the latest note of each of its bytes. */
static void notes_are_never_lost(void)
{
   enum { GRANULES = 1024, SLOTS = 60 };
   static uint32_t freed[GRANULES];
   static steward_virtual_range live[SLOTS];
   steward_virtual *of = block(GRANULES * 4, 4);
   uint32_t random = 99, epoch = 1;
   for (int step = 0; step < 20000; step++) {
      random = random * 1664525 + 1013904223;
      uint32_t at = (random >> 8) % SLOTS;
      if (live[at].bytes != 0) {
         free_until(of, live[at], ++epoch);
         for (uint64_t i = live[at].offset / 4; i < (live[at].offset + live[at].bytes) / 4; i++)
            freed[i] = epoch;
         live[at].bytes = 0;
         continue;
      }
      steward_virtual_range range = {.size = sizeof range};
      if (steward_virtual_alloc(of, 1 + (random >> 16) % 300, UINT64_C(1) << (random >> 3 & 7), random >> 7 & 1, 0, &range) != 0)
         continue;
      for (uint64_t i = range.offset / 4; i < (range.offset + range.bytes) / 4; i++)
         CHECK(freed[i] <= range.note);
      live[at] = range;
   }
   steward_virtual_end(of);
}

/* Without host memory nothing changes, and what is held comes back. */
static void refused_memory(void)
{
   steward_context *small;
   steward_options limit = {sizeof limit, STEWARD_SCOPE_DEFAULT, STEWARD_BUDGET_EXACT, 8 << 10};
   CHECK(steward_child(owner, "small", &limit, &small) == 0);
   steward_virtual *of;
   CHECK(steward_virtual_new(small, MIB, 1, 0, &of) == 0);
   int taken = 0;
   steward_virtual_range range = {.size = sizeof range};
   int32_t result;
   while ((result = steward_virtual_alloc(of, 1, 2, 0, 0, &range)) == 0)
      taken++;
   CHECK(result == -1 && taken > 10 && because("short"));
   CHECK(stats(of).ranges == (uint64_t)taken);
   CHECK(steward_virtual_free(of, range.id) == 0 && steward_virtual_alloc(of, 1, 1, 0, 0, &range) == 0);
   steward_virtual_end(of);
   steward_options none = {sizeof none, STEWARD_SCOPE_DEFAULT, STEWARD_BUDGET_EXACT, 0};
   CHECK(steward_close(small, NULL) == 0 && steward_child(owner, "none", &none, &small) == 0);
   CHECK(steward_virtual_new(small, MIB, 1, 0, &of) == -1 && of == NULL);
   CHECK(steward_close(small, NULL) == 0);
}

int main(void)
{
   CHECK(steward_root_malloc("owner", &owner) == 0);
   lifecycle();
   allocates();
   joins();
   ids();
   many_small_ones();
   churn();
   linear();
   a_split_keeps_the_note();
   a_join_merges_notes();
   a_refused_free_merges_nothing();
   notes_are_never_lost();
   refused_memory();
   CHECK(steward_close(owner, NULL) == 0);
   return 0;
}
