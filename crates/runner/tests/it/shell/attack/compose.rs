//! Scripts made of a source, some carriers, a wrapper and a sink.

use threadline_lang::Value;

use super::super::random::Random;
use super::super::shells::{SHELLS, Shell, found};
use super::super::steps::ShellStep;
use super::parts::{Carrier, Kind, Level, Parts, SOURCES, Sink, Source, Wrapper};

/// One way of a value into a sink.
#[derive(Clone)]
pub(crate) struct Way<'p> {
    pub(crate) source: Source,
    pub(crate) carriers: Vec<&'p Carrier>,
    pub(crate) wrapper: &'p Wrapper,
    pub(crate) sink: &'p Sink,
    pub(crate) shell: Shell,
}

/// A script with its entries of `env:`.
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) outer: Vec<(String, String)>,
}

impl Script {
    pub(crate) fn step(&self, shell: Shell) -> ShellStep<'_> {
        ShellStep { text: &self.text, environment: &self.environment, outer: &self.outer, shell }
    }
}

/// How a text reads the value.
#[derive(Clone)]
pub(crate) struct Reading {
    word: String,
    inner: Option<String>,
}

impl Reading {
    pub(crate) fn of(word: &str, inner: Option<&str>) -> Self {
        Self { word: word.to_owned(), inner: inner.map(str::to_owned) }
    }

    /// Writes the value into a text, if it may stand there.
    pub(crate) fn fill(&self, text: &str, number: usize) -> Option<String> {
        let text = text.replace("{n}", &number.to_string());
        if text.contains("{q}") && self.inner.is_none() {
            return None;
        }
        // A list of words stands alone.
        let alone = |(at, _): (usize, &str)| text[..at].ends_with([' ', '(']);
        if self.inner.is_none() && !text.match_indices("{w}").all(alone) {
            return None;
        }
        Some(text.replace("{w}", &self.word).replace("{q}", self.inner.as_deref().unwrap_or_default()))
    }

    fn behind(&self, carrier: &Carrier, number: usize) -> Option<Self> {
        let inner = self.fill(&carrier.out, number)?;
        Some(Self { word: format!("\"{inner}\""), inner: Some(inner) })
    }
}

/// The script of carriers and a sink that read a value from somewhere.
pub(crate) fn assemble(
    from: Reading,
    carriers: &[&Carrier],
    wrapper: &Wrapper,
    sink: &Sink,
) -> Option<String> {
    let mut reading = from;
    let mut outer = Vec::new();
    for (at, carrier) in carriers.iter().enumerate() {
        outer.push(reading.fill(&carrier.text, at + 1)?);
        reading = reading.behind(carrier, at + 1)?;
    }
    let body = match wrapper.text.as_str() {
        "" => sink.text.replace("@@ ", ""),
        text => sink.text.replace("@@", text),
    };
    let mut script = reading.fill(&body, 0)?;
    for text in outer.into_iter().rev() {
        script = text.replace("{body}", &script);
    }
    let above = if wrapper.above.is_empty() { String::new() } else { format!("{}\n", wrapper.above) };
    Some(format!("{above}{script}\n"))
}

impl Way<'_> {
    /// The script, if the parts fit together.
    pub(crate) fn script(&self) -> Option<Script> {
        let from = Reading::of(self.source.word, self.source.inner);
        let text = assemble(from, &self.carriers, self.wrapper, self.sink)?;
        let (mut environment, mut outer) = (Vec::new(), Vec::new());
        if let Some(name) = &self.sink.variable {
            environment.push((name.clone(), self.source.inner?.to_owned()));
        }
        match self.source.variable {
            // A variable of `env:` cannot be made of another.
            Some(_) if self.sink.variable.is_some() => return None,
            Some((Level::Step, name, value)) => environment.push((name.to_owned(), value.to_owned())),
            Some((Level::Workflow, name, value)) => outer.push((name.to_owned(), value.to_owned())),
            None => {}
        }
        Some(Script { text, environment, outer })
    }

    /// The names that the source reads, with a value.
    pub(crate) fn names(&self, value: &str) -> Vec<(String, Value)> {
        let value = Value::from(value);
        let object = |name: &str, value: Value| Value::object([(name.into(), value)]).unwrap();
        let list = Value::list(vec![value.clone()]).unwrap();
        let text = self.source.variable.map_or(self.source.word, |(_, _, text)| text);
        if text.contains("item.") {
            vec![("item".to_owned(), object("o", object("v", value)))]
        } else if text.contains("got.") {
            vec![("got".to_owned(), object("v", value))]
        } else if text.contains("inputs.l") {
            vec![("inputs".to_owned(), object("l", list))]
        } else {
            vec![("inputs".to_owned(), object("v", value))]
        }
    }

    pub(crate) fn title(&self) -> String {
        let carriers: Vec<&str> = self.carriers.iter().map(|carrier| carrier.id.as_str()).collect();
        let carriers = if carriers.is_empty() { "direct".to_owned() } else { carriers.join(" + ") };
        format!(
            "{} | {carriers} | {} | {} | {}",
            self.source.id, self.wrapper.id, self.sink.id, self.shell.name
        )
    }
}

