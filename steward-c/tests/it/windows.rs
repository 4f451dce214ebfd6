//! The libraries for Windows, made by mingw's compilers, and programs over them under Wine: `.ci/run windows` asks for
//! these tests. The headers, read by clang as Windows' own compiler reads them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::headers::assertions;
use crate::installed::{Installed, archive_in, compilers, package, succeed};
use crate::programs::has_vulkan_headers;
use crate::symbols::listed;

/// Names the folder of the libraries that cargo made for Windows; without it each test here is a printed skip.
const MADE: &str = "STEWARD_WINDOWS";

const C: &str = "x86_64-w64-mingw32-gcc";
const CPP: &str = "x86_64-w64-mingw32-g++";
const WINE: &str = "/usr/lib/wine/wine64";

/// A tree of Windows, with what programs need beside themselves there.
struct Windows {
    installed: Installed,
    /// Where cargo made libraries for Windows.
    made: PathBuf,
}

/// `None`, and a printed skip of `test`, where something is missing.
fn windows(test: &str) -> Option<&'static Windows> {
    static WINDOWS: OnceLock<Result<Windows, String>> = OnceLock::new();
    match WINDOWS.get_or_init(Windows::new) {
        Ok(windows) => Some(windows),
        Err(missing) => {
            testkit::skip("wine", test, missing);
            None
        }
    }
}

/// They are every system's; the folder around them is not.
fn vulkan_headers_into(folder: &Path) {
    for name in ["vulkan", "vk_video"] {
        symlink(Path::new("/usr/include").join(name), folder.join(name)).expect("a link");
    }
}

impl Windows {
    fn new() -> Result<Self, String> {
        let made = std::env::var_os(MADE).ok_or(format!("{MADE} names no folder"))?;
        for program in [C, CPP, WINE] {
            let output = Command::new(program).arg("--version").output();
            output.map_err(|error| format!("{program}: {error}"))?;
        }
        let made = Path::new(&made);
        let installed = Installed::with(C, "", &archive_in(made));
        std::fs::create_dir(installed.path("vulkan")).expect("a folder");
        vulkan_headers_into(&installed.path("vulkan"));
        let windows = Self { installed, made: made.to_owned() };
        windows.library(package("../testkit/windows/process_prng.c"), "bcryptprimitives", &["-ladvapi32"]);
        Ok(windows)
    }

    /// Compiles and links with pkg-config's flags for `libraries`. A program is made beside the libraries, where
    /// Windows looks for them.
    fn compile(&self, source: &str, options: &[&str], libraries: &str, name: &str) -> PathBuf {
        let mut options = options.to_vec();
        let flags = self.installed.flags(libraries);
        options.extend(flags.iter().map(String::as_str));
        self.link(&package(source), &options, name)
    }

    fn library(&self, source: PathBuf, name: &str, options: &[&str]) {
        let import = format!("-Wl,--out-implib,{}", self.lib(&format!("lib{name}.dll.a")));
        let options = [&["-shared", &import][..], options].concat();
        self.link(&source, &options, &format!("{name}.dll"));
    }

    fn link(&self, source: &Path, options: &[&str], name: &str) -> PathBuf {
        let made = self.installed.path("bin").join(name);
        let is_cpp = source.extension() == Some(OsStr::new("cpp"));
        let output = Command::new(if is_cpp { CPP } else { C })
            .arg(if is_cpp { "-std=c++17" } else { "-std=c11" })
            .args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g"])
            .arg(source)
            .arg("-I")
            .arg(self.installed.path("vulkan"))
            .args(options)
            .args(["-static-libgcc", "-l:libpthread.a"])
            .args(is_cpp.then_some("-static-libstdc++"))
            .arg("-o")
            .arg(&made)
            .output();
        succeed(&output.expect("a compiler"), name);
        made
    }

    fn lib(&self, name: &str) -> String {
        let path = self.installed.path("lib").join(name);
        path.display().to_string()
    }

