//! Programs in C over the installed libraries.

use std::path::Path;
use std::process::{Command, Output};

use crate::installed::{Compilers, compilers, installed, package, succeed};

const C11: &[&str] = &["-std=c11", "-D_GNU_SOURCE"];

fn run(program: &Path) -> Output {
    Command::new(program).output().expect("it starts")
}

/// Runs a program under valgrind, which finds nothing and no leak; `None` where there is no valgrind.
fn run_under_valgrind(test: &str, program: &Path) -> Option<Output> {
    let output = Command::new("valgrind")
        .args(["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"])
        .arg(program)
        .output();
    if output.is_err() {
        testkit::skip("valgrind", test, "there is no valgrind");
    }
    output.ok()
}

/// Printed by Mesa's own ralloc as well, but for what tells the two apart.
#[test]
fn ca19_the_eight_scenes_print_what_ralloc_prints() {
    let Some(installed) = installed("ca19") else {
        return;
    };
    let program = installed.compile("tests/c/scenes.c", &["-std=c99"], "steward-ralloc");
    let expected = std::fs::read_to_string(package("tests/c/scenes.txt")).expect("the text");
    let output = run(&program);
    succeed(&output, "the scenes");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    if let Some(output) = run_under_valgrind("ca19 under valgrind", &program) {
        succeed(&output, "the scenes under valgrind");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

/// The same program over Mesa's file, where `STEWARD_RALLOC` names its `ralloc.c`.
#[test]
fn ca19_ralloc_itself_prints_the_same() {
    const NAME: &str = "ca19_ralloc_itself_prints_the_same";
    let Some(installed) = installed(NAME) else {
        return;
    };
    let Some(ralloc) = std::env::var_os("STEWARD_RALLOC") else {
        return testkit::skip("ralloc", NAME, "STEWARD_RALLOC names no ralloc.c of Mesa's");
    };
    let ralloc = Path::new(&ralloc);
    let sources = ralloc.ancestors().nth(2).expect("src/util/ralloc.c");
    let [ralloc, measure] = [ralloc, &package("tests/c/measure.c")].map(|path| path.display().to_string());
    let [sources, includes] = [sources, &sources.join("../include")].map(|path| format!("-I{}", path.display()));
    let options = [
        "-D_GNU_SOURCE",
        "-DNDEBUG",
        "-DHAVE___BUILTIN_EXPECT",
        "-DHAVE___BUILTIN_UNREACHABLE",
        "-DHAVE_PTHREAD",
        "-DHAVE_STRUCT_TIMESPEC",
        "-DHAVE_ENDIAN_H",
        "-w",
        &sources,
        &includes,
        &ralloc,
        &measure,
    ];
    let program = installed.compile("tests/c/scenes.c", &options, "steward");
    let expected = std::fs::read_to_string(package("tests/c/scenes.txt")).expect("the text");
    let output = run(&program);
    succeed(&output, "the scenes over ralloc.c");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

/// Contexts, callbacks, domains, each request refused once, sizes that wrap, 10 000 formats, four threads.
#[test]
fn ca5_ca9_ca11_ca13_ca21_ca22_ca23_ca25_ca28_the_interface_does_what_its_header_says() {
    let Some(installed) = installed("the interface") else {
        return;
    };
    let program = installed.compile("tests/c/interface.c", C11, "steward");
    succeed(&run(&program), "the interface");
}

#[test]
fn v5_v7_v19_a_wrong_call_of_a_callback_is_one_line() {
    let Some(installed) = installed("v5") else {
        return;
    };
    let program = installed.compile("tests/c/wrong_calls.c", C11, "steward");
    let output = run(&program);
    succeed(&output, "wrong calls");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<_> = said.lines().collect();
    for (beginning, times) in [
        // The first, second, fourth, eighth and sixteenth call.
        ("steward: pfnAllocation was called with pUserData NULL: ", 5),
        ("steward: pfnAllocation was called with alignment 0: ", 1),
        ("steward: pfnReallocation was called with pUserData NULL: ", 1),
        ("steward: pfnReallocation was called with pUserData 0x", 1),
        ("steward: pfnFree was called with pUserData NULL: ", 1),
        ("steward: pfnFree was called with 0x", 1),
        ("steward: pfnInternalAllocation was called with pUserData NULL: ", 1),
        ("steward: pfnInternalFree was called with pUserData 0x", 1),
    ] {
        let found = lines.iter().filter(|line| line.starts_with(beginning));
        assert_eq!(found.count(), times, "{beginning}: {said}");
    }
    assert_eq!(lines.len(), 12, "{said}");
    assert!(said.contains("; so far 16 times\n"), "{said}");
}

/// Blocks that know their owner, callbacks and commands for runtimes that pass NULL, options in bytes, released
/// buffers. Under valgrind too.
#[test]
fn ca34_ca35_ca36_ca37_ca38_runtimes_find_what_their_allocators_need() {
    let Some(installed) = installed("runtimes") else {
        return;
    };
    let program = installed.compile("tests/c/runtimes.c", C11, "steward");
    succeed(&run(&program), "runtimes");
    if let Some(output) = run_under_valgrind("runtimes under valgrind", &program) {
        succeed(&output, "runtimes under valgrind");
    }
}

/// Over declarations of ours; those of Halide's wheel, where `STEWARD_CLIENTS` names an environment that has it.
#[test]
fn ca39_the_adapters_for_iree_and_halide_do_what_they_say() {
    let Some(installed) = installed("adapters") else {
        return;
    };
    let declared = format!("-I{}", package("tests/c/declared").display());
    let program = installed.compile("tests/c/adapters.c", &[C11, &[declared.as_str()]].concat(), "steward");
    succeed(&run(&program), "adapters");
    for compilers in compilers("adapters") {
        let sample = Command::new(compilers.c)
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .args([&declared, &format!("-I{}", package("include").display())])
            .arg(package("integrations/iree/accounts.c"))
            .output();
        succeed(&sample.expect("a compiler"), "the sample for IREE");
    }
    for standard in ["-std=c++17", "-std=c++20"] {
        let options = [standard, declared.as_str()];
        let program = installed.compile("tests/c/halide_device.cpp", &options, "steward");
        succeed(&run(&program), "an adapter for an own device");
        for version in ["-DHALIDE_21", "-DHALIDE_22"] {
            let options = [standard, declared.as_str(), version];
            let program = installed.compile("tests/c/halide_blocks.cpp", &options, "steward");
            succeed(&run(&program), "Halide's blocks and regions");
        }
    }
}

#[test]
fn ca19_rallocs_own_names_are_declared_for_c_and_cpp() {
    let Some(installed) = installed("ralloc's names") else {
        return;
    };
    for options in [&["-std=c99"][..], &["-x", "c++", "-std=c++17"]] {
        let program = installed.compile("tests/c/ralloc_names.c", options, "steward-ralloc");
        succeed(&run(&program), "ralloc's names");
    }
}

#[test]
fn ca33_ca40_virtual_blocks_do_what_runtimes_allocators_of_offsets_do() {
    let Some(installed) = installed("virtual blocks") else {
        return;
    };
    let program = installed.compile("tests/c/virtual_blocks.c", C11, "steward");
    succeed(&run(&program), "virtual blocks");
}

#[test]
fn ca11_a_forked_child_uses_what_its_parents_threads_were_using() {
    let Some(installed) = installed("forks") else {
        return;
    };
    let program = installed.compile("tests/c/forks.c", C11, "steward");
    succeed(&run(&program), "forks");
}

#[test]
fn ca10_a_panic_is_one_line_and_ends_the_process() {
    const CHILD: &str = "STEWARD_C_PANICS";
    if std::env::var_os(CHILD).is_some() {
        std::panic::set_hook(Box::new(|_| eprintln!("the program's own hook")));
        steward_c::edge::quiet_panics();
        assert!(std::panic::catch_unwind(|| panic!("the program's own")).is_err());
        steward_c::edge::enter(&"planted", || panic!("on order"));
    }
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "programs::ca10_a_panic_is_one_line_and_ends_the_process", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "the program's own hook\nsteward: planted: the library panicked; the process ends\n"
    );
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6));
}

