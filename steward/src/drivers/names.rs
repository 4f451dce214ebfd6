#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::alias;
use super::info::DriverInfo;
use super::manifest;
use vk_report::pattern::matches;

pub(super) fn find<'a>(known: &'a [DriverInfo], name: &str) -> Option<&'a DriverInfo> {
    known.iter().find(|driver| is_called(driver, name))
}

/// Whether `name` means this driver. Case and surrounding blanks do not matter. A name is
///
/// - a number: the driver's index in the listing;
/// - the driver id, such as `MESA_LLVMPIPE`, also with the prefix `VK_DRIVER_ID_`;
/// - the driver name, such as `llvmpipe`;
/// - the manifest's file stem, with or without what follows its first dot (`lvp_icd`, `lvp_icd.x86_64`), also with
///   `.json`;
/// - a common name, such as `lavapipe`, `radv` or `nvidia`.
///
/// An empty name means no driver.
pub(super) fn is_called(driver: &DriverInfo, name: &str) -> bool {
    let name = name.trim();
    if name.is_empty() {
        return false;
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse() == Ok(driver.index);
    }
    let same = |own: &str, other: &str| !own.is_empty() && own.eq_ignore_ascii_case(other);
    let bare_id = without_prefix(name, "VK_DRIVER_ID_").or_else(|| without_prefix(name, "DRIVER_ID_")).unwrap_or(name);
    let file = without_suffix(name, ".json").unwrap_or(name);
    let short_stem = driver.stem.split('.').next().unwrap_or_default();
    same(&driver.driver_id, bare_id)
        || same(&driver.driver_name, name)
        || same(&driver.stem, file)
        || same(short_stem, file)
        || alias::driver_id(name).is_some_and(|id| same(&driver.driver_id, id))
}

/// A driver without a device has no other name than that of its manifest's file.
pub(super) fn is_manifest_of(stem: &str, name: &str) -> bool {
    let name = name.trim();
    let bare_id = without_prefix(name, "VK_DRIVER_ID_").unwrap_or(name);
    let file = without_suffix(name, ".json").unwrap_or(name);
    let short_stem = stem.split('.').next().unwrap_or_default();
    [stem, short_stem].iter().any(|own| own.eq_ignore_ascii_case(file))
        || alias::is_manifest_of(stem, alias::driver_id(name).unwrap_or(bare_id))
}

/// The loader's filter for a name or pattern: of manifests' names, or else a driver's name (`lavapipe` is `lvp_icd*`).
///
/// # Errors
/// The names of all manifests, if none fits. Without a manifest nothing is known.
pub(crate) fn selection(pattern: &OsStr) -> Result<OsString, Vec<String>> {
    let found = manifest::find_all();
    let paths: Vec<_> = found.iter().map(|manifest| &*manifest.path).collect();
    select(&paths, pattern).ok_or_else(|| found.into_iter().map(|it| it.stem).collect())
}

/// Names of files and patterns may be no text.
fn select(manifests: &[&Path], pattern: &OsStr) -> Option<OsString> {
    let patterns = pattern.as_encoded_bytes().to_ascii_lowercase();
    let fits = |file: &&OsStr| {
        let file = file.as_encoded_bytes().to_ascii_lowercase();
        let mut patterns = patterns.split(|byte| *byte == b',');
        patterns.any(|one| matches(one.trim_ascii(), &file))
    };
    let files = || manifests.iter().filter_map(|path| path.file_name());
    if manifests.is_empty() || files().any(|file| fits(&file)) {
        return Some(pattern.to_owned());
    }
    let is_named = |file: &&OsStr| {
        let stem = Path::new(file).file_stem().and_then(OsStr::to_str);
        stem.zip(pattern.to_str()).is_some_and(|(stem, name)| is_manifest_of(stem, name))
    };
    let named: Vec<_> = files().filter(is_named).collect();
    (!named.is_empty()).then(|| named.join(OsStr::new(",")))
}

pub(super) fn like<'a>(known: &'a [DriverInfo], name: &str) -> Option<&'a str> {
    const NEAR: f64 = 0.8;
    let name = name.trim().to_lowercase();
    let names = known.iter().flat_map(|driver| {
        let of_id = alias::ALIASES.iter().filter(|(_, id)| *id == driver.driver_id).map(|(alias, _)| *alias);
        let own = [&driver.driver_name, &driver.stem, &driver.driver_id];
        of_id.chain(own.map(String::as_str))
    });
    let like = names.map(|own| (strsim::jaro_winkler(&own.to_lowercase(), &name), own));
    like.filter(|(like, _)| *like > NEAR).max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, own)| own)
}

