//! The commands that read runs, each on something large and on the same a tenth the size: what costs what it shows takes
//! the same on both, and what reads everything ten times as long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Bench, map, median, per, repeat};

/// What is read.
#[derive(Clone, Copy)]
enum Subject {
    /// A map of so many items.
    Map,
    /// A run that continues the run of such a map and keeps all items.
    Continued,
    /// A loop of a tenth as many transitions.
    Loop,
    /// A store of a tenth as many runs.
    Store,
}

/// How much smaller the other one is.
const LESS: usize = 10;

impl Subject {
    const ALL: [Self; 4] = [Self::Map, Self::Continued, Self::Loop, Self::Store];

    fn name(self, size: usize) -> String {
        match self {
            Self::Map => format!("a map of {size} items"),
            Self::Continued => format!("a run that keeps the {size} items of another one"),
            Self::Loop => format!("a loop of {size} transitions"),
            Self::Store => format!("a store of {size} runs"),
        }
    }

    /// The size beside so many items.
    fn size(self, items: usize) -> usize {
        match self {
            Self::Map | Self::Continued => items,
            Self::Loop | Self::Store => items / 10,
        }
    }

    /// The commands; `@` stands for the number of one in the middle.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Map => &[
                "show last",
                "show last --failed",
                "explain last v",
                "explain last map[@]/1",
                "explain last reduce",
                "explain last map[@]/1 --back",
                "explain last map[@]/1 --forward",
                "logs last map[@]/1",
                "vars last v[@]",
                "vars last",
                "runs",
            ],
            Self::Continued => {
                &["show last", "show last --failed", "explain last map[@]/1", "vars last v[@]", "vars last"]
            }
            Self::Loop => &[
                "show last",
                "show last --failed",
                "explain last again#@",
                "explain last again",
                "vars last",
                "vars last n",
            ],
            Self::Store => &["show last", "explain last", "vars last", "runs", "runs -n 20"],
        }
    }
}

impl Bench {
    /// Reads runs of many items, one of many transitions, and a store of many runs; beside another binary if there is one,
    /// which reads what it has written itself.
    pub(super) fn readers(&self, other: Option<&Path>, rounds: usize, largest: usize) -> Result<(), String> {
        let items = largest.min(100_000);
        println!("reading                                   ms    a tenth   ratio");
        for subject in Subject::ALL {
            let (large, small) = (subject.size(items), subject.size(items) / LESS);
            println!(" {}", subject.name(large));
            let mut readers = vec![(self.binary.as_path(), self.folder.join("ours"))];
            readers.extend(other.map(|other| (other, self.folder.join("theirs"))));
            let mut places: Vec<(&Path, [(PathBuf, usize); 2])> = Vec::new();
            for (binary, folder) in &readers {
                let places_of =
                    [("large", large), ("small", small)].map(|(name, size)| (folder.join(name), size));
                for (folder, size) in &places_of {
                    Self::write_subject(subject, folder, *size, binary)?;
                }
                places.push((*binary, places_of));
            }
            for command in subject.commands() {
                let measured = places.iter().enumerate().map(|(at, (binary, places))| {
                    let measured = Self::read_both(binary, places, command, rounds);
                    // The other binary need not know every command.
                    if at == 0 { measured.map(Some) } else { Ok(measured.ok()) }
                });
                let measured = measured.collect::<Result<Vec<_>, String>>()?;
                let mut line = format!("  {:<34}", command.replace('@', "N"));
                for [large, small] in measured.into_iter().flatten() {
                    line += &format!(" {large:>8.1} {small:>10.1} {:>7.2}", large / small);
                }
                println!("{line}");
            }
        }
        Ok(())
    }

    /// The median times of a command in two folders.
    fn read_both(
        binary: &Path,
        places: &[(PathBuf, usize); 2],
        command: &str,
        rounds: usize,
    ) -> Result<[f64; 2], String> {
        let mut times: [Vec<Duration>; 2] = Default::default();
        for _ in 0..rounds {
            for (times, (folder, size)) in times.iter_mut().zip(places) {
                let command = command.replace('@', &(size / 2).to_string());
                let words: Vec<&str> = command.split(' ').collect();
                times.push(Self::call_in(folder, binary, &words)?.elapsed);
            }
        }
        Ok(times.map(|times| per(median(times), 1)))
    }

    /// Writes what is read, in a new store.
    fn write_subject(subject: Subject, folder: &Path, size: usize, binary: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let store = folder.join(".threadline");
        if store.exists() {
            std::fs::remove_dir_all(&store).map_err(failed)?;
        }
        std::fs::create_dir_all(&store).map_err(failed)?;
        let write = |text: &str| std::fs::write(folder.join("work.yaml"), text).map_err(failed);
        let call = |words: &[&str]| Self::call_in(folder, binary, words);
        let of_map = map(size, "{id: v, value: \"${item}\"}");
        match subject {
            Subject::Map => {
                write(&of_map)?;
                call(&["run", "work.yaml"])?;
            }
            Subject::Continued => {
                write(&of_map)?;
                let fresh = call(&["run", "work.yaml"])?.elapsed;
                write(&of_map.replace("reduce:\n", "reduce:\n  - {value: edited}\n"))?;
                let edited = call(&["resume", "last", "--edited", "--yes"])?.elapsed;
                let (fresh, edited) = (per(fresh, 1), per(edited, 1));
                println!(
                    "  {:<34} {edited:>8.1} {fresh:>10.1} {:>7.2}  beside a fresh run of {size}",
                    "resume last --edited",
                    edited / fresh
                );
            }
            Subject::Loop => {
                write(&repeat(size, "value: \"${state.iteration}\", capture: n, "))?;
                call(&["run", "work.yaml"])?;
            }
            Subject::Store => {
                write("steps:\n  - value: 1\n")?;
                for _ in 0..size {
                    call(&["run", "work.yaml"])?;
                }
            }
        }
        Ok(())
    }
}
