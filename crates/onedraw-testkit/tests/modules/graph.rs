//! Which module of a crate needs which, and the shortest way round where that is a circle.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::source::{Source, Written};

struct Module {
    /// `crate::a::b`
    name: String,
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    source: Source,
}

/// The modules of one crate; the first is its root.
pub struct Graph {
    modules: Vec<Module>,
    /// For each module those that it needs, with what shows it: file, line and path as written.
    needs: Vec<BTreeMap<usize, String>>,
}

/// How often a path may lead on to another one by re-exports before it is taken to lead nowhere.
const MOST_REEXPORTS: usize = 32;

impl Graph {
    /// Reads the modules from a root (`lib.rs` or `main.rs`) on. `read` is given a path and returns the text
    /// of the file, or nothing where there is none.
    pub fn new(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let text = read(root).unwrap_or_else(|| panic!("no {}", root.display()));
        let mut graph = Self { modules: Vec::new(), needs: Vec::new() };
        let folder = root.parent().expect("a folder").to_owned();
        graph.add("crate".to_owned(), None, root.to_owned(), folder, &text, read);
        graph.needs = (0..graph.modules.len()).map(|module| graph.needs_of(module)).collect();
        graph
    }

    fn add(
        &mut self,
        name: String,
        parent: Option<usize>,
        file: PathBuf,
        folder: PathBuf,
        text: &str,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let source = Source::read(text);
        let (number, names) = (self.modules.len(), source.children.clone());
        let file = file.display().to_string();
        self.modules.push(Module { name: name.clone(), file, parent, children: BTreeMap::new(), source });
        for child in names {
            let places = [folder.join(&child).join("mod.rs"), folder.join(format!("{child}.rs"))];
            let (file, text) = places
                .into_iter()
                .find_map(|place| read(&place).map(|text| (place, text)))
                .unwrap_or_else(|| panic!("{name}: mod {child} has no file"));
            let inside = folder.join(&child);
            let added = self.add(format!("{name}::{child}"), Some(number), file, inside, &text, read);
            self.modules[number].children.insert(child, added);
        }
        number
    }

    fn needs_of(&self, module: usize) -> BTreeMap<usize, String> {
        let mut needs = BTreeMap::new();
        for written in &self.modules[module].source.needs {
            if let Some(needed) = self.resolve(module, written, MOST_REEXPORTS)
                && needed != module
            {
                needs.entry(needed).or_insert_with(|| {
                    let (file, line) = (&self.modules[module].file, written.line);
                    format!("{file}:{line}: {}", written.segments.join("::"))
                });
            }
        }
        needs
    }

    /// The module that a path written in `module` leads to: the module that it names, or the one that
    /// declares the item. A path into another crate leads nowhere.
    fn resolve(&self, module: usize, written: &Written, most: usize) -> Option<usize> {
        let mut inline = written.inline;
        let mut at = module;
        let mut rest = written.segments.as_slice();
        let mut is_relative = true;
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                // Out of an inline module is still in the file.
                "super" if inline > 0 => inline -= 1,
                "super" => at = self.modules[at].parent?,
                _ => break,
            }
            is_relative = false;
            rest = after;
        }
        if is_relative && !self.brings(at, rest.first()?) {
            return None;
        }
        self.follow(at, rest, most)
    }

    /// Whether a path in this module may begin with this name and lead to a module of the crate.
    fn brings(&self, module: usize, name: &str) -> bool {
        let module = &self.modules[module];
        module.children.contains_key(name) || module.source.imports.contains_key(name)
    }

    fn follow(&self, mut at: usize, mut rest: &[String], most: usize) -> Option<usize> {
        while let [name, after @ ..] = rest {
            let module = &self.modules[at];
            if let Some(&child) = module.children.get(name) {
                (at, rest) = (child, after);
            } else if let Some(import) = module.source.imports.get(name) {
                let most = most.checked_sub(1)?;
                // An import of a name from a crate of that name: `use half::half`.
                if import.segments == [name.as_str()] {
                    return None;
                }
                let mut onward = import.clone();
                onward.segments.extend(after.iter().cloned());
                return self.resolve(at, &onward, most);
            } else if module.source.items.contains(name) {
                return Some(at);
            } else {
                // Not named here: by a glob, or made by a macro, which makes it this module's own.
                let by_glob = module.source.globs.iter().find_map(|glob| {
                    let from = self.resolve(at, glob, most.checked_sub(1)?)?;
                    self.has(from, name, most.checked_sub(1)?).then_some(from)
                });
                match by_glob {
                    Some(from) => return self.follow(from, rest, most.checked_sub(1)?),
                    None => return Some(at),
                }
            }
        }
        Some(at)
    }

    fn has(&self, module: usize, name: &str, most: usize) -> bool {
        let own = &self.modules[module];
        self.brings(module, name)
            || own.source.items.contains(name)
            || own.source.globs.iter().any(|glob| {
                most > 0
                    && self
                        .resolve(module, glob, most - 1)
                        .is_some_and(|from| from != module && self.has(from, name, most - 1))
            })
    }

    /// Takes out an edge, if it is there.
    pub fn allow(&mut self, from: &str, to: &str) -> bool {
        let place = |name: &str| self.modules.iter().position(|module| module.name == name);
        match (place(from), place(to)) {
            (Some(from), Some(to)) => self.needs[from].remove(&to).is_some(),
            _ => false,
        }
    }

    /// A shortest circle of each group of modules that need one another, one line for each step of it.
    pub fn cycles(&self) -> Vec<String> {
        let mut is_told = vec![false; self.modules.len()];
        let mut cycles = Vec::new();
        for start in 0..self.modules.len() {
            if is_told[start] {
                continue;
            }
            let group: Vec<usize> = (0..self.modules.len())
                .filter(|&other| self.way(start, other).is_some() && self.way(other, start).is_some())
                .collect();
            group.iter().for_each(|&module| is_told[module] = true);
            let ways = group.iter().filter_map(|&module| self.way(module, module));
            if let Some(way) = ways.min_by_key(Vec::len) {
                cycles.push(self.told(&group, &way));
            }
        }
        cycles
    }

    /// A shortest way of at least one step from one module to another: all that it passes, both ends
    /// included.
    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut before = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(module) = open.pop_front() {
            for &next in self.needs[module].keys() {
                if before.contains_key(&next) {
                    continue;
                }
                before.insert(next, module);
                if next == to {
                    let mut way = vec![to];
                    loop {
                        let last = before[way.last().expect("one at least")];
                        way.push(last);
                        if last == from {
                            way.reverse();
                            return Some(way);
                        }
                    }
                }
                open.push_back(next);
            }
        }
        None
    }

    fn told(&self, group: &[usize], way: &[usize]) -> String {
        let name = |module: usize| self.modules[module].name.as_str();
        let steps = way.windows(2).map(|step| {
            let shown = &self.needs[step[0]][&step[1]];
            format!("\n    {} needs {} ({shown})", name(step[0]), name(step[1]))
        });
        let mut told = format!("{} modules need one another; a shortest circle:", group.len());
        told.extend(steps);
        told
    }
}
