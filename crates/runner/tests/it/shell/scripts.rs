//! G2: the reader sees the quoting that the shell sees.
//!
//! Scripts are made at random, nested in all the ways there are. A script is run with plain letters written in by hand
//! where its references stand, and bound to hostile values: the outputs must differ in just these places. What the
//! reader does not know may be refused, as long as that is rare.

use std::fmt::Write;

use threadline_flow::shell::Dialect;
use threadline_lang::Value;

use super::random::{Random, is_long, seed};
use super::shells::{Folder, Shell, bind, installed};

struct Script {
    text: String,
    values: Vec<String>,
}

/// Makes scripts that print what their references stand for.
struct Maker<'r> {
    random: &'r mut Random,
    dialect: Dialect,
    values: Vec<String>,
    /// Inside of backquotes neither these nor backslashes may stand.
    in_backquotes: bool,
    documents: usize,
}

impl Maker<'_> {
    fn reference(&mut self) -> String {
        let value = self.random.hostile();
        self.values.push(value);
        format!("QQ{}ZZ", self.values.len() - 1)
    }

    fn literal(&mut self) -> &'static str {
        const PLAIN: [&str; 12] =
            ["a", "b-c", "x.y", "7", "/p/q", "k=v", "@", "%", "é", "in", "done", "esac"];
        PLAIN[self.random.below(PLAIN.len())]
    }

    /// A word that no shell splits.
    fn word(&mut self, depth: usize) -> String {
        let parts = 1 + self.random.below(3);
        (0..parts).map(|_| self.part(depth)).collect()
    }

    fn part(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 5 } else { 12 }) {
            0 => self.literal().to_owned(),
            1 => self.reference(),
            2 => format!("'{} {} \"`$(\"'", self.literal(), self.reference())
                .replace(['`'], if self.in_backquotes { "" } else { "`" }),
            3 => format!("\"it's {} # ;\"", self.reference()),
            4 if !self.in_backquotes => format!("\\'\\$\\\\{}", self.reference()),
            5 | 6 => format!("\"x {} {}\"", self.substitution(depth - 1), self.literal()),
            7 => format!("\"${{NONE:-{}}}\"", self.in_default(depth - 1)),
            8 => format!("\"${{HOME:+{}}}\"", self.in_default(depth - 1)),
            9 if self.dialect != Dialect::Posix && !self.in_backquotes => {
                format!("$'a\\'b {} \\\\'", self.reference())
            }
            10 => format!("\"$((1 + {}))\"", self.random.below(9)),
            _ => format!("\"{}\"", self.reference()),
        }
    }

    /// What may stand in a default inside of double quotes.
    fn in_default(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 2 } else { 4 }) {
            0 => self.reference(),
            1 => format!("{} {}", self.literal(), self.reference()),
            2 => self.substitution(depth - 1),
            _ => format!("${{NONE-{}}}", self.in_default(depth - 1)),
        }
    }

    fn substitution(&mut self, depth: usize) -> String {
        format!("$({}printf .)", self.commands(depth))
    }

    fn commands(&mut self, depth: usize) -> String {
        let count = 1 + self.random.below(2);
        (0..count).map(|_| self.command(depth)).collect()
    }

    /// A command with the line break behind it.
    fn command(&mut self, depth: usize) -> String {
        let choice = self.random.below(if depth == 0 { 4 } else { 17 });
        let depth = depth.saturating_sub(1);
        match choice {
            0 | 1 => format!("printf '[%s]' {} {}\n", self.word(depth), self.word(depth)),
            2 => format!("X={}; printf '<%s>' \"$X\"\n", self.word(depth)),
            3 => format!(
                "printf '(%s)' {} # it's \" a comment ${{
",
                self.word(depth)
            ),
            4 => format!(
                "for X in {} {}; do\n{}printf '%s,' \"${{X}}\"\ndone\n",
                self.word(depth),
                self.word(depth),
                self.command(depth)
            ),
            5 => {
                let (word, command) = (self.word(depth), self.command(depth));
                format!("case {word} in\n  no) ;;\n  (no|NO) echo no ;;\n  *)\n{command} ;;\nesac\n")
            }
            6 => format!("if true; then\n{}elif false; then :; else\n:\nfi\n", self.commands(depth)),
            7 => format!("( {})\n", self.commands(depth)),
            8 => format!("{{ {}}} | cat\n", self.commands(depth)),
            9 => self.document(depth, false),
            10 => self.document(depth, true),
            11 => format!("f() {{\n{}}}\nf {}\n", self.commands(depth), self.word(depth)),
            12 => format!("set -- {}\nprintf '%s|' \"$@\" \"$#\"\n", self.word(depth)),
            13 if self.dialect != Dialect::Posix => {
                format!("A=({} b\n {})\nprintf '%s+' \"${{A[@]}}\"\n", self.word(depth), self.word(depth))
            }
            14 if self.dialect != Dialect::Posix => {
                let (left, right) = (self.word(depth), self.word(depth));
                format!("if [[ {left} == {right} ]] || true; then\n{}fi\n", self.command(depth))
            }
            15 if !self.in_backquotes => {
                self.in_backquotes = true;
                let commands = self.commands(depth.min(1)).replace('\\', "");
                self.in_backquotes = false;
                format!("X=`{commands}printf .`; printf '%s' \"$X\"\n")
            }
            _ => format!(
                "while true; do\n{}break; done && printf '%s' {}\n",
                self.commands(depth),
                self.word(depth)
            ),
        }
    }

    fn document(&mut self, depth: usize, quoted: bool) -> String {
        if self.in_backquotes {
            return format!("printf '%s' {}\n", self.reference());
        }
        self.documents += 1;
        let end = format!("END{}", self.documents);
        let mut lines = String::new();
        for _ in 0..=self.random.below(3) {
            let inner = if quoted {
                format!("$(no) `no` \\\\ {} $HOME 'x' \"", self.reference())
            } else if depth > 0 && self.random.below(3) == 0 {
                format!("a {} 'b", self.substitution(depth - 1))
            } else {
                format!("it's {} \" \\$x \\\\ ${{NONE:-d}} # {}", self.reference(), self.reference())
            };
            writeln!(lines, "{inner}").unwrap();
        }
        if quoted { format!("cat <<'{end}'\n{lines}{end}\n") } else { format!("cat <<{end}\n{lines}{end}\n") }
    }
}

