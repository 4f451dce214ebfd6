//! What the tree weighs, counted: names, tokens, words of comments, test binaries, public items. What the house rules forbid must be zero.
//!
//! `cargo test -p testkit --test it measures -- --nocapture` prints the table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;
use syn::{Attribute, Item, Meta, Visibility};

use crate::common;

/// Packages whose `src` is production code.
const PRODUCTION: [&str; 8] = [
    "alloc-core",
    "vk-callbacks",
    "gpu-suballoc",
    "debug-guard",
    "vk-report",
    "vk-layer",
    "steward",
    "steward/meter",
];

/// Words that no name of ours may contain: memory is allocated and freed, references are acquired and released, faults are reported.
const FORBIDDEN_VERBS: [&str; 5] = ["take", "give", "tell", "hear", "ask"];
/// The same, where the name is more than a word.
const FORBIDDEN_PHRASES: [&str; 2] = ["let_go", "lay_to_rest"];
/// What limits are never called.
const FORBIDDEN_LIMITS: [&str; 3] = ["MOST_", "LEAST_", "LARGEST_"];
/// A private type name may mean the same idea in so many places, those of tests, benches and testkit counted too.
const MAX_DEFINITIONS: usize = 3;

#[test]
fn one_name_has_one_meaning_and_the_words_are_the_fields() {
    let mut limits = BTreeSet::new();
    let mut verbs = BTreeSet::new();
    let mut tokens = 0;
    for package in PRODUCTION {
        let names = Names::of(&common::root().join(package).join("src"));
        println!(
            "{package:13} {:7} tokens {:4} public types {:4} public functions",
            names.tokens, names.public_types, names.public_functions
        );
        tokens += names.tokens;
        let at = |name: &String| format!("{package}: {name}");
        limits.extend(
            names
                .others
                .iter()
                .filter(|name| is_forbidden_limit(name))
                .map(at),
        );
        verbs.extend(
            names
                .others
                .iter()
                .filter(|name| has_forbidden_verb(name))
                .map(at),
        );
    }
    let files = common::files();
    let mut repeated: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        for name in text.lines().filter_map(defined_type) {
            repeated.entry(name).or_default().push(file);
        }
    }
    repeated.retain(|_, files| files.len() > MAX_DEFINITIONS);
    let words: usize = files
        .iter()
        .filter(|(name, _)| name.ends_with(".rs"))
        .map(|(_, text)| comment_words(text))
        .sum();
    let binaries = integration_binaries();
    println!("tokens of production code: {tokens}");
    println!(
        "type names with more than {MAX_DEFINITIONS} definitions: {}",
        repeated.len()
    );
    println!("MOST_, LEAST_, LARGEST_: {}", limits.len());
    println!("names with a forbidden verb: {}", verbs.len());
    println!("words of comments: {words}");
    println!("integration test binaries: {}", binaries.len());
    for (name, files) in &repeated {
        println!("  {name}: {}", files.join(" "));
    }
    assert!(limits.is_empty(), "limits are MAX_ or MIN_: {limits:#?}");
    assert!(
        verbs.is_empty(),
        "names that say take, give, tell, hear or ask: {verbs:#?}"
    );
    assert!(
        repeated.is_empty(),
        "type names with too many meanings: {repeated:#?}"
    );
}

/// Words of conversation that the texts of the sub-allocator's errors and reports had where the field has a term: allocate, free, request.
const FORBIDDEN_IN_TEXTS: [&str; 8] = [
    "wish", "give", "gives", "given", "take", "taken", "ask", "asked",
];

#[test]
fn texts_of_the_sub_allocator_use_the_words_of_the_field() {
    let mut texts = 0;
    for (file, text) in &common::files() {
        let is_source = file.ends_with(".rs") && !file.ends_with("tests.rs");
        if !file.starts_with("gpu-suballoc/src/") || !is_source {
            continue;
        }
        let production = text.split("#[cfg(test)]").next().unwrap_or(text);
        for line in production
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            for text in line
                .split('"')
                .skip(1)
                .step_by(2)
                .filter(|text| text.contains(' '))
            {
                let word = text
                    .split(|c: char| !c.is_alphabetic())
                    .find(|word| FORBIDDEN_IN_TEXTS.contains(word));
                assert_eq!(word, None, "{file}: {text}");
                texts += 1;
            }
        }
    }
    assert!(texts > 100, "{texts} texts were read");
}

/// The type that this line defines.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let kind = words.find(|word| !word.starts_with("pub") && *word != "unsafe")?;
    if !["struct", "enum", "trait", "union"].contains(&kind) {
        return None;
    }
    words
        .next()?
        .split(|c: char| c != '_' && !c.is_alphanumeric())
        .next()
        .filter(|name| !name.is_empty())
}

