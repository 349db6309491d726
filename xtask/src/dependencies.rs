//! What may be depended on: licences, banned crates, sources and advisories, by the rules of `deny.toml`.
//!
//! `cargo deny` checks all of it. Building it takes longer than half of the other stages together, so a
//! change is gated by it only where it is installed; elsewhere its list of licences is held against what
//! `cargo tree` says. The long form installs it below the target folder.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::arguments::Effort;
use crate::failure::Failure;
use crate::licence::accepts;
use crate::project::{Project, output, run as run_command, works};

const RULES: &str = "deny.toml";

/// Checks the dependencies of the workspace. `bench/` and `fuzz/` are never shipped.
pub(crate) fn check(project: &Project, effort: Effort) -> Result<(), Failure> {
    if effort == Effort::Long {
        install(project)?;
    }
    if !is_installed(project) {
        println!("cargo-deny is not installed: only the licences are checked");
        return check_licences(project);
    }
    let hint = format!("the rules and their reasons are in {RULES}");
    run_command(deny(project).args(["check", "licenses", "bans", "sources"]), &hint)?;
    if works(deny(project).args(["fetch", "db"])) {
        run_command(deny(project).args(["check", "--disable-fetch", "advisories"]), &hint)
    } else {
        println!("advisories are not checked: their database cannot be reached");
        Ok(())
    }
}

/// `cargo deny`, from the person's programs or from the target folder.
fn deny(project: &Project) -> Command {
    let own = project.target.join("tools/bin/cargo-deny");
    let mut command = if own.exists() { project.program(own, &["deny"]) } else { project.cargo(&["deny"]) };
    command.args(["--locked", "--workspace"]);
    command
}

fn is_installed(project: &Project) -> bool {
    works(deny(project).arg("--version"))
}

fn install(project: &Project) -> Result<(), Failure> {
    if is_installed(project) {
        return Ok(());
    }
    println!("installing cargo-deny, which is missing, into target/tools (some minutes)");
    let mut command = project.cargo(&["install", "--locked", "cargo-deny", "--root"]);
    command.arg(project.target.join("tools")).arg("--target-dir").arg(project.target.join("tools/build"));
    run_command(&mut command, "see whether the package registry can be reached")
}

/// Packages under a licence that is not in the list of `deny.toml`.
fn check_licences(project: &Project) -> Result<(), Failure> {
    let path = project.root.join(RULES);
    let rules = fs::read_to_string(&path).map_err(|error| Failure::unreadable(&path, &error))?;
    let accepted = accepted_licences(&rules);
    let mut command = project.cargo(&["tree", "--workspace", "--all-features", "--locked"]);
    command.args(["--target", "all", "--prefix", "none", "--format", "{l}|{p}"]);
    let tree = output(&mut command, "if the lock file is old, run `cargo update --workspace`")?;
    let refused = refused_packages(&tree, &accepted);
    if refused.is_empty() {
        return Ok(());
    }
    let message = format!("licences that {RULES} does not allow:\n  {}", refused.join("\n  "));
    Err(Failure::new(
        message,
        format!("find another package, or add the licence to {RULES} if it may be shipped"),
    ))
}

/// The names of the list `allow` of the section `[licenses]`.
fn accepted_licences(rules: &str) -> BTreeSet<&str> {
    let section = rules.split_once("[licenses]").map_or("", |(_, rest)| rest);
    let list = section.split_once("allow = [").map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).collect()
}

/// A line for each package whose licence is not accepted, or not named.
fn refused_packages(tree: &str, accepted: &BTreeSet<&str>) -> Vec<String> {
    let packages = tree.lines().filter_map(|line| line.split_once('|'));
    let refused = packages.filter(|(licence, _)| !accepts(licence, accepted));
    let lines: BTreeSet<String> = refused
        .map(|(licence, package)| {
            let name = package.split(' ').next().unwrap_or(package);
            match licence {
                "" => format!("`{name}` does not name its licence"),
                licence => format!("`{name}` is under `{licence}`"),
            }
        })
        .collect();
    lines.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_licences_is_read() {
        let rules = "[graph]\nallow = [\"no\"]\n[licenses]\n# a \"comment\"\n\
                     allow = [\n    \"MIT\",\n    \"ISC\",\n]\n";
        assert_eq!(accepted_licences(rules), BTreeSet::from(["MIT", "ISC"]));
        let project = Project::find().unwrap();
        let rules = fs::read_to_string(project.root.join(RULES)).unwrap();
        assert!(accepted_licences(&rules).contains("Apache-2.0"));
    }

    #[test]
    fn a_refused_licence_is_named_once() {
        let tree = "MIT|a v1.0.0 (/a)\nGPL-3.0-only|b v1.0.0\n|c v1.0.0\nGPL-3.0-only|b v1.0.0 (*)\n";
        let refused = refused_packages(tree, &BTreeSet::from(["MIT"]));
        assert_eq!(refused, ["`b` is under `GPL-3.0-only`", "`c` does not name its licence"]);
    }
}
