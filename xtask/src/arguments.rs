//! From the command line to a [`Task`]. It starts nothing.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::fuzz::Amount;

pub(crate) const HELP: &str = "\
usage: cargo xtask TASK

  test [--long]                   everything that a change must pass
  architecture                    only the rules that the compiler does not check; takes seconds
  newcomer [--long]               only follow the README and the tutorial, with the binary that is built; with
                                  `--long` build the packages, and install and follow them in a bare root
  fuzz [TARGET] [--runs N]        fuzz one target or all of them, side by side, with N inputs each
  measure [--json] [--path DIR]   figures of this checkout or of the one in DIR: lines, function lengths,
                                  type names used twice, empty doc comments, test programs, times of the
                                  last `test`
  older [--list] FOLDER           how many files of older systems in FOLDER load, as they are and after `migrate`,
                                  with the binary that is built; each folder in it is a system
  coverage [CRATE]                run the tests and show which lines they reach; of one crate, its own tests
  help                            this text

`test --long` sets THREADLINE_LONG=1: property tests try twenty times as many cases from new seeds, all
shells get all values, examples are killed after every event, and each fuzz target tries 24 times as many
inputs. It also installs cargo-deny below the target folder, and does `newcomer --long`, which has to be
root and needs debootstrap. It takes about an hour on two quiet cores.
";

/// What a person asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Test(Effort),
    Architecture,
    Newcomer(Effort),
    Fuzz {
        target: Option<String>,
        amount: Amount,
    },
    Measure {
        path: Option<PathBuf>,
        json: bool,
    },
    /// Files of older systems in a folder; whether those that are refused are listed.
    Older {
        folder: PathBuf,
        list: bool,
    },
    /// Of one crate, by its folder, or of all.
    Coverage(Option<String>),
}

/// How thorough `test` and `newcomer` are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effort {
    Short,
    Long,
}

impl Task {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments.as_slice() {
            [] | ["help" | "--help" | "-h"] => Ok(Self::Help),
            ["test"] => Ok(Self::Test(Effort::Short)),
            ["test", "--long"] => Ok(Self::Test(Effort::Long)),
            ["architecture"] => Ok(Self::Architecture),
            ["newcomer"] => Ok(Self::Newcomer(Effort::Short)),
            ["newcomer", "--long"] => Ok(Self::Newcomer(Effort::Long)),
            ["fuzz", rest @ ..] => parse_fuzz(rest),
            ["measure", rest @ ..] => parse_measure(rest),
            ["older", "--list", folder] | ["older", folder, "--list"] => {
                Ok(Self::Older { folder: PathBuf::from(folder), list: true })
            }
            ["older", folder] if !folder.starts_with('-') => {
                Ok(Self::Older { folder: PathBuf::from(folder), list: false })
            }
            ["coverage"] => Ok(Self::Coverage(None)),
            ["coverage", name] if !name.starts_with('-') => Ok(Self::Coverage(Some((*name).to_owned()))),
            _ => Err(usage(&format!("unknown task `{}`", arguments.join(" ")))),
        }
    }
}

fn parse_fuzz(arguments: &[&str]) -> Result<Task, Failure> {
    let mut target = None;
    let mut amount = Amount::Short;
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--runs" => amount = Amount::Runs(parse_runs(rest.next().copied())?),
            name if target.is_none() && !name.starts_with('-') => target = Some(name.to_owned()),
            other => return Err(usage(&format!("unexpected argument `{other}`"))),
        }
    }
    Ok(Task::Fuzz { target, amount })
}

fn parse_measure(arguments: &[&str]) -> Result<Task, Failure> {
    let (mut path, mut json) = (None, false);
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--json" => json = true,
            "--path" => {
                let folder = rest.next().ok_or_else(|| usage("`--path` takes a folder"))?;
                path = Some(PathBuf::from(folder));
            }
            other => return Err(usage(&format!("unexpected argument `{other}`"))),
        }
    }
    Ok(Task::Measure { path, json })
}

fn parse_runs(argument: Option<&str>) -> Result<u64, Failure> {
    argument
        .and_then(|text| text.parse().ok())
        .filter(|&runs| runs > 0)
        .ok_or_else(|| usage("`--runs` takes a whole number above 0"))
}

fn usage(message: &str) -> Failure {
    Failure::new(message, "`cargo xtask help` lists what there is")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Task::parse(&arguments).map_err(|failure| failure.message)
    }

    #[test]
    fn tasks_are_read() {
        assert_eq!(parse(""), Ok(Task::Help));
        assert_eq!(parse("test"), Ok(Task::Test(Effort::Short)));
        assert_eq!(parse("test --long"), Ok(Task::Test(Effort::Long)));
        assert_eq!(parse("architecture"), Ok(Task::Architecture));
        assert_eq!(parse("newcomer"), Ok(Task::Newcomer(Effort::Short)));
        assert_eq!(parse("newcomer --long"), Ok(Task::Newcomer(Effort::Long)));
        assert_eq!(parse("measure"), Ok(Task::Measure { path: None, json: false }));
        let elsewhere = Task::Measure { path: Some(PathBuf::from("other")), json: true };
        assert_eq!(parse("measure --path other --json"), Ok(elsewhere));
        let older = |list| Task::Older { folder: PathBuf::from("old"), list };
        assert_eq!(parse("older old"), Ok(older(false)));
        assert_eq!(parse("older --list old"), Ok(older(true)));
        assert_eq!(parse("coverage"), Ok(Task::Coverage(None)));
        assert_eq!(parse("coverage expect"), Ok(Task::Coverage(Some("expect".to_owned()))));
    }

    #[test]
    fn fuzz_takes_a_target_and_a_number_in_any_order() {
        let wanted = Task::Fuzz { target: Some("template".to_owned()), amount: Amount::Runs(5) };
        assert_eq!(parse("fuzz template --runs 5").as_ref(), Ok(&wanted));
        assert_eq!(parse("fuzz --runs 5 template").as_ref(), Ok(&wanted));
        assert_eq!(parse("fuzz"), Ok(Task::Fuzz { target: None, amount: Amount::Short }));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("tset"), Err("unknown task `tset`".to_owned()));
        assert_eq!(parse("measure --path"), Err("`--path` takes a folder".to_owned()));
        assert_eq!(parse("fuzz a b"), Err("unexpected argument `b`".to_owned()));
        for line in ["fuzz --runs", "fuzz --runs 0", "fuzz --runs x"] {
            assert_eq!(parse(line), Err("`--runs` takes a whole number above 0".to_owned()));
        }
    }
}
