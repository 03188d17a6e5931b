//! Which file imports which.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::source::Source;

/// A module: its crate and its place in it.
type Module = Vec<String>;

/// One import of one file by another, with the name that it takes.
pub(crate) struct Import {
    from: String,
    to: String,
    name: String,
}

/// The crates in a map, and what each may import.
pub(crate) fn map(architecture: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = architecture.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
    let mut map = BTreeMap::new();
    let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    for (krate, may) in lines.filter(|(krate, _)| is_name(krate)) {
        let may = may.split([',', ' ']).filter(|name| name.starts_with("regrow")).map(str::to_owned);
        map.insert(krate.to_owned(), may.collect());
    }
    assert!(map.len() > 3, "ARCHITECTURE.md has the map");
    map
}

/// Imports between files that are not parent and child.
pub(crate) fn between(sources: &[Source]) -> Vec<Import> {
    let place = |source: &Source| -> Module {
        let krate = source.krate.replace('-', "_");
        std::iter::once(krate).chain(source.module.iter().cloned()).collect()
    };
    let files: HashMap<Module, &Source> = sources.iter().map(|source| (place(source), source)).collect();
    let uses: HashMap<Module, Vec<Module>> =
        files.iter().map(|(module, source)| (module.clone(), uses(module, &source.text, &files))).collect();
    let mut imports = vec![];
    for (module, source) in &files {
        for path in &uses[module] {
            let Some(owner) = owner(path, &files, &uses, 0) else { continue };
            let related = owner.starts_with(module) || module.starts_with(&owner);
            if !related {
                let name = path.last().cloned().unwrap_or_default();
                imports.push(Import { from: source.path.clone(), to: files[&owner].path.clone(), name });
            }
        }
    }
    imports
}

/// The file that defines what this path names, through re-exports.
fn owner(
    path: &[String],
    files: &HashMap<Module, &Source>,
    uses: &HashMap<Module, Vec<Module>>,
    depth: usize,
) -> Option<Module> {
    let length = (1..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let Some(name) = rest.first() else { return Some(module.to_vec()) };
    if defines(&files[module].text, name) {
        return Some(module.to_vec());
    }
    let exported = uses[module].iter().find(|used| used.last() == Some(name) && *used != path);
    match exported {
        Some(used) if depth < 8 => owner(used, files, uses, depth + 1),
        _ => Some(module.to_vec()),
    }
}

/// Whether a file has an item of this name that others can import. One may share its name with a module that the file imports.
fn defines(text: &str, name: &str) -> bool {
    let is_name = |rest: &str| rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word));
    let kinds = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];
    let lines = text.lines().filter(|line| line.starts_with("pub"));
    lines.flat_map(|line| kinds.iter().filter_map(|kind| Some(line.split_once(kind)?.1))).any(is_name)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The absolute paths in the `use` declarations of a file, without those of a unit test at its end.
fn uses(module: &Module, text: &str, files: &HashMap<Module, &Source>) -> Vec<Module> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = vec![];
    for statement in code.split(';') {
        // A declaration is the last thing in what precedes its semicolon.
        let Some(at) = statement.rfind("use ") else { continue };
        let before = statement[..at].trim_end();
        let starts = before.is_empty() || before.ends_with(['\n', ')', '}', ']']) || before.ends_with("pub");
        let tree = &statement[at + 4..];
        if !starts && !statement[..at].ends_with('\n') || tree.contains(['(', '=', '"']) {
            continue;
        }
        expand(&[], tree, &mut found);
    }
    let local = |path: Module| -> Option<Module> {
        let first = path.first()?.as_str();
        let rest = || path[1..].iter().cloned();
        match first {
            "crate" => Some(module[..1].iter().cloned().chain(rest()).collect()),
            "self" => Some(module.iter().cloned().chain(rest()).collect()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let parent = &module[..module.len().checked_sub(ups)?];
                Some(parent.iter().chain(&path[ups..]).cloned().collect())
            }
            _ => {
                let child: Module = module.iter().cloned().chain([first.to_owned()]).collect();
                let is_crate = files.contains_key(&path[..1]);
                match (files.contains_key(&child), is_crate) {
                    (true, _) => Some(child.into_iter().chain(rest()).collect()),
                    (false, true) => Some(path),
                    (false, false) => None,
                }
            }
        }
    };
    found.into_iter().filter_map(local).collect()
}