/// Draws ways at random.
pub(crate) struct Drawing<'p> {
    parts: &'p Parts,
    sinks: Vec<&'p Sink>,
    shells: Vec<Shell>,
}

impl<'p> Drawing<'p> {
    pub(crate) fn new(parts: &'p Parts, sinks: &'p [Sink], shells: Vec<Shell>) -> Self {
        let sinks = sinks.iter().filter(|sink| is_runnable(sink)).collect();
        Self { parts, sinks, shells }
    }

    /// A way whose parts fit together, mostly in bash, with at most `longest` carriers.
    pub(crate) fn draw(&self, random: &mut Random, longest: usize) -> Option<Way<'p>> {
        let shell = if random.below(3) > 0 { SHELLS[0] } else { *random.choose(&self.shells) };
        let source = *random.choose(&SOURCES);
        let sink = *random.choose(&self.sinks);
        let count = [0, 1, 1, 1, 2, 2, 2, 3][random.below(8)].min(longest);
        let mut carriers: Vec<&Carrier> = Vec::new();
        let mut kind = source.kind;
        for left in (0..count).rev() {
            let fits = |carrier: &&Carrier| {
                carrier.from == kind
                    && carrier.shells.has(shell.name)
                    && (left > 0 || carrier.to == sink.kind)
            };
            let carrier = pick(random, &self.parts.carriers, fits)?;
            kind = carrier.to;
            carriers.push(carrier);
        }
        let bare = random.below(2) == 0 || !sink.text.contains("@@");
        let wrapper = if bare { &self.parts.wrappers[0] } else { random.choose(&self.parts.wrappers) };
        let way = Way { source, carriers, wrapper, sink, shell };
        let fits = kind == sink.kind
            && (sink.variable.is_none() || way.carriers.is_empty())
            && sink.shells.has(shell.name)
            && wrapper.shells.has(shell.name);
        fits.then_some(way)
    }
}

fn pick<'p>(
    random: &mut Random,
    carriers: &'p [Carrier],
    fits: impl Fn(&&Carrier) -> bool,
) -> Option<&'p Carrier> {
    let fitting: Vec<&Carrier> = carriers.iter().filter(|carrier| fits(carrier)).collect();
    (!fitting.is_empty()).then(|| fitting[random.below(fitting.len())])
}

/// Whether the programs of a sink are installed.
pub(crate) fn is_runnable(sink: &Sink) -> bool {
    sink.programs.iter().all(|program| found(program))
}

/// Every way without a carrier, from every source into every sink.
pub(crate) fn direct<'p>(parts: &'p Parts, sinks: &'p [Sink], shells: &[Shell]) -> Vec<Way<'p>> {
    let mut ways = Vec::new();
    for sink in sinks.iter().filter(|sink| is_runnable(sink)) {
        for shell in shells.iter().filter(|shell| sink.shells.has(shell.name)) {
            for source in SOURCES.into_iter().filter(|source| source.kind == sink.kind) {
                ways.push(Way {
                    source,
                    carriers: Vec::new(),
                    wrapper: &parts.wrappers[0],
                    sink,
                    shell: *shell,
                });
            }
        }
    }
    ways
}

/// Every carrier alone, into every sink, from a reference or from a file.
pub(crate) fn carried<'p>(parts: &'p Parts, sinks: &'p [Sink], shell: Shell) -> Vec<Way<'p>> {
    let mut ways = Vec::new();
    for carrier in parts.carriers.iter().filter(|carrier| carrier.shells.has(shell.name)) {
        let from = match carrier.from {
            Kind::Text => SOURCES[0],
            Kind::File => SOURCES[8],
            Kind::Input => continue,
        };
        for sink in sinks.iter().filter(|sink| is_runnable(sink) && sink.shells.has(shell.name)) {
            if sink.kind == carrier.to && sink.variable.is_none() {
                ways.push(Way {
                    source: from,
                    carriers: vec![carrier],
                    wrapper: &parts.wrappers[0],
                    sink,
                    shell,
                });
            }
        }
    }
    ways
}
