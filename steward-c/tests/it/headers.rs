//! The headers are written by hand; this side writes down what each function and struct is, as C assertions, and a C
//! compiler compares.

use std::fmt::Write;
use std::process::Command;

use syn::{FnArg, ForeignItem, Item, ItemFn, ReturnType, Type};

use crate::installed::{Compilers, compilers, installed, package, succeed};

/// The C type of a Rust one.
fn c_type(ty: &Type) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let target = c_type(&pointer.elem);
            // `const` behind the target binds to it, whatever that is.
            let constant = if pointer.const_token.is_some() { " const" } else { "" };
            format!("{target}{constant} *")
        }
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a name");
            match last.ident.to_string().as_str() {
                "Option" => match &last.arguments {
                    syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                        Some(syn::GenericArgument::Type(inner)) => c_type(inner),
                        _ => panic!("no type of C"),
                    },
                    _ => panic!("no type of C"),
                },
                "usize" => "size_t".to_owned(),
                "u64" => "uint64_t".to_owned(),
                "u32" => "uint32_t".to_owned(),
                "i32" => "int32_t".to_owned(),
                "bool" => "bool".to_owned(),
                "c_void" => "void".to_owned(),
                "c_char" => "char".to_owned(),
                "ImageCreateInfo" => "struct VkImageCreateInfo".to_owned(),
                "RawCallbacks" => "struct VkAllocationCallbacks".to_owned(),
                "TaggedDestructor" => "steward_destructor_fn".to_owned(),
                name => snake(name),
            }
        }
        _ => panic!("no type of C"),
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// `ret (parameters)` of a function, as C writes a function's type.
fn c_function(function: &ItemFn) -> String {
    let answer = match &function.sig.output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, ty) => c_type(ty),
    };
    let parameters: Vec<String> = function
        .sig
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Typed(typed) => c_type(&typed.ty),
            FnArg::Receiver(_) => panic!("no function of C"),
        })
        .collect();
    let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    format!("{answer} ({parameters})")
}

/// All items of the library's sources.
fn items() -> Vec<Item> {
    let mut items = Vec::new();
    for entry in package("src").read_dir().expect("sources").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        items.extend(syn::parse_file(&text).expect("Rust").items);
    }
    assert!(!items.iter().any(|item| matches!(item, Item::ForeignMod(block)
        if block.items.iter().any(|item| matches!(item, ForeignItem::Fn(_))))));
    items
}

/// The exported functions, by name.
fn functions() -> Vec<ItemFn> {
    let is_exported = |function: &ItemFn| {
        let name = function.sig.abi.as_ref().and_then(|abi| abi.name.as_ref());
        name.is_some_and(|name| name.value() == "C")
    };
    items()
        .into_iter()
        .filter_map(|item| match item {
            Item::Fn(function) if is_exported(&function) => Some(function),
            _ => None,
        })
        .collect()
}

macro_rules! structs {
    ($text:expr, $($module:ident :: $name:ident { $($field:ident),* }),* $(,)?) => {$({
        type Struct = steward_c::$module::$name;
        let name = snake(stringify!($name));
        writeln!($text, "_Static_assert(sizeof({name}) == {} && _Alignof({name}) == {}, \"{name}\");", size_of::<Struct>(), align_of::<Struct>()).expect("text");
        $(writeln!($text, "_Static_assert(offsetof({name}, {0}) == {1}, \"{name}.{0}\");", stringify!($field), std::mem::offset_of!(Struct, $field)).expect("text");)*
        // A field behind padding could not be told by the size.
        let last = [$(stringify!($field)),*].into_iter().next_back().expect("a field");
        writeln!($text, "_Static_assert(sizeof({name}) == offsetof({name}, {last}) + sizeof((({name} *)0)->{last}), \"{name} ends in padding\");").expect("text");
    })*};
}

