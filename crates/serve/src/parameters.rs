//! What is asked for in a path and a query, checked against the table of routes before anything is read. This is all that
//! the server parses itself.

use jiff::{SignedDuration, Timestamp};
use threadline_flow::forms;
use threadline_lang::Value;
use threadline_lang::diag::nearest;
use threadline_store::RunId;

use crate::problem::Problem;

/// The maximum length of a query.
pub(crate) const LONGEST_QUERY: usize = 8 << 10;

/// The maximum length of a text in it.
const LONGEST_TEXT: usize = 1_000;

/// A parameter of a route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteParameter {
    /// Its name; that of a segment of the path stands in braces there.
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
    /// What it means.
    pub(crate) about: &'static str,
}

/// What a parameter holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParameterKind {
    /// Any text of some length.
    Text,
    /// A number, at least and at most.
    Number(u64, u64),
    /// True where it is there: `true`, `1`, or nothing behind its name; else `false` or `0`.
    Flag,
    /// One of some words.
    Word(&'static [&'static str]),
    /// Some of these words: the parameter is repeated, or has commas between them.
    Words(&'static [&'static str]),
    /// A moment: a time, or how long ago it was.
    Moment,
    /// The id of a run.
    Run,
    /// The ids of runs: the parameter is repeated.
    Runs,
    /// The name of a project of this server.
    Project,
    /// The name of a file of the page.
    Asset,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
enum GivenArgument {
    Text(String),
    Number(u64),
    Flag(bool),
    Words(Vec<&'static str>),
    Moment(Timestamp),
    Run(RunId),
    Runs(Vec<RunId>),
}

/// What a request gives for the parameters of its route.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct GivenArguments(Vec<(&'static str, GivenArgument)>);

impl GivenArguments {
    /// A text, also one of several words.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            GivenArgument::Text(text) => Some(text),
            GivenArgument::Words(words) => words.first().copied(),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            GivenArgument::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether a flag is set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(GivenArgument::Flag(true)))
    }

    pub(crate) fn words(&self, name: &str) -> &[&'static str] {
        match self.get(name) {
            Some(GivenArgument::Words(words)) => words,
            _ => &[],
        }
    }

    pub(crate) fn moment(&self, name: &str) -> Option<Timestamp> {
        match self.get(name)? {
            GivenArgument::Moment(moment) => Some(*moment),
            _ => None,
        }
    }

    pub(crate) fn run(&self, name: &str) -> Option<&RunId> {
        match self.get(name)? {
            GivenArgument::Run(run) => Some(run),
            _ => None,
        }
    }

    pub(crate) fn runs(&self, name: &str) -> &[RunId] {
        match self.get(name) {
            Some(GivenArgument::Runs(runs)) => runs,
            _ => &[],
        }
    }

    fn get(&self, name: &str) -> Option<&GivenArgument> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, argument)| argument)
    }

    /// Takes a segment of a path.
    pub(crate) fn take_segment(&mut self, parameter: &RouteParameter, segment: &str) -> Result<(), Problem> {
        let text =
            decoded(segment, false).ok_or_else(|| Problem::missing("there is nothing at this path"))?;
        let argument = parameter.argument(&text, Timestamp::UNIX_EPOCH);
        self.0.push((parameter.name, argument.map_err(|why| Problem::missing(&why))?));
        Ok(())
    }

    /// Takes a query.
    pub(crate) fn take_query(
        &mut self,
        parameters: &[RouteParameter],
        query: &str,
        now: Timestamp,
    ) -> Result<(), Problem> {
        if query.len() > LONGEST_QUERY {
            return Err(Problem::bad(&format!("a query has at most {LONGEST_QUERY} bytes")));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let unreadable = || Problem::bad("the query is not percent-encoded UTF-8");
            let name = decoded(name, true).ok_or_else(unreadable)?;
            let text = decoded(text, true).ok_or_else(unreadable)?;
            let Some(parameter) = parameters.iter().find(|known| known.name == name) else {
                return Err(unknown(parameters, &name));
            };
            // A form sends the fields that nobody filled in, too.
            if text.is_empty() && !matches!(parameter.kind, ParameterKind::Flag) {
                continue;
            }
            let argument = parameter.argument(&text, now).map_err(|why| Problem::bad(&why))?;
            let known = self.0.iter_mut().find(|(known, _)| *known == parameter.name);
            match (known, argument) {
                (None, argument) => self.0.push((parameter.name, argument)),
                (Some((_, GivenArgument::Words(words))), GivenArgument::Words(more))
                    if matches!(parameter.kind, ParameterKind::Words(_)) =>
                {
                    words.extend(more);
                }
                (Some((_, GivenArgument::Runs(runs))), GivenArgument::Runs(more)) => runs.extend(more),
                (Some(_), _) => return Err(Problem::bad(&format!("`{}` is given twice", parameter.name))),
            }
        }
        Ok(())
    }
}

fn unknown(parameters: &[RouteParameter], name: &str) -> Problem {
    let name: String = name.chars().take(80).collect();
    let problem = Problem::bad(&format!("there is no parameter `{name}` here"));
    match nearest(&name, parameters.iter().map(|known| known.name)) {
        Some(near) => problem.hint(&format!("did you mean `{near}`")),
        None => problem,
    }
}