/// Such panics never come to the edge: one of a destructor that runs because of another panic, and one in a function of
/// C.
#[test]
fn ca10_a_panic_that_cannot_unwind_is_one_line_too() {
    const CHILD: &str = "STEWARD_C_PANICS_TWICE";
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on order, again");
        }
    }
    extern "C" fn destructor() {
        panic!("on order");
    }
    match std::env::var(CHILD).as_deref() {
        Ok("destructor") => {
            steward_c::edge::quiet_panics();
            steward_c::edge::enter(&"planted", || {
                let _bad = Bad;
                panic!("on order");
            })
        }
        Ok("function") => {
            steward_c::edge::quiet_panics();
            steward_c::edge::enter(&"planted", || destructor());
        }
        _ => {}
    }
    for case in ["destructor", "function"] {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "programs::ca10_a_panic_that_cannot_unwind_is_one_line_too", "--nocapture"])
            .env(CHILD, case)
            .output()
            .expect("it starts");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "steward: planted: the library panicked; the process ends\n",
            "{case}"
        );
        #[cfg(unix)]
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6));
    }
}

#[test]
fn ca10_an_exception_of_a_destructor_ends_the_process() {
    let Some(installed) = installed("ca10") else {
        return;
    };
    let program = installed.compile("tests/c/throws.cpp", &["-std=c++17"], "steward");
    let output = run(&program);
    assert!(!output.status.success());
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6));
}