pub(crate) fn assertions() -> String {
    let mut text = String::from("#include \"steward-ralloc.h\"\n#include \"steward-gpu.h\"\n");
    structs!(
        text,
        host::StewardHost { size, data, alloc, resize, free },
        context::StewardOptions { size, scope, budget, limit },
        context::StewardOutstanding { size, bytes, blocks, foreign_bytes, contexts, handles },
        refusal::StewardRefusal { size, kind, scope, bytes, context, short_by, leased_elsewhere },
        account::StewardScopeUsage { live_bytes, live_blocks, total_bytes, total_blocks, peak_bytes },
        account::StewardUsageInfo { size, id, scopes, total },
        account::StewardBudgetInfo { size, limit, charged, high },
        bridge::StewardBridge { words },
        chain::StewardChain { words },
        chain::StewardMultialloc { bytes, align },
        gpu::StewardGpuDevice {
            size,
            get_instance_proc_addr,
            instance,
            physical_device,
            device,
            callbacks,
            api_version,
            features
        },
        gpu::StewardGpuStats {
            size,
            blocks,
            block_bytes,
            dedicated,
            regions,
            region_bytes,
            wrapped,
            wrapped_bytes,
            crops,
            host_bytes,
            budget,
            budget_used
        },
        gpu::StewardGpuOptions {
            size,
            max_bytes,
            first_block,
            max_block,
            nearest_multiple,
            keep_empty,
            max_reusable_bytes,
            max_blocks,
            max_reusable,
            granule,
            margin
        },
        virtual_block::StewardVirtualId { words },
        virtual_block::StewardVirtualRange { size, id, offset, bytes, tag, note },
        virtual_block::StewardVirtualStats { size, bytes, used, ranges, holes, largest_hole, host_bytes },
        region::StewardRegionId { words },
        region_request::StewardRegionRequest {
            size,
            bytes,
            align,
            memory_types,
            usage,
            required,
            preferred,
            avoided,
            lifetime,
            kind,
            dedicated,
            tag,
            name,
            dedicated_buffer,
            dedicated_image,
            next,
            export_types,
            external_types,
            flags
        },
        region_request::StewardWrapRequest {
            size,
            buffer,
            offset,
            bytes,
            buffer_bytes,
            memory,
            memory_offset,
            memory_bytes,
            properties,
            mapped,
            tag,
            name
        },
        region::StewardRegion {
            size,
            id,
            root,
            bytes,
            memory,
            offset,
            buffer,
            buffer_offset,
            memory_type,
            ownership,
            crops,
            maps,
            tag,
            image,
            mapped,
            memory_bytes,
            properties,
            is_dedicated,
            reserved,
            slot_key
        },
    );
    for function in functions() {
        let name = function.sig.ident.to_string();
        writeln!(
            text,
            "_Static_assert(__builtin_types_compatible_p(__typeof__({name}), {}), \"{name}\");",
            c_function(&function)
        )
        .expect("text");
    }
    text
}

fn compile(compiler: &str, language: &str, standard: &str, text: &str) -> std::process::Output {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("headers");
    std::fs::write(&source, text).expect("written");
    Command::new(compiler)
        .args(["-x", language, standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(package("include"))
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"))
}

#[test]
fn ca2_the_headers_say_what_this_side_is() {
    if installed("ca2").is_none() {
        return;
    }
    let text = assertions();
    assert!(functions().len() > 40, "{}", functions().len());
    succeed(&compile("cc", "c", "-std=gnu11", &text), "the assertions");
    // A wrong one is found.
    for (right, wrong) in [
        ("size_t, size_t", "size_t, int32_t"),
        ("offsetof(steward_host, free) == ", "offsetof(steward_host, free) == 1"),
    ] {
        assert!(text.contains(right));
        let output = compile("cc", "c", "-std=gnu11", &text.replacen(right, wrong, 1));
        assert!(!output.status.success(), "{wrong}");
    }
}

#[test]
fn ca2_the_headers_are_c99_and_cpp17() {
    if installed("ca2").is_none() {
        return;
    }
    let text = "#include \"steward.h\"\n#include \"steward-ralloc.h\"\n#include \"steward-gpu.h\"\n";
    let cpp = format!("{text}#include \"steward.hpp\"\n");
    for Compilers { c, cpp: cplusplus } in compilers("ca2") {
        for standard in ["-std=c99", "-std=c11", "-std=c17"] {
            succeed(&compile(c, "c", standard, text), c);
        }
        for standard in ["-std=c++17", "-std=c++20"] {
            succeed(&compile(cplusplus, "c++", standard, &cpp), cplusplus);
        }
    }
}

/// Types of functions, sizes, offsets and constants of earlier interfaces. A struct that begins with its size may grow;
/// `sized.rs` tests that a shorter one of a caller is read and written as far as it goes.
#[test]
fn ca6_what_earlier_interfaces_had_is_as_it_was() {
    if installed("ca6").is_none() {
        return;
    }
    let mut lines = 0;
    for file in package("tests/abi").read_dir().expect("a folder").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("text");
        lines += text.lines().count();
        succeed(&compile("cc", "c", "-std=gnu11", &text), "an interface");
        let wrong = text.replacen(" == 0", " == 1", 1);
        assert!(text != wrong && !compile("cc", "c", "-std=gnu11", &wrong).status.success());
    }
    assert!(lines > 130);
}

/// No logic on this side: each function is a conversion and a call.
#[test]
fn ca1_functions_are_short_and_pkg_config_finds_the_libraries() {
    for entry in package("src").read_dir().expect("sources").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        for function in text.split("#[unsafe(no_mangle)]").skip(1) {
            let lines = function.lines().take_while(|line| *line != "}").count();
            assert!(lines <= 45, "{lines} lines: {}", function.trim_start());
        }
    }
    // What is listed and defined nowhere is not exported (`symbols.rs`), and what no header declares is found above.
    let list = std::fs::read_to_string(package("steward.map")).expect("the list");
    for function in functions() {
        let name = function.sig.ident;
        assert!(list.contains(&format!("  {name};")), "{name} is not listed");
    }
    let Some(installed) = installed("ca1") else {
        return;
    };
    for file in ["lib/libsteward.so.0", "lib/libsteward.a", "lib/libsteward-ralloc.so", "include/steward.hpp"] {
        assert!(installed.path(file).is_file(), "{file}");
    }
    for library in ["steward", "steward-ralloc"] {
        assert!(installed.flags(library).contains(&format!("-l{library}")));
    }
}
