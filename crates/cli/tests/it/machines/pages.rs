//! The pages of the reference, with their runs on workers: what is recorded is what is recorded on one machine.

use super::cluster::Cluster;
use crate::support::{self, Project};
use crate::{examples, spec};

/// What the runs of pages came to.
#[derive(Debug, Default)]
struct Compared {
    pages: usize,
    runs: usize,
    programs: usize,
    /// Runs that are refused with workers, by the name of their page.
    refused: Vec<String>,
    failures: Vec<String>,
}

#[test]
fn pages_of_the_reference_leave_the_same_on_workers() {
    let Some(cluster) = Cluster::start("pages") else { return };
    let mut compared = Compared::default();
    let mut is_registered = false;
    let runs = |page: &str| page.lines().any(|line| line.starts_with("$ threadline run "));
    let pages = spec::pages().into_iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    });
    let pages: Vec<_> = pages.filter(|(_, page)| runs(page)).collect();
    for (name, page) in pages.iter().step_by(if support::is_long() { 1 } else { 4 }) {
        let (here, elsewhere) = (Project::new(), Project::new());
        let workers = ["one", "two"].map(|worker| cluster.worker(elsewhere.path(), worker, 8));
        if !is_registered {
            cluster.register();
            is_registered = true;
        }
        compared.pages += 1;
        compare(name, page, [&here, &elsewhere], &cluster.on(), &mut compared);
        for worker in &workers {
            cluster.forget(worker);
        }
    }
    let Compared { pages, runs, programs, refused, failures } = &compared;
    println!("{pages} pages, {runs} runs the same, {programs} programs on workers; refused: {refused:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(*runs >= 10 && *programs >= 10, "{compared:?}");
}

/// Follows a page on one machine and with workers.
fn compare(name: &str, page: &str, [here, elsewhere]: [&Project; 2], on: &str, compared: &mut Compared) {
    for piece in spec::pieces(page) {
        let spec::Piece::Block { line, info, content, .. } = piece else { continue };
        if let Some(file) = spec::file_name(info) {
            here.write(file, content.as_bytes());
            elsewhere.write(file, content.as_bytes());
            continue;
        }
        if info.split_whitespace().next() != Some("console") {
            continue;
        }
        for command in content.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let Some(rest) = command.strip_prefix("threadline run ") else {
                let outcomes = [here, elsewhere].map(|project| project.run_line(command).exit);
                if outcomes[0] != outcomes[1] {
                    compared.failures.push(format!("{name}:{line}: `{command}` exits with {outcomes:?}"));
                }
                continue;
            };
            let expected = here.run_line(command);
            let seen = elsewhere.run_line(&format!("threadline run {on} {rest}"));
            if seen.exit == 3 && expected.exit != 3 {
                compared
                    .refused
                    .push(format!("{name}:{line}: {}", seen.stderr.lines().next().unwrap_or_default()));
                // The page goes on as if it had run.
                elsewhere.run_line(command);
                continue;
            }
            let left = [(here, expected.exit), (elsewhere, seen.exit)].map(|(project, exit)| {
                let shown = project.run_line("threadline show last --json").stdout;
                compared.programs += shown.matches(r#""worker":""#).count();
                let text = examples::text_of(exit, if exit == 3 { "" } else { &shown });
                text.replace(&project.path().display().to_string(), "[PROJECT]")
            });
            compared.runs += usize::from(left[0] == left[1]);
            if let Some(difference) =
                support::difference(&format!("{name}:{line}: {command}"), &left[0], &left[1])
            {
                compared.failures.push(format!("{difference}\n{}", seen.stderr));
            }
        }
    }
}
