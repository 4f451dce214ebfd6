//! Finds the driver that a name means.

#![forbid(unsafe_code)]

use super::alias;
use super::info::DriverInfo;

/// The first of `known` that `name` means. A number is only an index.
#[must_use]
pub fn find<'a>(known: &'a [DriverInfo], name: &str) -> Option<&'a DriverInfo> {
    known.iter().find(|driver| is_called(driver, name))
}

/// Whether `name` means this driver. Case and surrounding blanks do not matter. A name is
///
/// - a number: the driver's index in the listing;
/// - the driver id, such as `MESA_LLVMPIPE`, also with the prefix `VK_DRIVER_ID_`;
/// - the driver name, such as `llvmpipe`;
/// - the manifest's file stem, with or without what follows its first dot (`lvp_icd`, `lvp_icd.x86_64`), also with `.json`;
/// - a common name, such as `lavapipe`, `radv` or `nvidia`.
///
/// An empty name means no driver.
#[must_use]
pub fn is_called(driver: &DriverInfo, name: &str) -> bool {
    let name = name.trim();
    if name.is_empty() {
        return false;
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse() == Ok(driver.index);
    }
    let same = |own: &str, other: &str| !own.is_empty() && own.eq_ignore_ascii_case(other);
    let bare_id = without_prefix(name, "VK_DRIVER_ID_")
        .or_else(|| without_prefix(name, "DRIVER_ID_"))
        .unwrap_or(name);
    let file = without_suffix(name, ".json").unwrap_or(name);
    let short_stem = driver.stem.split('.').next().unwrap_or_default();
    same(&driver.driver_id, bare_id)
        || same(&driver.driver_name, name)
        || same(&driver.stem, file)
        || same(short_stem, file)
        || alias::driver_id(name).is_some_and(|id| same(&driver.driver_id, id))
}

/// The name of one of `known` that is most similar to `name`; none if no name is similar.
pub(super) fn like<'a>(known: &'a [DriverInfo], name: &str) -> Option<&'a str> {
    /// Similarity from 0 (nothing in common) to 1 (equal).
    const NEAR: f64 = 0.8;
    let name = name.trim().to_lowercase();
    let names = known.iter().flat_map(|driver| {
        let of_id = alias::ALIASES
            .iter()
            .filter(|(_, id)| *id == driver.driver_id)
            .map(|(alias, _)| *alias);
        let own = [&driver.driver_name, &driver.stem, &driver.driver_id];
        of_id.chain(own.map(String::as_str))
    });
    let like = names.map(|own| (strsim::jaro_winkler(&own.to_lowercase(), &name), own));
    like.filter(|(like, _)| *like > NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, own)| own)
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
        DriverInfo {
            index,
            driver_id: id.into(),
            driver_name: name.into(),
            stem: stem.into(),
            ..DriverInfo::default()
        }
    }

    fn known() -> Vec<DriverInfo> {
        vec![
            driver(0, "MESA_RADV", "radv", "radeon_icd.x86_64"),
            driver(1, "MESA_RADV", "radv", "radeon_icd.x86_64"),
            driver(2, "MESA_LLVMPIPE", "llvmpipe", "lvp_icd.x86_64"),
            driver(
                3,
                "GOOGLE_SWIFTSHADER",
                "SwiftShader driver",
                "vk_swiftshader_icd",
            ),
            driver(4, "", "", ""),
        ]
    }

    fn index_of(name: &str) -> Option<usize> {
        find(&known(), name).map(|driver| driver.index)
    }

    #[test]
    fn every_way_of_saying_it_finds_lavapipe() {
        let ways = [
            "lavapipe",
            "LAVAPIPE",
            "lvp",
            "llvmpipe",
            "LLVMpipe",
            "MESA_LLVMPIPE",
            "mesa_llvmpipe",
        ];
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
        for way in [
            "swiftshader",
            "google_swiftshader",
            "SwiftShader Driver",
            "vk_swiftshader_icd",
            "3",
        ] {
            assert_eq!(index_of(way), Some(3), "{way}");
        }
    }

    #[test]
    fn of_two_devices_of_one_driver_the_first_is_meant_and_the_index_tells_them_apart() {
        assert_eq!(index_of("radv"), Some(0));
        assert_eq!(index_of("1"), Some(1));
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
        let ids: Vec<_> = (0..64)
            .map(|raw| format!("{:?}", ash::vk::DriverId::from_raw(raw)))
            .collect();
        for (name, id) in alias::ALIASES {
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(ids.iter().any(|known| known == id), "{id}");
            assert!(is_called(
                &driver(9, id, "", ""),
                &name.to_ascii_uppercase()
            ));
        }
    }
}
