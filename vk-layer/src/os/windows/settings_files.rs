use std::ptr;

use alloc_core::{HostError, TryString};

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_MORE_DATA, ERROR_SUCCESS};
use windows_sys::Win32::Security::{
    GetSidSubAuthority, GetSidSubAuthorityCount, GetTokenInformation, TOKEN_MANDATORY_LABEL, TOKEN_QUERY,
    TokenIntegrityLevel,
};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE, KEY_READ, REG_DWORD, RegCloseKey, RegEnumValueW, RegOpenKeyExW,
    RegQueryValueExW,
};
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::text::{from_wide, to_wide};
use crate::record::{Own, own};

/// Where Vulkan's tools for layers note their files: each name of a value that is 0 is a path.
const KEY: &str = r"Software\Khronos\Vulkan\Settings";
const MAX_NAME: usize = 4096;
/// `SECURITY_MANDATORY_MEDIUM_RID`.
const MEDIUM_INTEGRITY: u32 = 0x2000;

/// Tries the files of the registry until `read` has taken one: those of the machine, then those of the user, which an
/// elevated process leaves out, as Vulkan's own tools do.
pub(crate) fn find_settings(mut read: impl FnMut(&str) -> Result<bool, HostError>) -> Result<bool, HostError> {
    let users = (!is_elevated()).then_some(HKEY_CURRENT_USER);
    for hive in [HKEY_LOCAL_MACHINE].into_iter().chain(users) {
        let Some(key) = Key::open(hive, KEY)? else {
            continue;
        };
        let mut index = 0;
        while let Some(path) = key.next_file(&mut index)? {
            if read(&path)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// An elevated process has variables of the user's part of the registry, into which other processes of the user write.
pub(crate) fn is_trusted(variable: &str) -> Result<bool, HostError> {
    if !is_elevated() {
        return Ok(true);
    }
    let mut session = 0;
    // SAFETY: a number, and a place for the answer.
    unsafe { ProcessIdToSessionId(std::process::id(), &raw mut session) };
    let mut of_session = TryString::new_in(own());
    of_session.try_write_fmt(format_args!("Volatile Environment\\{session}"))?;
    for key in ["Environment", "Volatile Environment", &of_session] {
        if let Some(key) = Key::open(HKEY_CURRENT_USER, key)?
            && key.has(variable)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and closed once.
        unsafe { RegCloseKey(self.0) };
    }
}

impl Key {
    fn open(hive: HKEY, name: &str) -> Result<Option<Self>, HostError> {
        let name = to_wide(name)?;
        let mut key = ptr::null_mut();
        // SAFETY: a name that a 0 ends, and room for the key.
        let error = unsafe { RegOpenKeyExW(hive, name.as_ptr(), 0, KEY_READ, &raw mut key) };
        Ok((error == ERROR_SUCCESS).then_some(Self(key)))
    }

    fn has(&self, value: &str) -> Result<bool, HostError> {
        let name = to_wide(value)?;
        // SAFETY: an open key, a name that a 0 ends, and no place for an answer.
        let error = unsafe {
            RegQueryValueExW(self.0, name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut())
        };
        Ok(error == ERROR_SUCCESS)
    }

    /// The next value from `index` on that is a number, 0.
    fn next_file(&self, index: &mut u32) -> Result<Option<TryString<Own>>, HostError> {
        loop {
            let mut name = [0; MAX_NAME];
            let (mut units, mut bytes) = (MAX_NAME as u32, size_of::<u32>() as u32);
            let (mut kind, mut value) = (0, 0_u32);
            // SAFETY: an open key, and room for all answers, whose sizes are said.
            let error = unsafe {
                RegEnumValueW(
                    self.0,
                    *index,
                    name.as_mut_ptr(),
                    &raw mut units,
                    ptr::null_mut(),
                    &raw mut kind,
                    (&raw mut value).cast(),
                    &raw mut bytes,
                )
            };
            *index = index.saturating_add(1);
            match error {
                ERROR_SUCCESS if kind == REG_DWORD && value == 0 => {
                    let name = name.get(..units as usize).unwrap_or_default();
                    if let Some(path) = from_wide(name)? {
                        return Ok(Some(path));
                    }
                }
                // A value of another kind, which had no room.
                ERROR_SUCCESS | ERROR_MORE_DATA => {}
                _ => return Ok(None),
            }
        }
    }
}

/// Also where it cannot be known.
fn is_elevated() -> bool {
    // SAFETY: asks for a constant that stands for this process.
    let process = unsafe { GetCurrentProcess() };
    let mut token = ptr::null_mut();
    // SAFETY: room for the token.
    if unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) } == 0 {
        return true;
    }
    // The label, and the identifier that it points to.
    let mut label = [TOKEN_MANDATORY_LABEL::default(); 8];
    let (room, mut length) = (size_of_val(&label) as u32, 0);
    // SAFETY: an open token, and so much room.
    let known =
        unsafe { GetTokenInformation(token, TokenIntegrityLevel, label.as_mut_ptr().cast(), room, &raw mut length) };
    // SAFETY: opened above, and closed once.
    unsafe { CloseHandle(token) };
    if known == 0 {
        return true;
    }
    let [TOKEN_MANDATORY_LABEL { Label: of }, ..] = &label;
    // SAFETY: the identifier that the system wrote into the label's room.
    let count = unsafe { GetSidSubAuthorityCount(of.Sid) };
    // SAFETY: the address of its number of parts.
    let last = u32::from(unsafe { *count }).saturating_sub(1);
    // SAFETY: the identifier is in the label's room; the last of its parts is the level.
    let level = unsafe { GetSidSubAuthority(of.Sid, last) };
    // SAFETY: the address of that part.
    unsafe { *level > MEDIUM_INTEGRITY }
}
