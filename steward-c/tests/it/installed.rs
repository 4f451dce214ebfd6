//! An installed tree, made once for all tests by the script that users run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

/// Headers, libraries and files for pkg-config below a prefix.
pub(crate) struct Installed {
    folder: TempDir,
}

pub(crate) fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The tree; `None`, and a printed skip of `test`, without a C compiler.
pub(crate) fn installed(test: &str) -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let is_there = Command::new("cc").arg("--version").output().is_ok();
        is_there.then(|| Installed::with("cc", "", &archive()))
    });
    if installed.is_none() {
        testkit::skip("cc", test, "there is no C compiler called cc");
    }
    installed.as_ref()
}

/// A compiler of C and the one of C++ that belongs to it.
#[derive(Clone, Copy)]
pub(crate) struct Compilers {
    pub(crate) c: &'static str,
    pub(crate) cpp: &'static str,
}

/// The system's compilers, usually gcc.
const SYSTEM: Compilers = Compilers { c: "cc", cpp: "c++" };

const CLANG: Compilers = Compilers { c: "clang", cpp: "clang++" };

/// The system's compilers, and clang; a printed skip of `test` for what is not there.
pub(crate) fn compilers(test: &str) -> impl Iterator<Item = Compilers> {
    [SYSTEM, CLANG].into_iter().filter(move |compilers| {
        let is_there = Command::new(compilers.c).arg("--version").output().is_ok();
        if !is_there {
            testkit::skip(compilers.c, test, &format!("there is no {}", compilers.c));
        }
        is_there
    })
}

impl Installed {
    /// As `compiler` makes it with `flags`, which may be none, of an archive of its system.
    pub(crate) fn with(compiler: &str, flags: &str, archive: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new(package("install.sh"))
            .arg(folder.path())
            .arg(archive)
            .env("CC", compiler)
            .env("CFLAGS", flags)
            .output();
        succeed(&output.expect("a shell"), "install.sh");
        Self { folder }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// What pkg-config says of libraries, with a space between.
    pub(crate) fn flags(&self, libraries: &str) -> Vec<String> {
        self.pkg_config(&["--cflags", "--libs"], libraries)
    }

    pub(crate) fn pkg_config(&self, options: &[&str], libraries: &str) -> Vec<String> {
        let output = Command::new("pkg-config")
            .args(options)
            .args(libraries.split(' '))
            .env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"))
            .output()
            .expect("pkg-config");
        succeed(&output, "pkg-config");
        let flags = String::from_utf8(output.stdout).expect("text");
        flags.split_whitespace().map(str::to_owned).collect()
    }

    /// The folder with `shared` and `alone`, the example linked with the libraries and with the archive by CMake's
    /// file; `None`, and a printed skip of `test`, where there is no CMake.
    pub(crate) fn built_by_cmake(&self, test: &str, system: &[&str]) -> Option<PathBuf> {
        if Command::new("cmake").arg("--version").output().is_err() {
            testkit::skip("cmake", test, "there is no cmake");
            return None;
        }
        let project = self.path("project");
        std::fs::create_dir(&project).expect("a folder");
        let text = "cmake_minimum_required(VERSION 3.16)\nproject(example C)\nfind_package(steward 0.1 REQUIRED CONFIG)\n\
            add_executable(shared ${SOURCE})\ntarget_link_libraries(shared steward::ralloc)\n\
            add_executable(alone ${SOURCE})\ntarget_link_libraries(alone steward::static)\n";
        std::fs::write(project.join("CMakeLists.txt"), text).expect("written");
        let cmake = |arguments: &[&OsStr]| {
            let output = Command::new("cmake").args(arguments).output();
            succeed(&output.expect("cmake"), "cmake");
        };
        let mut arguments: Vec<OsString> = system.iter().map(Into::into).collect();
        let source = package("examples/driver.c");
        arguments.push(format!("-DSOURCE={}", source.display()).into());
        arguments.push(format!("-DCMAKE_PREFIX_PATH={}", self.folder.path().display()).into());
        let mut arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let folder = project.join("build");
        arguments.extend(["-S".as_ref(), project.as_os_str(), "-B".as_ref(), folder.as_os_str()]);
        cmake(&arguments);
        cmake(&["--build".as_ref(), folder.as_os_str()]);
        Some(folder)
    }

    /// Compiles `source` with `options`, links it with `library`, and returns the program, which no other call makes.
    pub(crate) fn compile(&self, source: &str, options: &[&str], library: &str) -> PathBuf {
        self.compile_by(SYSTEM, source, options, library)
    }

    pub(crate) fn compile_by(&self, compilers: Compilers, source: &str, options: &[&str], library: &str) -> PathBuf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let program = self.folder.path().join(format!("program{number}"));
        let compiler = if source.ends_with(".cpp") { compilers.cpp } else { compilers.c };
        let output = Command::new(compiler)
            .args(options)
            .args(["-Wall", "-Wextra", "-Werror", "-g"])
            .arg(package(source))
            .args(self.flags(library))
            .arg(format!("-Wl,-rpath,{}", self.path("lib").display()))
            .args(["-lpthread", "-o"])
            .arg(&program)
            .output();
        succeed(&output.expect("a compiler"), source);
        program
    }
}

