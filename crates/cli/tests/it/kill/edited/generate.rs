//! Random workflows of pure steps, and random edits of them.
//!
//! Every execution of a step writes a line with its name, its sort and all that it was given, so the lines tell what
//! ran, and two executions that write the same line do the same.

use std::fmt::Write as _;

use threadline_engine::random::Random;

/// How the steps of a random workflow stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    List,
    Graph,
    MapReduce,
    /// A map whose items work in git worktrees.
    Worktrees,
    Loop,
}

impl Form {
    pub(super) const ALL: [Self; 5] = [Self::List, Self::Graph, Self::MapReduce, Self::Worktrees, Self::Loop];

    fn has_map(self) -> bool {
        matches!(self, Self::MapReduce | Self::Worktrees)
    }
}

/// What a step is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sort {
    Command,
    /// With lists that run after it.
    Parts,
    Items(Vec<u64>),
    /// Each item has three steps, and the second of them has items of its own.
    Nested {
        outer: Vec<u64>,
        inner: Vec<u64>,
    },
    /// A call of a workflow of two steps, or one for each item. The second word is in the second of these steps.
    Call {
        second: u64,
        items: Option<Vec<u64>>,
    },
}

impl Sort {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Parts => "parts",
            Self::Items(_) => "items",
            Self::Nested { .. } => "nested items",
            Self::Call { items: None, .. } => "call",
            Self::Call { items: Some(_), .. } => "call for each item",
        }
    }
}

/// One step of a random workflow.
#[derive(Clone)]
pub(super) struct PureStep {
    pub(super) id: u64,
    /// What it prints beside what it reads.
    word: u64,
    /// The steps that it reads.
    reads: Vec<u64>,
    pub(super) sort: Sort,
    /// Whether it fails, the first time that the workflow runs.
    fails: bool,
}

#[derive(Clone)]
pub(super) struct PureWorkflow {
    pub(super) form: Form,
    pub(super) steps: Vec<PureStep>,
    /// How often a loop goes round.
    rounds: u64,
    /// The limit that stops a loop.
    limit: Option<u64>,
    comment: u64,
}

impl PureWorkflow {
    pub(super) fn random(random: &mut Random, form: Form) -> Self {
        let count = 2 + random.below(5);
        let mut steps: Vec<PureStep> = Vec::new();
        for id in 0..count {
            let step = PureStep::random(random, id, &steps, form);
            steps.push(step);
        }
        let (mut limit, rounds) = (None, 1 + random.below(3));
        if random.percent(50) {
            let at = usize::try_from(random.below(count)).unwrap();
            match form {
                Form::Loop => limit = Some(1 + random.below(4)),
                // One whose lists fail has more lines than what they are about.
                _ => steps[at].fails = steps[at].sort != Sort::Parts,
            }
        }
        Self { form, steps, rounds, limit, comment: 0 }
    }

    /// The same with a few changes, and nothing that fails or stops it.
    pub(super) fn edited(&self, random: &mut Random) -> Self {
        let mut edited = self.clone();
        edited.limit = None;
        for step in &mut edited.steps {
            step.fails = false;
        }
        for _ in 0..=random.below(2) {
            let count = edited.steps.len() as u64;
            let at = usize::try_from(random.below(count)).unwrap();
            match random.below(7) {
                0 => edited.steps[at].word += 100,
                1 => {
                    let id = 50 + random.below(40);
                    if edited.steps.iter().all(|step| step.id != id) {
                        let step = PureStep::random(random, id, &edited.steps[..at], self.form);
                        edited.steps.insert(at, step);
                    }
                }
                2 if count > 2 => {
                    let gone = edited.steps.remove(at).id;
                    for step in &mut edited.steps {
                        step.reads.retain(|read| *read != gone);
                    }
                }
                3 | 4 => edited.steps[at].edit(random),
                5 => edited.steps[at].reads.truncate(1),
                _ if self.form == Form::Loop => edited.rounds = 1 + random.below(3),
                _ => edited.comment += 1,
            }
        }
        edited
    }

