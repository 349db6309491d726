//! `cargo xtask coverage`: which lines the tests reach.
//!
//! It needs cargo-llvm-cov and the LLVM tools that belong to the compiler. Both are installed when they are
//! missing, and it says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::project::{Project, output, run as run_command, works};

/// Binaries of earlier runs would bring the tasks themselves back into the report.
const NOT_TASKS: [&str; 2] = ["--ignore-filename-regex", "/xtask/src/"];

/// Of the crate in this folder by its own tests, or of all crates.
pub(crate) fn run(project: &Project, name: Option<&str>) -> Result<(), Failure> {
    let package = name.map(|name| package(project, name)).transpose()?;
    require_cargo_llvm_cov(project)?;
    let tools = tools(project)?;
    let hint = "the failed tests are named above";
    let mut tests = project.cargo(&["llvm-cov", "--locked", "--html"]);
    let mut report = project.cargo(&["llvm-cov", "report", "--summary-only"]);
    if let Some(package) = &package {
        tests.args(["--package", package]);
        report.args(["--package", package]);
    } else {
        tests.args(["--workspace", "--exclude", "xtask"]).args(NOT_TASKS);
        report.args(NOT_TASKS);
    }
    run_command(tools.name_in(&mut tests), hint)?;
    run_command(tools.name_in(&mut report), hint)
}

/// What the crate in a folder of `crates` is called.
fn package(project: &Project, name: &str) -> Result<String, Failure> {
    if !project.root.join("crates").join(name).join("Cargo.toml").exists() {
        let message = format!("there is no crate `{name}`");
        return Err(Failure::new(message, "the crates are the folders of `crates`"));
    }
    Ok(if name == "cli" { "threadline".to_owned() } else { format!("threadline-{name}") })
}

fn require_cargo_llvm_cov(project: &Project) -> Result<(), Failure> {
    if works(&mut project.cargo(&["llvm-cov", "--version"])) {
        return Ok(());
    }
    println!("installing cargo-llvm-cov, which is missing (a minute or two)");
    run_command(
        &mut project.cargo(&["install", "--locked", "cargo-llvm-cov"]),
        "see whether the package registry can be reached",
    )
}

/// Where `llvm-cov` and `llvm-profdata` come from.
#[derive(Debug, PartialEq)]
enum Tools {
    /// cargo-llvm-cov finds them itself: the toolchain's, or those of the environment.
    Found,
    /// Those of the distribution.
    At { cov: PathBuf, profdata: PathBuf },
}

impl Tools {
    fn name_in<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match self {
            Self::Found => command,
            Self::At { cov, profdata } => command.env("LLVM_COV", cov).env("LLVM_PROFDATA", profdata),
        }
    }
}

fn tools(project: &Project) -> Result<Tools, Failure> {
    let named = |name: &str| std::env::var_os(name).is_some();
    if (named("LLVM_COV") && named("LLVM_PROFDATA")) || toolchain_has_tools(project) {
        return Ok(Tools::Found);
    }
    let version = llvm_version(project)?;
    if let Some(tools) = distribution_tools(project, version) {
        return Ok(tools);
    }
    println!("installing the component llvm-tools, which is missing");
    run_command(
        &mut project.program("rustup", &["component", "add", "llvm-tools"]),
        &format!("install the tools of LLVM {version} or newer and name them in LLVM_COV and LLVM_PROFDATA"),
    )?;
    Ok(Tools::Found)
}

fn toolchain_has_tools(project: &Project) -> bool {
    let Ok(sysroot) = output(&mut project.program("rustc", &["--print", "sysroot"]), "") else {
        return false;
    };
    let rustlib = Path::new(sysroot.trim()).join("lib/rustlib");
    let Ok(entries) = std::fs::read_dir(rustlib) else {
        return false;
    };
    let name = format!("bin/llvm-profdata{}", std::env::consts::EXE_SUFFIX);
    entries.flatten().any(|entry| entry.path().join(&name).exists())
}

/// The major version of the LLVM inside rustc. Older tools cannot read the profiles that it writes.
fn llvm_version(project: &Project) -> Result<u32, Failure> {
    let hint = "see whether `rustc -vV` works";
    let text = output(&mut project.program("rustc", &["-vV"]), hint)?;
    major_version(&text, "LLVM version: ")
        .ok_or_else(|| Failure::new("rustc does not name its LLVM version", hint))
}

/// Tools in PATH, plain or with a version in their name, that are new enough.
fn distribution_tools(project: &Project, wanted: u32) -> Option<Tools> {
    let suffixes = (wanted..wanted + 5).map(|version| format!("-{version}"));
    let mut suffixes = std::iter::once(String::new()).chain(suffixes);
    suffixes.find_map(|suffix| {
        let cov = PathBuf::from(format!("llvm-cov{suffix}"));
        let profdata = PathBuf::from(format!("llvm-profdata{suffix}"));
        let version = project.program(&cov, &["--version"]).output().ok()?;
        let version = String::from_utf8_lossy(&version.stdout);
        let new_enough = major_version(&version, "LLVM version ")? >= wanted;
        let both = new_enough && works(&mut project.program(&profdata, &["merge", "--help"]));
        both.then_some(Tools::At { cov, profdata })
    })
}

fn major_version(text: &str, label: &str) -> Option<u32> {
    let (_, version) = text.split_once(label)?;
    let digits = version.split(|character: char| !character.is_ascii_digit());
    digits.into_iter().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        let rustc = "release: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(major_version(rustc, "LLVM version: "), Some(22));
        let distribution = "Debian LLVM version 14.0.6\n  Optimized build.\n";
        assert_eq!(major_version(distribution, "LLVM version "), Some(14));
        assert_eq!(major_version("no version", "LLVM version "), None);
    }
}
