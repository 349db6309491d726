//! Rules about crates, read from the output of `cargo tree`.

use std::collections::BTreeSet;

/// Which crates of the workspace a crate may depend on, tests and build scripts included. Data goes one way.
/// The tests of a crate may ask for features of the crate itself.
const EDGES: &[(&str, &[&str])] = &[
    ("threadline-lang", &[]),
    ("threadline-expect", &["threadline-lang"]),
    ("threadline-flow", &["threadline-lang", "threadline-expect"]),
    ("threadline-engine", &["threadline-lang", "threadline-expect", "threadline-flow"]),
    ("threadline-store", &["threadline-lang", "threadline-engine"]),
    (
        "threadline-runner",
        &["threadline-lang", "threadline-expect", "threadline-flow", "threadline-engine", "threadline-store"],
    ),
    (
        "threadline-restate",
        &["threadline-lang", "threadline-flow", "threadline-engine", "threadline-store", "threadline-runner"],
    ),
    (
        "threadline-inspect",
        &[
            "threadline-lang",
            "threadline-expect",
            "threadline-flow",
            "threadline-engine",
            "threadline-store",
            "threadline-runner",
        ],
    ),
    (
        "threadline-serve",
        &[
            "threadline-lang",
            "threadline-flow",
            "threadline-engine",
            "threadline-store",
            "threadline-runner",
            "threadline-inspect",
        ],
    ),
    (
        "threadline",
        &[
            "threadline-lang",
            "threadline-expect",
            "threadline-flow",
            "threadline-engine",
            "threadline-store",
            "threadline-runner",
            "threadline-restate",
            "threadline-inspect",
            "threadline-serve",
        ],
    ),
    ("xtask", &[]),
];

/// The format of a line of the tree, after its depth.
pub(super) const FORMAT: &str = "|{p}";

/// One line of the tree.
struct Package<'a> {
    depth: usize,
    name: &'a str,
}

fn packages(tree: &str) -> Vec<Package<'_>> {
    tree.lines().filter_map(package).collect()
}

fn package(line: &str) -> Option<Package<'_>> {
    let mut parts = line.splitn(2, '|');
    Some(Package { depth: parts.next()?.parse().ok()?, name: parts.next()?.split(' ').next()? })
}

/// Crates of the workspace that use one they may not use, or that the table does not know.
pub(super) fn edges(tree: &str) -> Vec<String> {
    let packages = packages(tree);
    let members: BTreeSet<&str> =
        packages.iter().filter(|package| package.depth == 0).map(|package| package.name).collect();
    let mut problems = Vec::new();
    let mut allowed: &[&str] = &[];
    let mut user = "";
    for package in &packages {
        if package.depth == 0 {
            user = package.name;
            allowed = allowed_for(user).unwrap_or_else(|| {
                problems.push(format!("`{user}` is not in the table of crate edges"));
                &[]
            });
        } else if members.contains(package.name) && package.name != user && !allowed.contains(&package.name) {
            problems.push(format!("`{user}` may not depend on `{}`", package.name));
        }
    }
    problems
}

fn allowed_for(name: &str) -> Option<&'static [&'static str]> {
    let row = EDGES.iter().find(|(user, _)| *user == name);
    row.map(|(_, allowed)| *allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_the_table_pass() {
        let tree = "0|threadline-flow v0.1.0 (/a b/flow)\n\
                    1|threadline-lang v0.1.0 (/a b/lang)\n\
                    1|serde v1.0.0\n\
                    0|threadline-lang v0.1.0 (/a b/lang)\n";
        assert_eq!(edges(tree), Vec::<String>::new());
    }

    #[test]
    fn an_edge_upwards_is_named() {
        let tree = "0|threadline-lang v0.1.0 (/lang)\n\
                    1|threadline-flow v0.1.0 (/flow)\n\
                    0|threadline-flow v0.1.0 (/flow)\n";
        assert_eq!(edges(tree), ["`threadline-lang` may not depend on `threadline-flow`"]);
    }

    #[test]
    fn a_crate_needs_a_row() {
        let tree = "0|threadline-extra v0.1.0 (/extra)\n1|serde v1.0.0\n";
        assert_eq!(edges(tree), ["`threadline-extra` is not in the table of crate edges"]);
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (position, (user, allowed)) in EDGES.iter().enumerate() {
            let earlier = |name: &&str| EDGES[..position].iter().any(|(user, _)| user == name);
            assert!(allowed.iter().all(earlier), "{user} uses a later crate");
        }
    }
}
