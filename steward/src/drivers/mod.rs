//! Finding Vulkan drivers.