impl RouteParameter {
    fn argument(&self, text: &str, now: Timestamp) -> Result<GivenArgument, String> {
        let Self { name, kind, .. } = self;
        let words_of = |known: &'static [&'static str], text: &str| {
            let found = known.iter().find(|word| **word == text);
            found.copied().ok_or_else(|| format!("`{name}` is one of {}", known.join(", ")))
        };
        Ok(match *kind {
            ParameterKind::Text if text.len() > LONGEST_TEXT => {
                return Err(format!("`{name}` has at most {LONGEST_TEXT} bytes"));
            }
            ParameterKind::Number(least, most) => {
                let expected = || format!("`{name}` is a number from {least} to {most}");
                // A number is digits and nothing else, so that there is one way to write it.
                let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
                let number = number.filter(|number| (least..=most).contains(number));
                GivenArgument::Number(number.ok_or_else(expected)?)
            }
            ParameterKind::Flag => GivenArgument::Flag(match text {
                "" | "true" | "1" | "on" => true,
                "false" | "0" => false,
                _ => return Err(format!("`{name}` is `true` or `false`")),
            }),
            ParameterKind::Word(known) => GivenArgument::Words(vec![words_of(known, text)?]),
            ParameterKind::Words(known) => {
                let words = text.split(',').map(|word| words_of(known, word));
                GivenArgument::Words(words.collect::<Result<_, _>>()?)
            }
            ParameterKind::Moment => GivenArgument::Moment(moment(text, now).ok_or_else(|| {
                format!("`{name}` is a time such as `2026-01-31T08:00:00Z`, or a duration before now such as `12h`")
            })?),
            ParameterKind::Run => {
                GivenArgument::Run(RunId::new(text).map_err(|_| "there is no such run".to_owned())?)
            }
            ParameterKind::Text | ParameterKind::Project | ParameterKind::Asset => {
                GivenArgument::Text(text.to_owned())
            }
            ParameterKind::Runs => {
                GivenArgument::Runs(vec![RunId::new(text).map_err(|_| "there is no such run".to_owned())?])
            }
        })
    }
}

/// A time, a date in UTC, or how long before now it was.
fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    let ago = forms::duration(&Value::from(text)).and_then(|ago| SignedDuration::try_from(ago).ok());
    if let Some(ago) = ago {
        return now.checked_sub(ago).ok();
    }
    let day = || format!("{text}T00:00:00Z").parse().ok();
    text.parse().ok().or_else(day)
}

/// A text with its percent-encoding taken away; nothing where that is broken, or is no UTF-8. In a query, `+` is a space.
pub(crate) fn decoded(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A text as a part of a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: &[RouteParameter] = &[
        RouteParameter { name: "status", kind: ParameterKind::Words(&["completed", "failed"]), about: "" },
        RouteParameter { name: "count", kind: ParameterKind::Number(1, 200), about: "" },
        RouteParameter { name: "text", kind: ParameterKind::Text, about: "" },
        RouteParameter { name: "called", kind: ParameterKind::Flag, about: "" },
        RouteParameter { name: "since", kind: ParameterKind::Moment, about: "" },
    ];

    fn read(query: &str) -> Result<GivenArguments, String> {
        let mut arguments = GivenArguments::default();
        let now = "2026-01-02T00:00:00Z".parse().expect("a time");
        let read = arguments.take_query(PARAMETERS, query, now);
        read.map(|()| arguments).map_err(|problem| problem.detail)
    }

    #[test]
    fn a_query_is_read_as_the_table_says() {
        let read = |query: &str| read(query).expect("a query");
        let known = read("status=failed&status=completed&count=20&text=a+b%26c&called&since=1d");
        assert_eq!(known.words("status"), ["failed", "completed"]);
        assert_eq!((known.number("count"), known.text("text")), (Some(20), Some("a b&c")));
        assert!(known.flag("called"));
        assert_eq!(known.moment("since").map(|at| at.to_string()), Some("2026-01-01T00:00:00Z".into()));
        assert_eq!(read("status=failed,completed").words("status").len(), 2);
        assert_eq!(read("text=&&count="), GivenArguments::default());
    }

    #[test]
    fn what_the_table_does_not_say_is_refused() {
        for query in [
            "staus=failed",
            "status=Failed",
            "count=0",
            "count=201",
            "count=+5",
            "count=5&count=6",
            "called=maybe",
            "text=%",
            "text=%f",
            "text=%ff",
            "text=%zz",
            "since=soon",
            "%74ext",
            "=",
            "count=99999999999999999999",
        ] {
            let expected = query == "%74ext";
            assert_eq!(read(query).is_ok(), expected, "{query}");
        }
        assert!(read(&"text=a&".repeat(2_000)).is_err());
    }

    #[test]
    fn encoded_text_decodes_to_itself() {
        for text in ["", "a b", "map[3]/1", "ü%+&=\u{0}\u{202e}"] {
            let encoded = encoded(text);
            assert_eq!(decoded(&encoded, false).as_deref(), Some(text));
            assert_eq!(decoded(&encoded, true).as_deref(), Some(text));
            assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
        }
    }
}
