//! In which order the Vulkan loader has put its layers. Loaders of 2023 take the order in which they find the
//! manifests, later ones that of `VK_INSTANCE_LAYERS`: a test that wants an order sets both, and looks.

use std::path::PathBuf;

/// The layers of the first instance, the one next to the program first, each with its manifest; from what the loader
/// says on the error output with `VK_LOADER_DEBUG=layer`. Empty where it said nothing.
#[must_use]
pub fn layer_order(said: &str) -> Vec<(String, PathBuf)> {
    let lines = said.lines().filter_map(|line| line.split("LAYER:").nth(1));
    let lines = lines.map(str::trim).skip_while(|line| !line.starts_with("vkCreateInstance layer callstack"));
    let mut layers: Vec<(String, PathBuf)> = Vec::new();
    for line in lines.take_while(|line| *line != "<Drivers>") {
        if line.starts_with("VK_LAYER_") {
            layers.push((line.to_owned(), PathBuf::new()));
        } else if let (Some(path), Some(layer)) = (line.strip_prefix("Manifest:"), layers.last_mut()) {
            layer.1 = path.trim().into();
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instances_layers_are_read_with_their_manifests() {
        let stack = |layer: &str| {
            let lines =
                ["vkCreateInstance layer callstack setup to:", "<Loader>", layer, "Manifest: /m.json", "<Drivers>"];
            lines.map(|line| format!("[Vulkan Loader] LAYER:     {line}\n")).concat()
        };
        let said = format!("LAYER: VK_LAYER_FOUND\n{}{}", stack("VK_LAYER_A"), stack("VK_LAYER_B"));
        let expected = ("VK_LAYER_A".to_owned(), PathBuf::from("/m.json"));
        assert_eq!(layer_order(&said), [expected]);
        assert_eq!(layer_order("nothing"), []);
    }
}
