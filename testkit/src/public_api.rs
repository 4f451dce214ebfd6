//! Lists the functions that a crate offers, so that a test's table can be compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, File, ImplItem, Item, Meta, TraitItem, Type, UseTree, Visibility};

/// The names of all public functions of the library whose `src` directory is `src`, sorted.
///
/// `name` for a free function, `Type::name` for one of an inherent impl, `Trait::name` for one that a trait has; of
/// items that `lib.rs` re-exports (`pub use`) or that stand in a public module. Implementations of traits are not
/// listed, nor are items under `#[cfg(test)]` or `#[cfg(feature = "testing")]`, nor what macros make.
///
/// # Panics
/// When a file cannot be read or parsed.
#[must_use]
pub fn public_api(src: &Path) -> Vec<String> {
    offered(src).into_keys().collect()
}

/// Those of [`public_api`] that are `const`.
pub(crate) fn const_api(src: &Path) -> BTreeSet<String> {
    offered(src).into_iter().filter(|(_, is_const)| *is_const).map(|(name, _)| name).collect()
}

fn offered(src: &Path) -> BTreeMap<String, bool> {
    let mut walk = Walk::default();
    walk.file(&src.join("lib.rs"), src, true);
    let Walk { exported, everything, found } = walk;
    let offered =
        |found: &Found| found.in_public_module || everything.contains(&found.module) || exported.contains(&found.owner);
    found.into_iter().filter(offered).map(|found| (found.name, found.is_const)).collect()
}

#[derive(Default)]
struct Walk {
    /// Names that a `pub use` names, and types of public modules: their functions may stand in private ones.
    exported: BTreeSet<String>,
    /// Modules that a `pub use module::*` names.
    everything: BTreeSet<String>,
    found: Vec<Found>,
}

struct Found {
    /// What must be re-exported for this to be public: the type, the trait or the function itself.
    owner: String,
    name: String,
    module: String,
    in_public_module: bool,
    is_const: bool,
}

impl Walk {
    fn file(&mut self, file: &Path, dir: &Path, public: bool) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let File { items, .. } = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let module = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.items(&items, dir, &module, public);
    }

    fn items(&mut self, items: &[Item], dir: &Path, module: &str, public: bool) {
        for item in items.iter().filter(|item| !only_in_tests(attributes(item))) {
            match item {
                Item::Use(item) if is_pub(&item.vis) => self.exports(&item.tree),
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let (inside, public) = (dir.join(&name), public && is_pub(&item.vis));
                    match &item.content {
                        Some((_, items)) => self.items(items, &inside, &name, public),
                        None => self.file(&module_file(dir, &name), &inside, public),
                    }
                }
                Item::Struct(item) if public && is_pub(&item.vis) => {
                    self.exported.insert(item.ident.to_string());
                }
                Item::Enum(item) if public && is_pub(&item.vis) => {
                    self.exported.insert(item.ident.to_string());
                }
                Item::Fn(item) if is_pub(&item.vis) => {
                    let name = item.sig.ident.to_string();
                    self.add(name.clone(), name, module, public, item.sig.constness.is_some());
                }
                Item::Trait(item) if is_pub(&item.vis) => {
                    let owner = item.ident.to_string();
                    for function in &item.items {
                        if let TraitItem::Fn(function) = function {
                            self.add(
                                owner.clone(),
                                format!("{owner}::{}", function.sig.ident),
                                module,
                                public,
                                function.sig.constness.is_some(),
                            );
                        }
                    }
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let Some(owner) = type_name(&item.self_ty) else {
                        continue;
                    };
                    for function in &item.items {
                        if let ImplItem::Fn(function) = function
                            && is_pub(&function.vis)
                            && !only_in_tests(&function.attrs)
                        {
                            self.add(
                                owner.clone(),
                                format!("{owner}::{}", function.sig.ident),
                                module,
                                public,
                                function.sig.constness.is_some(),
                            );
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, owner: String, name: String, module: &str, public: bool, is_const: bool) {
        // The root of a library is a public module too, but a private type in a public module stays private: the `pub
        // use` list or the module's own `pub` decides, and lib.rs holds no items of its own.
        self.found.push(Found { owner, name, module: module.to_owned(), in_public_module: public, is_const });
    }

    fn exports(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => match &*path.tree {
                UseTree::Glob(_) => drop(self.everything.insert(path.ident.to_string())),
                tree => self.exports(tree),
            },
            UseTree::Name(name) => drop(self.exported.insert(name.ident.to_string())),
            UseTree::Rename(rename) => drop(self.exported.insert(rename.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.exports(tree)),
            UseTree::Glob(_) => {}
        }
    }
}

/// `dir/name.rs` or `dir/name/mod.rs`.
fn module_file(dir: &Path, name: &str) -> PathBuf {
    let flat = dir.join(name).with_extension("rs");
    if flat.exists() { flat } else { dir.join(name).join("mod.rs") }
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// True under `#[cfg(test)]`, `#[cfg(all(test, ..))]` and `#[cfg(feature = "testing")]`, which serves tests alone.
/// `cfg(any(test, feature = ".."))` is an offer.
fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let of_tests = condition == "test" || condition == "feature = \"testing\"";
            of_tests || condition.starts_with("all") && condition.contains("test")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
