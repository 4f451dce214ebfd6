//! Common names of drivers.

#![forbid(unsafe_code)]

/// Common names, lower case, each with its `VkDriverId`.
pub(super) const ALIASES: [(&str, &str); 26] = [
    ("agx", "MESA_AGXV"),
    ("amdgpu-pro", "AMD_PROPRIETARY"),
    ("amdvlk", "AMD_OPEN_SOURCE"),
    ("anv", "INTEL_OPEN_SOURCE_MESA"),
    ("arm", "ARM_PROPRIETARY"),
    ("broadcom", "BROADCOM_PROPRIETARY"),
    ("dozen", "MESA_DOZEN"),
    ("dzn", "MESA_DOZEN"),
    ("intel", "INTEL_OPEN_SOURCE_MESA"),
    ("lavapipe", "MESA_LLVMPIPE"),
    ("lvp", "MESA_LLVMPIPE"),
    ("mali", "ARM_PROPRIETARY"),
    ("metal", "MOLTENVK"),
    ("nouveau", "MESA_NVK"),
    ("nvidia", "NVIDIA_PROPRIETARY"),
    ("nvk", "MESA_NVK"),
    ("panvk", "MESA_PANVK"),
    ("powervr", "IMAGINATION_OPEN_SOURCE_MESA"),
    ("qualcomm", "QUALCOMM_PROPRIETARY"),
    ("radv", "MESA_RADV"),
    ("swiftshader", "GOOGLE_SWIFTSHADER"),
    ("turnip", "MESA_TURNIP"),
    ("v3dv", "MESA_V3DV"),
    ("venus", "MESA_VENUS"),
    ("virtio", "MESA_VENUS"),
    ("xclipse", "SAMSUNG_PROPRIETARY"),
];

/// The `VkDriverId` of a common name, in any case of letters.
pub(super) fn driver_id(name: &str) -> Option<&'static str> {
    ALIASES
        .iter()
        .find(|(alias, _)| alias.eq_ignore_ascii_case(name))
        .map(|(_, id)| *id)
}
