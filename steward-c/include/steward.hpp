// Steward for C++17: move-only owners, and an allocator for containers. Only `allocator` throws, as containers expect, where exceptions are on.
#ifndef STEWARD_HPP
#define STEWARD_HPP

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include "steward-ralloc.h"

namespace steward {

// Owns a context, and closes it. The destructor leaves one that has blocks.
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

// A counted handle: the context cannot be closed before it is gone.
class handle {
public:
   handle() = default;
   explicit handle(const context &owner) : handle_(owner.get() ? steward_retain(owner.get()) : nullptr) {}
   handle(handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
   handle &operator=(handle &&other) noexcept
   {
      std::swap(handle_, other.handle_);
      return *this;
   }
   handle(const handle &) = delete;
   handle &operator=(const handle &) = delete;
   ~handle() { steward_release(handle_); }
   explicit operator bool() const { return handle_ != nullptr; }

private:
   steward_handle *handle_ = nullptr;
};

// A context as callbacks for Vulkan. `Callbacks` is VkAllocationCallbacks. The destructor leaves one whose blocks Vulkan holds.
template <typename Callbacks> class bridge {
public:
   bridge() = default;
   // Empty where it is refused, and then `owner` is as it was.
   explicit bridge(context &owner)
   {
      is_open_ = owner && steward_bridge_init(&place_, owner.get(), &callbacks_) == 0;
      if (is_open_)
         owner.release();
   }
   bridge(bridge &&other) noexcept
      : place_(other.place_), callbacks_(other.callbacks_), is_open_(std::exchange(other.is_open_, false))
   {
   }
   bridge &operator=(bridge &&other) noexcept
   {
      std::swap(place_, other.place_);
      std::swap(callbacks_, other.callbacks_);
      std::swap(is_open_, other.is_open_);
      return *this;
   }
   bridge(const bridge &) = delete;
   bridge &operator=(const bridge &) = delete;
   ~bridge()
   {
      context owner;
      close(owner);
   }

   explicit operator bool() const { return is_open_; }
   // What to pass as pAllocator; NULL where the bridge is empty. It moves with the bridge: Vulkan keeps no address of it.
   const Callbacks *get() const { return is_open_ ? &callbacks_ : nullptr; }
   int32_t close(context &owner)
   {
      steward_context *back = nullptr;
      int32_t result = is_open_ ? steward_bridge_close(&place_, &back) : 0;
      if (is_open_ && result == 0) {
         is_open_ = false;
         owner = context(back);
      }
      return result;
   }

private:
   steward_bridge place_{};
   Callbacks callbacks_{};
   bool is_open_ = false;
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
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
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

#if defined(__cpp_lib_memory_resource)
// The same for containers of std::pmr. The context outlives it.
class memory_resource : public std::pmr::memory_resource {
public:
   explicit memory_resource(const context &owner) : owner_(owner.get()) {}

private:
   void *do_allocate(std::size_t size, std::size_t align) override
   {
      void *block = steward_alloc(owner_, size, align, STEWARD_SCOPE_DEFAULT);
      if (block == nullptr) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
         throw std::bad_alloc();
#else
         std::abort();
#endif
      }
      return block;
   }
   void do_deallocate(void *block, std::size_t size, std::size_t align) override
   {
      steward_free(owner_, block, size, align, STEWARD_SCOPE_DEFAULT);
   }
   bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

   steward_context *owner_;
};
#endif

// A block below `parent` that holds a T, whose destructor runs once. NULL, and no constructor, where there is no memory or no room for the
// destructor. Where a constructor throws, the block is freed without a destructor.
template <typename T, typename... Arguments> T *ralloc_new(const void *parent, Arguments &&...arguments)
{
   static_assert(alignof(T) <= 16, "payloads are aligned to 16 bytes");
   struct guard {
      void *block;
      ~guard()
      {
         if (block == nullptr)
            return;
         steward_ralloc_set_destructor(block, nullptr); // nothing is there to be destroyed
         steward_ralloc_free(block);
      }
   } unfinished{steward_ralloc_size(parent, sizeof(T))};
   if (unfinished.block == nullptr)
      return nullptr;
   if constexpr (!std::is_trivially_destructible<T>::value) {
      if (!steward_ralloc_set_destructor(unfinished.block, [](void *payload) { static_cast<T *>(payload)->~T(); }))
         return nullptr;
   }
   T *value = new (unfinished.block) T(std::forward<Arguments>(arguments)...);
   unfinished.block = nullptr;
   return value;
}

} // namespace steward

// Within a class: `new (parent) Type(..)` makes a block below `parent`, as `ralloc_new` does. It may be deleted, or freed with its parent.
#define STEWARD_RALLOC_CXX(Type)                                                                                        \
   static void *operator new(std::size_t size, const void *parent) noexcept                                             \
   {                                                                                                                    \
      static_assert(alignof(Type) <= 16, "payloads are aligned to 16 bytes");                                           \
      void *block = steward_ralloc_size(parent, size);                                                                  \
      if (block == nullptr || std::is_trivially_destructible<Type>::value ||                                            \
          steward_ralloc_set_destructor(block, [](void *payload) { static_cast<Type *>(payload)->~Type(); }))           \
         return block;                                                                                                  \
      steward_ralloc_free(block);                                                                                       \
      return nullptr;                                                                                                   \
   }                                                                                                                    \
   static void operator delete(void *block) noexcept                                                                    \
   {                                                                                                                    \
      steward_ralloc_set_destructor(block, nullptr); /* it ran */                                                       \
      steward_ralloc_free(block);                                                                                       \
   }                                                                                                                    \
   static void operator delete(void *block, const void *) noexcept { operator delete(block); }

#endif
