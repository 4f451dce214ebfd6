//! Programs in C over the installed libraries.

use std::path::Path;
use std::process::{Command, Output};

use crate::installed::{installed, package, succeed};

const C11: &[&str] = &["-std=c11", "-D_GNU_SOURCE"];

fn run(program: &Path) -> Output {
    Command::new(program).output().expect("it starts")
}

/// Runs a program under valgrind, which finds nothing and no leak; `None` where there is no valgrind.
fn run_under_valgrind(test: &str, program: &Path) -> Option<Output> {
    let output = Command::new("valgrind")
        .args([
            "-q",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ])
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
fn ca10_a_panic_is_one_line_and_ends_the_process() {
    const CHILD: &str = "STEWARD_C_PANICS";
    if std::env::var_os(CHILD).is_some() {
        std::panic::set_hook(Box::new(|_| eprintln!("the program's own hook")));
        steward_c::edge::quiet_panics();
        assert!(std::panic::catch_unwind(|| panic!("the program's own")).is_err());
        steward_c::edge::enter("planted", || panic!("on order"));
    }
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args([
            "--exact",
            "programs::ca10_a_panic_is_one_line_and_ends_the_process",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "the program's own hook\nsteward: planted: the library panicked; the process ends\n"
    );
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(6)
    );
}

#[test]
fn ca10_an_exception_of_a_destructor_ends_the_process() {
    let Some(installed) = installed("ca10") else {
        return;
    };
    let program = installed.compile("tests/c/throws.cpp", &["-std=c++17"], "steward");
    let output = run(&program);
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(6)
    );
}

#[test]
fn the_cpp_header_serves_containers_and_objects_without_exceptions() {
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
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "object: 5 blocks\neverything came back\n"
    );
}

/// The chain of object, device, instance and C library for every combination and scope; a hundred arrays in one block; compiles that survive
/// each refusal by a reserve. Under valgrind too.
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

/// Of glibc, whose functions a program can replace. Thread-local storage is the program's own, since the library is linked, not loaded.
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
