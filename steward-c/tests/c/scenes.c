/* Eight scenes of ralloc's calls, by ralloc's names: compiled alone, and linked with libsteward-ralloc or with ralloc.c itself. What it
 * prints is what ralloc prints where ralloc is right. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *ralloc_context(const void *);
void *ralloc_size(const void *, size_t);
void *rzalloc_size(const void *, size_t);
void *reralloc_size(const void *, void *, size_t);
void *rerzalloc_size(const void *, void *, size_t, size_t);
void *ralloc_array_size(const void *, size_t, unsigned);
void *reralloc_array_size(const void *, void *, size_t, unsigned);
void ralloc_free(void *);
void ralloc_steal(const void *, void *);
void ralloc_adopt(const void *, void *);
void *ralloc_parent(const void *);
void ralloc_set_destructor(const void *, void (*)(void *));
char *ralloc_strdup(const void *, const char *);
char *ralloc_strndup(const void *, const char *, size_t);
bool ralloc_strcat(char **, const char *);
bool ralloc_strncat(char **, const char *, size_t);
char *ralloc_asprintf(const void *, const char *, ...);
bool ralloc_asprintf_append(char **, const char *, ...);
bool ralloc_asprintf_rewrite_tail(char **, size_t *, const char *, ...);
void *gc_context(const void *);
void *gc_alloc_size(void *, size_t, size_t);
void *gc_zalloc_size(void *, size_t, size_t);
void gc_sweep_start(void *);
void gc_mark_live(void *, const void *);
void gc_sweep_end(void *);
void *linear_alloc_parent(void *, unsigned);
void *linear_alloc_child(void *, unsigned);
void *linear_zalloc_child(void *, unsigned);
void *ralloc_parent_of_linear_parent(void *);
void ralloc_steal_linear_parent(void *, void *);
void linear_free_parent(void *);

static void *victim;

static void tell(void *block)
{
   void *parent = ralloc_parent(block);
   printf("  destroyed %s, parent %s\n", (char *)block, parent ? (char *)parent : "none");
}

static void tell_and_free_sibling(void *block)
{
   tell(block);
   ralloc_free(victim);
}

static char *named(void *parent, const char *name)
{
   char *block = ralloc_strdup(parent, name);
   ralloc_set_destructor(block, tell);
   return block;
}

static void order(void)
{
   puts("order");
   char *top = named(NULL, "top");
   char *a = named(top, "a");
   named(a, "a1");
   named(a, "a2");
   named(top, "b");
   char *c = named(top, "c");
   named(c, "c1");
   ralloc_free(top);
}

static void siblings(void)
{
   puts("siblings");
   char *top = named(NULL, "top");
   victim = named(top, "older");
   char *block = named(top, "block");
   named(top, "newer");
   ralloc_set_destructor(block, tell_and_free_sibling);
   ralloc_free(top);
}

static void moves(void)
{
   puts("moves");
   char *one = named(NULL, "one"), *two = named(NULL, "two");
   char *a = named(one, "a"), *b = named(one, "b");
   named(a, "a1");
   ralloc_steal(two, a);
   printf("  %s %s\n", (char *)ralloc_parent(a), (char *)ralloc_parent(b));
   ralloc_adopt(one, two);
   printf("  %s\n", (char *)ralloc_parent(a));
   ralloc_steal(NULL, b);
   printf("  %d\n", ralloc_parent(b) == NULL);
   ralloc_free(two);
   ralloc_free(one);
   ralloc_free(b);
}

static void sizes(void)
{
   puts("sizes");
   void *top = ralloc_context(NULL);
   char *block = rzalloc_size(top, 100);
   char *child = named(block, "child");
   int zeros = 0;
   for (int i = 0; i < 100; i++)
      zeros += block[i] == 0;
   memset(block, 'x', 100);
   block = rerzalloc_size(top, block, 100, 100000);
   printf("  %d %c %d %d\n", zeros, block[99], block[100], block[99999]);
   printf("  %d %d %d\n", ralloc_parent(block) == top, ralloc_parent(child) == block, (int)((uintptr_t)block % 16));
   block = reralloc_size(top, block, 10);
   printf("  %c %d\n", block[9], ralloc_parent(child) == block);
   strcpy(block, "block");
   printf("  %d\n", ralloc_array_size(top, SIZE_MAX / 2, 3) == NULL);
   int *array = ralloc_array_size(top, sizeof(int), 4);
   array[3] = 7;
   array = reralloc_array_size(top, array, sizeof(int), 4000);
   printf("  %d\n", array[3]);
   ralloc_free(top);
}

static void text(void)
{
   puts("text");
   void *top = ralloc_context(NULL);
   char *line = ralloc_strdup(top, "one");
   printf("  %d", ralloc_strcat(&line, " two"));
   printf(" %d", ralloc_strncat(&line, " three and more", 6));
   bool appended = ralloc_asprintf_append(&line, " %d-%s", 4, "five");
   printf(" %d %s\n", appended, line);
   printf("  %s|%s\n", ralloc_strndup(top, "abcdef", 3), ralloc_strndup(top, "ab", 30));
   printf("  %s\n", ralloc_asprintf(top, "%05.1f %x %-4s|", 3.14159, 255u, "l"));
   printf("  %d\n", ralloc_parent(line) == top);
   ralloc_free(top);
}

static void tail(void)
{
   puts("tail");
   char *line = NULL;
   size_t start = 0;
   ralloc_asprintf_rewrite_tail(&line, &start, "head %d", 1);
   printf("  %s %zu\n", line, start);
   size_t kept = start;
   ralloc_asprintf_rewrite_tail(&line, &start, " first");
   printf("  %s %zu\n", line, start);
   start = kept;
   ralloc_asprintf_rewrite_tail(&line, &start, " 2");
   printf("  %s %zu\n", line, start);
   ralloc_free(line);
}

static void collector(void)
{
   puts("collector");
   void *top = ralloc_context(NULL), *gc = gc_context(top);
   int *kept = gc_alloc_size(gc, sizeof(int), 4);
   *kept = 42;
   for (int i = 0; i < 1000; i++)
      memset(gc_zalloc_size(gc, (size_t)(i + 1), 8), 1, (size_t)(i + 1));
   gc_sweep_start(gc);
   int *fresh = gc_alloc_size(gc, sizeof(int), 4);
   *fresh = 43;
   gc_mark_live(gc, kept);
   gc_sweep_end(gc);
   printf("  %d %d\n", *kept, *fresh);
   ralloc_free(top);
}

static void linear(void)
{
   puts("linear");
   void *top = ralloc_context(NULL), *other = ralloc_context(NULL);
   char *first = linear_alloc_parent(top, 16);
   strcpy(first, "first");
   printf("  %d\n", ralloc_parent_of_linear_parent(first) == top);
   for (int i = 0; i < 300; i++) {
      char *child = linear_zalloc_child(first, (unsigned)(i * 17 % 400 + 1));
      if (child[0] != 0 || (uintptr_t)child % 8 != 0)
         puts("  wrong");
      child[0] = 'c';
   }
   memset(linear_alloc_child(first, 50000), 'l', 50000);
   ralloc_steal_linear_parent(other, first);
   printf("  %s %d\n", first, ralloc_parent_of_linear_parent(first) == other);
   ralloc_free(top);
   linear_free_parent(first);
   ralloc_free(other);
}

int main(void)
{
   order();
   siblings();
   moves();
   sizes();
   text();
   tail();
   collector();
   linear();
   return 0;
}
