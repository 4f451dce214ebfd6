// What both examples in C++ need of Vulkan before they begin: an instance, and its first device with a queue of family 0.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdio>

inline VkResult create_instance(uint32_t version, const VkAllocationCallbacks *callbacks, VkInstance *instance)
{
   VkApplicationInfo application{};
   application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
   application.apiVersion = version;
   VkInstanceCreateInfo info{};
   info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
   info.pApplicationInfo = &application;
   return vkCreateInstance(&info, callbacks, instance);
}

inline VkResult create_device(VkInstance instance, const VkAllocationCallbacks *callbacks, VkPhysicalDevice *physical, VkDevice *device)
{
   uint32_t count = 1;
   VkResult found = vkEnumeratePhysicalDevices(instance, &count, physical);
   if (found < 0 || count == 0)
      return VK_ERROR_INITIALIZATION_FAILED;
   VkPhysicalDeviceProperties properties;
   vkGetPhysicalDeviceProperties(*physical, &properties);
   std::printf("driver: %s\n", properties.deviceName);
   float priority = 1;
   VkDeviceQueueCreateInfo queue_info{};
   queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
   queue_info.queueCount = 1;
   queue_info.pQueuePriorities = &priority;
   VkDeviceCreateInfo info{};
   info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
   info.queueCreateInfoCount = 1;
   info.pQueueCreateInfos = &queue_info;
   return vkCreateDevice(*physical, &info, callbacks, device);
}
