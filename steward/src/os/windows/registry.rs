//! The registry's values, and the key of Khronos.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_SUCCESS};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE, KEY_READ, KEY_SET_VALUE, REG_DWORD, REG_MULTI_SZ,
    REG_OPTION_NON_VOLATILE, REG_SZ, RegCloseKey, RegCreateKeyExW, RegDeleteValueW, RegEnumKeyExW, RegEnumValueW,
    RegOpenKeyExW, RegSetValueExW,
};

use super::text::{from_wide, to_wide};

/// Units of a value's name at most, and one.
const NAME_UNITS: usize = 1 << 14;
/// Bytes of a value that is read.
const VALUE_BYTES: usize = 1 << 13;
/// Display adapters, and software components of one: the driver's installer names its manifest there.
const ADAPTERS: [&str; 2] = [
    r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}",
    r"SYSTEM\CurrentControlSet\Control\Class\{5c4c3332-344d-483c-8739-259e934c9cc8}",
];
const OF_ADAPTER: &str = "VulkanDriverName";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hive {
    Machine,
    User,
}

struct RegistryKey(HKEY);

impl RegistryKey {
    fn open(hive: HKEY, name: &str, rights: u32) -> io::Result<Self> {
        let mut key = ptr::null_mut();
        // SAFETY: an open key, a name that ends with 0, and a place for the new one.
        let result = unsafe { RegOpenKeyExW(hive, to_wide(name).as_ptr(), 0, rights, &raw mut key) };
        checked(result).map(|()| Self(key))
    }

    fn in_hive(hive: Hive, name: &str) -> io::Result<Self> {
        Self::open(hive.key(), name, KEY_READ)
    }

    /// Names, kinds and bytes. A value that is too long is left out.
    fn values(&self) -> Vec<(OsString, u32, Vec<u8>)> {
        let mut values = Vec::new();
        for index in 0.. {
            let mut name = vec![0; NAME_UNITS];
            let mut units = NAME_UNITS as u32;
            let mut bytes = vec![0; VALUE_BYTES];
            let (mut kind, mut length) = (0, VALUE_BYTES as u32);
            // SAFETY: an open key, and so much room for name and value.
            let result = unsafe {
                RegEnumValueW(
                    self.0,
                    index,
                    name.as_mut_ptr(),
                    &raw mut units,
                    ptr::null(),
                    &raw mut kind,
                    bytes.as_mut_ptr(),
                    &raw mut length,
                )
            };
            match result {
                ERROR_SUCCESS => {}
                ERROR_MORE_DATA => continue,
                _ => break,
            }
            bytes.truncate(length as usize);
            values.push((from_wide(&name), kind, bytes));
        }
        values
    }

    fn subkeys(&self) -> Vec<String> {
        let mut names = Vec::new();
        for index in 0.. {
            let mut name = [0; 256];
            let mut units = 256;
            // SAFETY: an open key, and so much room for a name.
            let result = unsafe {
                RegEnumKeyExW(
                    self.0,
                    index,
                    name.as_mut_ptr(),
                    &raw mut units,
                    ptr::null(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            if result != ERROR_SUCCESS {
                break;
            }
            names.push(from_wide(&name).to_string_lossy().into_owned());
        }
        names
    }
}

impl Drop for RegistryKey {
    fn drop(&mut self) {
        // SAFETY: opened by this.
        unsafe { RegCloseKey(self.0) };
    }
}

impl Hive {
    const fn key(self) -> HKEY {
        match self {
            Self::Machine => HKEY_LOCAL_MACHINE,
            Self::User => HKEY_CURRENT_USER,
        }
    }
}

fn khronos(key: &str) -> String {
    format!(r"SOFTWARE\Khronos\Vulkan\{key}")
}

fn checked(result: u32) -> io::Result<()> {
    match result {
        ERROR_SUCCESS => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.cast_signed())),
    }
}

/// The files that a key of Khronos lists: the names of values that are 0.
pub(super) fn listed(hive: Hive, key: &str) -> Vec<PathBuf> {
    let Ok(key) = RegistryKey::in_hive(hive, &khronos(key)) else {
        return Vec::new();
    };
    let is_on = |kind: u32, bytes: &[u8]| kind == REG_DWORD && bytes == [0; 4];
    let values = key.values().into_iter();
    values.filter(|(_, kind, bytes)| is_on(*kind, bytes)).map(|(name, ..)| name.into()).collect()
}

/// Manifests that came with the drivers of display adapters.
pub(super) fn of_adapters() -> Vec<PathBuf> {
    let classes = ADAPTERS.into_iter();
    let classes = classes.filter_map(|class| RegistryKey::in_hive(Hive::Machine, class).ok());
    let keys = classes.flat_map(|class| {
        let names = class.subkeys();
        let open = |name: &String| RegistryKey::open(class.0, name, KEY_READ).ok();
        // Opened here: behind it the class's key is closed.
        names.iter().filter_map(open).collect::<Vec<_>>()
    });
    let values = keys.flat_map(|key| key.values());
    let values = values.filter(|(name, kind, _)| name == OF_ADAPTER && [REG_SZ, REG_MULTI_SZ].contains(kind));
    let mut files: Vec<PathBuf> = Vec::new();
    for (_, _, bytes) in values {
        let units = bytes.chunks_exact(2).map(|unit| u16::from_ne_bytes([unit[0], unit[1]]));
        let units: Vec<_> = units.collect();
        let names = units.split(|unit| *unit == 0).filter(|name| !name.is_empty());
        for file in names.map(|name| PathBuf::from(from_wide(name))) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// Adds a file to what the key of the user lists.
pub(super) fn enlist(key: &str, file: &Path) -> io::Result<()> {
    let mut opened = ptr::null_mut();
    // SAFETY: a name that ends with 0, and a place for the key.
    let result = unsafe {
        RegCreateKeyExW(
            HKEY_CURRENT_USER,
            to_wide(khronos(key)).as_ptr(),
            0,
            ptr::null(),
            REG_OPTION_NON_VOLATILE,
            KEY_SET_VALUE,
            ptr::null(),
            &raw mut opened,
            ptr::null_mut(),
        )
    };
    let opened = checked(result).map(|()| RegistryKey(opened))?;
    let on = 0_u32.to_ne_bytes();
    // SAFETY: an open key, a name that ends with 0, and the four bytes of a number.
    let result =
        unsafe { RegSetValueExW(opened.0, to_wide(file).as_ptr(), 0, REG_DWORD, on.as_ptr(), on.len() as u32) };
    checked(result)
}

/// Takes a file out of what the key of the user lists. Returns whether it was there.
pub(super) fn strike(key: &str, file: &Path) -> io::Result<bool> {
    let opened = match RegistryKey::open(HKEY_CURRENT_USER, &khronos(key), KEY_SET_VALUE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    // SAFETY: an open key, and a name that ends with 0.
    match unsafe { RegDeleteValueW(opened.0, to_wide(file).as_ptr()) } {
        ERROR_FILE_NOT_FOUND => Ok(false),
        result => checked(result).map(|()| true),
    }
}