fn is_forbidden_limit(name: &str) -> bool {
    FORBIDDEN_LIMITS
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn has_forbidden_verb(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.split('_').any(|word| FORBIDDEN_VERBS.contains(&word))
        || FORBIDDEN_PHRASES
            .iter()
            .any(|phrase| lower.contains(phrase))
}

/// What the production code below one `src` defines. Items under `cfg(test)` do not count.
#[derive(Default)]
struct Names {
    /// Functions, constants, statics, modules, fields, variants.
    others: BTreeSet<String>,
    tokens: usize,
    public_types: usize,
    public_functions: usize,
}

impl Names {
    fn of(src: &Path) -> Self {
        let mut names = Self::default();
        for root in ["lib.rs", "main.rs"].map(|file| src.join(file)) {
            if root.exists() {
                names.file(&root, src);
            }
        }
        names
    }

    fn file(&mut self, file: &Path, dir: &Path) {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for item in parsed.items {
            self.item(&item, dir);
        }
    }

    fn item(&mut self, item: &Item, dir: &Path) {
        if only_in_tests(item) {
            return;
        }
        let Item::Mod(module) = item else {
            self.tokens += count(item.to_token_stream());
            let mut visitor = Definitions { names: self };
            visitor.visit_item(item);
            return;
        };
        let name = module.ident.to_string();
        self.others.insert(name.clone());
        let inside = dir.join(&name);
        match &module.content {
            Some((_, items)) => items.iter().for_each(|item| self.item(item, &inside)),
            None => {
                self.tokens += 3;
                match path_attribute(&module.attrs) {
                    // A file of another package is counted there.
                    Some(_) => {}
                    None => self.file(&module_file(dir, &name), &inside),
                }
            }
        }
    }
}

struct Definitions<'n> {
    names: &'n mut Names,
}

impl Definitions<'_> {
    fn type_of(&mut self, visibility: &Visibility) {
        self.names.public_types += usize::from(matches!(visibility, Visibility::Public(_)));
    }

    fn function(&mut self, name: &syn::Ident, public: bool) {
        self.names.others.insert(name.to_string());
        self.names.public_functions += usize::from(public);
    }
}

impl<'ast> Visit<'ast> for Definitions<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_of(&item.vis);
        syn::visit::visit_item_struct(self, item);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_of(&item.vis);
        syn::visit::visit_item_enum(self, item);
    }
    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.type_of(&item.vis);
        syn::visit::visit_item_union(self, item);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_of(&item.vis);
        syn::visit::visit_item_trait(self, item);
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, matches!(item.vis, Visibility::Public(_)));
        syn::visit::visit_item_fn(self, item);
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            for function in &item.items {
                if let syn::ImplItem::Fn(function) = function {
                    self.function(
                        &function.sig.ident,
                        matches!(function.vis, Visibility::Public(_)),
                    );
                }
            }
        }
        syn::visit::visit_item_impl(self, item);
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig.ident, true);
        syn::visit::visit_trait_item_fn(self, item);
    }
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.names.others.insert(item.ident.to_string());
        syn::visit::visit_item_const(self, item);
    }
    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.names.others.insert(item.ident.to_string());
        syn::visit::visit_impl_item_const(self, item);
    }
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.names.others.insert(item.ident.to_string());
        syn::visit::visit_item_static(self, item);
    }
    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.names
            .others
            .extend(field.ident.as_ref().map(ToString::to_string));
        syn::visit::visit_field(self, field);
    }
}

/// Tokens without doc comments.
fn count(tokens: TokenStream) -> usize {
    let mut total = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(mark) = &token
            && mark.as_char() == '#'
            && let Some(TokenTree::Group(group)) = tokens.peek()
            && group.stream().to_string().starts_with("doc")
        {
            tokens.next();
            continue;
        }
        total += match token {
            TokenTree::Group(group) => 2 + count(group.stream()),
            _ => 1,
        };
    }
    total
}

/// Words in lines that begin with `//`.
fn comment_words(text: &str) -> usize {
    let lines = text
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("//"));
    lines
        .map(|line| {
            line.trim_start_matches(['/', '!'])
                .split_whitespace()
                .count()
        })
        .sum()
}

/// Integration test targets of the workspace.
fn integration_binaries() -> Vec<String> {
    let metadata = common::metadata();
    let targets = metadata
        .packages
        .iter()
        .flat_map(|package| package.targets.iter().map(move |target| (package, target)));
    let tests =
        targets.filter(|(_, target)| target.kind.contains(&cargo_metadata::TargetKind::Test));
    tests
        .map(|(package, target)| format!("{}/{}", package.name, target.name))
        .collect()
}

fn module_file(dir: &Path, name: &str) -> PathBuf {
    let flat = dir.join(name).with_extension("rs");
    if flat.exists() {
        flat
    } else {
        dir.join(name).join("mod.rs")
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<&Attribute> {
    attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("path"))
}

fn only_in_tests(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test"
                || condition.starts_with("all")
                    && condition.contains("test")
                    && !condition.contains("not")
        }
        _ => false,
    })
}

#[test]
fn words_and_limits_are_recognised() {
    assert!(
        has_forbidden_verb("take_small")
            && has_forbidden_verb("let_go_at_once")
            && has_forbidden_verb("TAKE")
    );
    assert!(
        !has_forbidden_verb("mistake")
            && !has_forbidden_verb("allocate")
            && !has_forbidden_verb("task")
    );
    assert_eq!(
        [
            "    pub(super) struct Card<'a> {",
            "enum Call {",
            "// struct Text",
            "structure {"
        ]
        .map(defined_type),
        [Some("Card"), Some("Call"), None, None]
    );
    assert!(is_forbidden_limit("MOST_CHUNKS") && !is_forbidden_limit("MAX_CHUNKS"));
    assert_eq!(
        comment_words("/// two words\nlet x = 1; // not these\n//! one"),
        3
    );
    let parsed: TokenStream = "/// text\nfn f(x: u8) {}".parse().expect("tokens");
    assert_eq!(count(parsed), "fn f ( x : u8 ) { }".split(' ').count());
}
