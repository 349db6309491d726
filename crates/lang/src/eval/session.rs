//! One evaluation's state: limits, the world and what it gave, warnings, the trace.

use ecow::EcoString;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::diag::error::{Error, ErrorKind, Origin};
use crate::diag::{Fix, Span};
use crate::document::Definitions;
use crate::func::PatternCache;
use crate::limits::{Limit, Limits};
use crate::scope::Scope;
use crate::value::{Type, Value};
use crate::world::{ComputeError, World};

/// What to do about a reference that has no value, in text and value fields. Conditions always fail.
///
/// | policy | in a text | as a whole value |
/// |---|---|---|
/// | `Error` | an error | an error |
/// | `Keep` | the reference as it is written | the reference as it is written |
/// | `Empty` | nothing | null |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Undefined {
    /// It is an error.
    #[default]
    Error,
    /// The reference stays as it is written; unknown roots too.
    Keep,
    /// Nothing takes its place. A misspelt root is still an error.
    Empty,
}

impl Undefined {
    /// Whether the policy lets a reference with this error pass.
    pub fn tolerates(self, error: &Error) -> bool {
        match self {
            Self::Error => false,
            Self::Keep => error.is_missing() || error.is_unknown_name(),
            Self::Empty => error.is_missing(),
        }
    }
}

/// Something that works and should be written differently, or that surprises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// A stable name for this sort of warning.
    pub id: &'static str,
    /// What, in one line.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Where, in the text of the template or expression.
    pub span: Span,
    /// The place in the document, when the template stands in one.
    pub origin: Option<Origin>,
    /// The change that does what the hint says.
    pub fix: Option<Fix>,
}

/// One resolved reference, as traces show it.
#[derive(Debug, Clone)]
pub struct Resolution {
    /// The reference as it is written.
    pub reference: EcoString,
    /// The root of the path, or the kind of computed value.
    pub root: EcoString,
    /// The first step of the path, when it is a key: the name in a table of names.
    pub first: Option<EcoString>,
    /// Its path after aliases.
    pub path: String,
    /// The scope that answered, or the name of the computed value.
    pub scope: EcoString,
    /// What it gave; nothing when it is missing. Of a list that is too long for a value, how long it is.
    pub value: Option<Value>,
    /// Whether it is a list that is read page by page.
    pub is_paged: bool,
    /// Whether the world gave it.
    pub computed: bool,
    /// Where, in the text of the template or expression.
    pub span: Span,
    /// The place in the document, when the template stands in one.
    pub origin: Option<Origin>,
    /// The definition whose value it was read for; none when the text itself reads it.
    pub within: Option<EcoString>,
    /// Whether it was missing or null and a default stood in for it.
    pub defaulted: bool,
}

/// One whole `${...}`, or an expression, and what it gave, as traces show it. Its references are resolutions of their own.
#[derive(Debug, Clone)]
pub struct TracedExpression {
    /// All of it as it is written.
    pub text: EcoString,
    /// What it gave; nothing when it has no value.
    pub value: Option<Value>,
    /// Where, in the text of the template or expression.
    pub span: Span,
    /// The place in the document, when the text stands in one.
    pub origin: Option<Origin>,
    /// The definition whose value it is a part of; none when the text itself has it.
    pub within: Option<EcoString>,
}

impl Resolution {
    /// The bytes of the value's text form.
    pub fn size(&self) -> usize {
        let Some(value) = &self.value else { return 0 };
        value.as_str().map_or_else(|| value.to_string().len(), str::len)
    }

    /// The type, when there is a value.
    pub fn kind(&self) -> Option<Type> {
        let kind = if self.is_paged { Some(Type::List) } else { None };
        kind.filter(|_| self.value.is_some()).or_else(|| self.value.as_ref().map(Value::kind))
    }
}

/// How many definitions may wait for each other.
const MAX_CHAIN: usize = 100;

/// What a definition came to.
enum Defined {
    Busy,
    Done(Result<Value, Error>),
}

type AnswerCache = HashMap<(EcoString, Vec<Value>), Result<Value, ComputeError>, FixedState>;

/// One evaluation, of a template or of a whole document.
///
/// Computed values are asked for when they are read, and once: a second reading in the same session gives the
/// same value, or the same error.
pub struct Session<'w> {
    world: &'w mut dyn World,
    pub(super) limits: &'w Limits,
    pub(super) undefined: Undefined,
    /// Neither traced nor explained: the evaluator may take its short ways.
    pub(super) unwatched: bool,
    pub(super) depth: u32,
    pub(super) fuel: u64,
    /// What most evaluations never need.
    rare: Option<Box<Rare>>,
    pub(crate) origin: Option<Box<Origin>>,
    pub(crate) buffer: String,
}

