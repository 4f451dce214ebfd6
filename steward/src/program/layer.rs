#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _};
use serde_json::{Value, json};
use vk_report::files::{PRIVATE, SHARED, create_folders, write};

use super::files::unwritable;
use super::run::RunError;
use super::{Outcome, ProgramError};
use crate::cli::{LayerAction, LayerArgs, LayerFolder};
use crate::os::layer_place::{
    DATA_VARIABLES, LIBRARY, MANIFEST, data_folder, enlist, is_mounted_noexec, is_nameable, strike,
};
use crate::os::variable;

pub(super) const LAYER: &str = "VK_LAYER_STEWARD_memory";
/// The loader cuts off longer paths; in bytes.
pub(super) const MAX_PATH: usize = 900;
const LIBRARY_FOLDER: &str = "steward";

static EMBEDDED: OnceLock<&[u8]> = OnceLock::new();

/// `main` calls this: a library is compiled before the layer is linked.
pub fn embed(library: Option<&'static [u8]>) {
    if let Some(library) = library {
        let _ = EMBEDDED.set(library);
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    #[error("there is no folder for the user's data: set {DATA_VARIABLES}, or name a folder with --dir")]
    NoDataFolder,
    #[error(
        "{0} cannot be named in a manifest: put the layer's library where the path is UTF-8 text of at most 900 bytes without quotes, backslashes and control characters"
    )]
    Unnameable(String),
    #[error(
        "the layer's library is in the program, and no file that a manifest could name: `steward layer install --user` writes both, and `--library FILE` names another one"
    )]
    NoFile,
    #[error(
        "the file system of {0} is mounted with `noexec`, so that no library is loaded from it: name another folder with XDG_DATA_HOME or --dir"
    )]
    NotExecutable(String),
    #[error("{0} is not a manifest of this layer for the library beside it: it was left as it is; remove it yourself")]
    NotOurs(String),
}

pub(super) fn layer(options: &LayerArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    match &options.action {
        Some(LayerAction::Install(folder)) => {
            Installed::below(folder)?.write(&Library::find().ok_or(RunError::NoLayer)?, out)?;
        }
        Some(LayerAction::Uninstall(folder)) => Installed::below(folder)?.remove(out)?,
        None => {
            let library = named_file(options)?;
            let manifest = if options.implicit { implicit_manifest(&library)? } else { manifest(&library)? };
            writeln!(out, "{manifest}")?;
        }
    }
    Ok(Outcome::Done)
}

fn named_file(options: &LayerArgs) -> Result<PathBuf, ProgramError> {
    if let Some(library) = &options.library {
        return Ok(library.clone());
    }
    match Library::find().ok_or(RunError::NoLayer)? {
        Library::File(file) => Ok(file),
        Library::Embedded(_) => Err(LayerError::NoFile.into()),
    }
}

struct Installed {
    manifest: PathBuf,
    library: PathBuf,
}

impl Installed {
    fn below(folder: &LayerFolder) -> Result<Self, ProgramError> {
        let folder = match &folder.dir {
            Some(folder) => folder.clone(),
            None => data_folder().ok_or(LayerError::NoDataFolder)?,
        };
        // The loader resolves relative paths from the manifest.
        let folder = std::path::absolute(folder)?;
        Ok(Self { manifest: folder.join(MANIFEST), library: folder.join(LIBRARY_FOLDER).join(LIBRARY) })
    }

    fn write(&self, from: &Library, out: &mut dyn Write) -> Result<(), ProgramError> {
        self.refuse_other_manifest()?;
        let mut folders = self.library.ancestors().skip(1);
        if let Some(folder) = folders.find(|folder| folder.is_dir())
            && is_mounted_noexec(folder).map_err(|reason| unwritable(folder, reason))?
        {
            return Err(LayerError::NotExecutable(folder.display().to_string()).into());
        }
        for file in [&self.library, &self.manifest] {
            if let Some(folder) = file.parent() {
                create_folders(folder).map_err(|reason| unwritable(folder, reason))?;
            }
        }
        let manifest = manifest(&self.library)?;
        let library = from.bytes()?;
        // The library first: a manifest without one would make the loader complain.
        let put = |file: &Path, bytes: &[u8]| write(file, bytes, SHARED).map_err(|reason| unwritable(file, reason));
        put(&self.library, &library)?;
        put(&self.manifest, manifest.as_bytes())?;
        writeln!(out, "wrote {}", self.library.display())?;
        writeln!(out, "wrote {}", self.manifest.display())?;
        self.said(enlist(&self.manifest), "wrote", out)?;
        Ok(())
    }

    fn remove(&self, out: &mut dyn Write) -> Result<(), ProgramError> {
        self.refuse_other_manifest()?;
        let is_installed = self.manifest.exists();
        let was_listed = self.said(strike(&self.manifest), "removed", out)?;
        for file in [&self.manifest, &self.library] {
            if is_installed && file.exists() {
                fs::remove_file(file).map_err(|reason| unwritable(file, reason))?;
                writeln!(out, "removed {}", file.display())?;
            }
        }
        if let Some(folder) = self.library.parent().filter(|_| is_installed) {
            // The folder may hold other files.
            let _ = fs::remove_dir(folder);
        }
        if !is_installed && !was_listed {
            writeln!(out, "{} is not there: nothing was removed", self.manifest.display())?;
        }
        Ok(())
    }

