// Steward for C++17: move-only owners, and an allocator for containers. No exceptions are needed; only `allocator` throws, as containers expect,
// where they are on.
#ifndef STEWARD_HPP
#define STEWARD_HPP

#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "steward-ralloc.h"

namespace steward {

// Owns a context, and closes it. One that cannot be closed, since blocks are left, stays: `close` says so, the destructor leaves it.
class context {
public:
   context() = default;
   explicit context(steward_context *owner) : owner_(owner) {}
   context(context &&other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
   context &operator=(context &&other) noexcept
   {
      std::swap(owner_, other.owner_);
      return *this;
   }
   context(const context &) = delete;
   context &operator=(const context &) = delete;
   ~context() { close(); }

   // Empty where it is refused.
   static context over_malloc(const char *name)
   {
      context root;
      steward_root_malloc(name, &root.owner_);
      return root;
   }
   static context over_callbacks(const VkAllocationCallbacks *callbacks, int32_t scope, const char *name)
   {
      context root;
      steward_root_from_callbacks(callbacks, scope, name, &root.owner_);
      return root;
   }
   context child(const char *name, const steward_options *options = nullptr) const
   {
      context below;
      steward_child(owner_, name, options, &below.owner_);
      return below;
   }

   explicit operator bool() const { return owner_ != nullptr; }
   steward_context *get() const { return owner_; }
   steward_context *release() { return std::exchange(owner_, nullptr); }
   int32_t close(steward_outstanding *left = nullptr)
   {
      int32_t result = owner_ ? steward_close(owner_, left) : 0;
      if (result == 0)
         owner_ = nullptr;
      return result;
   }
   steward_usage_info usage() const
   {
      steward_usage_info info{};
      info.size = sizeof info;
      steward_usage(owner_, &info);
      return info;
   }
   steward_usage_info subtree_usage() const
   {
      steward_usage_info info{};
      info.size = sizeof info;
      steward_subtree_usage(owner_, &info);
      return info;
   }

private:
   steward_context *owner_ = nullptr;
};

// A context's memory for a container. The context outlives it.
template <typename T> class allocator {
public:
   using value_type = T;
   using propagate_on_container_move_assignment = std::true_type;
   using propagate_on_container_swap = std::true_type;

   explicit allocator(const context &owner) : owner_(owner.get()) {}
   template <typename U> allocator(const allocator<U> &other) : owner_(other.owner()) {}

   T *allocate(std::size_t count)
   {
      void *block = count > SIZE_MAX / sizeof(T) ? nullptr : steward_alloc(owner_, count * sizeof(T), alignof(T), STEWARD_SCOPE_DEFAULT);
      if (block == nullptr) {
#if defined(__cpp_exceptions)
         throw std::bad_alloc();
#else
         std::abort();
#endif
      }
      return static_cast<T *>(block);
   }
   void deallocate(T *block, std::size_t count)
   {
      steward_free(owner_, block, count * sizeof(T), alignof(T), STEWARD_SCOPE_DEFAULT);
   }
   steward_context *owner() const { return owner_; }
   template <typename U> bool operator==(const allocator<U> &other) const { return owner_ == other.owner(); }
   template <typename U> bool operator!=(const allocator<U> &other) const { return owner_ != other.owner(); }

private:
   steward_context *owner_;
};

// A block below `parent` that holds a T, whose destructor runs once, when the block is freed. NULL where there is no memory.
template <typename T, typename... Arguments> T *ralloc_new(const void *parent, Arguments &&...arguments)
{
   static_assert(alignof(T) <= 16, "payloads are aligned to 16 bytes");
   void *block = steward_ralloc_size(parent, sizeof(T));
   if (block == nullptr)
      return nullptr;
   T *value = new (block) T(std::forward<Arguments>(arguments)...);
   if (!std::is_trivially_destructible<T>::value)
      steward_ralloc_set_destructor(block, [](void *payload) { static_cast<T *>(payload)->~T(); });
   return value;
}

} // namespace steward

#endif
