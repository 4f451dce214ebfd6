//! What keeps the layer out of a program.

use std::env;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr;

use vk_report::files;
use windows_sys::Win32::Security::{
    GetSidSubAuthority, GetSidSubAuthorityCount, GetTokenInformation, TOKEN_MANDATORY_LABEL, TOKEN_QUERY,
    TokenIntegrityLevel,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// `SECURITY_MANDATORY_HIGH_RID`.
const HIGH: u32 = 0x3000;

pub(crate) const fn remedy(_: &Path, _: &io::Error) -> &'static str {
    "give its path, or its name in a folder of PATH"
}

/// Returns `None` if there is no known obstacle, or the file is not found.
pub(crate) fn why_no_layer(program: &Path) -> Option<String> {
    let file = find(program)?;
    let own = machine(&env::current_exe().ok()?)?;
    (machine(&file)? != own).then(|| {
        format!(
            "{} is for another architecture than the layer, which is for 64 bits of this machine: it runs without the layer",
            file.display()
        )
    })
}

/// That there is no meter is said where it is to be loaded.
pub(crate) const fn why_no_meter(_: &Path) -> Option<String> {
    None
}

/// Programs that this one starts have its rights.
pub(crate) fn why_variables_are_ignored() -> Option<&'static str> {
    is_elevated().then_some(
        "this process is elevated (it runs as administrator), and the loader ignores there what variables and the user's part of the registry say of \
         layers and drivers: start `steward run` from a prompt that is not elevated",
    )
}

/// As the loader sees it: by the integrity level.
fn is_elevated() -> bool {
    let mut token = ptr::null_mut();
    // SAFETY: always the same number.
    let own = unsafe { GetCurrentProcess() };
    // SAFETY: this process, and a place for the token.
    let opened = unsafe { OpenProcessToken(own, TOKEN_QUERY, &raw mut token) };
    if opened == 0 {
        return false;
    }
    // SAFETY: a new handle, which nobody else closes.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    // The label, and the identifier that it points to.
    let mut label = MaybeUninit::<[TOKEN_MANDATORY_LABEL; 8]>::zeroed();
    let (room, mut length) = (size_of_val(&label) as u32, 0);
    // SAFETY: an open token, and so much room.
    let told = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenIntegrityLevel,
            label.as_mut_ptr().cast(),
            room,
            &raw mut length,
        )
    };
    if told == 0 {
        return false;
    }
    // SAFETY: the call has filled it, and all zeros are valid for the rest.
    let [label, ..] = unsafe { label.assume_init_ref() };
    let identifier = label.Label.Sid;
    // SAFETY: a valid identifier, in `label`.
    let parts = unsafe { GetSidSubAuthorityCount(identifier) };
    // SAFETY: the address of its number of parts.
    let last = u32::from(unsafe { *parts }).saturating_sub(1);
    // SAFETY: a valid identifier, and the index of its last part.
    let level = unsafe { GetSidSubAuthority(identifier, last) };
    // SAFETY: the address of that part.
    unsafe { *level >= HIGH }
}

fn find(program: &Path) -> Option<PathBuf> {
    let names = [program.to_owned(), with_exe(program)];
    if program.components().count() > 1 || program.is_absolute() {
        return names.into_iter().find(|file| file.is_file());
    }
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).flat_map(|folder| names.clone().map(|it| folder.join(it)));
    files.find(|file| file.is_file())
}

fn with_exe(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".exe");
    name.into()
}

/// The machine of a PE file. `None` for a script.
fn machine(file: &Path) -> Option<u16> {
    let mut head = Vec::new();
    files::open(file).ok()?.take(1 << 12).read_to_end(&mut head).ok()?;
    if !head.starts_with(b"MZ") {
        return None;
    }
    let at = u32::from_le_bytes(*head.get(0x3C..)?.first_chunk()?) as usize;
    let machine = head.get(at..)?.strip_prefix(b"PE\0\0")?.first_chunk()?;
    Some(u16::from_le_bytes(*machine))
}
