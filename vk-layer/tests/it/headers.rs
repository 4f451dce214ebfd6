//! The signatures of the table of commands against Vulkan's own headers, where they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use testkit::skip;
use vk_callbacks::CommandRow;
use vk_callbacks::commands::CommandSignature;

/// A folder with `vulkan_core.h`: the system's, or that of a crate whose sources cargo has.
pub(crate) fn folder() -> Option<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/include/vulkan")];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let list = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    for registry in home.into_iter().flat_map(|home| list(home.join("registry/src"))) {
        let crates = list(registry.path());
        let named = crates.filter(|entry| entry.file_name().to_string_lossy().starts_with("vk-mem-"));
        folders.extend(named.map(|entry| entry.path().join("vendor/Vulkan-Headers/include/vulkan")));
    }
    folders.into_iter().find(|folder| folder.join("vulkan_core.h").is_file())
}

#[test]
fn ly11_every_command_with_callbacks_has_the_signature_of_the_headers() {
    let test = "ly11_every_command_with_callbacks_has_the_signature_of_the_headers";
    let Some(folder) = folder() else {
        return skip("vulkan-headers", test, "no vulkan_core.h was found");
    };
    let (mut declared, mut types) = (BTreeMap::new(), BTreeMap::new());
    for file in std::fs::read_dir(folder).expect("a folder").flatten() {
        let Ok(text) = std::fs::read_to_string(file.path()) else {
            continue;
        };
        // `typedef VkResult (VKAPI_PTR *PFN_vkCreateBuffer)(VkDevice device, ..);`
        for part in text.split("(VKAPI_PTR *PFN_").skip(1) {
            let (name, rest) = part.split_once(")(").expect("parameters");
            let (parameters, _) = rest.split_once(");").expect("an end");
            if parameters.contains("VkAllocationCallbacks*") {
                let last = parameters.rsplit(',').next().unwrap_or_default();
                types.insert(name.to_owned(), last.to_owned());
                let parameters: Vec<_> = parameters.split(',').map(kind).collect();
                declared.insert(name.to_owned(), parameters.join(" "));
            }
        }
    }
    assert!(declared.len() > 100, "{declared:?}");
    for (name, parameters) in &declared {
        let row = CommandRow::of(name);
        assert_eq!(row.name, name, "has no row");
        let signature = row.signature.expect("a signature");
        assert_eq!(parameters, shape(signature), "{name}, {signature:?}");
        // The parameters of both are alike: what the last one points to is not.
        let is_list = types.get(name).is_some_and(|last| last.contains("HandlesInfo"));
        assert_eq!(is_list, signature == CommandSignature::CreateList, "{name}");
    }
}

/// `callbacks`, `pointer`, `count` for 32 bits, or `handle`.
fn kind(parameter: &str) -> &'static str {
    if parameter.contains("VkAllocationCallbacks*") {
        "callbacks"
    } else if parameter.contains('*') {
        "pointer"
    } else if parameter.contains("uint32_t") {
        "count"
    } else {
        "handle"
    }
}

fn shape(signature: CommandSignature) -> &'static str {
    match signature {
        CommandSignature::CreateInstance => "pointer callbacks pointer",
        CommandSignature::Create | CommandSignature::CreateList => "handle pointer callbacks pointer",
        CommandSignature::CreateWithoutInfo => "handle callbacks pointer",
        CommandSignature::CreateForDisplay => "handle handle pointer callbacks pointer",
        CommandSignature::CreateMany => "handle count pointer callbacks pointer",
        CommandSignature::CreatePipelines => "handle handle count pointer callbacks pointer",
        CommandSignature::CreateDeferredPipelines => "handle handle handle count pointer callbacks pointer",
        CommandSignature::Destroy => "handle handle callbacks",
        CommandSignature::Release => "handle pointer callbacks",
        CommandSignature::DestroyParent => "handle callbacks",
    }
}
