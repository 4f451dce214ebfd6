//! Receives the messages of the validation layer (`VK_EXT_debug_utils`).

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::mem;
use std::sync::{Mutex, PoisonError};

use ash::ext::debug_utils;
use ash::vk;

use super::error::WorkloadError;
use super::instance::Instance;

/// The messages so far, oldest first. Layers may report from any thread.
#[derive(Debug, Default)]
pub(super) struct Messages(Mutex<Vec<String>>);

impl Messages {
    /// Removes and returns the messages since the last call.
    pub(super) fn drain(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, message: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
    }
}

/// Warnings and errors, to `messages`.
pub(super) fn create_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'_> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING
                | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        )
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(messages).cast_mut().cast())
}

unsafe extern "system" fn on_message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: Vulkan passes a valid structure for the length of this call.
    let data = unsafe { data.as_ref() };
    // SAFETY: the pointer is the `Messages` given in `create_info`, which outlives instance and messenger and is only shared.
    let messages = unsafe { messages.cast::<Messages>().as_ref() };
    if let (Some(data), Some(messages)) = (data, messages) {
        let text = if data.p_message.is_null() {
            Cow::Borrowed("(no text)")
        } else {
            // SAFETY: not NULL, so a NUL-terminated string that lives for the length of this call.
            unsafe { CStr::from_ptr(data.p_message) }.to_string_lossy()
        };
        messages.push(text.into_owned());
    }
    vk::FALSE
}

/// Owns the messenger, an object of the loader.
pub(super) struct Messenger<'i> {
    instance: &'i Instance<'i>,
    commands: debug_utils::Instance,
    handle: vk::DebugUtilsMessengerEXT,
}

impl<'i> Messenger<'i> {
    /// `messages` outlives the messenger, and the instance was created with `VK_EXT_debug_utils`, so that it has the commands.
    ///
    /// # Errors
    /// The driver refuses.
    pub(super) fn new(
        instance: &'i Instance<'i>,
        messages: &'i Messages,
    ) -> Result<Self, WorkloadError> {
        let commands = debug_utils::Instance::new(instance.entry(), instance);
        let info = create_info(messages);
        // SAFETY: the instance lives, `info` is a local, `messages` outlives the messenger by `'i`.
        let handle = unsafe { commands.create_debug_utils_messenger(&info, None) }
            .map_err(WorkloadError::of("vkCreateDebugUtilsMessengerEXT"))?;
        Ok(Self {
            instance,
            commands,
            handle,
        })
    }
}

impl Drop for Messenger<'_> {
    fn drop(&mut self) {
        self.instance.phases().begin("shutdown");
        // SAFETY: created by this instance, and destroyed only here.
        unsafe {
            self.commands
                .destroy_debug_utils_messenger(self.handle, None)
        };
    }
}
