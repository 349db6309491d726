//! One value: what it is, what made it, the condition that it stands in, back to what it was made of, and forward to all
//! that read it.

use threadline_engine::event::Address;
use threadline_engine::replay::Maker;
use threadline_inspect::InspectError;
use threadline_inspect::chain::{ChainDirection, ChainLink, Chains};
use threadline_inspect::explanation::{
    ExplainedReference, FieldExplanation, Readers, StepExplanation, readers_of,
};
use threadline_inspect::explanation_json::label;
use threadline_inspect::history::{History, clock_text};
use threadline_inspect::labels;
use threadline_inspect::place::TextRange;
use threadline_inspect::target::ExplainTarget;

use super::choice::ViewChoice;
use super::source::{ConditionLine, ShownEvaluations, condition_of};
use super::value::{ValueView, WholeValue, visible};

/// The maximum number of links of a chain that are shown.
const MAX_LINKS: usize = 60;

/// A value that is looked at.
pub(crate) struct InspectorView {
    pub(crate) id: String,
    /// The places of what it reads, where they are others.
    pub(crate) anchors: Vec<String>,
    pub(crate) text: String,
    pub(crate) step: String,
    pub(crate) field: String,
    pub(crate) line: usize,
    pub(crate) event: u64,
    pub(crate) attempt: String,
    pub(crate) value: Option<(ValueView, WholeValue)>,
    pub(crate) is_default: bool,
    pub(crate) reads: Vec<ReadView>,
    pub(crate) condition: Vec<ConditionLine>,
    pub(crate) back: Vec<LinkView>,
    pub(crate) back_more: usize,
    pub(crate) forward: Vec<LinkView>,
    pub(crate) forward_more: usize,
    pub(crate) close: String,
}

/// One reference of it.
pub(crate) struct ReadView {
    pub(crate) reference: String,
    pub(crate) path: String,
    pub(crate) maker: String,
    pub(crate) scope: String,
    pub(crate) is_default: bool,
    pub(crate) value: Option<ValueView>,
    pub(crate) readers: Vec<String>,
}

/// A link of a chain.
pub(crate) struct LinkView {
    pub(crate) depth: usize,
    pub(crate) reader: String,
    pub(crate) field: String,
    pub(crate) reference: String,
    pub(crate) value: Option<ValueView>,
    pub(crate) maker: String,
    pub(crate) is_control: bool,
    pub(crate) is_above: bool,
    /// Where it is looked at, where the text has it.
    pub(crate) link: Option<String>,
}

impl InspectorView {
    /// The value at the place that is asked for; none where nothing was evaluated there.
    pub(crate) fn new(
        history: &History<'_>,
        shown: &ShownEvaluations,
        choice: &ViewChoice,
        place: (usize, usize),
        with_chains: bool,
    ) -> Result<Option<Self>, InspectError> {
        let Some((told, field, range)) = shown.at(place) else { return Ok(None) };
        let expression = field.expressions.iter().find(|expression| expression.range == range);
        let references: Vec<&ExplainedReference> =
            field.references.iter().filter(|reference| is_inside(range, reference.range)).collect();
        let (text, value, is_default) = if let Some(expression) = expression {
            (expression.text.to_string(), expression.value.clone(), expression.defaulted)
        } else {
            let Some(reference) = references.first() else { return Ok(None) };
            let resolution = &reference.resolution;
            (resolution.reference.to_string(), resolution.value.clone(), resolution.defaulted)
        };
        let mut readers: Readers =
            references.iter().map(|reference| (reference.maker.clone(), Vec::new())).collect();
        readers_of(history, &mut readers)?;
        let reads = references.iter().map(|reference| read(history, told, reference, &readers)).collect();
        let (back, forward) = if with_chains {
            (back(history, told, field, range, choice)?, forward(history, &references, choice)?)
        } else {
            ((Vec::new(), 0), (Vec::new(), 0))
        };
        let seen = &told.seen;
        let id = |place: (usize, usize)| format!("{}-{}", place.0, place.1);
        let inside = references.iter().map(|reference| (reference.range.line, reference.range.column));
        let mut anchors: Vec<String> = inside.filter(|inside| *inside != place).map(id).collect();
        anchors.dedup();
        Ok(Some(Self {
            anchors,
            id: id(place),
            text: visible(&text),
            step: visible(&labels::title(&history.plan, &seen.at).replace('`', "")),
            field: visible(&field.name),
            line: range.line,
            event: seen.seq,
            attempt: match (seen.attempt, told.attempts_allowed) {
                (0, _) => String::new(),
                (attempt, Some(allowed)) if allowed > 1 => format!("{attempt} of {allowed}"),
                (attempt, _) => attempt.to_string(),
            },
            value: value.as_ref().map(|value| (ValueView::new(value), WholeValue::new(value))),
            is_default,
            reads,
            condition: condition_of(field),
            back: back.0,
            back_more: back.1,
            forward: forward.0,
            forward_more: forward.1,
            close: choice.with(|other| other.value = None),
        }))
    }
}

