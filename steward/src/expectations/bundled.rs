#![forbid(unsafe_code)]

use super::file::{Expectations, FileFault};

/// Expectations embedded in the program.
#[derive(Clone, Copy, Debug)]
pub struct BundledExpectations {
    /// Their name for `--expect`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All of them.
pub const EXPECTATIONS: [BundledExpectations; 5] = [
    BundledExpectations { name: "lavapipe-22.3", text: include_str!("../../expectations/lavapipe-22.3.toml") },
    BundledExpectations { name: "lavapipe-26.2", text: include_str!("../../expectations/lavapipe-26.2.toml") },
    BundledExpectations { name: "swiftshader-5.0", text: include_str!("../../expectations/swiftshader-5.0.toml") },
    BundledExpectations { name: "nvidia-580", text: include_str!("../../expectations/nvidia-580.toml") },
    BundledExpectations { name: "reference-0.1", text: include_str!("../../expectations/reference-0.1.toml") },
];

/// Those of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static BundledExpectations> {
    EXPECTATIONS.iter().find(|bundled| bundled.name == name)
}

/// The first expectations about the driver of that name and version, parsed.
///
/// # Errors
/// [`FileFault`]: the program was built from an invalid file.
pub fn of_driver(driver: &str) -> Result<Option<(&'static BundledExpectations, Expectations)>, FileFault> {
    for bundled in &EXPECTATIONS {
        let read = Expectations::parse(bundled.text)?;
        if read.is_about(driver) {
            return Ok(Some((bundled, read)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_right_gives_causes_and_is_about_its_driver() {
        for bundled in &EXPECTATIONS {
            let read = Expectations::parse(bundled.text).unwrap_or_else(|fault| panic!("{}: {fault}", bundled.name));
            for one in &read.findings {
                assert!(!one.cause.trim().is_empty(), "{}: {one} has no cause", bundled.name);
            }
        }
        let name = |driver: &str| of_driver(driver).expect("right").map(|(bundled, _)| bundled.name);
        assert_eq!(name("llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"), Some("lavapipe-22.3"));
        assert_eq!(name("llvmpipe Mesa 26.2.6-1 (LLVM 22.1.8)"), Some("lavapipe-26.2"));
        assert_eq!(name("SwiftShader driver 5.0.0"), Some("swiftshader-5.0"));
        assert_eq!(name("NVIDIA 580.159.04"), Some("nvidia-580"));
        assert_eq!(name("reference_icd 0.1.0"), Some("reference-0.1"));
        assert_eq!(name("llvmpipe Mesa 25.0.1 (LLVM 19.1.0)"), None);
    }
}
