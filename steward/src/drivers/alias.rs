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

const MANIFESTS: [(&str, &str); 16] = [
    ("amd_icd", "AMD_OPEN_SOURCE"),
    ("amd_pro_icd", "AMD_PROPRIETARY"),
    ("asahi_icd", "MESA_AGXV"),
    ("broadcom_icd", "MESA_V3DV"),
    ("dzn_icd", "MESA_DOZEN"),
    ("freedreno_icd", "MESA_TURNIP"),
    ("intel_hasvk_icd", "INTEL_OPEN_SOURCE_MESA"),
    ("intel_icd", "INTEL_OPEN_SOURCE_MESA"),
    ("lvp_icd", "MESA_LLVMPIPE"),
    ("nouveau_icd", "MESA_NVK"),
    ("nvidia_icd", "NVIDIA_PROPRIETARY"),
    ("panfrost_icd", "MESA_PANVK"),
    ("powervr_mesa_icd", "IMAGINATION_OPEN_SOURCE_MESA"),
    ("radeon_icd", "MESA_RADV"),
    ("virtio_icd", "MESA_VENUS"),
    ("vk_swiftshader_icd", "GOOGLE_SWIFTSHADER"),
];

pub(super) fn is_manifest_of(stem: &str, id: &str) -> bool {
    let mut known = MANIFESTS.iter();
    known.any(|(start, of)| stem.starts_with(start) && of.eq_ignore_ascii_case(id))
}

pub(super) fn driver_id(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map(|(_, id)| *id)
}