fn is_inside(outer: TextRange, inner: TextRange) -> bool {
    (outer.line, outer.column) <= (inner.line, inner.column)
        && (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
}

fn read(
    history: &History<'_>,
    told: &StepExplanation,
    reference: &ExplainedReference,
    readers: &Readers,
) -> ReadView {
    let resolution = &reference.resolution;
    let others = readers.get(&reference.maker).into_iter().flatten();
    let mut names: Vec<String> = Vec::new();
    for other in others.filter(|other| other.at != told.seen.at) {
        let who = if other.at.is_root() { String::new() } else { label(history, &other.at) };
        let name = visible(&format!("{} {}", who.trim(), other.field));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(12);
    ReadView {
        reference: visible(&resolution.reference),
        path: visible(&resolution.path),
        maker: visible(&maker_text(history, &reference.maker)),
        scope: visible(&resolution.scope),
        is_default: resolution.defaulted,
        value: resolution.value.as_ref().map(ValueView::new),
        readers: names,
    }
}

/// What the value was made of.
fn back(
    history: &History<'_>,
    told: &StepExplanation,
    field: &FieldExplanation,
    range: TextRange,
    choice: &ViewChoice,
) -> Result<(Vec<LinkView>, usize), InspectError> {
    let mut target = ExplainTarget::executions(&history.plan, vec![told.seen.at.clone()]);
    target.field = Some(field.name.clone());
    let chains = Chains::follow(history, &target, ChainDirection::Back)?;
    // Of the field only what this value reads, and what is behind that.
    let mut is_wanted = false;
    let links = chains.links.iter().filter(|link| {
        if link.depth == 0 {
            is_wanted = link.read.range.is_some_and(|read| is_inside(range, read));
        }
        is_wanted
    });
    Ok(link_views(links, choice))
}

/// All that was made of what it reads.
fn forward(
    history: &History<'_>,
    references: &[&ExplainedReference],
    choice: &ViewChoice,
) -> Result<(Vec<LinkView>, usize), InspectError> {
    let mut all = (Vec::new(), 0);
    let mut followed: Vec<Address> = Vec::new();
    for reference in references {
        let found = match &reference.maker {
            Maker::Event(seq) => {
                let at = history.event(*seq)?.at;
                if at.is_root() || followed.contains(&at) {
                    continue;
                }
                followed.push(at.clone());
                let target = ExplainTarget::executions(&history.plan, vec![at]);
                Some(Chains::follow(history, &target, ChainDirection::Forward)?)
            }
            Maker::Context(Some(name)) => {
                let name = format!("context.{name}");
                Chains::follow_name(history, &name, ChainDirection::Forward)?.map(|(_, chains)| chains)
            }
            _ => None,
        };
        if let Some(chains) = found {
            let (links, more) = link_views(chains.links.iter(), choice);
            all.0.extend(links);
            all.1 += more;
        }
    }
    Ok(all)
}

fn link_views<'l>(links: impl Iterator<Item = &'l ChainLink>, choice: &ViewChoice) -> (Vec<LinkView>, usize) {
    let mut views = Vec::new();
    let mut more = 0;
    for link in links {
        if views.len() >= MAX_LINKS {
            more += 1;
            continue;
        }
        let read = &link.read;
        // What another run reads stands in the text of that.
        let is_elsewhere = read.reader.contains(" of run ");
        let target = read
            .range
            .filter(|_| !is_elsewhere)
            .map(|range| choice.with(|other| other.value = Some((range.line, range.column))));
        views.push(LinkView {
            depth: link.depth.min(9),
            reader: visible(&read.reader.replace('`', "")),
            field: visible(&read.field),
            reference: visible(&read.reference),
            value: read.value.as_ref().map(ValueView::new),
            maker: visible(&read.maker.replace('`', "")),
            is_control: read.is_control,
            is_above: link.shown,
            link: target,
        });
    }
    (views, more)
}

/// What made a value, in words.
pub(crate) fn maker_text(history: &History<'_>, maker: &Maker) -> String {
    let named = |what: &str, name: &Option<ecow::EcoString>| match name {
        Some(name) => format!("{what} {name}"),
        None => what.to_owned(),
    };
    match maker {
        Maker::Event(seq) => match history.event(*seq) {
            Ok(event) => {
                let name = labels::name(&history.plan, &event.at);
                format!("{name}, event {seq}, {}", clock_text(event.time))
            }
            Err(_) => format!("event {seq}"),
        },
        Maker::Item { list, index } => match history.event(*list) {
            Ok(event) => format!("item {index} of {}", labels::name(&history.plan, &event.at)),
            Err(_) => format!("item {index}"),
        },
        Maker::Input(name) => named("the input", name),
        Maker::Import(name) => named("the import", name),
        Maker::Context(name) => named("context", name),
        Maker::Payload => "the payload".to_owned(),
        Maker::Run => "the run".to_owned(),
        Maker::World => "the machine".to_owned(),
        Maker::Nobody => "nobody".to_owned(),
    }
}