    fn said(&self, entry: io::Result<Option<String>>, what: &str, out: &mut dyn Write) -> Result<bool, ProgramError> {
        let entry = entry.map_err(|reason| unwritable(&self.manifest, reason))?;
        if let Some(entry) = &entry {
            writeln!(out, "{what} {entry}")?;
        }
        Ok(entry.is_some())
    }

    fn refuse_other_manifest(&self) -> Result<(), LayerError> {
        let Ok(text) = fs::read_to_string(&self.manifest) else {
            return Ok(());
        };
        // Of another version of this program, too.
        let layer = &serde_json::from_str::<Value>(&text).unwrap_or_default()["layer"];
        let library = layer["library_path"].as_str().map(Path::new);
        if layer["name"] == LAYER && library == Some(&*self.library) {
            return Ok(());
        }
        Err(LayerError::NotOurs(self.manifest.display().to_string()))
    }
}

#[derive(Clone)]
pub(super) enum Library {
    File(PathBuf),
    Embedded(&'static [u8]),
}

impl Library {
    /// Looks once, so that what it says of another file is said once. The copy of `steward layer install --user` may be
    /// another version's.
    pub(super) fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<Library>> = OnceLock::new();
        FOUND.get_or_init(Self::look).clone()
    }

    fn look() -> Option<Self> {
        if let Some(named) = variable("STEWARD_LAYER") {
            let file = fs::canonicalize(named).ok();
            return file.filter(|file| file.is_file()).map(Self::File);
        }
        let program = env::current_exe().ok()?;
        let beside = program.parent()?;
        let folders = [beside.to_owned(), beside.join("deps"), beside.join("../lib/steward")];
        let files = folders.map(|folder| folder.join(LIBRARY)).into_iter();
        let mut files = files.filter(|file| file.is_file()).peekable();
        let other = files.peek().cloned();
        let Some(carried) = EMBEDDED.get().copied() else {
            return other.map(Self::File);
        };
        if let Some(same) = files.find(|file| is_same(file, carried)) {
            return Some(Self::File(same));
        }
        if let Some(other) = other {
            let _ = writeln!(
                io::stderr(),
                "steward: {} is the layer of another build, or cannot be read, and the program's own is used: remove that file, or name it with STEWARD_LAYER to use it",
                other.display()
            );
        }
        Some(Self::Embedded(carried))
    }

    pub(super) fn file(&self, folder: &Path) -> PathBuf {
        match self {
            Self::File(file) => file.clone(),
            Self::Embedded(_) => folder.join(LIBRARY),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Embedded(bytes) => {
                if is_mounted_noexec(folder)? {
                    let folder = folder.display();
                    return Err(io::Error::other(format!(
                        "the file system of {folder} is mounted with `noexec`, so that no library is loaded from it"
                    )));
                }
                write(&self.file(folder), bytes, PRIVATE).map(|_| ())
            }
        }
    }

    fn bytes(&self) -> Result<Cow<'static, [u8]>, ProgramError> {
        match self {
            Self::File(file) => match fs::read(file) {
                Ok(bytes) => Ok(bytes.into()),
                Err(reason) => Err(unwritable(file, reason)),
            },
            Self::Embedded(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// A package may have stripped the library, which leaves its build id.
fn is_same(file: &Path, carried: &[u8]) -> bool {
    let Ok(bytes) = fs::read(file) else {
        return false;
    };
    bytes == carried || build_id(&bytes).is_some_and(|id| Some(id) == build_id(carried))
}

fn build_id(library: &[u8]) -> Option<&[u8]> {
    let library = ElfFile64::<Endianness>::parse(library).ok()?;
    library.build_id().ok()?
}

pub(super) fn manifest(library: &Path) -> Result<String, LayerError> {
    let mut layer = description(library)?;
    // For programs that chain `VkLayerSettingsCreateInfoEXT`. The loader reads the version as a string. An implicit
    // layer does not offer it: loaders of 2023 list its extensions to every program, and then refuse those that they do
    // not know.
    layer["instance_extensions"] = json!([{ "name": "VK_EXT_layer_settings", "spec_version": "2" }]);
    Ok(json!({ "file_format_version": "1.2.1", "layer": layer }).to_string())
}

/// An implicit layer is off, unless a variable switches it on.
fn implicit_manifest(library: &Path) -> Result<String, LayerError> {
    let mut layer = description(library)?;
    layer["enable_environment"] = json!({ format!("ENABLE_{LAYER}"): "1" });
    layer["disable_environment"] = json!({ format!("DISABLE_{LAYER}"): "1" });
    Ok(json!({ "file_format_version": "1.2.1", "layer": layer }).to_string())
}

fn description(library: &Path) -> Result<Value, LayerError> {
    let path = library.to_str().filter(|path| path.len() <= MAX_PATH && path.chars().all(is_nameable));
    let path = path.ok_or_else(|| LayerError::Unnameable(library.display().to_string()))?;
    Ok(json!({
        "name": LAYER,
        "type": "GLOBAL",
        "library_path": path,
        "library_arch": "64",
        "api_version": "1.4.0",
        "implementation_version": "1",
        "description": "Host memory that drivers allocate through callbacks",
    }))
}