/// The static library that cargo made beside this test.
fn archive() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    archive_in(test.parent().expect("a folder"))
}

/// The newest in a folder of cargo's.
pub(crate) fn archive_in(folder: &Path) -> PathBuf {
    let candidates = folder.read_dir().expect("a folder").flatten();
    let newest = candidates
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libsteward_c") && name.ends_with(".a")
        })
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    newest.expect("cargo builds the static library").path()
}

pub(crate) fn succeed(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Cargo's folder is found, what is missing is said before anything is written, and an installation is renewed.
#[cfg(unix)]
#[test]
fn install_finds_the_archive_and_leaves_nothing_half_made() {
    if installed("install_finds_the_archive_and_leaves_nothing_half_made").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [target, prefix] = ["target", "prefix"].map(|name| folder.path().join(name));
    let install = |flags: &str| {
        let mut command = Command::new(package("install.sh"));
        command.arg(&prefix).env("CARGO_TARGET_DIR", &target).env("CFLAGS", flags);
        command.output().expect("a shell")
    };
    let missing = install("-O0");
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cargo build --release -p steward-c"), "{missing:?}");
    assert!(!prefix.exists(), "nothing was written");
    std::fs::create_dir_all(target.join("release")).expect("a folder");
    std::os::unix::fs::symlink(archive(), target.join("release/libsteward_c.a")).expect("a link");
    let broken = install("-O0 --no-such-flag");
    assert!(!broken.status.success() && !prefix.exists(), "{broken:?}");
    succeed(&install("-O0"), "install.sh");
    let library = prefix.join("lib/libsteward.so.0");
    let stripped = std::fs::metadata(&library).expect("a library").len();
    // Again into the same folder, with symbols.
    succeed(&install("-g"), "install.sh");
    let whole = std::fs::metadata(&library).expect("a library").len();
    assert!(stripped * 2 < whole, "{stripped} of {whole} bytes");
    assert!(prefix.join("lib/libsteward.so").is_symlink());
}

#[test]
fn ca1_cmake_finds_the_libraries_and_the_archive() {
    const NAME: &str = "ca1_cmake_finds_the_libraries_and_the_archive";
    let Some(installed) = installed(NAME) else {
        return;
    };
    let Some(folder) = installed.built_by_cmake(NAME, &[]) else {
        return;
    };
    for name in ["shared", "alone"] {
        let output = Command::new(folder.join(name)).output().expect("it starts");
        succeed(&output, name);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.ends_with("\neverything came back\n"), "{text}");
    }
}