/// Programs of each standard that the headers promise, by each compiler that is there.
#[test]
fn ca2_gcc_and_clang_build_programs_of_every_standard() {
    const NAME: &str = "ca2_gcc_and_clang_build_programs_of_every_standard";
    let Some(installed) = installed(NAME) else {
        return;
    };
    let expected = std::fs::read_to_string(package("tests/c/scenes.txt")).expect("the text");
    for compilers in compilers(NAME) {
        for standard in ["-std=c99", "-std=c11", "-std=c17"] {
            let program = installed.compile_by(compilers, "tests/c/scenes.c", &[standard], "steward-ralloc");
            let output = run(&program);
            succeed(&output, "the scenes");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
        for standard in ["-std=c11", "-std=c17"] {
            let options = [standard, "-D_GNU_SOURCE"];
            let program = installed.compile_by(compilers, "tests/c/interface.c", &options, "steward");
            succeed(&run(&program), "the interface");
        }
        for standard in ["-std=c++17", "-std=c++20"] {
            let program = installed.compile_by(compilers, "tests/c/containers.cpp", &[standard], "steward");
            succeed(&run(&program), "containers");
        }
    }
}

#[test]
fn ca8_the_cpp_header_serves_containers_and_objects_with_and_without_exceptions() {
    let Some(installed) = installed("the C++ header") else {
        return;
    };
    for options in [&["-std=c++17", "-fno-exceptions"][..], &["-std=c++17"]] {
        let program = installed.compile("tests/c/containers.cpp", options, "steward");
        succeed(&run(&program), "containers");
    }
}

#[test]
fn the_example_of_a_driver_gives_everything_back() {
    let Some(installed) = installed("the example") else {
        return;
    };
    let program = installed.compile("examples/driver.c", &["-std=c99"], "steward");
    let output = run(&program);
    succeed(&output, "the example");
    // The pipeline, the compiler's root with its label, the domain's record, the code.
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("object: 5 blocks\ncontext "), "{text}");
    assert!(text.contains("\n  c device "), "{text}");
    assert!(text.ends_with("\neverything came back\n"), "{text}");
}

/// The samples of README.md, in a program that finds every byte freed.
#[test]
fn the_samples_of_the_readme_compile_and_free_everything() {
    let Some(installed) = installed("the samples of the README") else {
        return;
    };
    let readme = std::fs::read_to_string(package("README.md")).expect("the README");
    let samples: Vec<&str> = readme.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [driver, compiler] = samples[..] else {
        panic!("not the two samples: {samples:?}");
    };
    let (include, body) = compiler.split_once("\n\n").expect("an include");
    let vulkan = "#include <vulkan/vulkan.h>\n";
    assert!(driver.starts_with(vulkan), "{driver}");
    let text = include_str!("../c/readme.c")
        .replace("DRIVER\n", &driver.replace(vulkan, ""))
        .replace("INCLUDE", include)
        .replace("BODY\n", body);
    let source = installed.path("readme.c");
    std::fs::write(&source, text).expect("the program is written");
    let source = source.to_str().expect("a path of characters");
    let program = installed.compile(source, &["-std=c11"], "steward");
    succeed(&run(&program), "the samples of the README");
}