#[derive(Default)]
struct Rare {
    computed: AnswerCache,
    computed_bytes: usize,
    definitions: HashMap<(usize, usize), Defined, FixedState>,
    chain: Vec<EcoString>,
    warnings: Vec<Warning>,
    placed_warnings: usize,
    trace: Option<Vec<Resolution>>,
    /// The whole references of the trace.
    expressions: Vec<TracedExpression>,
    outcomes: Option<Outcomes>,
    patterns: PatternCache,
}

/// What each node came to, for an explanation.
pub(super) type Outcomes = Vec<Option<Result<Value, Error>>>;

impl<'w> Session<'w> {
    /// A session in this world, under the default limits.
    #[inline]
    pub fn new(world: &'w mut dyn World) -> Self {
        Self {
            world,
            limits: &Limits::DEFAULT,
            undefined: Undefined::Error,
            unwatched: true,
            depth: 0,
            fuel: Limits::DEFAULT.operations,
            rare: None,
            origin: None,
            buffer: String::new(),
        }
    }

    /// With these limits.
    #[must_use]
    pub fn limits(mut self, limits: &'w Limits) -> Self {
        self.fuel = limits.operations;
        self.limits = limits;
        self
    }

    /// With this policy for references that have no value.
    #[must_use]
    pub fn undefined(mut self, undefined: Undefined) -> Self {
        self.undefined = undefined;
        self
    }

