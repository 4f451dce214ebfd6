/* Code without a header of Mesa's, which uses ralloc's own names: returns 0. */
#include "steward-ralloc-names.h"

#include <string.h>

struct node {
   int value;
   struct node *next;
};

int main(void)
{
   void *root = ralloc_context(NULL);
   struct node *first = rzalloc(root, struct node), *nodes = rzalloc_array(first, struct node, 10);
   int *numbers = ralloc_array(root, int, 4);
   char *text = ralloc_asprintf(root, "%d of %d", 3, 4);
   numbers = reralloc(root, numbers, int, 1000);
   int is_right = first->value == 0 && first->next == NULL && nodes[9].next == NULL && numbers != NULL && strcmp(text, "3 of 4") == 0 &&
                  ralloc_parent(nodes) == first && ralloc_strcat(&text, "!") && strcmp(text, "3 of 4!") == 0;
   ralloc_free(root);
   return is_right ? 0 : 1;
}
