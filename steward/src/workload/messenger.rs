//! Receives the messages of the validation layer (`VK_EXT_debug_utils`).

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::mem;
use std::sync::{Mutex, PoisonError};

use ash::vk::{self, Handle as _};

use super::error::WorkloadError;
use super::instance::Instance;
use vk_accounts::CreatedObject;
use vk_accounts::ObjectKind;

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
    handle: vk::DebugUtilsMessengerEXT,
    allocator: *const vk::AllocationCallbacks<'i>,
    destroy: vk::PFN_vkDestroyDebugUtilsMessengerEXT,
}

impl<'i> Messenger<'i> {
    /// # Errors
    /// The instance lacks `VK_EXT_debug_utils`, or the driver refuses.
    pub(super) fn new(
        instance: &'i Instance<'i>,
        messages: &'i Messages,
    ) -> Result<Self, WorkloadError> {
        let create = instance.extension_command(c"vkCreateDebugUtilsMessengerEXT");
        let destroy = instance.extension_command(c"vkDestroyDebugUtilsMessengerEXT");
        let (Some(create), Some(destroy)) = (create, destroy) else {
            return Err(WorkloadError::MissingCommand { level: "instance" });
        };
        // SAFETY: the address of the command of that name, which has this type.
        let create: vk::PFN_vkCreateDebugUtilsMessengerEXT = unsafe { mem::transmute(create) };
        // SAFETY: as above.
        let destroy: vk::PFN_vkDestroyDebugUtilsMessengerEXT = unsafe { mem::transmute(destroy) };

        let (kind, info) = (ObjectKind::DebugUtilsMessengerEXT, create_info(messages));
        let allocator = instance.caller().callbacks(kind);
        let mut handle = vk::DebugUtilsMessengerEXT::null();
        let out = &raw mut handle;
        instance
            .caller()
            .check("vkCreateDebugUtilsMessengerEXT", kind, || {
                // SAFETY: the instance lives, `info` is a local, `messages` outlives the messenger by `'i`.
                unsafe { create(instance.handle(), &raw const info, allocator, out) }
            })?;
        let messenger = Self {
            instance,
            handle,
            allocator,
            destroy,
        };
        instance.caller().created(&messenger.created());
        Ok(messenger)
    }

    fn created(&self) -> CreatedObject<'i> {
        let (handle, parent) = (self.handle.as_raw(), self.instance.handle().as_raw());
        CreatedObject {
            kind: ObjectKind::DebugUtilsMessengerEXT,
            handle,
            parent,
            allocator: self.allocator,
        }
    }
}

impl Drop for Messenger<'_> {
    fn drop(&mut self) {
        self.instance.caller().phase("shutdown");
        self.instance
            .caller()
            .end("vkDestroyDebugUtilsMessengerEXT", &[self.created()], || {
                // SAFETY: created by this instance with these callbacks, and destroyed only here.
                unsafe { (self.destroy)(self.instance.handle(), self.handle, self.allocator) }
            });
    }
}
