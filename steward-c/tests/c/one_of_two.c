/* A driver with a compiler over ralloc's names, as one of two in a process. With STOCK it brings a ralloc of its own, as Mesa does; else it is linked
 * with libsteward-ralloc. */
#include <stddef.h>

#ifdef STOCK
#include <stdlib.h>

/* Its own blocks: the parent stands in front. */
void *ralloc_size(const void *parent, size_t size)
{
   const void **block = malloc(sizeof(void *) * 2 + size);
   if (block == NULL)
      return NULL;
   block[0] = parent;
   return block + 2;
}

void *ralloc_parent(const void *of)
{
   return (void *)((void *const *)of)[-2];
}

void ralloc_free(void *block)
{
   free((void **)block - 2);
}
#else
void *ralloc_size(const void *parent, size_t size);
void *ralloc_parent(const void *of);
void ralloc_free(void *block);
#endif

/* How many blocks were right of so many. */
int compile(int blocks)
{
   char *shader = ralloc_size(NULL, 100);
   int right = 0;
   for (int i = 0; i < blocks; i++) {
      void *pass = ralloc_size(shader, 40);
      right += ralloc_parent(pass) == shader;
      ralloc_free(pass);
   }
   ralloc_free(shader);
   return right;
}
