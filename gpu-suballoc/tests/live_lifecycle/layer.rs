//! A device under the Khronos validation layer, synchronization validation included, and what the layer says of it.

use crate::*;

use crate::live::{Between, Live, is_selected, loader};

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// What was said so far, oldest first; any thread.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What was said since the last time.
pub fn said() -> Vec<String> {
    std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner))
}

unsafe extern "system" fn hear(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: Vulkan passes a valid structure for the length of this call.
    let message = unsafe { (*data).p_message };
    let text = if message.is_null() {
        Cow::Borrowed("(no text)")
    } else {
        // SAFETY: a C string for the length of this call.
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push(text.into_owned());
    vk::FALSE
}

fn messenger<'a>() -> vk::DebugUtilsMessengerCreateInfoEXT<'a> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(hear))
}

/// What is missing, and why.
pub type Missing = (&'static str, String);

/// Whether a driver's own name is that of the wanted one.
type IsDriver = fn(&str) -> bool;

/// The drivers by name, each with how it calls itself.
const DRIVERS: [(&str, IsDriver); 3] = [
    ("lavapipe", |driver| driver == "llvmpipe"),
    ("swiftshader", |driver| driver.contains("SwiftShader")),
    ("nvidia", |driver| driver == "NVIDIA"),
];

/// Runs a test, if it is asked for, on each driver that is there. It answers what it has to say.
pub fn on_each_driver(name: &str, test: impl Fn(&'static str, IsDriver) -> Result<String, Missing>) {
    if !is_selected(name) {
        return;
    }
    for (driver, which) in DRIVERS {
        match test(driver, which) {
            Ok(said) => println!("test {name} on {said} ... ok"),
            Err((what, reason)) => testkit::skip(what, name, &reason),
        }
    }
}

/// The first device of a driver, watched from its instance's first call to its last; or what is missing.
pub fn watched(driver: &'static str, which: impl Fn(&str) -> bool) -> Result<Live, Missing> {
    let absent = |reason| (driver, reason);
    let (entry, version) = loader().map_err(absent)?;
    let application = vk::ApplicationInfo::default().application_name(c"gpu-suballoc tests").api_version(version);
    let layers: [*const c_char; 1] = [LAYER.as_ptr()];
    let extensions = [vk::EXT_DEBUG_UTILS_NAME.as_ptr(), vk::EXT_VALIDATION_FEATURES_NAME.as_ptr()];
    // The layer looks for missing barriers only where that is asked for.
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    // In the chain it hears of the instance's own beginning and end.
    let mut chained = messenger();
    let info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_layer_names(&layers)
        .enabled_extension_names(&extensions)
        .push_next(&mut chained)
        .push_next(&mut features);
    // SAFETY: a valid info; destroyed with the value.
    let instance = match unsafe { entry.create_instance(&info, None) } {
        Ok(instance) => instance,
        Err(vk::Result::ERROR_LAYER_NOT_PRESENT) => {
            return Err(("validation", "the Khronos validation layer is not installed".to_owned()));
        }
        Err(result) => return Err(absent(format!("no driver: {result:?}"))),
    };
    let debug = ash::ext::debug_utils::Instance::new(&entry, &instance);
    // SAFETY: the extension is enabled; destroyed between device and instance.
    let ear = unsafe { debug.create_debug_utils_messenger(&messenger(), None) }.expect("a messenger");
    // SAFETY: the only one of it, while the instance lives.
    let end = move || unsafe { debug.destroy_debug_utils_messenger(ear, None) };
    let between: Between = Some(Box::new(end));
    Live::on(&entry, instance, (version, None), between, which).map_err(absent)
}
