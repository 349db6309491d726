//! Two values compared part by part.

use threadline_lang::Value;

/// The maximum number of parts of a value that are listed; the others are counted.
const MAX_PARTS: usize = 100;

/// What differs between two values.
#[derive(Debug, Clone, Default)]
pub struct ValueChanges {
    /// The parts that differ, in the order of the values.
    pub parts: Vec<ValueChange>,
    /// How many more differ than are listed.
    pub more: u64,
}

/// A part of a value that differs.
#[derive(Debug, Clone)]
pub struct ValueChange {
    /// Which part: `.content.called`, `[3]`; nothing for all of it.
    pub path: String,
    /// Which line of a text with several, from 1: the first that differs.
    pub line: Option<usize>,
    /// What it is in the first run; none where the first has no such part.
    pub left: Option<Value>,
    /// What it is in the second run.
    pub right: Option<Value>,
}

/// What is no difference: texts of the first run with those of the second that mean the same, such as the ids of the runs.
#[derive(Debug, Clone, Default)]
pub struct Equivalents {
    pairs: Vec<(String, String)>,
}

impl Equivalents {
    /// Adds a text of the first run and its equivalent.
    pub fn add(&mut self, left: &str, right: &str) {
        if !left.is_empty() && left != right {
            self.pairs.push((left.to_owned(), right.to_owned()));
        }
    }

    /// Whether two texts say the same.
    pub fn are_same(&self, left: &str, right: &str) -> bool {
        if left == right {
            return true;
        }
        let mut found = false;
        let mut replaced = left.to_owned();
        for (from, to) in &self.pairs {
            if replaced.contains(from.as_str()) {
                (replaced, found) = (replaced.replace(from.as_str(), to), true);
            }
        }
        found && replaced == right
    }
}

/// A step of a path to a part of a value.
#[derive(Clone, Copy)]
pub enum PartStep<'v> {
    /// A key of an object.
    Key(&'v str),
    /// An index of a list.
    Index(usize),
}

/// Compares values.
pub struct ValueComparison<'c> {
    /// Texts that say the same.
    pub equivalents: &'c Equivalents,
    /// Whether a part is left out, by the steps that lead to it.
    pub leaves_out: &'c dyn Fn(&[PartStep<'_>]) -> bool,
}

impl ValueComparison<'_> {
    /// The parts in which two values differ.
    pub fn changes(&self, left: &Value, right: &Value) -> ValueChanges {
        let mut changes = ValueChanges::default();
        self.compare(&mut Vec::new(), left, right, &mut changes);
        changes
    }

    fn compare<'v>(
        &self,
        path: &mut Vec<PartStep<'v>>,
        left: &'v Value,
        right: &'v Value,
        out: &mut ValueChanges,
    ) {
        if left == right || (self.leaves_out)(path) {
            return;
        }
        if let (Some(left), Some(right)) = (left.as_object(), right.as_object()) {
            for (key, value) in left.iter() {
                path.push(PartStep::Key(key.as_str()));
                match right.get_str(key.as_str()) {
                    Some(other) => self.compare(path, value, other, out),
                    None => self.add(path, None, (Some(value), None), out),
                }
                path.pop();
            }
            for (key, value) in right.iter().filter(|(key, _)| left.get_str(key.as_str()).is_none()) {
                path.push(PartStep::Key(key.as_str()));
                self.add(path, None, (None, Some(value)), out);
                path.pop();
            }
            return;
        }
        if let (Some(left), Some(right)) = (left.as_list(), right.as_list()) {
            return self.lists(path, left, right, out);
        }
        if let (Some(one), Some(other)) = (left.as_str(), right.as_str()) {
            if self.equivalents.are_same(one, other) {
                return;
            }
            if one.contains('\n') && other.contains('\n') {
                let mut lines = one.split('\n').zip(other.split('\n')).enumerate();
                let first = lines.find(|(_, (one, other))| !self.equivalents.are_same(one, other));
                if let Some((at, (one, other))) = first {
                    let sides = (Value::from(one), Value::from(other));
                    return self.add(path, Some(at + 1), (Some(&sides.0), Some(&sides.1)), out);
                }
            }
        }
        self.add(path, None, (Some(left), Some(right)), out);
    }

    /// Elements are compared by their index, those at the end of both from behind.
    fn lists<'v>(
        &self,
        path: &mut Vec<PartStep<'v>>,
        left: &'v [Value],
        right: &'v [Value],
        out: &mut ValueChanges,
    ) {
        let shorter = left.len().min(right.len());
        let behind = if left.len() == right.len() {
            0
        } else {
            let both = left.iter().rev().zip(right.iter().rev());
            let from_front = left.iter().zip(right).take_while(|(one, other)| one == other).count();
            both.take(shorter - from_front).take_while(|(one, other)| one == other).count()
        };
        for at in 0..shorter - behind {
            path.push(PartStep::Index(at));
            self.compare(path, &left[at], &right[at], out);
            path.pop();
        }
        for (at, value) in left.iter().enumerate().take(left.len() - behind).skip(shorter - behind) {
            path.push(PartStep::Index(at));
            self.add(path, None, (Some(value), None), out);
            path.pop();
        }
        for (at, value) in right.iter().enumerate().take(right.len() - behind).skip(shorter - behind) {
            path.push(PartStep::Index(at));
            self.add(path, None, (None, Some(value)), out);
            path.pop();
        }
    }

    fn add(
        &self,
        path: &[PartStep<'_>],
        line: Option<usize>,
        (left, right): (Option<&Value>, Option<&Value>),
        out: &mut ValueChanges,
    ) {
        if (self.leaves_out)(path) {
            return;
        }
        if out.parts.len() >= MAX_PARTS {
            out.more += 1;
            return;
        }
        out.parts.push(ValueChange {
            path: path_text(path),
            line,
            left: left.cloned(),
            right: right.cloned(),
        });
    }
}

