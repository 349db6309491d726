//! From the command line to a [`Task`]. It starts nothing.

use crate::failure::Failure;
use crate::fuzz;

pub(crate) const HELP: &str = "\
usage: cargo xtask TASK

  test [--long]                   everything that a change must pass
  fuzz [TARGET] [--seconds N]     fuzz one target or all of them, N seconds each (20)
  coverage [CRATE]                run the tests and show which lines they reach; of one crate, its own tests
  help                            this text

`test --long` fuzzes each target for 30 minutes and sets THREADLINE_LONG=1, with which
property tests try more cases.
";

/// What a person asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Test(Effort),
    Fuzz {
        target: Option<String>,
        seconds: u64,
    },
    /// Of one crate, by its folder, or of all.
    Coverage(Option<String>),
}

/// How thorough `test` is.
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
            ["fuzz", rest @ ..] => parse_fuzz(rest),
            ["coverage"] => Ok(Self::Coverage(None)),
            ["coverage", name] if !name.starts_with('-') => Ok(Self::Coverage(Some((*name).to_owned()))),
            _ => Err(usage(&format!("unknown task `{}`", arguments.join(" ")))),
        }
    }
}

fn parse_fuzz(arguments: &[&str]) -> Result<Task, Failure> {
    let mut target = None;
    let mut seconds = fuzz::SHORT_SECONDS;
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--seconds" => seconds = parse_seconds(rest.next().copied())?,
            name if target.is_none() && !name.starts_with('-') => target = Some(name.to_owned()),
            other => return Err(usage(&format!("unexpected argument `{other}`"))),
        }
    }
    Ok(Task::Fuzz { target, seconds })
}

fn parse_seconds(argument: Option<&str>) -> Result<u64, Failure> {
    argument
        .and_then(|text| text.parse().ok())
        .filter(|&seconds| seconds > 0)
        .ok_or_else(|| usage("`--seconds` takes a whole number above 0"))
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
        assert_eq!(parse("coverage"), Ok(Task::Coverage(None)));
        assert_eq!(parse("coverage expect"), Ok(Task::Coverage(Some("expect".to_owned()))));
    }

    #[test]
    fn fuzz_takes_a_target_and_seconds_in_any_order() {
        let wanted = Task::Fuzz { target: Some("template".to_owned()), seconds: 5 };
        assert_eq!(parse("fuzz template --seconds 5").as_ref(), Ok(&wanted));
        assert_eq!(parse("fuzz --seconds 5 template").as_ref(), Ok(&wanted));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("tset"), Err("unknown task `tset`".to_owned()));
        assert_eq!(parse("fuzz a b"), Err("unexpected argument `b`".to_owned()));
        for line in ["fuzz --seconds", "fuzz --seconds 0", "fuzz --seconds x"] {
            assert_eq!(parse(line), Err("`--seconds` takes a whole number above 0".to_owned()));
        }
    }
}