fn without_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = name.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn without_suffix<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let (rest, tail) = name.split_at_checked(name.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(index: usize, id: &str, name: &str, stem: &str) -> DriverInfo {
        DriverInfo { index, driver_id: id.into(), driver_name: name.into(), stem: stem.into(), ..DriverInfo::default() }
    }

    fn known() -> Vec<DriverInfo> {
        vec![
            driver(0, "MESA_RADV", "radv", "radeon_icd.x86_64"),
            driver(1, "MESA_RADV", "radv", "radeon_icd.x86_64"),
            driver(2, "MESA_LLVMPIPE", "llvmpipe", "lvp_icd.x86_64"),
            driver(3, "GOOGLE_SWIFTSHADER", "SwiftShader driver", "vk_swiftshader_icd"),
            driver(4, "", "", ""),
        ]
    }

    fn index_of(name: &str) -> Option<usize> {
        find(&known(), name).map(|driver| driver.index)
    }

    #[test]
    fn every_way_of_saying_it_finds_lavapipe() {
        let ways = ["lavapipe", "LAVAPIPE", "lvp", "llvmpipe", "LLVMpipe", "MESA_LLVMPIPE", "mesa_llvmpipe"];
        let more = [
            "VK_DRIVER_ID_MESA_LLVMPIPE",
            "driver_id_mesa_llvmpipe",
            "lvp_icd",
            "lvp_icd.x86_64",
            "LVP_ICD.JSON",
            " 2 ",
            "2",
        ];
        for way in ways.into_iter().chain(more) {
            assert_eq!(index_of(way), Some(2), "{way}");
        }
    }

    #[test]
    fn swiftshader_is_found_by_id_name_file_and_alias() {
        for way in ["swiftshader", "google_swiftshader", "SwiftShader Driver", "vk_swiftshader_icd", "3"] {
            assert_eq!(index_of(way), Some(3), "{way}");
        }
    }

    #[test]
    fn of_two_devices_of_one_driver_the_first_is_meant_and_the_index_tells_them_apart() {
        assert_eq!(index_of("radv"), Some(0));
        assert_eq!(index_of("1"), Some(1));
    }

    #[test]
    fn a_filter_is_a_pattern_or_a_name() {
        let manifests = ["/a/lvp_icd.x86_64.json", "/a/radeon_icd.x86_64.json"].map(Path::new);
        let select = |pattern: &str| select(&manifests, OsStr::new(pattern));
        for (pattern, filter) in [
            ("lvp*", Some("lvp*")),
            ("LVP*", Some("LVP*")),
            ("foo*,*radeon*", Some("foo*,*radeon*")),
            ("lavapipe", Some("lvp_icd.x86_64.json")),
            ("lvp_icd", Some("lvp_icd.x86_64.json")),
            ("foo*", None),
            ("nvidia", None),
        ] {
            let filter = filter.map(OsString::from);
            assert_eq!(select(pattern), filter, "{pattern}");
        }
        let foo = OsStr::new("foo*");
        assert_eq!(super::select(&[], foo).as_deref(), Some(foo), "nothing is known");
    }

    #[test]
    fn a_driver_without_a_device_is_known_by_its_manifest() {
        for name in ["radv", "RADV", "MESA_RADV", "VK_DRIVER_ID_MESA_RADV", "radeon_icd", "radeon_icd.x86_64.json"] {
            assert!(is_manifest_of("radeon_icd.x86_64", name), "{name}");
        }
        for name in ["", "anv", "radeon", "lavapipe", "mesa"] {
            assert!(!is_manifest_of("radeon_icd.x86_64", name), "{name}");
        }
        assert!(is_manifest_of("intel_icd.x86_64", "anv") && is_manifest_of("own", "own.json"));
    }

    #[test]
    fn what_nobody_is_called_finds_nobody() {
        let absent = [
            "",
            " ",
            "5",
            "99999999999999999999999",
            "nvidia",
            "lvp_icd.x86",
            "llvm",
            "VK_DRIVER_ID_",
            "json",
            ".json",
            "é",
        ];
        for name in absent {
            assert_eq!(index_of(name), None, "{name:?}");
        }
        assert!(find(&[], "lavapipe").is_none());
    }

    #[test]
    fn every_alias_is_lower_case_sorted_and_stands_for_a_driver_id_of_vulkan() {
        assert!(alias::ALIASES.is_sorted_by(|a, b| a.0 < b.0));
        let ids: Vec<_> = (0..64).map(|raw| format!("{:?}", ash::vk::DriverId::from_raw(raw))).collect();
        for (name, id) in alias::ALIASES {
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(ids.iter().any(|known| known == id), "{id}");
            assert!(is_called(&driver(9, id, "", ""), &name.to_ascii_uppercase()));
        }
    }
}
