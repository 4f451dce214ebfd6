// Each template of steward.hpp once, for a compiler that only reads.
#include "steward.hpp"

struct VkAllocationCallbacks {
   int field;
};

struct pass {
   ~pass() {}
   STEWARD_RALLOC_CXX(pass)
};

pass *use(const steward::context &owner, void *top)
{
   steward::context child = owner.child("child");
   steward::handle handle(child);
   steward::bridge<VkAllocationCallbacks> bridge(child);
   steward::allocator<int> allocator(owner);
   allocator.deallocate(allocator.allocate(3), 3);
   delete new (top) pass;
   return steward::ralloc_new<pass>(top);
}
