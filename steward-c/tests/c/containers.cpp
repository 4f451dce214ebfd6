// The C++ header, used. Returns 0, or the number of the line that failed modulo 255.
#include <vector>

#include "steward.hpp"

#define CHECK(condition) do { if (!(condition)) return __LINE__ % 255; } while (0)

static int destroyed;

struct node {
   int value;
   explicit node(int value) : value(value) {}
   ~node() { destroyed++; }
};

int main()
{
   steward::context root = steward::context::over_malloc("root");
   steward::context textures = root.child("textures");
   CHECK(root && textures);
   {
      std::vector<int, steward::allocator<int>> numbers{steward::allocator<int>(textures)};
      for (int i = 0; i < 1000; i++)
         numbers.push_back(i);
      CHECK(numbers[999] == 999);
      CHECK(textures.usage().total.live_bytes == numbers.capacity() * sizeof(int));
      steward_outstanding left{};
      left.size = sizeof left;
      CHECK(textures.close(&left) == 1 && left.blocks == 1);
      std::vector<int, steward::allocator<int>> moved = std::move(numbers);
      CHECK(moved.size() == 1000);
   }
   steward::context moved = std::move(textures);
   CHECK(!textures && moved.close() == 0 && root.close() == 0);
   void *top = steward_ralloc_size(nullptr, 0);
   node *first = steward::ralloc_new<node>(top, 1);
   node *second = steward::ralloc_new<node>(first, 2);
   CHECK(first->value == 1 && steward_ralloc_parent(second) == first);
   steward_ralloc_free(second);
   CHECK(destroyed == 1);
   steward_ralloc_free(top);
   CHECK(destroyed == 2);
   return 0;
}
