//! `cargo xtask measure`: the figures that tell whether the tree becomes better or worse.
//!
//! It reads the sources and what is built, starts nothing, and works on any checkout: `--path DIR`.

mod functions;
mod lines;
pub(crate) mod names;
mod report;
mod stages;
mod tests_built;

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::project::{Project, files};
use crate::source::SourceText;
use functions::Lengths;
use lines::Lines;
use names::TypeNames;

pub(crate) use stages::{Stage, write_stages};

/// All figures of a checkout.
struct Figures {
    packages: Vec<Package>,
    /// Of `crates` only, tests left out.
    functions: Lengths,
    types: TypeNames,
    short_docs: usize,
    /// Bytes of the test programs that are built, and their number.
    test_programs: (u64, usize),
    stages: Vec<Stage>,
}

/// A folder with sources and what is in it.
struct Package {
    name: String,
    lines: Lines,
    functions: Lengths,
}

/// Prints the figures of the checkout in `path`, or of this one.
pub(crate) fn run(project: &Project, path: Option<&Path>, json: bool) -> Result<(), Failure> {
    let (root, target) = match path {
        Some(path) => (path.to_owned(), path.join("target")),
        None => (project.root.clone(), project.target.clone()),
    };
    let figures = figures(&root, &target)?;
    print!("{}", if json { report::json(&figures) } else { report::text(&figures) });
    Ok(())
}

fn figures(root: &Path, target: &Path) -> Result<Figures, Failure> {
    let mut packages = Vec::new();
    let mut functions = Lengths::default();
    let mut types = TypeNames::default();
    let mut short_docs = 0;
    for folder in folders(root)? {
        let name = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
        let mut package = Package { name, lines: Lines::default(), functions: Lengths::default() };
        for path in files(&folder)?.iter().filter(|path| is_rust(path)) {
            let file = RustFile::read(root, path)?;
            package.lines.add(&file);
            package.functions.add(&file);
            if package.name.starts_with("crates/") {
                types.add(&file);
                short_docs += names::short_docs(&file).len();
            }
        }
        if package.name.starts_with("crates/") {
            functions.extend(&package.functions);
        }
        packages.push(package);
    }
    Ok(Figures {
        packages,
        functions,
        types,
        short_docs,
        test_programs: tests_built::size(root, target),
        stages: stages::read_stages(target),
    })
}

/// The crates, and the packages beside them.
fn folders(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|error| Failure::unreadable(&crates, &error))?;
    let crates = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let beside = ["xtask", "bench", "fuzz"].map(|name| root.join(name));
    let mut folders: Vec<PathBuf> =
        crates.chain(beside).filter(|path| path.join("Cargo.toml").exists()).collect();
    folders.sort();
    Ok(folders)
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// A Rust file, read in both ways: as text with comments, and as syntax.
pub(crate) struct RustFile {
    /// From the root on.
    pub(crate) path: PathBuf,
    text: String,
    syntax: syn::File,
    /// Whether the whole file is a test.
    is_test: bool,
}

impl RustFile {
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
        Self::parse(path.strip_prefix(root).unwrap_or(path), text)
    }

    fn parse(path: &Path, text: String) -> Result<Self, Failure> {
        let syntax = syn::parse_file(&text).map_err(|error| {
            let line = error.span().start().line;
            Failure::new(format!("{}:{line}: {error}", path.display()), "see whether `cargo check` reads it")
        })?;
        let is_test =
            path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
        Ok(Self { path: path.to_owned(), text, syntax, is_test })
    }

    fn source(&self) -> SourceText<'_> {
        SourceText::new(&self.text)
    }
}
