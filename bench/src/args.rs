//! The command line.

pub(crate) const HELP: &str = "\
Threadline's language beside its peers

usage: threadline-bench [--only W1,W3] [--rounds N] [--json]
       threadline-bench --instructions WORKLOAD [CONTESTANT]

  --only LIST       only these workloads, separated by commas
  --rounds N        rounds of timing, each with every contestant (51)
  --json            print JSON instead of tables
  --instructions    count instructions under callgrind, for one contestant or for all of the workload";

const ROUNDS: usize = 51;

pub(crate) struct Args {
    pub(crate) mode: Mode,
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) json: bool,
}

pub(crate) enum Mode {
    Help,
    Compare,
    Instructions {
        workload: String,
        contestant: Option<String>,
    },
    /// What `Instructions` runs under callgrind.
    One {
        workload: String,
        contestant: String,
        iterations: u64,
    },
}

impl Args {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self { mode: Mode::Compare, only: Vec::new(), rounds: ROUNDS, json: false };
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--help" | "-h" => parsed.mode = Mode::Help,
                "--json" => parsed.json = true,
                "--only" => {
                    parsed.only = next(&mut args, &arg)?.split(',').map(str::to_owned).collect();
                }
                "--rounds" => {
                    parsed.rounds = number::<usize>(&next(&mut args, &arg)?, &arg)?.max(1);
                }
                "--instructions" => {
                    let workload = next(&mut args, &arg)?;
                    let contestant = args.next_if(|arg| !arg.starts_with("--"));
                    parsed.mode = Mode::Instructions { workload, contestant };
                }
                "--one" => {
                    let (workload, contestant) = (next(&mut args, &arg)?, next(&mut args, &arg)?);
                    parsed.mode = Mode::One { workload, contestant, iterations: 1 };
                }
                "--iterations" => match &mut parsed.mode {
                    Mode::One { iterations, .. } => {
                        *iterations = number(&next(&mut args, &arg)?, &arg)?;
                    }
                    _ => return Err("`--iterations` belongs to `--one`".to_owned()),
                },
                _ => return Err(format!("unknown argument `{arg}`\n\n{HELP}")),
            }
        }
        Ok(parsed)
    }
}

fn next(args: &mut impl Iterator<Item = String>, flag: &str) -> Result<String, String> {
    args.next().ok_or_else(|| format!("`{flag}` needs a value"))
}

fn number<T: std::str::FromStr>(text: &str, flag: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{flag}` needs a number, not `{text}`"))
}
