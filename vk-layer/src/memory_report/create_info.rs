//! The program's create info of a device that is to report, with the extension, its feature and a callback of ours in
//! front of the chain. Callbacks of the program stay behind, and are called as well.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use alloc_core::TryVec;

use super::{MemoryReports, ReportEvent, reported};
use crate::chain::{BaseStruct, slice_of, structs};
use crate::physical_device::{EnumerateExtensions, ExtensionProperties};
use crate::record::{Own, own};

const EXTENSION: &CStr = c"VK_EXT_device_memory_report";
const FEATURES: i32 = 1_000_284_000;
const CALLBACK: i32 = 1_000_284_001;

#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceCreateInfo {
    s_type: i32,
    p_next: *const c_void,
    flags: u32,
    queue_count: u32,
    queues: *const c_void,
    layer_count: u32,
    layers: *const *const c_char,
    extension_count: u32,
    extensions: *const *const c_char,
    features: *const c_void,
}

#[repr(C)]
struct ReportFeatures {
    base: BaseStruct,
    device_memory_report: u32,
}

#[repr(C)]
struct ReportCallback {
    base: BaseStruct,
    flags: u32,
    callback: unsafe extern "system" fn(*const ReportEvent, *mut c_void),
    user_data: *mut c_void,
}

fn is_wanted(extension: &ExtensionProperties) -> bool {
    let wanted = EXTENSION.to_bytes_with_nul();
    // A character of C has a sign on some processors.
    let bytes = extension.name.iter().map(|byte| byte.to_ne_bytes());
    let name = bytes.map(u8::from_ne_bytes);
    name.take(wanted.len()).eq(wanted.iter().copied())
}

/// The structs must stay where they are while the device is created.
pub(crate) struct ReportingDevice {
    info: DeviceCreateInfo,
    extensions: TryVec<*const c_char, Own>,
    features: ReportFeatures,
    callback: ReportCallback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReporting {
    NotOffered,
    FeatureIsOff,
    NoMemory,
}

impl NotReporting {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NotOffered => "the device does not offer VK_EXT_device_memory_report",
            Self::FeatureIsOff => "the program names the feature deviceMemoryReport, and leaves it off",
            Self::NoMemory => "out of host memory",
        }
    }
}

/// # Safety
/// `info` is a valid `VkDeviceCreateInfo`.
pub(crate) unsafe fn enables(info: *const c_void, extension: &CStr) -> bool {
    // SAFETY: a `VkDeviceCreateInfo`.
    let info = unsafe { *info.cast::<DeviceCreateInfo>() };
    // SAFETY: a valid create info has so many names.
    let names = unsafe { slice_of(info.extensions, info.extension_count) };
    // SAFETY: names that end with 0.
    let is_it = |name: &*const c_char| unsafe { CStr::from_ptr(*name) } == extension;
    names.iter().any(is_it)
}

impl ReportingDevice {
    /// # Safety
    /// `info` is a `VkDeviceCreateInfo` for this physical device, and lives as long as this value.
    pub(crate) unsafe fn new(
        info: *const c_void,
        reports: &'static MemoryReports,
        (enumerate, physical_device): (EnumerateExtensions, *mut c_void),
    ) -> Result<Self, NotReporting> {
        // SAFETY: the layer's below, and a physical device of its instance.
        if !unsafe { is_offered(enumerate, physical_device) }? {
            return Err(NotReporting::NotOffered);
        }
        // SAFETY: a valid `VkDeviceCreateInfo`.
        let is_named = unsafe { enables(info, EXTENSION) };
        // SAFETY: a `VkDeviceCreateInfo`.
        let info = unsafe { *info.cast::<DeviceCreateInfo>() };
        // SAFETY: a valid create info has a valid chain.
        let feature = unsafe { feature_of(info.p_next) };
        if feature == Some(0) {
            return Err(NotReporting::FeatureIsOff);
        }
        let mut extensions = TryVec::new_in(own());
        // SAFETY: a valid create info has so many names.
        let named = unsafe { slice_of(info.extensions, info.extension_count) };
        let pushed = extensions.try_extend_from_slice(named);
        pushed.map_err(|_| NotReporting::NoMemory)?;
        if !is_named {
            let pushed = extensions.try_push(EXTENSION.as_ptr());
            pushed.map_err(|_| NotReporting::NoMemory)?;
        }
        Ok(Self {
            info,
            extensions,
            features: ReportFeatures {
                base: BaseStruct {
                    s_type: if feature.is_none() { FEATURES } else { 0 },
                    p_next: info.p_next.cast_mut().cast(),
                },
                device_memory_report: 1,
            },
            callback: ReportCallback {
                base: BaseStruct { s_type: CALLBACK, p_next: ptr::null_mut() },
                flags: 0,
                callback: reported,
                user_data: ptr::from_ref(reports).cast_mut().cast(),
            },
        })
    }

    /// The answer is valid while this value stays where it is.
    pub(crate) fn info(&mut self) -> *const c_void {
        let behind = if self.features.base.s_type == FEATURES {
            (&raw mut self.features).cast()
        } else {
            self.features.base.p_next
        };
        self.callback.base.p_next = behind;
        self.info.p_next = (&raw const self.callback).cast();
        self.info.extension_count = self.extensions.len().try_into().unwrap_or(u32::MAX);
        self.info.extensions = self.extensions.as_ptr();
        (&raw const self.info).cast()
    }
}

/// # Safety
/// The chain is valid.
unsafe fn feature_of(chain: *const c_void) -> Option<u32> {
    // SAFETY: a valid chain.
    let (_, feature) = unsafe { structs(chain) }.find(|(s_type, _)| *s_type == FEATURES)?;
    // SAFETY: a struct of this type.
    Some(unsafe { feature.cast::<ReportFeatures>().as_ref() }.device_memory_report)
}

/// # Safety
/// The function of the layer below, and a physical device of its instance.
unsafe fn is_offered(enumerate: EnumerateExtensions, physical_device: *mut c_void) -> Result<bool, NotReporting> {
    let mut count = 0;
    // SAFETY: the layer's below; NULL asks for the number.
    let result = unsafe { enumerate(physical_device, ptr::null(), &raw mut count, ptr::null_mut()) };
    if result < 0 {
        return Ok(false);
    }
    let none = ExtensionProperties { name: [0; 256], version: 0 };
    let mut all = TryVec::new_in(own());
    all.try_resize(count as usize, none).map_err(|_| NotReporting::NoMemory)?;
    // SAFETY: the layer's below; room for `count` of them.
    let result = unsafe { enumerate(physical_device, ptr::null(), &raw mut count, all.as_mut_ptr()) };
    let written = all.iter().take(count as usize);
    Ok(result >= 0 && written.into_iter().any(is_wanted))
}
