/* Two threads use one tree at once, which nobody may: under the thread sanitizer this program is reported, and ends with its exit code. */
#include <pthread.h>

#include "steward-ralloc.h"

static void *build(void *top)
{
   for (int i = 0; i < 1000; i++)
      steward_ralloc_size(top, 8);
   return NULL;
}

int main(void)
{
   void *top = steward_ralloc_size(NULL, 0);
   pthread_t thread;
   if (pthread_create(&thread, NULL, build, top) != 0)
      return 1;
   build(top);
   pthread_join(thread, NULL);
   return 0;
}
