// Declarations of what steward.hpp uses of the C++ standard library, for a compiler of Windows that has none of its headers.
#pragma once

#include <stddef.h>
#include <stdint.h>

inline void *operator new(size_t, void *place) noexcept { return place; }

namespace std {

using ::size_t;

class bad_alloc {};
[[noreturn]] void abort();

template <typename T, T v> struct integral_constant {
   static constexpr T value = v;
};
using true_type = integral_constant<bool, true>;
template <typename T> struct is_trivially_destructible : integral_constant<bool, __is_trivially_destructible(T)> {};

template <typename T> struct remove_reference {
   using type = T;
};
template <typename T> struct remove_reference<T &> {
   using type = T;
};
template <typename T> constexpr T &&forward(typename remove_reference<T>::type &value) noexcept { return static_cast<T &&>(value); }
template <typename T> void swap(T &a, T &b) noexcept;
template <typename T, typename U = T> T exchange(T &place, U &&value) noexcept;

} // namespace std
