//! Checks two rules for each crate, based on the tokens of its files: the files must not depend on
//! each other in a cycle, and every public item must be used outside the crate. rustc checks the
//! rest: `unreachable_pub` finds items that cannot be named from outside, and `dead_code` finds
//! items that are not used at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Files that bindgen generates. Their public items need not be used.
const GENERATED: [&str; 2] = ["sys/generated.rs", "raw.rs"];

/// Keywords that precede an item's name.
const ITEMS: [&str; 8] = [
    "const", "enum", "fn", "static", "struct", "trait", "type", "union",
];

/// If the literal is a string that contains only a path, such as `"Layout::is_plain"`, returns the
/// path. serde attributes refer to functions by such strings.
fn path_in(literal: &str) -> Option<TokenStream> {
    let path = literal.strip_prefix('"')?.strip_suffix('"')?;
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_alphanumeric() || c == '_');
    (path.contains("::") && path.split("::").all(word)).then(|| path.parse().ok())?
}

/// Splits a source file into tokens. Groups in brackets are flattened, and literals are omitted
/// unless they contain a path. `::` and a lifetime are one token each.
fn tokens(text: &str) -> Vec<String> {
    fn flatten(stream: TokenStream, out: &mut Vec<String>) {
        for tree in stream {
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Brace | Delimiter::None => ("{", "}"),
                    };
                    out.push(open.to_owned());
                    flatten(group.stream(), out);
                    out.push(close.to_owned());
                }
                TokenTree::Ident(ident) => match out.last_mut() {
                    Some(last) if last == "'" => last.push_str(&ident.to_string()),
                    _ => out.push(ident.to_string()),
                },
                TokenTree::Punct(punct) => match out.last_mut() {
                    Some(last) if last == ":" && punct.as_char() == ':' => last.push(':'),
                    _ => out.push(punct.to_string()),
                },
                TokenTree::Literal(literal) => {
                    if let Some(path) = path_in(&literal.to_string()) {
                        flatten(path, out);
                    }
                }
            }
        }
    }
    let mut out = Vec::new();
    flatten(text.parse().expect("Rust"), &mut out);
    out
}

/// Removes items that are marked `#[cfg(test)]` or `#[cfg(any(test, ...))]`.
fn without_tests(all: &[String]) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), all);
    while let Some(first) = rest.first() {
        let attribute: Vec<&str> = rest.iter().take(7).map(String::as_str).collect();
        if let ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "any", "(", "test"] =
            attribute[..]
        {
            rest = &rest[item_len(rest)..];
        } else {
            out.push(first.clone());
            rest = &rest[1..];
        }
    }
    out
}

/// Returns the number of tokens in the first item, including its attributes. The item ends at its
/// semicolon or closing brace.
fn item_len(tokens: &[String]) -> usize {
    let mut depth = 0_i32;
    for (i, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && (token == ";" || token == "}") {
            return i + 1;
        }
    }
    tokens.len()
}

