// A destructor that breaks its promise not to unwind: the process ends.
#include "steward-ralloc.h"

int main()
{
   void *block = steward_ralloc_size(nullptr, 8);
   steward_ralloc_set_destructor(block, [](void *) { throw 1; });
   try {
      steward_ralloc_free(block);
   } catch (...) {
   }
   return 0;
}
