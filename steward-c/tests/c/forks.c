/* 300 forks while four threads use contexts with budgets, bridges, domains and trees. Each child uses the same ones, makes and ends some of its
 * own, and is killed by SIGALRM if it waits for a lock of a thread that it does not have. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "steward-ralloc.h"

static steward_context *root, *leased, *exact, *guarded;
static steward_domain *domain;
static struct VkAllocationCallbacks callbacks;
static atomic_bool is_over;
static atomic_int ready;

static steward_context *child(const char *name, int32_t budget)
{
   steward_options options = {.size = sizeof options, .scope = STEWARD_SCOPE_OBJECT, .budget = budget, .limit = 64 << 20};
   steward_context *made = NULL;
   CHECK(steward_child(root, name, &options, &made) == 0);
   return made;
}

static void operate(unsigned turn)
{
   steward_context *contexts[] = {leased, exact, root, guarded};
   for (int i = 0; i < 4; i++) {
      size_t size = 16 + turn % 300;
      void *block = steward_alloc(contexts[i], size, 16, STEWARD_SCOPE_OBJECT);
      CHECK(block != NULL);
      steward_usage_info usage = {.size = sizeof usage};
      if (turn % 3 == 0)
         steward_subtree_usage(root, &usage);
      steward_free(contexts[i], block, size, 16, STEWARD_SCOPE_OBJECT);
   }
   void *block = callbacks.pfnAllocation(callbacks.pUserData, 100, 8, STEWARD_SCOPE_DEVICE);
   CHECK(block != NULL);
   callbacks.pfnFree(callbacks.pUserData, block);
   void *tree = steward_ralloc_root(domain);
   CHECK(tree != NULL);
   CHECK(steward_ralloc_asprintf(tree, "%u", turn) != NULL);
   steward_ralloc_free(tree);
   steward_close(child("short", STEWARD_BUDGET_LIMIT), NULL);
}

static void *work(void *unused)
{
   (void)unused;
   operate(0);
   atomic_fetch_add(&ready, 1);
   for (unsigned turn = 0; !atomic_load(&is_over); turn++)
      operate(turn);
   return NULL;
}

int main(void)
{
   CHECK(steward_root_malloc("root", &root) == 0);
   leased = child("leased", STEWARD_BUDGET_LIMIT);
   exact = child("exact", STEWARD_BUDGET_EXACT);
   CHECK(steward_root_guarded(leased, "cookie", "guarded", &guarded) == 0);
   steward_bridge bridge;
   CHECK(steward_bridge_init(&bridge, child("bridge", STEWARD_BUDGET_LIMIT), &callbacks) == 0);
   CHECK(steward_domain_new(child("domain", STEWARD_BUDGET_LIMIT), NULL, &domain) == 0);
   pthread_t threads[4];
   for (int i = 0; i < 4; i++)
      CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
   while (atomic_load(&ready) < 4)
      usleep(100);
   for (unsigned number = 0; number < 300; number++) {
      pid_t child_process = fork();
      CHECK(child_process >= 0);
      if (child_process == 0) {
         alarm(10);
         for (unsigned turn = 0; turn < 20; turn++)
            operate(number + turn);
         _exit(0);
      }
      int status = 0;
      CHECK(waitpid(child_process, &status, 0) == child_process);
      if (status != 0)
         fprintf(stderr, "child %u: status %d; 14: it waited\n", number, status);
      CHECK(status == 0);
   }
   atomic_store(&is_over, true);
   for (int i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
   return 0;
}