/// Collects the tokens that are inside parentheses in a top-level macro call. Macro calls inside
/// other items are ignored.
fn macro_arguments(tokens: &[String]) -> BTreeSet<String> {
    let (mut names, mut rest) = (BTreeSet::new(), tokens);
    while !rest.is_empty() {
        let (item, others) = rest.split_at(item_len(rest));
        rest = others;
        // Distinguish calls from definitions, in which a name follows the `!`.
        let is_call = item.len() > 2 && is_name(&item[0]) && item[1] == "!" && !is_name(&item[2]);
        if is_call {
            let inside = item.split(|t| t == ")").filter_map(|part| {
                let open = part.iter().position(|t| t == "(")?;
                Some(&part[open + 1..])
            });
            names.extend(inside.flatten().cloned());
        }
    }
    names
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

type Module = Vec<String>;

/// An imported name: its path, and its local name, which is `*` for a glob import.
struct Use {
    path: Module,
    name: String,
    reexport: Reexport,
}

#[derive(Clone, Copy, PartialEq)]
enum Reexport {
    No,
    /// A re-export within the crate, such as `pub(crate) use`.
    Inside,
    Public,
}

/// Collects the paths in the `use` tree that starts at `i`, and advances `i` past the tree.
fn parse_use(
    tokens: &[String],
    i: &mut usize,
    prefix: &[String],
    reexport: Reexport,
    out: &mut Vec<Use>,
) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*i) {
        *i += 1;
        match token.as_str() {
            "::" => {}
            "{" => {
                while tokens.get(*i).is_some_and(|t| t != "}") {
                    parse_use(tokens, i, &path, reexport, out);
                    *i += usize::from(tokens.get(*i).is_some_and(|t| t == ","));
                }
                *i += 1;
                return;
            }
            name => {
                let mut name = name.to_owned();
                match name.as_str() {
                    "self" if !path.is_empty() => name = path[path.len() - 1].clone(),
                    "*" => {}
                    _ => path.push(name.clone()),
                }
                match tokens.get(*i).map(String::as_str) {
                    Some("::") => continue,
                    Some("as") => {
                        name.clone_from(&tokens[*i + 1]);
                        *i += 2;
                    }
                    _ => {}
                }
                out.push(Use {
                    path,
                    name,
                    reexport,
                });
                return;
            }
        }
    }
}

/// A source file of a crate, without its test modules.
#[derive(Default)]
struct Source {
    generated: bool,
    tokens: Vec<String>,
    uses: Vec<Use>,
    /// Paths in the code, such as `a::b`, except those in `use` declarations.
    paths: Vec<Module>,
}

impl Source {
    fn new(text: &str) -> Source {
        let tokens = without_tests(&tokens(text));
        let (mut uses, mut paths) = (Vec::new(), Vec::new());
        let mut i = 0;
        while i < tokens.len() {
            let before = i.checked_sub(1).map_or("", |i| tokens[i].as_str());
            if tokens[i] == "use" {
                let reexport = match before {
                    "pub" => Reexport::Public,
                    ")" => Reexport::Inside,
                    _ => Reexport::No,
                };
                i += 1;
                parse_use(&tokens, &mut i, &[], reexport, &mut uses);
            } else if is_name(&tokens[i]) && before != "::" && before != "." {
                let mut path = vec![tokens[i].clone()];
                while tokens.get(i + 1).is_some_and(|t| t == "::")
                    && tokens.get(i + 2).is_some_and(|t| is_name(t))
                {
                    path.push(tokens[i + 2].clone());
                    i += 2;
                }
                if path.len() > 1 {
                    paths.push(path);
                }
                i += 1;
            } else {
                i += 1;
            }
        }
        Source {
            tokens,
            uses,
            paths,
            ..Source::default()
        }
    }

    fn defines(&self, name: &str) -> bool {
        let item = |pair: &[String]| {
            let keyword = ITEMS.contains(&pair[0].as_str()) || pair[0] == "!";
            keyword && pair[1] == name
        };
        self.tokens.windows(2).any(item)
    }
}

/// The source files of a crate, by module path.
struct Crate(BTreeMap<Module, Source>);

impl Crate {
    fn read(src: &Path) -> Crate {
        let mut files = BTreeMap::new();
        for path in rust_files(src) {
            let inside = path.strip_prefix(src).expect("below it").with_extension("");
            let parts = inside
                .iter()
                .map(|part| part.to_string_lossy().into_owned());
            let mut module: Module = parts.collect();
            let root = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
            if root || module.last().is_some_and(|name| name == "mod") {
                module.pop();
            }
            let mut source = Source::new(&fs::read_to_string(&path).unwrap());
            source.generated = is_generated(&path);
            files.insert(module, source);
        }
        Crate(files)
    }