/// The chain of object, device, instance and C library for every combination and scope; a hundred arrays in one block;
/// compiles that survive each refusal by a reserve. Under valgrind too.
#[test]
fn ca17_ca27_the_drivers_side_does_what_its_header_says() {
    let Some(installed) = installed("ca17") else {
        return;
    };
    let program = installed.compile("tests/c/driver_side.c", C11, "steward");
    succeed(&run(&program), "the driver's side");
    if let Some(output) = run_under_valgrind("ca17 under valgrind", &program) {
        succeed(&output, "the driver's side under valgrind");
    }
}

/// Of glibc, whose functions a program can replace. Thread-local storage is the program's own, since the library is
/// linked, not loaded.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn ca12_a_context_serves_the_c_library_itself() {
    let Some(installed) = installed("own_malloc") else {
        return;
    };
    let program = installed.compile("tests/c/own_malloc.c", C11, "steward");
    succeed(&run(&program), "a calloc that is a context");
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn ca12_nothing_is_asked_of_malloc_over_a_host_of_ones_own() {
    let Some(installed) = installed("ca12") else {
        return;
    };
    let program = installed.compile("tests/c/no_malloc.c", C11, "steward");
    let output = run(&program);
    succeed(&output, "over a host");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "begin\nnothing was asked of malloc, and hundreds of blocks of the host\n"
    );
    // It would have been seen.
    let output = Command::new(&program).arg("on purpose").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.ends_with(" was called\n"), "{said}");
}

#[test]
fn ca4_two_drivers_in_one_process_keep_their_rallocs_apart() {
    let Some(installed) = installed("ca4") else {
        return;
    };
    let shared = ["-std=c11", "-fPIC", "-shared"];
    let ours = installed.compile("tests/c/one_of_two.c", &shared, "steward-ralloc");
    let stock = [&shared[..], &["-DSTOCK"]].concat();
    let stock = installed.compile("tests/c/one_of_two.c", &stock, "steward");
    let program = installed.compile("tests/c/two_drivers.c", C11, "steward");
    for (first, second, blocks) in [(&ours, &stock, [51, 0]), (&stock, &ours, [0, 51])] {
        let output = Command::new(&program).arg(first).arg(second).output();
        let output = output.expect("it starts");
        succeed(&output, "two drivers");
        let expected = blocks.map(|blocks| format!("50 blocks right, {blocks} of the domain\n"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected.concat());
    }
}

/// Whether Vulkan's headers are there; a printed skip where they are not.
pub(crate) fn has_vulkan_headers(test: &str) -> bool {
    let is_there = Path::new("/usr/include/vulkan/vulkan.h").is_file();
    if !is_there {
        testkit::skip("vulkan headers", test, "there is no vulkan/vulkan.h");
    }
    is_there
}

/// What an example prints on lavapipe, which needs Vulkan's headers and loader; `None`, and a printed skip, without
/// them.
fn on_lavapipe(test: &str, example: &str) -> Option<String> {
    let installed = installed(test)?;
    let manifests = Path::new("/usr/share/vulkan/icd.d").read_dir();
    let manifest = manifests.into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        path.to_string_lossy().contains("lvp_icd").then_some(path)
    });
    let Some(manifest) = manifest else {
        testkit::skip("lavapipe", test, "there is no lvp_icd in /usr/share/vulkan/icd.d");
        return None;
    };
    if !has_vulkan_headers(test) {
        return None;
    }
    let program = installed.compile(example, &["-std=c++17"], "steward vulkan");
    let output = Command::new(&program).env("VK_ICD_FILENAMES", &manifest).env("VK_DRIVER_FILES", &manifest).output();
    let output = output.expect("it starts");
    succeed(&output, example);
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_example_of_a_tracking_program_prints_the_tree_of_lavapipe() {
    let Some(text) = on_lavapipe("the_example_of_a_tracking_program", "examples/tracked.cpp") else {
        return;
    };
    // lavapipe allocates a buffer's state by one request, in scope object.
    let buffers = text.lines().find(|line| line.starts_with("  buffers")).unwrap_or_default();
    assert!(buffers.contains("  object 10 of 10"), "{text}");
    for kind in ["program", "  instance", "  device", "  pools"] {
        let line = text.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
        assert!(!line.is_empty() && !line.contains(" 0 blocks"), "{kind}: {text}");
    }
    assert!(text.ends_with("the driver gave everything back\n"), "{text}");
}