    /// Into files: Wine's server keeps a pipe open for a minute.
    fn run(&self, program: &Path, arguments: &[&Path]) -> Output {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| program.with_extension(name));
        let file = |path| File::create(path).expect("a file");
        let status = Command::new(WINE)
            .arg(program)
            .args(arguments)
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "winedbg.exe=d")
            .env("STEWARD_DRIVER", self.made.join("reference_driver.dll"))
            .stdin(Stdio::null())
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .status()
            .expect("wine");
        let read = |path| std::fs::read(path).expect("a file");
        Output { status, stdout: read(&stdout), stderr: read(&stderr) }
    }

    /// What a program that succeeds prints, with the ends of lines of C.
    fn printed(&self, program: &Path, arguments: &[&Path]) -> String {
        let output = self.run(program, arguments);
        succeed(&output, &program.display().to_string());
        String::from_utf8_lossy(&output.stdout).replace('\r', "")
    }
}

/// What `objdump` prints of a library's header.
fn header(path: &Path) -> String {
    let output = Command::new("x86_64-w64-mingw32-objdump").arg("-p").arg(path).output().expect("objdump");
    succeed(&output, "objdump");
    String::from_utf8(output.stdout).expect("text")
}

/// The names that a library exports.
fn exported(header: &str) -> BTreeSet<String> {
    let (_, table) = header.split_once("[Ordinal/Name Pointer] Table\n").expect("names");
    let lines = table.lines().take_while(|line| !line.is_empty());
    let name = |line: &str| line.split_whitespace().last().map(str::to_owned);
    lines.filter_map(name).collect()
}

#[test]
fn wn12_the_libraries_export_the_one_list_and_need_what_windows_has() {
    let Some(windows) = windows("wn12_the_libraries_export_the_one_list") else {
        return;
    };
    for (name, own) in [("steward", None), ("steward-ralloc", Some("steward.dll"))] {
        let header = header(&windows.installed.path("bin").join(format!("{name}.dll")));
        assert_eq!(exported(&header), listed(&format!("{name}.map")), "{name}");
        let needed = header.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "));
        let needed: BTreeSet<String> = needed.map(str::to_lowercase).collect();
        let of_the_system = |library: &str| {
            library.starts_with("api-ms-win-")
                || [
                    "kernel32.dll",
                    "ntdll.dll",
                    "msvcrt.dll",
                    "ucrtbase.dll",
                    "ws2_32.dll",
                    "userenv.dll",
                    "bcryptprimitives.dll",
                ]
                .contains(&library)
        };
        assert!(needed.len() > 1, "{needed:?}");
        for library in &needed {
            assert!(of_the_system(library) || own == Some(library), "{library}");
        }
    }
}

/// By the import library, by it with `STEWARD_DLL`, and static, which needs no library of ours.
#[test]
fn wn12_the_example_in_c_runs_however_it_is_linked() {
    let Some(windows) = windows("wn12_the_example_in_c") else {
        return;
    };
    let source = "examples/driver.c";
    let flags = ["--static", "--cflags", "--libs"];
    let flags = windows.installed.pkg_config(&flags, "steward");
    let mut alone: Vec<&str> = flags.iter().map(String::as_str).collect();
    alone.push("-static");
    for (name, options, libraries) in [
        ("driver.exe", &[][..], "steward"),
        ("driver_dll.exe", &["-DSTEWARD_DLL"], "steward"),
        ("driver_static.exe", &alone, ""),
    ] {
        let program = match libraries {
            "" => windows.link(&package(source), options, name),
            _ => windows.compile(source, options, libraries, name),
        };
        let is_alone = !header(&program).contains("steward.dll");
        assert_eq!(is_alone, libraries.is_empty(), "{name}");
        let text = windows.printed(&program, &[]);
        assert!(text.starts_with("object: 5 blocks\ncontext "), "{text}");
        assert!(text.ends_with("\neverything came back\n"), "{text}");
    }
    let compiler = format!("-DCMAKE_C_COMPILER={C}");
    let system = ["-DCMAKE_SYSTEM_NAME=Windows", &compiler];
    if let Some(folder) = windows.installed.built_by_cmake("wn12 by cmake", &system) {
        for (name, is_alone) in [("shared", false), ("alone", true)] {
            let program = windows.installed.path("bin").join(format!("cmake_{name}.exe"));
            std::fs::copy(folder.join(format!("{name}.exe")), &program).expect("a program");
            assert_eq!(!header(&program).contains("steward.dll"), is_alone, "{name}");
            let text = windows.printed(&program, &[]);
            assert!(text.ends_with("\neverything came back\n"), "{text}");
        }
    }
}

