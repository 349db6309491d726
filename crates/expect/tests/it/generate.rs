//! Expectations and actual documents, made from the keys of the table.
//!
//! A [`Gen`] takes its decisions from a list of numbers. Where the list has ended every decision is the first
//! alternative, which is the shortest; so a shorter list of smaller numbers gives a simpler text, and that is how a
//! failing case is reduced.

use std::fmt::Write as _;
use std::sync::LazyLock;

/// Operators with what may stand behind each: the lines of the table of answers.
static ROWS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| rows(0));
/// Those that most values meet.
static EASY: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| rows(9));

fn rows(met: usize) -> Vec<(&'static str, &'static str)> {
    let lines = include_str!("../answers.txt").lines();
    let lines = lines.filter(|line| line.matches("| +").count() >= met);
    lines.filter_map(|line| line.split_once(" | ")?.0.trim().split_once(": ")).collect()
}

/// Values of every type, so chosen that the operators of the table find something to say of them.
pub(crate) const VALUES: [&str; 24] = [
    "5",
    "2.5",
    "9007199254740993",
    "\"5\"",
    "\"5.0\"",
    "\"5 DOT\"",
    "\"abc\"",
    "\"Abc\"",
    "\"\"",
    "\"2024-05-06\"",
    "true",
    "false",
    "null",
    "[1, 5]",
    "[\"abc\", \"5\"]",
    "[]",
    "{\"a\": 1}",
    "{}",
    "{\"a\": {\"b\": 5}, \"0\": \"zero\"}",
    "[{\"a\": 5}, {\"a\": \"abc\"}, {}]",
    "[[1], [5, 2.5], \"5 DOT\"]",
    "\"execution\"",
    "\"I cannot send 5 DOT, because your balance is low?\"",
    "\"A\"",
];

/// Paths to single values of the actual document.
const PATHS: [&str; 12] = [
    "value.a",
    "value.b",
    "value.c",
    "facts.x",
    "facts.y",
    "contextBalance",
    "text",
    "usage.cost",
    "meta.status",
    "output",
    "exit_code",
    "value.list",
];

const WORDS: [&str; 6] =
    ["\"balance\"", "\"DOT\"", "[\"balance\", \"dot\"]", "[\"nothing\", 5]", "\"zebra\"", "5"];

/// Expressions; the last three ask whether something is there.
const EXPRESSIONS: [&str; 6] = [
    "value.a == 5",
    "facts.x > 3",
    "1 + 1 == 2",
    "value.a | exists",
    "facts.x | default(7) > 3",
    "'a' in value or text == 'abc'",
];

/// What is made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Without {
    /// Fields about a step of the plan: members of one `all` bind them together.
    pub(crate) plan: bool,
    /// What asks whether a value is there, or reads more than one value.
    pub(crate) presence: bool,
}

/// Keys that belong together, such as `when` and `then`, with what stands behind each.
pub(crate) type Part = Vec<(String, String)>;

pub(crate) struct Gen<'c> {
    choices: std::slice::Iter<'c, u16>,
    depth: usize,
    without: Without,
}

impl<'c> Gen<'c> {
    pub(crate) fn new(choices: &'c [u16], without: Without) -> Self {
        Self { choices: choices.iter(), depth: 4, without }
    }