#[test]
fn ca30_the_example_of_regions_copies_from_crop_to_crop_on_lavapipe() {
    let Some(text) = on_lavapipe("ca30_the_example_of_regions", "examples/regions.cpp") else {
        return;
    };
    let expected = "\nread back: right\n2 regions with 3 crops in ";
    assert!(text.contains(expected), "{text}");
    assert!(text.ends_with("book-keeping left: 0 bytes\n"), "{text}");
}

/// Over a driver in C that is compiled in: many regions, buffers, images and crops, wrapped buffers, flushes in whole
/// atoms, resources of the program's own, imports, budgets, every kind of refusal.
#[test]
fn ca30_ca31_ca32_regions_do_what_their_header_says() {
    let Some(installed) = installed("ca30").filter(|_| has_vulkan_headers("ca30")) else {
        return;
    };
    let program = installed.compile("tests/c/regions.c", C11, "steward");
    succeed(&run(&program), "regions");
    if let Some(output) = run_under_valgrind("ca30 under valgrind", &program) {
        succeed(&output, "regions under valgrind");
    }
}

/// The programs and the text calls with the address and the undefined-behaviour sanitizer, over the library as it is.
#[test]
fn ca19_ca21_sanitizers_find_nothing_in_the_programs() {
    const NAME: &str = "ca19_ca21_sanitizers_find_nothing_in_the_programs";
    let Some(installed) = installed(NAME) else {
        return;
    };
    let include = format!("-I{}", package("include").display());
    let text = package("c/ralloc_text.c").display().to_string();
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", &include, &text];
    let options = [C11, &options].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong.c");
    let code = "#include \"steward.h\"\nint main(void) { char *block = steward_alloc2(NULL, NULL, 8, 8, 1); block[8] = 1; return 0; }\n";
    std::fs::write(&wrong, code).expect("written");
    let wrong = wrong.display().to_string();
    for compilers in compilers(NAME).filter(has_sanitizers) {
        for source in ["tests/c/interface.c", "tests/c/driver_side.c", "tests/c/runtimes.c", "tests/c/virtual_blocks.c"]
        {
            let program = installed.compile_by(compilers, source, &options, "steward");
            succeed(&run(&program), source);
        }
        // A mistake is found.
        let program = installed.compile_by(compilers, &wrong, &options, "steward");
        assert!(!run(&program).status.success(), "{}", compilers.c);
    }
}

/// Whether the compiler has the sanitizers' libraries; a printed skip where it has not.
fn has_sanitizers(compilers: &Compilers) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").expect("written");
    let output = Command::new(compilers.c)
        .args(["-fsanitize=address,undefined", "-o"])
        .arg(folder.path().join("empty"))
        .arg(&empty)
        .output();
    let is_there = output.expect("a compiler").status.success();
    if !is_there {
        testkit::skip("sanitizers", "ca19_ca21", &format!("{} has no address sanitizer", compilers.c));
    }
    is_there
}

#[test]
fn ca18_guards_and_faults_are_contexts_by_the_programs_words() {
    let Some(installed) = installed("ca18") else {
        return;
    };
    let program = installed.compile("tests/c/watched.c", C11, "steward");
    succeed(&run(&program), "words");
    for mode in ["cookie", "fence", "strict"] {
        let output = Command::new(&program).arg(mode).output().expect("it starts");
        assert!(!output.status.success(), "{mode}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a byte too far\n", "{mode}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("compiler"), "{mode} names the owner: {said}");
    }
}