impl Script {
    fn make(random: &mut Random, dialect: Dialect) -> Self {
        let mut maker = Maker { random, dialect, values: Vec::new(), in_backquotes: false, documents: 0 };
        let depth = 1 + maker.random.below(5);
        let text = maker.commands(depth);
        let values = maker.values;
        Self { text, values }
    }

    /// The text with references, their names made one from the script's number.
    fn referring(&self, number: usize) -> String {
        (0..self.values.len()).rev().fold(self.text.clone(), |text, at| {
            text.replace(&format!("QQ{at}ZZ"), &format!("${{v{number}x{at}}}"))
        })
    }

    fn names(&self, number: usize) -> impl Iterator<Item = (String, Value)> {
        let values = self.values.iter().enumerate();
        values.map(move |(at, value)| (format!("v{number}x{at}"), Value::from(value.as_str())))
    }

    /// What a script printed with letters in it, with the values in their places.
    fn expected(&self, printed: &str) -> String {
        let mut expected = String::new();
        let mut rest = printed;
        while let Some((before, behind)) = rest.split_once("QQ") {
            expected.push_str(before);
            let (number, behind) = behind.split_once("ZZ").unwrap_or((behind, ""));
            expected.push_str(
                number.parse::<usize>().ok().and_then(|at| self.values.get(at)).map_or("?", String::as_str),
            );
            rest = behind;
        }
        expected + rest
    }
}

/// Runs some scripts in one process, as they are and bound; gives how many not even the shell could read.
fn check(shell: Shell, scripts: &[Script], folder: &Folder) -> Result<usize, String> {
    let apart = |text: &str| format!("(\n{text}\n)\nprintf '\\0'\n");
    let by_hand = scripts.iter().map(|script| apart(&script.text)).collect::<Vec<_>>().concat();
    let referring = scripts.iter().enumerate().map(|(at, script)| apart(&script.referring(at)));
    let text = referring.collect::<Vec<_>>().concat();
    let names: Vec<_> = scripts.iter().enumerate().flat_map(|(at, script)| script.names(at)).collect();
    let bound = bind(&text, shell.dialect, &names)
        .map_err(|problems| format!("{}: {:?}\n{text}", shell.name, problems[0]))?;
    let plain = shell.run(&by_hand, &[], &folder.0);
    let output = shell.run_bound(&bound, &folder.0);
    let printed = String::from_utf8_lossy(&plain.stdout).into_owned();
    let expected: Vec<String> =
        printed.split('\0').zip(scripts).map(|(printed, script)| script.expected(printed) + "\0").collect();
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed == expected.concat() && output.stderr == plain.stderr && output.status == plain.status {
        return Ok(0);
    }
    if scripts.len() == 1 && !plain.stderr.is_empty() {
        return Ok(1);
    }
    if scripts.len() > 1 {
        return scripts.iter().map(|script| check(shell, std::slice::from_ref(script), folder)).sum();
    }
    Err(format!(
        "{}\n{by_hand}\nvalues: {names:?}\nbound: {}\nprinted:  {printed:?}\nexpected: {:?}\nstderr: {}\nby hand: {}",
        shell.name,
        bound.text,
        expected.concat(),
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&plain.stderr),
    ))
}

fn check_shell(shell: Shell, count: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let folder = Folder::new();
    let mut refused = 0;
    let mut accepted = Vec::new();
    while accepted.len() < count {
        let script = Script::make(&mut random, shell.dialect);
        let names: Vec<_> = script.names(0).collect();
        match bind(&script.referring(0), shell.dialect, &names) {
            Ok(_) => accepted.push(script),
            Err(problems) => {
                refused += 1;
                if refused > count / 10 {
                    return vec![format!(
                        "{}: too many are refused, such as {}\n{:?}",
                        shell.name, script.text, problems[0]
                    )];
                }
            }
        }
    }
    let mut unread = 0;
    let mut failures = Vec::new();
    for scripts in accepted.chunks(20) {
        match check(shell, scripts, &folder) {
            Ok(more) => unread += more,
            Err(failure) => failures.push(failure),
        }
    }
    failures.truncate(3);
    if unread > count / 20 {
        failures.push(format!("{}: cannot read {unread} of {count} scripts", shell.name));
    }
    if !folder.files().is_empty() {
        failures.push(format!("{}: something ran and left {:?}", shell.name, folder.files()));
    }
    failures
}

#[test]
fn nested_quoting() {
    let seed = seed("scripts");
    let count = if is_long() { 20_000 } else { 1_000 };
    let failures: Vec<String> = std::thread::scope(|threads| {
        let running: Vec<_> = installed()
            .into_iter()
            .map(|shell| threads.spawn(move || check_shell(shell, shell.share(count), seed)))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
