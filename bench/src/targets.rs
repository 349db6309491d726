//! What is to be reached, as data, and whether a run reached it.

use std::fmt;

use crate::contestants::{FLOOR, JSONLOGIC, JSONSCHEMA, MINIJINJA, TERA, UPON};
use crate::harness::{Figures, Measured};
use crate::ours::OURS;

/// What `contestant` needs for `workload` is at most `factor` times the measure.
pub(crate) struct Target {
    pub(crate) workload: &'static str,
    pub(crate) contestant: &'static str,
    pub(crate) factor: f64,
    pub(crate) of: Measure,
}

pub(crate) enum Measure {
    /// The rival's time: per reference where the workloads count them, else per operation.
    Time { workload: &'static str, rival: &'static str },
    /// One allocation per operation.
    Allocation,
}

const TARGETS: &[Target] = &[
    time("W1", OURS, 0.5, TERA),
    allocations("W1", OURS, 0.0),
    time("W1b", OURS, 0.25, UPON),
    time("W2", OURS, 0.5, TERA),
    time("W3", OURS, 0.35, TERA),
    allocations("W3", OURS, 0.0),
    time("W3b", OURS, 0.5, MINIJINJA),
    time("W4", OURS, 1.5, FLOOR),
    time("W4big", OURS, 1.5, FLOOR),
    // The same for any size: a list costs one count of its owners more than a number, however long it is.
    time_across("W4big", OURS, 1.5, "W4", OURS),
    time("W5", OURS, 1.1, FLOOR),
    time("W5buf", OURS, 1.1, FLOOR),
    time("W6", OURS, 1.0, FLOOR),
    time("W6text", OURS, 0.5, MINIJINJA),
    time_across("W7", OURS, 1.2, "W1", OURS),
    time("W8", OURS, 1.2, FLOOR),
    time("E1", OURS, 1.0, JSONSCHEMA),
    time("E1", OURS, 1.0, JSONLOGIC),
    allocations("E1", OURS, 0.0),
    time("E1wide", OURS, 1.0, JSONSCHEMA),
    time("E1wide", OURS, 1.0, JSONLOGIC),
    allocations("E1wide", OURS, 0.0),
    time("E2", OURS, 1.0, JSONSCHEMA),
    time("E2", OURS, 1.0, JSONLOGIC),
    allocations("E2", OURS, 0.0),
    time("E3", OURS, 1.0, JSONSCHEMA),
    time("E3", OURS, 1.0, JSONLOGIC),
    allocations("E3", OURS, 0.0),
];

const fn time(workload: &'static str, contestant: &'static str, factor: f64, rival: &'static str) -> Target {
    time_across(workload, contestant, factor, workload, rival)
}

const fn time_across(
    workload: &'static str,
    contestant: &'static str,
    factor: f64,
    rival_workload: &'static str,
    rival: &'static str,
) -> Target {
    let of = Measure::Time { workload: rival_workload, rival };
    Target { workload, contestant, factor, of }
}

const fn allocations(workload: &'static str, contestant: &'static str, most: f64) -> Target {
    let of = Measure::Allocation;
    Target { workload, contestant, factor: most, of }
}

/// A target and the factor that was measured, where both sides took part.
pub(crate) struct Verdict {
    pub(crate) target: &'static Target,
    pub(crate) measured: Option<f64>,
}

pub(crate) fn judge(results: &[Measured]) -> Vec<Verdict> {
    let verdict = |target: &'static Target| Verdict { target, measured: target.measure(results) };
    TARGETS.iter().map(verdict).collect()
}

impl Verdict {
    pub(crate) fn status(&self) -> &'static str {
        match self.measured {
            None => "not measured",
            Some(measured) if measured <= self.target.factor => "reached",
            Some(_) => "not reached",
        }
    }
}

impl Target {
    fn measure(&self, results: &[Measured]) -> Option<f64> {
        let (_, figures) = find(results, self.workload, self.contestant)?;
        match self.of {
            Measure::Allocation => Some(figures.allocations),
            Measure::Time { workload, rival } => {
                let ours = time_per_unit(results, self.workload, self.contestant)?;
                Some(ours / time_per_unit(results, workload, rival)?)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ≤ {} ", self.contestant, self.factor)?;
        match self.of {
            Measure::Allocation => f.write_str("allocations"),
            Measure::Time { workload, rival } if workload == self.workload => {
                write!(f, "× {rival}")
            }
            Measure::Time { workload, rival } => write!(f, "× {rival} in {workload}"),
        }
    }
}

/// Nanoseconds per reference where the workload counts them, else per operation.
fn time_per_unit(results: &[Measured], workload: &str, contestant: &str) -> Option<f64> {
    let (measured, figures) = find(results, workload, contestant)?;
    Some(figures.ns / f64::from(measured.references.max(1)))
}

fn find<'a>(
    results: &'a [Measured],
    workload: &str,
    contestant: &str,
) -> Option<(&'a Measured, &'a Figures)> {
    let measured = results.iter().find(|measured| measured.name == workload)?;
    Some((measured, measured.figures(contestant)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contestants, workloads};

    /// A misspelt rival would read as "not measured" for ever, a contestant off the list would have no row.
    #[test]
    fn every_rival_takes_part_and_every_contestant_has_a_row() {
        let workloads = workloads::selected(&[]).expect("no filter");
        let names = |workload: &str| -> Vec<&str> {
            let workload = workloads.iter().find(|candidate| candidate.name == workload);
            workload.expect("the workload exists").contestants().collect()
        };
        for target in TARGETS {
            if let Measure::Time { workload, rival } = target.of {
                assert!(rival == OURS || names(workload).contains(&rival), "{rival} in {workload}");
            }
        }
        for name in workloads.iter().flat_map(|workload| names(workload.name)) {
            assert!(contestants::ALL.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
