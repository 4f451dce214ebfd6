// The C++ header, used: prints nothing and returns 0.
#include <string>
#include <vector>

#include "check.h"
#include "steward.hpp"

static int destroyed;

struct node {
   int value;
   explicit node(int value) : value(value) {}
   ~node() { destroyed++; }
};

struct shader {
   STEWARD_RALLOC_CXX(shader)
   int number;
   shader *child = nullptr;
   explicit shader(int number) : number(number) {}
   ~shader() { destroyed += number; }
};

#if defined(__cpp_exceptions)
struct throwing {
   throwing() { throw 1; }
   ~throwing() { destroyed += 1000; }
};

struct refusing {
   STEWARD_RALLOC_CXX(refusing)
   refusing() { throw 1; }
   ~refusing() { destroyed += 1000; }
};
#endif

static void owners()
{
   steward::context root = steward::context::over_malloc("root"), device = root.child("device");
   {
      steward::handle held(device), moved = std::move(held);
      CHECK(!held && moved && device.close() == 1);
   }
   CHECK(device.close() == 0);
   device = root.child("device");
   steward::bridge<VkAllocationCallbacks> bridge(device);
   CHECK(bridge && !device && bridge.get() != nullptr);
   const VkAllocationCallbacks *callbacks = bridge.get();
   void *block = callbacks->pfnAllocation(callbacks->pUserData, 100, 16, STEWARD_SCOPE_OBJECT);
   steward::bridge<VkAllocationCallbacks> moved = std::move(bridge);
   CHECK(!bridge && bridge.get() == nullptr && moved);
   CHECK(moved.close(device) == 1 && !device);
   moved.get()->pfnFree(moved.get()->pUserData, block);
   CHECK(moved.close(device) == 0 && device && !moved && moved.close(device) == 0);
   steward::context none;
   steward::bridge<VkAllocationCallbacks> empty(none);
   CHECK(!empty);
#if defined(__cpp_lib_memory_resource)
   {
      steward::memory_resource resource(device);
      std::pmr::vector<std::pmr::string> texts(&resource);
      for (int i = 0; i < 50; i++)
         texts.emplace_back("a text that is too long for the string itself");
      CHECK(device.usage().total.live_blocks == 51 && resource == resource);
   }
#endif
   CHECK(device.usage().total.live_blocks == 0);
   CHECK(device.close() == 0 && root.close() == 0);
}

static void new_and_delete()
{
   destroyed = 0;
   void *top = steward_ralloc_size(nullptr, 0);
   shader *one = new (top) shader(1), *ten = new (one) shader(10), *hundred = new (ten) shader(100);
   CHECK(one->number == 1 && steward_ralloc_parent(hundred) == ten && steward_ralloc_parent(one) == top);
   delete hundred;
   CHECK(destroyed == 100);
   delete ten;
   CHECK(destroyed == 110);
   ten = new (one) shader(10);
   delete one; /* with what is below it */
   CHECK(destroyed == 121);
   delete static_cast<shader *>(nullptr);
#if defined(__cpp_exceptions)
   try {
      new (top) refusing();
      CHECK(!"it throws");
   } catch (int) {
   }
   CHECK(destroyed == 121);
#endif
   one = new (top) shader(1000);
   steward_ralloc_free(top);
   CHECK(destroyed == 1121);
}

struct late {
   STEWARD_RALLOC_CXX(late)
   late() { destroyed++; }
   ~late() { destroyed++; }
};

// Objects that cannot be made leave no block behind. Fills the process's table of destructors, so it comes last.
static void unfinished()
{
   steward::context root = steward::context::over_malloc("root"), child = root.child("child");
   steward_domain *domain = nullptr;
   CHECK(child && steward_domain_new(child.get(), nullptr, &domain) == 0);
   child.release();
   void *top = steward_ralloc_root(domain);
   uint64_t before = root.subtree_usage().total.live_blocks;
   destroyed = 0;
#if defined(__cpp_exceptions)
   try {
      steward::ralloc_new<throwing>(top);
      CHECK(!"it throws");
   } catch (int) {
   }
   CHECK(destroyed == 0 && root.subtree_usage().total.live_blocks == before);
#endif
   // Addresses that nobody calls.
   uintptr_t number = 1;
   while (number < 5000 && steward_ralloc_set_destructor(top, reinterpret_cast<steward_destructor_fn>(number << 4)))
      number++;
   CHECK(number > 4000 && number <= 4095 && steward_ralloc_set_destructor(top, nullptr));
   CHECK(steward::ralloc_new<late>(top) == nullptr && new (top) late() == nullptr);
   CHECK(destroyed == 0 && root.subtree_usage().total.live_blocks == before);
   CHECK(*steward::ralloc_new<int>(top, 7) == 7); // needs none
   steward_ralloc_free(top);
   steward_domain_close(domain);
   CHECK(root.close() == 0);
}

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
   owners();
   new_and_delete();
   unfinished();
}
