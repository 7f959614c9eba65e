//! The modules of a crate's product code, read from its sources: which file defines which name, and which file uses a name
//! of another file. Code under `cfg(test)` is left out.
//!
//! Names are resolved by their paths only, through `use` and re-exports. Methods are therefore no edges, and neither is a
//! re-export itself.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemImpl, ItemMod, UseTree, Visibility};

use super::Source;

/// Path of a module within its crate, such as `["client", "pool"]`; empty for the root.
type ModulePath = Vec<String>;

/// Product code of one crate.
#[derive(Default)]
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    /// Files with their number of lines outside `cfg(test)`.
    pub lines: BTreeMap<String, usize>,
    /// Number of functions in the inherent `impl` blocks of a type, by its name.
    pub methods: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// Imported names and their paths.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of `use …::*`.
    globs: Vec<Vec<String>>,
    /// Paths that code uses, private imports included.
    used: BTreeSet<Vec<String>>,
}

/// Result of looking up a path.
enum Target {
    Module(ModulePath),
    Item { file: String },
}

impl Crate {
    /// Reads the modules below the root files of a crate, such as `crates/rest/src/lib.rs`.
    ///
    /// # Errors
    /// When a file is not Rust.
    pub fn read(sources: &BTreeMap<&str, &Source>, roots: &[&str]) -> Result<Self, String> {
        let mut read = Self::default();
        for root in roots.iter().filter(|root| sources.contains_key(*root)) {
            let directory = root.rsplit_once('/').map_or("", |(directory, _)| directory);
            read.add_file(sources, root, directory, &Vec::new())?;
        }
        Ok(read)
    }

    fn add_file(
        &mut self,
        sources: &BTreeMap<&str, &Source>,
        file: &str,
        directory: &str,
        path: &ModulePath,
    ) -> Result<(), String> {
        let Some(source) = sources.get(file) else { return Ok(()) };
        let parsed = syn::parse_file(&source.text).map_err(|error| format!("{file}: {error}"))?;
        let tests = test_lines(&parsed.items);
        self.lines.insert(file.to_owned(), source.text.lines().count().saturating_sub(tests));
        self.add_items(sources, (file, directory), path, &parsed.items)
    }

    fn add_items(
        &mut self,
        sources: &BTreeMap<&str, &Source>,
        (file, directory): (&str, &str),
        path: &ModulePath,
        items: &[Item],
    ) -> Result<(), String> {
        let mut module = self.modules.remove(path).unwrap_or_default();
        file.clone_into(&mut module.file);
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            if let Item::Mod(child) = item {
                let mut child_path = path.clone();
                child_path.push(child.ident.to_string());
                self.add_module(sources, (file, directory), &child_path, child)?;
                continue;
            }
            module.add(item);
            if let Item::Impl(block) = item {
                self.count_methods(block);
            }
        }
        self.modules.insert(path.clone(), module);
        Ok(())
    }

    fn add_module(
        &mut self,
        sources: &BTreeMap<&str, &Source>,
        (file, directory): (&str, &str),
        path: &ModulePath,
        module: &ItemMod,
    ) -> Result<(), String> {
        let directory = format!("{directory}/{}", module.ident);
        if let Some((_, items)) = &module.content {
            return self.add_items(sources, (file, &directory), path, items);
        }
        let candidates = [format!("{directory}.rs"), format!("{directory}/mod.rs")];
        match candidates.iter().find(|file| sources.contains_key(file.as_str())) {
            Some(file) => self.add_file(sources, file, &directory, path),
            None => Ok(()),
        }
    }

    fn count_methods(&mut self, block: &ItemImpl) {
        let syn::Type::Path(of) = block.self_ty.as_ref() else { return };
        let Some(name) = of.path.segments.last().filter(|_| block.trait_.is_none()) else { return };
        let functions = block.items.iter().filter(|item| match item {
            ImplItem::Fn(function) => !is_test(&function.attrs),
            _ => false,
        });
        *self.methods.entry(name.ident.to_string()).or_default() += functions.count();
    }

    /// Files with the other files of the crate whose names they use.
    pub fn edges(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut edges = BTreeMap::<&str, BTreeSet<String>>::new();
        for (path, module) in &self.modules {
            let from = edges.entry(&module.file).or_default();
            for used in &module.used {
                match self.resolve(path, used, 0) {
                    Some(Target::Item { file }) if file != module.file => {
                        from.insert(file);
                    }
                    _ => {}
                }
            }
        }
        edges
    }

    fn resolve(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<Target> {
        // Longer chains of re-exports do not occur; two globs may import each other.
        const MAX_DEPTH: usize = 12;
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = from.clone();
        let mut rest = path;
        let mut is_relative = false;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            is_relative = true;
            rest = others;
        }
        for (index, segment) in rest.iter().enumerate() {
            let module = self.modules.get(&at)?;
            let mut child = at.clone();
            child.push(segment.clone());
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            if module.items.contains(segment) {
                return Some(Target::Item { file: module.file.clone() });
            }
            if let Some(import) = module.imports.get(segment) {
                // An import of the name itself, such as `use futures;`, would resolve to itself.
                let is_itself = import.first() == Some(segment) && import.len() == 1;
                let target = (!is_itself).then(|| self.resolve(&at, import, depth + 1)).flatten();
                return match target? {
                    Target::Module(module) => {
                        self.resolve(&module, rest.get(index + 1..).unwrap_or_default(), depth + 1)
                    }
                    item @ Target::Item { .. } => Some(item),
                };
            }
            return module.globs.iter().find_map(|glob| match self.resolve(&at, glob, depth + 1)? {
                Target::Module(module) if module != at => {
                    self.resolve(&module, rest.get(index..).unwrap_or_default(), depth + 1)
                }
                _ => None,
            });
        }
        (is_relative || !rest.is_empty()).then_some(Target::Module(at))
    }
}

