/* Guards and faults by the program's words. Without an argument: prints nothing and returns 0. With one, which is a mode: writes a byte past a
 * compiler's block and frees it. */

#include "check.h"
#include "steward-ralloc.h"

static void overflow(steward_context *root, const char *mode)
{
   steward_context *guarded;
   steward_domain *domain;
   CHECK(steward_root_guarded(root, mode, "compiler", &guarded) == 0);
   CHECK(steward_domain_new(guarded, NULL, &domain) == 0);
   char *block = steward_ralloc_size(steward_ralloc_root(domain), 96);
   CHECK(block != NULL);
   for (int i = 0; i < 96; i++)
      block[i] = 1;
   puts("a byte too far");
   fflush(stdout);
   ((volatile char *)block)[96] = 1;
   steward_ralloc_free(block);
   puts("nobody noticed");
}

int main(int argc, char **argv)
{
   steward_context *root, *other;
   CHECK(steward_root_malloc("root", &root) == 0);
   if (argc > 1)
      overflow(root, argv[1]);
   for (int first = 0; first < 2; first++) {
      char words[] = {'n', 't', 'h', '=', (char)('0' + first), 0};
      CHECK(steward_root_failing(root, words, "name", &other) == -1 && other == NULL);
   }
   CHECK(steward_root_failing(root, "nth=3", "name", &other) == 0);
   void *one = steward_alloc(other, 8, 8, 1), *two = steward_alloc(other, 8, 8, 1), *three = steward_alloc(other, 8, 8, 1);
   CHECK(one != NULL && two == NULL && three != NULL);
   CHECK(steward_close(root, NULL) == 1);
   steward_free(other, one, 8, 8, 1);
   steward_free(other, three, 8, 8, 1);
   CHECK(steward_close(other, NULL) == 0);
   /* What the guard itself needs is refused: no mistake of the caller's. */
   steward_context *refused = root;
   CHECK(steward_root_failing(root, "nth=2", "name", &other) == 0);
   CHECK(steward_root_guarded(other, "cookie", "name", &refused) == -1 && refused == NULL);
   steward_refusal refusal = {.size = sizeof refusal};
   steward_last_refusal(&refusal);
   CHECK(refusal.kind == STEWARD_REFUSAL_OUT_OF_MEMORY && refusal.bytes > 0);
   CHECK(steward_close(other, NULL) == 0);
   CHECK(steward_root_failing(root, "now and then", "name", &other) == -13 && steward_root_failing(NULL, "nth=3", "name", &other) == -13);
   CHECK(steward_root_guarded(root, "watchful", "name", &other) == -13 && steward_root_guarded(NULL, "cookie", "name", &other) == -13);
   CHECK(steward_root_guarded(root, "cookie", "name", &other) == 0);
   char *block = steward_zalloc(other, 100, 16, 1);
   CHECK(block != NULL && block[99] == 0);
   block[99] = 1;
   steward_free(other, block, 100, 16, 1);
   CHECK(steward_close(other, NULL) == 0 && steward_close(root, NULL) == 0);
   return 0;
}