    /// Recording every resolved reference.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.unwatched = false;
        self.rare().trace = Some(Vec::new());
        self
    }

    /// What is evaluated from now on stands at this place of a document: traces, warnings and errors say so.
    pub fn set_origin(&mut self, origin: Option<Origin>) {
        self.origin = origin.map(Box::new);
    }

    /// The warnings so far, taken out.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        rare.placed_warnings = 0;
        std::mem::take(&mut rare.warnings)
    }

    /// The resolutions so far, taken out.
    pub fn take_trace(&mut self) -> Vec<Resolution> {
        self.trace().map(std::mem::take).unwrap_or_default()
    }

    /// The whole references and expressions so far, taken out.
    pub fn take_expressions(&mut self) -> Vec<TracedExpression> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.expressions)).unwrap_or_default()
    }

    /// How many whole references there are so far.
    pub(crate) fn expressions_len(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.expressions.len())
    }

    /// Records what a whole reference gave. One that is evaluated again says what it gave last.
    pub(crate) fn trace_expression(&mut self, text: &str, span: Span, value: Option<Value>) {
        let (origin, within) = (self.origin.as_deref().cloned(), self.within());
        let made = TracedExpression { text: text.into(), value, span, origin, within };
        let expressions = &mut self.rare().expressions;
        let same = |known: &&mut TracedExpression| {
            (known.span, &known.origin, &known.within) == (made.span, &made.origin, &made.within)
        };
        match expressions.last_mut().filter(same) {
            Some(known) => *known = made,
            None => expressions.push(made),
        }
    }

    /// Says of the resolutions from a position on that a default stood in for what they did not give.
    pub(super) fn mark_defaulted(&mut self, from: usize) {
        for made in self.trace().into_iter().flat_map(|trace| trace.iter_mut().skip(from)) {
            let is_empty = |value: &Value| value.is_null() || value.as_str() == Some("");
            made.defaulted |= made.value.as_ref().is_none_or(is_empty);
        }
    }

    /// Of the resolutions from a position on, drops those behind a second one that repeat a reference.
    pub(super) fn drop_repeated(&mut self, from: usize, behind: usize) {
        let Some(trace) = self.trace() else { return };
        for made in trace.split_off(behind.min(trace.len())) {
            let same = |known: &Resolution| {
                (known.span, &known.origin, &known.within) == (made.span, &made.origin, &made.within)
            };
            if !trace[from.min(trace.len())..].iter().any(same) {
                trace.push(made);
            }
        }
    }

    /// How many resolutions there are so far.
    pub(crate) fn trace_len(&self) -> usize {
        self.rare.as_ref().and_then(|rare| rare.trace.as_ref()).map_or(0, Vec::len)
    }

    /// Puts a path before the places that a document gave the resolutions from a position on. Definitions have places
    /// of their own.
    pub(crate) fn place_trace(&mut self, from: usize, expressions_from: usize, path: &str) {
        let made = self.trace().into_iter().flat_map(|trace| trace.iter_mut().skip(from));
        for resolution in made.filter(|made| made.within.is_none()) {
            resolution.origin = resolution.origin.take().map(|origin| origin.below(path));
        }
        let wholes = self.rare.iter_mut().flat_map(|rare| rare.expressions.iter_mut().skip(expressions_from));
        for whole in wholes.filter(|whole| whole.within.is_none()) {
            whole.origin = whole.origin.take().map(|origin| origin.below(path));
        }
    }

    /// The definition that is being evaluated.
    pub(super) fn within(&self) -> Option<EcoString> {
        self.rare.as_ref().and_then(|rare| rare.chain.last().cloned())
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(super) fn trace(&mut self) -> Option<&mut Vec<Resolution>> {
        self.rare.as_mut().and_then(|rare| rare.trace.as_mut())
    }

    pub(super) fn outcomes(&mut self) -> Option<&mut Outcomes> {
        self.rare.as_mut().and_then(|rare| rare.outcomes.as_mut())
    }

    /// Begins, interrupts or ends the recording of outcomes; what was recorded so far is given back.
    pub(super) fn set_outcomes(&mut self, outcomes: Option<Outcomes>) -> Option<Outcomes> {
        if outcomes.is_none() && self.rare.is_none() {
            return None;
        }
        let before = std::mem::replace(&mut self.rare().outcomes, outcomes);
        self.unwatched = self.rare().trace.is_none() && self.rare().outcomes.is_none();
        before
    }

    /// The patterns compiled so far, lent to a function.
    pub(super) fn lend_patterns(&mut self) -> PatternCache {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.patterns)).unwrap_or_default()
    }

    pub(super) fn return_patterns(&mut self, patterns: PatternCache) {
        if self.rare.is_some() || !patterns.is_empty() {
            self.rare().patterns = patterns;
        }
    }

    /// A new template: its operations are counted afresh, and a `uuid` in it is a new one.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.fuel = self.limits.operations;
        if let Some(rare) = &mut self.rare
            && !rare.computed.is_empty()
            && rare.chain.is_empty()
        {
            rare.computed.remove(&uuid_key());
        }
    }

    pub(crate) fn tolerates(&self, error: &Error) -> bool {
        self.undefined.tolerates(error)
    }

    pub(super) fn limit(&self, limit: Limit, span: Span) -> Error {
        let max = match limit {
            Limit::Expression => self.limits.expression as u64,
            Limit::Source => self.limits.source as u64,
            Limit::SyntaxDepth => self.limits.syntax_depth as u64,
            Limit::DataDepth => u64::from(crate::value::MAX_DEPTH),
            Limit::DataSize => crate::value::MAX_SIZE,
            Limit::EvaluationDepth => u64::from(super::MAX_EVALUATION_DEPTH),
            Limit::Operations => self.limits.operations,
            Limit::Digits => crate::value::MAX_DIGITS as u64,
            Limit::TextResult | Limit::Elements => self.limits.text_result as u64,
            Limit::Regex => self.limits.regex as u64,
            Limit::Computed => self.limits.computed as u64,
        };
        Error::limit(limit, max, span)
    }

    /// One level deeper, through expressions, documents and definitions together.
    #[inline]
    pub(crate) fn enter(&mut self, span: Span) -> Result<(), Error> {
        if self.depth >= super::MAX_EVALUATION_DEPTH {
            return Err(self.limit(Limit::EvaluationDepth, span));
        }
        self.depth += 1;
        Ok(())
    }

    #[inline]
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Notes a warning, once for each place and sort.
    pub(super) fn warn(&mut self, id: &'static str, span: Span, message: String, hint: Option<String>) {
        let origin = self.origin.as_deref().cloned();
        let warnings = &mut self.rare().warnings;
        let known = |warning: &Warning| warning.id == id && warning.span == span && warning.origin == origin;
        if !warnings.iter().any(known) {
            warnings.push(Warning { id, message, hint, span, origin, fix: None });
        }
    }

    pub(crate) fn traces(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.trace.is_some())
    }

    pub(crate) fn has_unplaced_warnings(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.placed_warnings < rare.warnings.len())
    }

    /// Gives the warnings that have no place yet the place of the template they came from.
    pub(crate) fn place_warnings(&mut self, origin: &Origin) {
        let Some(rare) = &mut self.rare else { return };
        for warning in &mut rare.warnings[rare.placed_warnings..] {
            warning.origin.get_or_insert_with(|| origin.clone());
        }
        rare.placed_warnings = rare.warnings.len();
    }

    /// The value of a definition: evaluated when first read, in the scope it was defined in.
    pub(crate) fn definition(
        &mut self,
        definitions: &Definitions,
        at: usize,
        scope: &Scope,
        span: Span,
    ) -> Result<Value, Error> {
        let key = (std::ptr::from_ref(definitions).addr(), at);
        let name = definitions.name(at);
        let rare = self.rare();
        match rare.definitions.get(&key) {
            Some(Defined::Done(result)) => return result.clone(),
            Some(Defined::Busy) => return Err(cycle(&rare.chain, name, span)),
            None => {}
        }
        if rare.chain.len() >= MAX_CHAIN {
            return Err(Error::limit(Limit::EvaluationDepth, MAX_CHAIN as u64, span));
        }
        if let Some(value) = self.world.known(name) {
            self.rare().definitions.insert(key, Defined::Done(Ok(value.clone())));
            return Ok(value);
        }
        let rare = self.rare();
        rare.definitions.insert(key, Defined::Busy);
        rare.chain.push(name.clone());
        // A definition is a template of its own: it shares no `uuid` with whoever reads it.
        let uuid = rare.computed.remove(&uuid_key());
        let (fuel, origin) = (self.fuel, self.origin.take());
        let result = definitions.evaluate(at, scope, self);
        (self.fuel, self.origin) = (fuel, origin);
        let computed = &mut self.rare().computed;
        computed.remove(&uuid_key());
        computed.extend(uuid.map(|uuid| (uuid_key(), uuid)));
        if let Ok(value) = &result {
            self.world.defined(name, value);
        }
        let rare = self.rare();
        rare.chain.pop();
        rare.definitions.insert(key, Defined::Done(result.clone()));
        result
    }

    /// What the world answers to a question that stands in no template. It is asked each time.
    pub fn ask(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        self.world.compute(name, args)
    }

    /// A computed value: asked for once, then remembered.
    pub(super) fn compute(&mut self, name: &str, args: Vec<Value>, span: Span) -> Result<Value, Error> {
        let key = (EcoString::from(name), args);
        let (most, most_bytes) = (self.limits.computed, self.limits.computed_bytes);
        let rare = self.rare.get_or_insert_default();
        if let Some(known) = rare.computed.get(&key) {
            return known.clone().map_err(|error| compute_error(name, &key.1, error, span));
        }
        if rare.computed.len() >= most {
            return Err(self.limit(Limit::Computed, span));
        }
        let mut computed = self.world.compute(name, &key.1);
        rare.computed_bytes += computed.as_ref().ok().and_then(Value::as_str).map_or(64, str::len);
        if rare.computed_bytes > most_bytes {
            let message = format!("computed values of more than {most_bytes} bytes in one evaluation");
            computed = Err(ComputeError::Failed { message, hint: None });
        }
        let result = computed.clone().map_err(|error| compute_error(name, &key.1, error, span));
        rare.computed.insert(key, computed);
        result
    }
}

fn uuid_key() -> (EcoString, Vec<Value>) {
    (EcoString::inline("uuid"), Vec::new())
}

fn cycle(chain: &[EcoString], name: &EcoString, span: Span) -> Error {
    let from = chain.iter().position(|link| link == name).unwrap_or(0);
    let chain = chain[from..].iter().chain([name]).cloned().collect();
    Error::new(ErrorKind::Cycle { chain }, span)
}

fn compute_error(name: &str, args: &[Value], error: ComputeError, span: Span) -> Error {
    let kind = match error {
        ComputeError::Failed { message, hint } => ErrorKind::Computed { kind: name.into(), message, hint },
        ComputeError::Missing { nearest } if name == "env" => {
            let variable = args.first().and_then(Value::as_str).unwrap_or_default();
            ErrorKind::EnvNotSet { name: variable.into(), nearest }
        }
        ComputeError::Missing { nearest } => ErrorKind::Unset {
            path: name.to_owned(),
            why: nearest.unwrap_or_else(|| "it is not there".into()),
        },
    };
    Error::new(kind, span)
}