    /// One of `n` alternatives.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        usize::from(self.choices.next().copied().unwrap_or(0)) % n
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.pick(of.len())]
    }

    // ---- actual documents -------------------------------------------------------------------------------

    /// A document with every root that there is, or without some of them.
    pub(crate) fn document(&mut self) -> String {
        let mut roots = Vec::new();
        let value = self.object(&["a", "b", "c", "list"]);
        let facts = self.object(&["x", "y", "contextBalance"]);
        let (usage, meta, plan) = (self.object(&["cost"]), self.object(&["status"]), self.plan());
        for (name, whole) in
            [("value", value), ("facts", facts), ("usage", usage), ("meta", meta), ("plan", plan)]
        {
            if self.pick(9) < 8 {
                roots.push(format!("\"{name}\": {whole}"));
            }
        }
        for (name, usual) in
            [("text", VALUES[22]), ("type", VALUES[21]), ("output", VALUES[6]), ("exit_code", "0")]
        {
            let value = if self.pick(2) == 0 { usual } else { self.one(&VALUES) };
            if self.pick(6) < 5 {
                roots.push(format!("\"{name}\": {value}"));
            }
        }
        format!("{{{}}}", roots.join(", "))
    }

    fn object(&mut self, names: &[&str]) -> String {
        let mut entries = Vec::new();
        for name in names {
            if self.pick(6) < 5 {
                entries.push(format!("\"{name}\": {}", self.one(&VALUES)));
            }
        }
        format!("{{{}}}", entries.join(", "))
    }

    fn plan(&mut self) -> String {
        list(&self.steps())
    }

    /// The steps of a plan.
    pub(crate) fn steps(&mut self) -> Vec<String> {
        (0..self.pick(4))
            .map(|_| {
                let (agent, function) = (self.one(&["\"A\"", "\"B\""]), self.one(&["\"f\"", "\"g\"", "5"]));
                let params = self.object(&["amount", "recipient", "type"]);
                match self.pick(4) {
                    3 => format!("{{\"agent\": {agent}}}"),
                    _ => format!("{{\"agent\": {agent}, \"function\": {function}, \"params\": {params}}}"),
                }
            })
            .collect()
    }

    // ---- expectations -----------------------------------------------------------------------------------

    /// An expectation, as the keys that are side by side in it.
    pub(crate) fn parts(&mut self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..=self.one(&[0, 0, 0, 1, 1, 2]) {
            let part = self.part();
            let taken = |key: &str| parts.iter().flatten().any(|(known, _)| known == key);
            if !part.iter().any(|(key, _)| taken(key)) {
                parts.push(part);
            }
        }
        parts
    }

    pub(crate) fn expectation(&mut self) -> String {
        object(self.parts().iter().flatten())
    }

    /// Two or three of them.
    pub(crate) fn expectations(&mut self) -> Vec<String> {
        (0..2 + self.pick(2)).map(|_| self.expectation()).collect()
    }

    fn part(&mut self) -> Part {
        let entry = |key: &str, value: String| vec![(key.to_owned(), value)];
        match self.pick(if self.depth == 0 { 8 } else { 12 }) {
            0..=3 => {
                let path = self.one(&PATHS);
                entry(path, self.check())
            }
            4 => self.field(),
            5 if !self.without.plan => self.plan_field(),
            6 if !self.without.presence => self.rule(),
            7 => {
                let all = if self.without.presence { 3 } else { EXPRESSIONS.len() };
                entry("expr", format!("\"{}\"", self.one(&EXPRESSIONS[..all])))
            }
            8 => self.deeper(|gen_| entry("all", list(&gen_.expectations()))),
            9 => self.deeper(|gen_| entry("any", list(&gen_.expectations()))),
            10 => self.deeper(|gen_| entry("not", gen_.expectation())),
            11 => self.deeper(|gen_| {
                let mut part = entry("when", gen_.expectation());
                let branches = gen_.pick(3);
                if branches != 1 {
                    part.push(("then".to_owned(), gen_.expectation()));
                }
                if branches != 0 {
                    part.push(("else".to_owned(), gen_.expectation()));
                }
                part
            }),
            _ => entry("value.a", self.check()),
        }
    }

    fn deeper(&mut self, nested: impl FnOnce(&mut Self) -> Part) -> Part {
        self.depth -= 1;
        let part = nested(self);
        self.depth += 1;
        part
    }

    fn field(&mut self) -> Part {
        let (name, value) = match self.pick(5) {
            0 => ("responseType", self.one(&["\"execution\"", "{\"in\": [\"text\", \"error\"]}"])),
            1 => ("shouldContain", self.one(&WORDS)),
            2 => ("shouldNotContain", self.one(&WORDS)),
            3 => ("shouldAskFor", self.one(&WORDS)),
            _ => ("shouldWarn", self.one(&WORDS)),
        };
        vec![(name.to_owned(), value.to_owned())]
    }

    /// Equal values would contradict one another, so only one of each is asked for.
    pub(crate) fn plan_field(&mut self) -> Part {
        let (name, value) = match self.pick(5) {
            0 => ("expectedAgent", self.one(&["\"A\"", "{\"ne\": \"A\"}", "{\"in\": [\"A\", \"B\"]}"])),
            1 => ("expectedFunction", self.one(&["\"f\"", "{\"startsWith\": \"f\"}", "{\"ne\": \"f\"}"])),
            2 => {
                let check = self.plan_operators();
                return vec![("expectedParams".to_owned(), format!("{{\"type\": {check}}}"))];
            }
            3 => return vec![("expectedAmount".to_owned(), self.plan_operators())],
            _ => ("expectedRecipient", self.one(&["\"abc\"", "{\"iEq\": \"ABC\"}"])),
        };
        vec![(name.to_owned(), value.to_owned())]
    }

    /// Operators of what one step of the plan must have, which cannot be two values.
    fn plan_operators(&mut self) -> String {
        let operators = self.operators();
        if operators.contains("\"eq\"") { "{\"eq\": 5}".to_owned() } else { operators }
    }

    fn rule(&mut self) -> Part {
        let (name, value) = match self.pick(6) {
            0 => ("shouldReject", self.one(&["true", "false"])),
            1 => ("shouldExplain", self.one(&WORDS)),
            2 => ("shouldMaintainRole", "\"DotBot\""),
            3 => ("shouldHandle", self.one(&WORDS)),
            4 => ("expectedBehavior", self.one(&WORDS)),
            _ => ("judge", "\"is it polite?\""),
        };
        vec![(name.to_owned(), value.to_owned())]
    }

    // ---- checks of one value ----------------------------------------------------------------------------

    /// A value, operators, logic or paths further in.
    pub(crate) fn check(&mut self) -> String {
        if self.depth == 0 {
            return self.operators();
        }
        self.depth -= 1;
        let check = match self.pick(10) {
            0..=4 => self.operators(),
            5 => self.one(&VALUES[..16]).to_owned(),
            6 => format!("{{\"a\": {}}}", self.check()),
            7 => format!("{{\"{}\": [{}, {}]}}", self.one(&["all", "any"]), self.check(), self.check()),
            8 => format!("{{\"not\": {}}}", self.check()),
            _ => {
                let (when, then) = (self.check(), self.check());
                format!("{{\"when\": {when}, \"then\": {then}}}")
            }
        };
        self.depth += 1;
        check
    }

    /// One operator or two.
    pub(crate) fn operators(&mut self) -> String {
        let mut found = vec![self.operator()];
        if self.pick(3) == 2 {
            let (name, operand) = self.operator();
            // Bounds that leave nothing between them are refused.
            let bound = |name: &str| matches!(name, "gt" | "gte" | "lt" | "lte");
            if name != found[0].0 && !(bound(&name) && bound(&found[0].0)) {
                found.push((name, operand));
            }
        }
        object(found.iter())
    }

    pub(crate) fn operator(&mut self) -> (String, String) {
        let quantifier = self.depth > 0 && self.pick(5) == 4;
        if quantifier {
            self.depth -= 1;
            let name = self.one(&["each", "some", "none", "atLeast", "not-each", "not-some", "length"]);
            let inner = self.check();
            self.depth += 1;
            let operand = match name {
                "atLeast" => format!("{{\"count\": {}, \"of\": {inner}}}", 1 + self.pick(3)),
                _ => inner,
            };
            return (name.to_owned(), operand);
        }
        let (name, operand) = if self.pick(5) < 2 { self.one(&ROWS) } else { self.one(&EASY) };
        let asks = name.ends_with("exists") || name.ends_with("absent");
        if asks && self.without.presence {
            return ("eq".to_owned(), "5".to_owned());
        }
        (name.to_owned(), operand.to_owned())
    }
}

/// Keys with what stands behind each, as one object.
pub(crate) fn object<'p>(entries: impl Iterator<Item = &'p (String, String)>) -> String {
    let mut text = String::from("{");
    for (at, (key, value)) in entries.enumerate() {
        // Writing into a text cannot fail.
        let _ = write!(text, "{}\"{key}\": {value}", if at > 0 { ", " } else { "" });
    }
    text.push('}');
    text
}

pub(crate) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}