/// The paths of a `use` tree.
fn expand(prefix: &[String], tree: &str, found: &mut Vec<Module>) {
    let tree = tree.trim();
    if let Some((head, inside)) = tree.split_once('{')
        && !head.contains(',')
    {
        let head = head.trim().trim_end_matches("::");
        let parts = head.split("::").filter(|part| !part.is_empty()).map(|part| part.trim().to_owned());
        let prefix: Module = prefix.iter().cloned().chain(parts).collect();
        let inside = inside.trim_end().trim_end_matches('}');
        for part in split(inside) {
            expand(&prefix, part, found);
        }
        return;
    }
    let tree = tree.split(" as ").next().unwrap_or_default();
    let parts = tree.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty());
    let mut path: Module = prefix.iter().cloned().chain(parts).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
        path.pop();
    }
    if !path.is_empty() {
        found.push(path);
    }
}

/// Splits at commas outside of braces.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, vec![]);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Groups of files that import each other, with the imports that tie them.
pub(crate) fn cycles(imports: &[Import]) -> Vec<String> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reachable = |from: &str| -> BTreeSet<String> {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = left.pop() {
            for to in next.get(file.as_str()).into_iter().flatten() {
                if seen.insert((*to).to_owned()) {
                    left.push((*to).to_owned());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<String>> = next.keys().map(|file| (*file, reachable(file))).collect();
    let mut groups: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (file, reached) in &reach {
        let group: Vec<&str> = reach
            .iter()
            .filter(|(other, back)| reached.contains(**other) && back.contains(*file))
            .map(|(other, _)| *other)
            .collect();
        if !group.is_empty() {
            groups.insert(group);
        }
    }
    let describe = |group: &Vec<&str>| {
        let inside = |file: &str| group.contains(&file);
        let ties = imports.iter().filter(|import| inside(&import.from) && inside(&import.to));
        let mut lines: Vec<String> =
            ties.map(|tie| format!("  {} takes {} from {}", tie.from, tie.name, tie.to)).collect();
        lines.sort();
        lines.dedup();
        format!("{} files:\n{}", group.len(), lines.join("\n"))
    };
    groups.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, module: &[&str], text: &str) -> Source {
        let module = module.iter().map(|part| (*part).to_owned()).collect();
        Source { path: path.into(), krate: "a".into(), module, text: text.into() }
    }

    #[test]
    fn a_cycle_is_found_through_a_nested_tree_and_a_re_export() {
        let sources = [
            file("lib", &[], "mod one;\nmod two;\npub use two::{Two, three};\n"),
            file("one", &["one"], "use std::fmt;\nuse crate::{Two, other};\npub struct One;\n"),
            file("two", &["two"], "use super::one::{self, One as First};\n"),
        ];
        let cycles = cycles(&between(&sources));
        assert_eq!(
            cycles,
            ["2 files:\n  one takes Two from two\n  two takes One from one\n  two takes one from one"]
        );
    }

    #[test]
    fn a_cycle_is_found_through_a_function_that_shares_its_name_with_an_imported_module() {
        let sources = [
            file("lib", &[], "mod one;\nmod two;\npub mod version;\n"),
            file("one", &["one"], "use super::two::version;\n"),
            file("two", &["two"], "use crate::version;\nuse super::one;\npub(crate) fn version() {}\n"),
            file("version", &["version"], ""),
        ];
        let cycles = cycles(&between(&sources));
        assert_eq!(cycles, ["2 files:\n  one takes version from two\n  two takes one from one"]);
    }

    #[test]
    fn a_parent_and_its_child_may_import_each_other() {
        let sources = [
            file("lib", &[], ""),
            file("one", &["one"], "mod two;\nuse two::Two;\n"),
            file("two", &["one", "two"], "use super::One;\n"),
        ];
        assert_eq!(cycles(&between(&sources)), [""; 0]);
    }
}