/// What debuggers read stays in it.
#[test]
fn wn12_a_library_that_is_not_stripped_is_loaded() {
    let Some(windows) = windows("wn12_a_library_that_is_not_stripped") else {
        return;
    };
    let whole = Installed::with(C, "-g", &archive_in(&windows.made));
    let stripped = windows.installed.path("bin");
    windows.compile("examples/driver.c", &[], "steward", "with_whole.exe");
    for name in ["with_whole.exe", "bcryptprimitives.dll"] {
        std::fs::copy(stripped.join(name), whole.path("bin").join(name)).expect("a file");
    }
    let size = |folder: &Path| std::fs::metadata(folder.join("steward.dll")).expect("it is there").len();
    assert!(size(&stripped) * 2 < size(&whole.path("bin")));
    let text = windows.printed(&whole.path("bin/with_whole.exe"), &[]);
    assert!(text.ends_with("\neverything came back\n"), "{text}");
}

/// Over the reference driver, where this system's loader would look for one.
#[test]
fn wn12_the_examples_in_cpp_run_over_a_driver() {
    let Some(windows) = windows("wn12_the_examples_in_cpp") else {
        return;
    };
    windows.library(package("tests/c/direct_loader.c"), "direct_loader", &[]);
    for (name, said) in [("tracked", "the driver gave everything back\n"), ("regions", "book-keeping left: 0 bytes\n")]
    {
        let loader = windows.lib("libdirect_loader.dll.a");
        let source = format!("examples/{name}.cpp");
        let program = windows.compile(&source, &[&loader], "steward", &format!("{name}.exe"));
        let text = windows.printed(&program, &[]);
        assert!(text.contains("driver: "), "{text}");
        assert!(text.ends_with(said), "{text}");
    }
}

/// Those that need neither `fork` nor functions of the GNU C library.
#[test]
fn wn12_the_programs_in_c_and_cpp_find_what_their_headers_say() {
    let Some(windows) = windows("wn12_the_programs_in_c_and_cpp") else {
        return;
    };
    for source in [
        "interface.c",
        "driver_side.c",
        "runtimes.c",
        "virtual_blocks.c",
        "regions.c",
        "wrong_calls.c",
        "watched.c",
        "containers.cpp",
    ] {
        let name = source.replace('.', "_") + ".exe";
        let source = format!("tests/c/{source}");
        let program = windows.compile(&source, &[], "steward", &name);
        assert_eq!(windows.printed(&program, &[]), "", "{source}");
        if name.starts_with("watched") {
            let output = windows.run(&program, &[Path::new("fence")]);
            assert!(!output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("compiler"), "{said}");
        }
    }
    let scenes = windows.compile("tests/c/scenes.c", &[], "steward-ralloc", "scenes.exe");
    let expected = std::fs::read_to_string(package("tests/c/scenes.txt")).expect("the text");
    assert_eq!(windows.printed(&scenes, &[]), expected);
}

#[test]
fn wn12_two_drivers_in_one_process_keep_their_rallocs_apart() {
    let Some(windows) = windows("wn12_two_drivers") else {
        return;
    };
    let source = "tests/c/one_of_two.c";
    let shared = ["-shared"];
    let ours = windows.compile(source, &shared, "steward-ralloc", "ours.dll");
    let stock = windows.compile(source, &["-shared", "-DSTOCK"], "steward", "stock.dll");
    let program = windows.compile("tests/c/two_drivers.c", &[], "steward", "two_drivers.exe");
    for (first, second, blocks) in [(&ours, &stock, [51, 0]), (&stock, &ours, [0, 51])] {
        let expected = blocks.map(|blocks| format!("50 blocks right, {blocks} of the domain\n"));
        assert_eq!(windows.printed(&program, &[first, second]), expected.concat());
    }
}

/// mingw's compilers link one runtime unless their specification names another.
#[test]
fn wn13_no_block_goes_from_one_runtime_to_another() {
    let Some(windows) = windows("wn13") else {
        return;
    };
    let output = Command::new(C).arg("-dumpspecs").output().expect("gcc");
    let specification = String::from_utf8(output.stdout).expect("text");
    let specs = windows.installed.path("ucrt.specs");
    std::fs::write(&specs, specification.replace("-lmsvcrt", "-lucrt")).expect("written");
    let specs = format!("-specs={}", specs.display());
    let options = [specs.as_str(), "-D_UCRT"];
    let source = "tests/c/two_runtimes.c";
    let program = windows.compile(source, &options, "steward", "two_runtimes.exe");
    let said = windows.printed(&program, &[]);
    let (own, rest) = said.split_once(" gave ").expect("a runtime");
    let (_, its) = rest.split_once(", ").expect("another");
    assert!(own.starts_with("api-ms-win-crt-heap-"), "{said}");
    // Twelve of the C library's, by the function of alignments.
    assert!(its.starts_with("msvcrt.dll gave 0 and 12, the system "), "{said}");
    assert!(!rest.starts_with("0 ") && !said.ends_with(" 0\n"), "{said}");
    // It would have been seen.
    let said = windows.printed(&program, &[Path::new("on purpose")]);
    assert_eq!(said, "1 block went to the wrong heap\n");
}