/// A path as references have it: `.content.called`, `["a b"]`, `[3]`.
fn path_text(path: &[PartStep<'_>]) -> String {
    let is_name = |key: &str| {
        !key.is_empty()
            && key.chars().all(|char| char.is_alphanumeric() || char == '_' || char == '-')
            && !key.starts_with(|char: char| char.is_ascii_digit())
    };
    path.iter().fold(String::new(), |text, step| match step {
        PartStep::Key(key) if is_name(key) => format!("{text}.{key}"),
        PartStep::Key(key) => {
            format!("{text}[{}]", Value::from(*key).to_json(threadline_lang::value::JsonStyle::Compact))
        }
        PartStep::Index(index) => format!("{text}[{index}]"),
    })
}

#[cfg(test)]
mod tests {
    use threadline_lang::Limits;
    use threadline_lang::data::json;

    use super::*;

    fn changes(left: &str, right: &str) -> Vec<String> {
        let mut equivalents = Equivalents::default();
        equivalents.add("run-a", "run-b");
        let comparison = ValueComparison { equivalents: &equivalents, leaves_out: &|_| false };
        let read = |text: &str| json::read_value(text, &Limits::DEFAULT).expect("it is JSON");
        let found = comparison.changes(&read(left), &read(right));
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or("-".to_owned(), |value| value.to_json(JsonStyle::Compact))
        };
        let line = |line: Option<usize>| line.map_or(String::new(), |line| format!(" line {line}"));
        let mut lines: Vec<String> = found
            .parts
            .iter()
            .map(|part| {
                format!("{}{}: {} {}", part.path, line(part.line), shown(&part.left), shown(&part.right))
            })
            .collect();
        lines.extend((found.more > 0).then(|| format!("{} more", found.more)));
        lines
    }

    use threadline_lang::value::JsonStyle;

    #[test]
    fn each_part_that_differs_is_named() {
        assert_eq!(changes("1", "1"), [""; 0]);
        assert_eq!(changes("1", "\"1\""), [": 1 \"1\""]);
        assert_eq!(changes(r#"{"a":{"b c":1}}"#, r#"{"a":{"b c":2}}"#), [".a[\"b c\"]: 1 2"]);
        assert_eq!(changes(r#"{"a":1,"b":2}"#, r#"{"b":2,"c":3}"#), [".a: 1 -", ".c: - 3"]);
        assert_eq!(changes("[1,2,3]", "[1,3]"), ["[1]: 2 -"]);
        assert_eq!(changes("[1,2]", "[1,2,3]"), ["[2]: - 3"]);
        assert_eq!(changes("[1,2,3]", "[1,4,3]"), ["[1]: 2 4"]);
    }

    #[test]
    fn of_a_text_with_lines_the_first_that_differs_is_shown() {
        assert_eq!(changes(r#""a\nb\nc""#, r#""a\nx\nc""#), [" line 2: \"b\" \"x\""]);
        assert_eq!(changes(r#""a\nb""#, r#""a\nb\nc""#), [": \"a\\nb\" \"a\\nb\\nc\""]);
    }

    #[test]
    fn the_ids_of_the_runs_are_the_same() {
        assert_eq!(changes(r#""/tmp/run-a/x""#, r#""/tmp/run-b/x""#), [""; 0]);
        assert_eq!(changes(r#""/tmp/run-a/x""#, r#""/tmp/run-b/y""#).len(), 1);
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let list = |from: u32| format!("{:?}", (from..from + 150).collect::<Vec<u32>>());
        let found = changes(&list(0), &list(1000));
        assert_eq!((found.len(), found.last().map(String::as_str)), (101, Some("50 more")));
    }
}
