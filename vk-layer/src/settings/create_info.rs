use std::ffi::{CStr, c_char, c_void};
use std::fmt;

use alloc_core::{HostError, TryString};

use super::entries::{Entries, Form, Source, push};
use crate::chain::{BaseStruct, slice_of, structs};
use crate::record::{Own, own};

pub(crate) const LAYER: &CStr = c"VK_LAYER_STEWARD_memory";
const LAYER_SETTINGS: i32 = 1_000_496_000;

#[repr(C)]
struct LayerSettingsCreateInfo {
    base: BaseStruct,
    setting_count: u32,
    settings: *const LayerSetting,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LayerSetting {
    pub(super) layer_name: *const c_char,
    pub(super) setting_name: *const c_char,
    pub(super) value_type: i32,
    pub(super) value_count: u32,
    pub(super) values: *const c_void,
}

/// # Safety
/// `info` is NULL or a valid create info.
pub(super) unsafe fn push_create_info(entries: &mut Entries, info: *const c_void) -> Result<(), HostError> {
    // SAFETY: NULL, or a valid create info.
    let chain = unsafe { structs(info) };
    for (_, at) in chain.filter(|(s_type, _)| *s_type == LAYER_SETTINGS) {
        // SAFETY: a struct of this type is this large.
        let info = unsafe { at.cast::<LayerSettingsCreateInfo>().as_ref() };
        // SAFETY: a valid struct has so many settings.
        for setting in unsafe { slice_of(info.settings, info.setting_count) } {
            // SAFETY: its settings have names that end with 0, and as many values as they say.
            unsafe { push_setting(entries, setting) }?;
        }
    }
    Ok(())
}

/// # Safety
/// Names end with 0, and there are `value_count` values of the type.
pub(super) unsafe fn push_setting(entries: &mut Entries, setting: &LayerSetting) -> Result<(), HostError> {
    // SAFETY: NULL, or a name that ends with 0.
    let layer = unsafe { text_of(setting.layer_name) };
    // SAFETY: NULL, or a name that ends with 0.
    let name = unsafe { text_of(setting.setting_name) };
    if layer != Some(LAYER) {
        return Ok(());
    }
    // No setting has an empty name: this is reported.
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or_default();
    // SAFETY: the setting has `value_count` values of its type.
    let (form, value) = unsafe { value_of(setting) }?;
    push(entries, Source::CreateInfo, name, form, &value)
}

/// Settings of this layer have one value. For anything else the text says what is wrong.
///
/// # Safety
/// There are `value_count` values of the type.
unsafe fn value_of(setting: &LayerSetting) -> Result<(Form, TryString<Own>), HostError> {
    let mut text = TryString::new_in(own());
    match (setting.value_type, setting.value_count) {
        (..0 | 8.., _) => {
            text.try_write_fmt(format_args!("values of the unknown type {}", setting.value_type))?;
        }
        (_, 0) => text.try_push_str("no value: valueCount is 0")?,
        _ if setting.values.is_null() => text.try_push_str("no value: pValues is NULL")?,
        (_, 2..) => text.try_write_fmt(format_args!("{} values", setting.value_count))?,
        _ => {
            // SAFETY: one value of a known type; the pointer is not NULL.
            let form = unsafe { push_value(&mut text, setting.value_type, setting.values) }?;
            return Ok((form, text));
        }
    }
    Ok((Form::Fault, text))
}

/// # Safety
/// `values` points to a value of the type, which is one of `VkLayerSettingTypeEXT`.
unsafe fn push_value(text: &mut TryString<Own>, value_type: i32, values: *const c_void) -> Result<Form, HostError> {
    match value_type {
        0 => {
            // SAFETY: `VK_LAYER_SETTING_TYPE_BOOL32_EXT`: `VkBool32`.
            let value = unsafe { values.cast::<u32>().read() };
            match value {
                0 => text.try_push_str("false")?,
                1 => text.try_push_str("true")?,
                other => text.try_write_fmt(format_args!("{other}"))?,
            }
            return Ok(Form::Boolean);
        }
        // SAFETY: `VK_LAYER_SETTING_TYPE_INT32_EXT`.
        1 => unsafe { push_number::<i32>(text, values) }?,
        // SAFETY: `VK_LAYER_SETTING_TYPE_INT64_EXT`.
        2 => unsafe { push_number::<i64>(text, values) }?,
        // SAFETY: `VK_LAYER_SETTING_TYPE_UINT32_EXT`.
        3 => unsafe { push_number::<u32>(text, values) }?,
        // SAFETY: `VK_LAYER_SETTING_TYPE_UINT64_EXT`.
        4 => unsafe { push_number::<u64>(text, values) }?,
        // SAFETY: `VK_LAYER_SETTING_TYPE_FLOAT32_EXT`.
        5 => unsafe { push_number::<f32>(text, values) }?,
        // SAFETY: `VK_LAYER_SETTING_TYPE_FLOAT64_EXT`.
        6 => unsafe { push_number::<f64>(text, values) }?,
        _ => {
            // SAFETY: `VK_LAYER_SETTING_TYPE_STRING_EXT`: pointers to strings.
            let value = unsafe { values.cast::<*const c_char>().read() };
            // SAFETY: NULL, or a string that ends with 0.
            let value = unsafe { text_of(value) }.map(CStr::to_str);
            let (form, value) = match value {
                Some(Ok(value)) => (Form::Text, value),
                Some(Err(_)) => (Form::Fault, "a string that is not UTF-8"),
                None => (Form::Fault, "no value: the string is NULL"),
            };
            text.try_push_str(value)?;
            return Ok(form);
        }
    }
    Ok(Form::Number)
}

/// # Safety
/// `values` points to a value of this type.
unsafe fn push_number<T: fmt::Display>(text: &mut TryString<Own>, values: *const c_void) -> Result<(), HostError> {
    // SAFETY: `values` points to a value of `T`.
    let value = unsafe { values.cast::<T>().read() };
    text.try_write_fmt(format_args!("{value}"))
}

/// # Safety
/// `text` is NULL, or a string that ends with 0 and lives as long as the create info.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a CStr> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, so a string that ends with 0 and lives as long.
    Some(unsafe { CStr::from_ptr(text) })
}