    /// Converts a path in a module to a path from the crate's root. Returns `None` if the path
    /// refers to another crate.
    fn absolute(&self, module: &Module, path: &[String], file: Option<&Source>) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut start = module.clone();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => {}
            "super" => {
                start.pop()?;
                let above = rest.iter().take_while(|name| *name == "super").count();
                start.truncate(start.len().checked_sub(above)?);
                start.extend_from_slice(&rest[above..]);
                return Some(start);
            }
            name => {
                let known = file.and_then(|f| f.uses.iter().find(|u| u.name == name));
                if let Some(known) = known {
                    start = self.absolute(module, &known.path, None)?;
                } else {
                    start.push(name.to_owned());
                    self.0.get(&start)?;
                }
            }
        }
        start.extend_from_slice(rest);
        Some(start)
    }

    /// Returns the file that defines the last name of a path, or `None` if this name is a module.
    fn definition(&self, path: &[String], depth: usize) -> Option<Module> {
        let mut module = Module::new();
        for (i, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.0.contains_key(&module) {
                continue;
            }
            module.pop();
            let file = self.0.get(&module)?;
            if file.defines(name) || depth == 0 {
                return Some(module);
            }
            for u in file
                .uses
                .iter()
                .filter(|u| u.name == *name || u.name == "*")
            {
                let Some(mut target) = self.absolute(&module, &u.path, None) else {
                    continue;
                };
                let skipped = usize::from(u.name != "*");
                target.extend_from_slice(&path[i + skipped..]);
                let found = self.definition(&target, depth - 1);
                let real = |f: &Module| u.name != "*" || self.0[f].defines(name);
                if let Some(found) = found.filter(real) {
                    return Some(found);
                }
            }
            return Some(module);
        }
        None
    }

    /// Returns a map from each file to the files that define the names it uses.
    fn graph(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let needs = |(module, file): &(&Module, &Source)| {
            let used = file.uses.iter().filter(|u| u.reexport == Reexport::No);
            let used = used.map(|u| &u.path);
            let used = used.filter_map(|path| self.absolute(module, path, None));
            let named = file.paths.iter();
            let named = named.filter_map(|path| self.absolute(module, path, Some(file)));
            let all = used.chain(named);
            let mut needs: BTreeSet<Module> =
                all.filter_map(|path| self.definition(&path, 8)).collect();
            needs.remove(*module);
            needs
        };
        let files = self.0.iter();
        files.map(|file| (file.0, needs(&file))).collect()
    }

    /// Returns the cycles: the sets of files that depend on each other, directly or indirectly.
    fn circles(&self) -> Vec<String> {
        let graph = self.graph();
        let reach = |from: &Module| {
            let (mut seen, mut queue) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = queue.pop() {
                for next in &graph[&module] {
                    if seen.insert(next.clone()) {
                        queue.push(next.clone());
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&Module, BTreeSet<Module>> =
            graph.keys().map(|m| (*m, reach(m))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reach {
            let back = |other: &&Module| reach[other].contains(*module);
            let circle: BTreeSet<&Module> = reached.iter().filter(back).collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        let name = |m: &&Module| match m.as_slice() {
            [] => "lib".to_owned(),
            names => names.join("::"),
        };
        let line =
            |circle: BTreeSet<&Module>| circle.iter().map(name).collect::<Vec<_>>().join(", ");
        circles.into_iter().map(line).collect()
    }

    /// Returns the public items that are not used outside the crate. An item is used if `outside`
    /// contains its name. A type is also used if its name occurs in the signature of a public item,
    /// or in a macro call that generates public items.
    fn unused_items(&self, outside: &BTreeSet<String>) -> Vec<String> {
        let mut items = Vec::new();
        // Count names in macro calls as used, because the macro may generate public items from
        // them.
        let root = self.0.get(&Module::new());
        let mut signatures = root.map_or(BTreeSet::new(), |root| macro_arguments(&root.tokens));
        for (module, file) in self.0.iter().filter(|(_, file)| !file.generated) {
            let public = |u: &&Use| u.reexport == Reexport::Public && u.name != "*";
            let public = file.uses.iter().filter(public);
            let foreign = public.filter(|u| self.absolute(module, &u.path, None).is_none());
            items.extend(foreign.map(|u| (module, false, u.name.clone())));
            for (i, _) in file.tokens.iter().enumerate().filter(|(_, t)| *t == "pub") {
                let rest = &file.tokens[i + 1..];
                let Some(at) = rest
                    .iter()
                    .take(4)
                    .position(|t| ITEMS.contains(&t.as_str()))
                else {
                    continue;
                };
                let modifiers = ["async", "extern", "unsafe"];
                if !rest[..at].iter().all(|t| modifiers.contains(&t.as_str())) {
                    continue;
                }
                // Skip the first of two keywords, as in `const fn`.
                let at = at + usize::from(ITEMS.contains(&rest[at + 1].as_str()));
                let item = &rest[at..at + item_len(&rest[at..])];
                let is_fn = item[0] == "fn";
                items.push((module, !is_fn, item[1].clone()));
                let body = match item[0].as_str() {
                    "fn" => "{",
                    "const" | "static" => "=",
                    _ => "",
                };
                let head = item.iter().skip(2).take_while(|t| *t != body);
                signatures.extend(head.cloned());
            }
        }
        let unused = |(module, is_type, name): (&Module, bool, String)| {
            let used = outside.contains(&name) || is_type && signatures.contains(&name);
            (!used).then(|| format!("{}::{name}", module.join("::")))
        };
        items.into_iter().filter_map(unused).collect()
    }
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    kiln_kbuild::walk(dir, &mut |path| {
        if path.extension().is_some_and(|e| e == "rs") {
            files.push(path.to_owned());
        }
    })
    .unwrap_or_else(|e| panic!("{e}"));
    files
}

fn is_generated(path: &Path) -> bool {
    GENERATED.iter().any(|name| path.ends_with(name))
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the directories of all crates in the workspace, including those in `crates/questions`.
fn crates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in ["crates", "crates/questions"] {
        let entries = fs::read_dir(workspace().join(dir));
        let dirs = entries.into_iter().flatten().map(|e| e.unwrap().path());
        found.extend(dirs.filter(|dir| dir.join("Cargo.toml").is_file()));
    }
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    found
}

fn name(dir: &Path) -> &str {
    dir.file_name().and_then(|n| n.to_str()).expect("text")
}

fn has_example(source: &str) -> bool {
    let lines = source.lines().map(str::trim_start);
    let mut documentation = lines.filter_map(|l| l.strip_prefix("//"));
    documentation.any(|l| {
        l.trim_start_matches(['/', '!'])
            .trim_start()
            .starts_with("```")
    })
}

/// If a crate's documentation has examples, cargo must compile and run them. In other crates, cargo
/// must not search for examples, because searching all crates takes one or two minutes.
#[test]
fn examples_are_run_where_there_are_any() {
    for dir in crates() {
        let src = dir.join("src");
        if !src.join("lib.rs").is_file() {
            continue;
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let any = rust_files(&src).iter().any(|path| has_example(&read(path)));
        let off = read(&dir.join("Cargo.toml")).contains("\ndoctest = false\n");
        assert_eq!(any, !off, "{}: doctest in Cargo.toml", name(&dir));
    }
    // Controls: `has_example` must find both examples, and none in a source without an example.
    assert!(has_example("//! ```\n//! let a = 1;\n//! ```"));
    assert!(has_example("    /// ```no_run\n    /// f();"));
    assert!(!has_example("/// `one` word\nlet fence = \"```\";"));
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let mut wrong = Vec::new();
    for dir in crates() {
        let circles = Crate::read(&dir.join("src")).circles();
        wrong.extend(circles.iter().map(|c| format!("{}: {c}", name(&dir))));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_public_item_has_a_user_outside_its_crate() {
    let mut words: Vec<(PathBuf, BTreeSet<String>)> = Vec::new();
    for dir in ["crates", "fuzz"] {
        let files = rust_files(&workspace().join(dir)).into_iter();
        for path in files.filter(|path| !is_generated(path)) {
            let text = fs::read_to_string(&path).unwrap();
            let path = fs::canonicalize(path).unwrap();
            words.push((path, tokens(&text).into_iter().collect()));
        }
    }
    let mut wrong = Vec::new();
    for dir in crates() {
        let src = fs::canonicalize(dir.join("src")).unwrap();
        if !src.join("lib.rs").is_file() {
            continue;
        }
        let others = words.iter().filter(|(path, _)| !path.starts_with(&src));
        let outside = others
            .flat_map(|(_, words)| words.iter().cloned())
            .collect();
        let unused = Crate::read(&src).unused_items(&outside);
        wrong.extend(unused.iter().map(|item| format!("{}: {item}", name(&dir))));
    }
    assert_eq!(wrong, [""; 0]);
}

/// Creates a crate from pairs of a module path and a source text.
fn planted(files: &[(&str, &str)]) -> Crate {
    let module = |path: &str| path.split_terminator("::").map(str::to_owned).collect();
    let file = |(path, text): &(&str, &str)| (module(path), Source::new(text));
    Crate(files.iter().map(file).collect())
}

#[test]
fn planted_circles_are_found() {
    let straight = planted(&[
        ("", "mod a; mod b; mod c; pub use a::A;"),
        ("a", "use crate::b::B; pub struct A(B);"),
        (
            "b",
            "mod deep; pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        ),
        ("b::deep", "impl super::B {}"),
        ("c", "fn f(a: &crate::A) { let text = \"crate::c::X\"; }"),
    ]);
    assert_eq!(straight.circles(), [""; 0]);
    for (file, text, circle) in [
        // The five cycles, in this order: a direct one, one through a re-export, one through the
        // name of a module, one with a submodule, and one through a third file.
        ("b", "use crate::a::A; pub struct B;", "a, b"),
        ("b", "use crate::A; pub struct B;", "a, b"),
        ("b", "use crate::a; pub struct B(a::A);", "a, b"),
        ("b", "mod deep; pub struct B(deep::Deep);", "b, b::deep"),
        (
            "b",
            "use super::c::{self as other}; pub struct B(other::C);",
            "a, b, c",
        ),
    ] {
        let mut crooked = planted(&[
            ("", "mod a; mod b; mod c; pub use a::A;"),
            ("a", "use crate::b::B; pub struct A(B);"),
            ("b::deep", "pub struct Deep; impl super::B {}"),
            ("c", "pub struct C; fn f(a: &crate::A) {}"),
        ]);
        crooked.0.insert(vec![file.to_owned()], Source::new(text));
        assert_eq!(crooked.circles(), [circle], "{text}");
    }
}

#[test]
fn planted_public_items_are_found() {
    let library = planted(&[
        (
            "",
            "pub mod a; pub use other::Foreign; pub(crate) use a::X; #[cfg(test)] pub fn test() {} macro_rules! m { () \
             => { f(Lonely) } } m! { pub a: A(Argument); b: Lonely } fn g() { println!(Lonely) }",
        ),
        (
            "a",
            "pub struct Named; pub struct Returned { pub field: Inside } pub struct Inside; pub const fn used() -> \
             Returned { Lonely } pub struct Lonely; pub unsafe fn unused() {} pub(crate) fn hidden() {} fn private() \
             {} impl Named { pub fn method(&'static self) {} } pub const ALONE: u8 = 1; pub struct Argument;",
        ),
    ]);
    let used = r#"fn f() -> Named { "not used::unused"; used() }"#;
    let outside = tokens(used).into_iter().collect();
    let unused = library.unused_items(&outside);
    assert_eq!(
        unused,
        [
            "::Foreign",
            "a::Lonely",
            "a::unused",
            "a::method",
            "a::ALONE"
        ]
    );
    let by_serde = r#"#[serde(skip_serializing_if = "Named::method")] fn f() -> Named { used() }"#;
    let outside = tokens(by_serde).into_iter().collect();
    let unused = library.unused_items(&outside);
    assert!(!unused.contains(&"a::method".to_owned()), "{unused:?}");
}