/// What clang says that reads a text as a compiler of Windows does, with its extensions and without its standard
/// library's headers.
fn read_for_windows(machine: &str, name: &str, options: &[&str], text: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join(name);
    std::fs::write(&source, text).expect("written");
    let standard = include_str!("../c/standard_library.h");
    std::fs::write(folder.path().join("standard_library.h"), standard).expect("written");
    for name in ["cstdint", "cstdlib", "new", "type_traits", "utility"] {
        let include = "#include \"standard_library.h\"\n";
        std::fs::write(folder.path().join(name), include).expect("written");
    }
    vulkan_headers_into(folder.path());
    Command::new("clang")
        .arg(format!("--target={machine}-pc-windows-msvc"))
        .args(["-fms-extensions", "-fms-compatibility", "-fms-compatibility-version=19.30"])
        .args(["-ffreestanding", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .args(options)
        .arg("-I")
        .arg(package("include"))
        .arg("-isystem")
        .arg(folder.path())
        .arg(source)
        .output()
        .expect("clang")
}

fn has_clang(test: &str) -> bool {
    compilers(test).any(|compilers| compilers.c == "clang")
}

#[test]
fn wn15_a_compiler_of_windows_reads_the_headers() {
    const NAME: &str = "wn15_a_compiler_of_windows_reads_the_headers";
    if !has_clang(NAME) {
        return;
    }
    let c = "#include \"steward-gpu.h\"\n#include \"steward-ralloc-names.h\"\n";
    let cpp = include_str!("../c/every_template.cpp");
    let of_cpp = ["-std=c++17", "-pedantic", "-nostdinc++", "-fdelayed-template-parsing", "-fcxx-exceptions"];
    for machine in ["x86_64", "i686", "aarch64"] {
        for imported in ["-USTEWARD_DLL", "-DSTEWARD_DLL"] {
            let of_c = ["-std=c11", "-pedantic", imported];
            succeed(&read_for_windows(machine, "headers.c", &of_c, c), machine);
            let of_cpp = [&of_cpp[..], &[imported]].concat();
            succeed(&read_for_windows(machine, "headers.cpp", &of_cpp, cpp), machine);
        }
    }
    // An import is one.
    let again = format!("{c}uint32_t steward_abi(void) {{ return 0; }}\n");
    let output = read_for_windows("x86_64", "again.c", &["-DSTEWARD_DLL"], &again);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("dllimport"), "{said}");
    // Sizes, offsets and types are this side's there too.
    let text = assertions();
    succeed(&read_for_windows("x86_64", "all.c", &["-std=gnu11"], &text), "the assertions");
    let wrong = text.replacen(" == 0", " == 1", 1);
    assert!(!read_for_windows("x86_64", "all.c", &["-std=gnu11"], &wrong).status.success());
}

/// On 32 bits a function of Vulkan's is called otherwise than one of C.
#[test]
fn wn15_callbacks_and_commands_are_called_as_vulkan_says() {
    const NAME: &str = "wn15_callbacks_and_commands_are_called_as_vulkan_says";
    if !has_clang(NAME) || !has_vulkan_headers(NAME) {
        return;
    }
    let equal = |ours: &str, theirs: &str| {
        let text = format!(
            "#include <vulkan/vulkan_core.h>\n#include \"steward.h\"\n\
             _Static_assert(__builtin_types_compatible_p({ours}, {theirs}), \"{theirs}\");\n"
        );
        read_for_windows("i686", "calls.c", &["-std=gnu11"], &text).status.success()
    };
    assert!(equal("steward_void_fn", "PFN_vkVoidFunction"));
    assert!(equal("void(STEWARD_VKAPI *)(void *, void *)", "PFN_vkFreeFunction"));
    assert!(!equal("void (*)(void *, void *)", "PFN_vkFreeFunction"));
}