    /// All its files.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let called = self.steps.iter().filter(|_| self.form != Form::Loop).filter_map(PureStep::called);
        let mut files = vec![("workflow.yaml".to_owned(), self.text())];
        // The first step of a map is its item and calls nothing.
        files.extend(called);
        files
    }

    /// Whether a line is of an execution that fails.
    pub(super) fn fails(&self, line: &str) -> bool {
        let of = |step: &PureStep| {
            let is_map = self.form.has_map() && step.id == self.steps[0].id;
            let letter = match &step.sort {
                _ if is_map => 'm',
                Sort::Command | Sort::Parts => 'c',
                Sort::Items(_) | Sort::Nested { .. } => 'i',
                Sort::Call { .. } => 'b',
            };
            line.starts_with(&format!("s{} {letter} ", step.id))
        };
        self.steps.iter().any(|step| step.fails && of(step))
    }

    fn text(&self) -> String {
        let mut text = format!("# version {}\nname: pure\n", self.comment);
        // Writing into a text cannot fail.
        match self.form {
            Form::List => {
                text.push_str("steps:\n");
                for step in &self.steps {
                    let _ = write!(text, "{}", step.text("- id: s", "  ", "", ""));
                }
            }
            Form::Graph => {
                text.push_str("nodes:\n");
                for step in &self.steps {
                    let _ = write!(text, "{}", step.text("  s", "    ", ":", ""));
                }
            }
            Form::MapReduce | Form::Worktrees => self.map(&mut text),
            Form::Loop => self.states(&mut text),
        }
        text
    }

    fn map(&self, text: &mut String) {
        let first = &self.steps[0];
        let items = match &first.sort {
            Sort::Items(items) => items.as_slice(),
            _ => &[],
        };
        let _ = writeln!(text, "map:\n  input: {items:?}");
        let commit = if self.form == Form::Worktrees {
            text.push_str("  max_parallel: 2\n  worktree: true\n");
            "echo \"$line\" > f${item}; git add -A; git commit -q --allow-empty -m item"
        } else {
            text.push_str("  max_parallel: 1\n");
            ":"
        };
        text.push_str("  agent_template:\n");
        let _ = writeln!(text, "  - id: s{}", first.id);
        let mut command = Command { letter: 'm', after: " ${item}", ..first.command("    ") };
        command.reads = "";
        let _ = write!(text, "{}", command.text(commit));
        text.push_str("reduce:\n");
        for (at, step) in self.steps.iter().enumerate().skip(1) {
            let after = if at == 1 { " ${map.results | collect(\"value\") | to_json}" } else { "" };
            let reads = step.reads.iter().copied().filter(|id| *id != first.id).collect();
            let step = PureStep { reads, ..step.clone() };
            let _ = write!(text, "{}", step.text("- id: s", "  ", "", after));
        }
    }

    /// The states go round; some leave out the one that follows in all rounds but the first.
    fn states(&self, text: &mut String) {
        let name = |at: usize| self.steps.get(at).map_or("done".to_owned(), |step| format!("s{}", step.id));
        let _ = writeln!(text, "initial: {}", name(0));
        if let Some(limit) = self.limit {
            let _ = writeln!(text, "max_steps: {limit}");
        }
        text.push_str("states:\n");
        let last = self.steps.len() - 1;
        for (at, step) in self.steps.iter().enumerate() {
            let _ = writeln!(text, "  s{}:", step.id);
            let mut reads = String::from(" ${state.iteration}");
            if at > 0 && !step.reads.is_empty() {
                reads.push_str(" ${first | to_json}");
            }
            if at > 0 && step.reads.len() != 1 {
                reads.push_str(" ${prev | to_json}");
            }
            let command = Command { reads: &reads, ..step.command("    ") };
            let _ = write!(text, "{}", command.text(":"));
            if at == 0 {
                text.push_str("    capture: first\n");
            }
            let (round, on_yes, on_no) = if at == last {
                (self.rounds, "done".to_owned(), name(0))
            } else if step.word.is_multiple_of(3) && at > 0 && at + 1 < last {
                (2, name(at + 2), name(at + 1))
            } else {
                let _ = writeln!(text, "    next: {}", name(at + 1));
                continue;
            };
            let _ = writeln!(
                text,
                "    evaluate: {{type: expression, expression: \"state.iteration >= {round}\"}}\n    \
                 on_yes: {on_yes}\n    on_no: {on_no}"
            );
        }
        text.push_str("  done: {terminal: true}\n");
    }
}

fn random_items(random: &mut Random) -> Vec<u64> {
    (0..random.below(4)).map(|_| random.below(4)).collect()
}

fn edit_items(random: &mut Random, items: &mut Vec<u64>) {
    match random.below(3) {
        0 => items.push(random.below(9)),
        1 => drop(items.pop()),
        _ => items.reverse(),
    }
}

/// The command of one execution.
struct Command<'c> {
    indent: &'c str,
    id: u64,
    letter: char,
    word: u64,
    reads: &'c str,
    /// What it reads besides.
    after: &'c str,
    fails: bool,
}

impl Command<'_> {
    fn text(&self, also: &str) -> String {
        let Self { indent, id, letter, word, reads, after, fails } = self;
        let fails = if *fails { "; false" } else { "" };
        format!(
            "{indent}shell: |\n{indent}  line=$(printf '%s ' s{id} {letter} w{word}{reads}{after})\n\
             {indent}  echo \"$line\" >> \"$EFFECTS\"\n{indent}  {also}\n\
             {indent}  printf %s \"$line\" | cksum{fails}\n"
        )
    }
}