impl Module {
    fn add(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        self.items.extend(name.map(ToString::to_string));
        if let Item::Use(item) = item {
            let is_private = matches!(item.vis, Visibility::Inherited);
            self.import(&item.tree, Vec::new(), is_private);
            return;
        }
        self.visit_item(item);
    }

    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_private: bool) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path, is_private);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), is_private);
                }
            }
            UseTree::Glob(_) => self.globs.push(path),
            UseTree::Name(name) => self.import_as(&name.ident, &name.ident.to_string(), path, is_private),
            UseTree::Rename(name) => self.import_as(&name.ident, &name.rename.to_string(), path, is_private),
        }
    }

    fn import_as(&mut self, name: &syn::Ident, alias: &str, mut path: Vec<String>, is_private: bool) {
        if name != "self" {
            path.push(name.to_string());
        }
        let alias = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_owned() };
        if is_private {
            self.used.insert(path.clone());
        }
        self.imports.insert(alias, path);
    }

    /// Adds the paths in the arguments of a macro, which are tokens that are not parsed.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.used.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    colons = 0;
                    self.add_tokens(group.stream());
                    if group.delimiter() == Delimiter::None {
                        continue;
                    }
                }
                _ => colons = 0,
            }
        }
        self.used.insert(path);
        self.used.remove(&Vec::new());
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.used.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
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
    }
}

/// Whether an attribute limits an item to tests: `cfg(test)`, or `cfg(any(test, …))`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        text == "test" || text.starts_with("any (test") || text.starts_with("all (test")
    })
}

/// Lines of the items that only tests have.
fn test_lines(items: &[Item]) -> usize {
    let lines = |item: &Item| {
        let attribute = attributes(item).first().map_or_else(|| item.span(), |first| first.span());
        item.span().end().line + 1 - attribute.start().line.min(item.span().start().line)
    };
    items.iter().filter(|item| is_test(attributes(item))).map(lines).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn read(files: &[(&str, &str)]) -> Crate {
        let files: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        let sources = files.iter().map(|source| (source.path.as_str(), source)).collect();
        Crate::read(&sources, &["src/lib.rs"]).unwrap()
    }

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let read = read(files);
        let edges = read.edges();
        edges.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} {to}"))).collect()
    }

    #[test]
    fn names_are_resolved_through_imports_and_re_exports() {
        let edges = edges(&[
            ("src/lib.rs", "mod a; mod b; pub use a::One; #[cfg(test)] mod t;"),
            ("src/a.rs", "mod inner; pub(crate) use inner::{One, two as deux};"),
            ("src/a/inner.rs", "pub struct One; pub fn two() {}"),
            (
                "src/b.rs",
                "use crate::One; use crate::a; fn f(_: One) { a::deux(); format!(\"{}\", super::a::deux()) }",
            ),
            ("src/t.rs", "use crate::b::f;"),
        ]);
        assert_eq!(edges, ["src/b.rs src/a/inner.rs"]);
    }

    #[test]
    fn parents_and_children_depend_on_each_other_by_names() {
        let edges = edges(&[
            ("src/lib.rs", "mod plan;"),
            ("src/plan.rs", "mod steps; use steps::Steps; pub struct Plan(Steps);"),
            ("src/plan/steps.rs", "use super::*; pub struct Steps; fn f(_: Plan) {}"),
        ]);
        assert_eq!(edges, ["src/plan.rs src/plan/steps.rs", "src/plan/steps.rs src/plan.rs"]);
    }

    #[test]
    fn tests_are_neither_counted_nor_edges() {
        let read = read(&[(
            "src/lib.rs",
            "struct A;\nimpl A {\n    fn a() {}\n    #[cfg(test)]\n    fn b() {}\n}\n/// Docs.\n#[cfg(test)]\nmod tests {\n    use super::A;\n}\n",
        )]);
        assert_eq!(read.lines["src/lib.rs"], 6);
        assert_eq!(read.methods["A"], 1);
    }
}