impl PureStep {
    fn random(random: &mut Random, id: u64, before: &[Self], form: Form) -> Self {
        let mut reads: Vec<u64> = before.iter().filter(|_| random.percent(40)).map(|step| step.id).collect();
        reads.truncate(3);
        let is_first_of_map = form.has_map() && before.is_empty();
        let sort = match random.below(10) {
            _ if is_first_of_map => Sort::Items(random_items(random)),
            _ if form == Form::Loop => Sort::Command,
            0 | 1 => Sort::Items(random_items(random)),
            2 => Sort::Nested { outer: random_items(random), inner: random_items(random) },
            3 => Sort::Call { second: random.below(90), items: None },
            4 => Sort::Call { second: random.below(90), items: Some(random_items(random)) },
            5 => Sort::Parts,
            _ => Sort::Command,
        };
        Self { id, word: random.below(90), reads, sort, fails: false }
    }

    /// Changes something of it that only its sort has.
    fn edit(&mut self, random: &mut Random) {
        match &mut self.sort {
            Sort::Command | Sort::Parts => self.word += 1,
            Sort::Items(items) => edit_items(random, items),
            Sort::Nested { outer, inner } => {
                let items = if random.percent(50) { outer } else { inner };
                edit_items(random, items);
            }
            Sort::Call { items: Some(items), .. } if random.percent(50) => edit_items(random, items),
            Sort::Call { second, .. } => *second += 100,
        }
    }

    fn command<'c>(&self, indent: &'c str) -> Command<'c> {
        Command { indent, id: self.id, letter: 'c', word: self.word, reads: "", after: "", fails: self.fails }
    }

    fn text(&self, head: &str, indent: &str, colon: &str, after: &str) -> String {
        let id = self.id;
        let reads: Vec<String> = self.reads.iter().map(|id| format!(" ${{s{id} | to_json}}")).collect();
        let reads = &reads.concat();
        let mut text = format!("{head}{id}{colon}\n");
        let deeper = |by: usize| format!("{indent}{}", "  ".repeat(by));
        let command = Command { reads, after, ..self.command(indent) };
        match &self.sort {
            Sort::Command => text.push_str(&command.text(":")),
            Sort::Parts => {
                text.push_str(&command.text(":"));
                for (part, letter) in [("on_success", 't'), ("finally", 'f')] {
                    let (own, inner) = (format!(" ${{s{id} | to_json}}"), deeper(1));
                    let command =
                        Command { letter, reads: &own, after: "", indent: &inner, ..self.command("") };
                    let _ =
                        write!(text, "{indent}{part}:\n{indent}- id: {letter}{id}\n{}", command.text(":"));
                }
            }
            Sort::Items(items) => {
                let (after, inner) = (format!("{after} ${{item}}"), deeper(1));
                let command = Command { letter: 'i', after: &after, indent: &inner, ..command };
                let _ = write!(
                    text,
                    "{indent}foreach: {items:?}\n{indent}do:\n{indent}- id: i{id}\n{}",
                    command.text(":")
                );
            }
            Sort::Nested { outer, inner } => {
                let (one, two) = (&deeper(1), &deeper(2));
                let after = format!("{after} ${{item}}");
                let first = Command { letter: 'o', after: &after, indent: one, fails: false, ..command };
                let of_item = &format!(" ${{o{id} | to_json}} ${{item}}");
                let second = Command { letter: 'i', reads: of_item, indent: two, ..self.command("") };
                let of_list = &format!(" ${{n{id} | to_json}}");
                let last =
                    Command { letter: 'e', reads: of_list, indent: one, fails: false, ..self.command("") };
                let _ = write!(
                    text,
                    "{indent}foreach: {outer:?}\n{indent}do:\n\
                     {indent}- id: o{id}\n{}{indent}- id: n{id}\n{one}foreach: {inner:?}\n{one}do:\n\
                     {one}- id: i{id}\n{}{indent}- id: e{id}\n{}",
                    first.text(":"),
                    second.text(":"),
                    last.text(":")
                );
            }
            Sort::Call { items, .. } => {
                let given = |more: &str| {
                    format!("workflow: part{id}.yaml\n{{}}with: {{given: 'of{reads}{after}{more}'}}\n")
                };
                match items {
                    None => {
                        let _ = write!(text, "{indent}{}", given("").replace("{}", indent));
                    }
                    Some(items) => {
                        let one = deeper(1);
                        let call = given(" ${item}").replace("{}", &one);
                        let _ = write!(
                            text,
                            "{indent}foreach: {items:?}\n{indent}do:\n{indent}- id: i{id}\n{one}{call}"
                        );
                    }
                }
            }
        }
        text
    }

    /// The file that it calls.
    fn called(&self) -> Option<(String, String)> {
        let Sort::Call { second, .. } = &self.sort else { return None };
        let first = Command { letter: 'a', reads: " ${inputs.given}", fails: false, ..self.command("  ") };
        let last = Command { letter: 'b', word: *second, reads: " ${a | to_json}", ..self.command("  ") };
        let text = format!(
            "inputs: {{given: {{type: text}}}}\nsteps:\n- id: a\n{}- id: b\n{}exports: {{a: '${{a}}', b: '${{b}}'}}\n",
            first.text(":"),
            last.text(":")
        );
        Some((format!("part{}.yaml", self.id), text))
    }
}
