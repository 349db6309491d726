//! One evaluation's state: limits, the world and what it gave, warnings, the trace.

use ecow::EcoString;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::diag::Span;
use crate::diag::error::{Error, ErrorKind, Origin};
use crate::document::Definitions;
use crate::limits::{Limit, Limits};
use crate::scope::Scope;
use crate::value::{JsonStyle, Type, Value};
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
}

/// One resolved reference, as traces show it.
#[derive(Debug, Clone)]
pub struct Resolution {
    /// The reference as it is written.
    pub reference: EcoString,
    /// Its path after aliases.
    pub path: String,
    /// The scope that answered, or the name of the computed value.
    pub scope: EcoString,
    /// What it gave; nothing when it is missing.
    pub value: Option<Value>,
    /// Whether the world gave it.
    pub computed: bool,
    /// Where, in the text of the template or expression.
    pub span: Span,
    /// The place in the document, when the template stands in one.
    pub origin: Option<Origin>,
}

impl Resolution {
    /// The bytes of the value's text form.
    pub fn size(&self) -> usize {
        let Some(value) = &self.value else { return 0 };
        match value.as_str() {
            Some(text) => text.len(),
            None => value.to_json(JsonStyle::Compact).len(),
        }
    }

    /// The type, when there is a value.
    pub fn kind(&self) -> Option<Type> {
        self.value.as_ref().map(Value::kind)
    }
}

/// How many definitions may wait for each other.
const MAX_CHAIN: usize = 100;

/// What a definition came to.
enum Defined {
    Busy,
    Done(Result<Value, Error>),
}

type Computed = HashMap<(EcoString, Vec<Value>), Result<Value, ComputeError>, FixedState>;

/// One evaluation, of a template or of a whole document.
///
/// Computed values are asked for when they are read, and once: a second reading in the same session gives the
/// same value, or the same error.
pub struct Session<'w> {
    world: &'w mut dyn World,
    pub(super) limits: Limits,
    pub(super) undefined: Undefined,
    pub(super) fuel: u64,
    pub(super) depth: u32,
    computed: Computed,
    computed_bytes: usize,
    definitions: HashMap<(usize, usize), Defined, FixedState>,
    chain: Vec<EcoString>,
    warnings: Vec<Warning>,
    placed_warnings: usize,
    pub(super) trace: Option<Vec<Resolution>>,
    pub(super) outcomes: Option<Vec<Option<Result<Value, Error>>>>,
    pub(crate) origin: Option<Origin>,
    pub(crate) buffer: String,
}

impl<'w> Session<'w> {
    /// A session in this world, under the default limits.
    pub fn new(world: &'w mut dyn World) -> Self {
        Self {
            world,
            limits: Limits::DEFAULT,
            undefined: Undefined::Error,
            fuel: Limits::DEFAULT.operations,
            depth: 0,
            computed: HashMap::with_hasher(FixedState::default()),
            computed_bytes: 0,
            definitions: HashMap::with_hasher(FixedState::default()),
            chain: Vec::new(),
            warnings: Vec::new(),
            placed_warnings: 0,
            trace: None,
            outcomes: None,
            origin: None,
            buffer: String::new(),
        }
    }

    /// With these limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
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
        self.trace = Some(Vec::new());
        self
    }

    /// The warnings so far, taken out.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        self.placed_warnings = 0;
        std::mem::take(&mut self.warnings)
    }

    /// The resolutions so far, taken out.
    pub fn take_trace(&mut self) -> Vec<Resolution> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A new template: its operations are counted afresh, and a `uuid` in it is a new one.
    pub(crate) fn begin(&mut self) {
        self.fuel = self.limits.operations;
        if !self.computed.is_empty() && self.chain.is_empty() {
            self.computed.remove(&(EcoString::inline("uuid"), Vec::new()));
        }
    }

    pub(super) fn limit(&self, limit: Limit, span: Span) -> Error {
        let max = match limit {
            Limit::Expression => self.limits.expression as u64,
            Limit::Source => self.limits.source as u64,
            Limit::SyntaxDepth => self.limits.syntax_depth as u64,
            Limit::DataDepth => u64::from(crate::value::MAX_DEPTH),
            Limit::EvaluationDepth => u64::from(super::MAX_EVALUATION_DEPTH),
            Limit::Operations => self.limits.operations,
            Limit::Digits => crate::value::MAX_DIGITS as u64,
            Limit::TextResult => self.limits.text_result as u64,
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
        let origin = self.origin.clone();
        let known = |warning: &Warning| warning.id == id && warning.span == span && warning.origin == origin;
        if !self.warnings.iter().any(known) {
            self.warnings.push(Warning { id, message, hint, span, origin });
        }
    }

    pub(crate) fn traces(&self) -> bool {
        self.trace.is_some()
    }

    /// Gives the warnings that have no place yet the place of the template they came from.
    pub(crate) fn place_warnings(&mut self, origin: &Origin) {
        if self.warnings.len() == self.placed_warnings {
            return;
        }
        for warning in &mut self.warnings[self.placed_warnings..] {
            warning.origin.get_or_insert_with(|| origin.clone());
        }
        self.placed_warnings = self.warnings.len();
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
        match self.definitions.get(&key) {
            Some(Defined::Done(result)) => return result.clone(),
            Some(Defined::Busy) => return Err(self.cycle(name, span)),
            None => {}
        }
        if self.chain.len() >= MAX_CHAIN {
            return Err(Error::limit(Limit::EvaluationDepth, MAX_CHAIN as u64, span));
        }
        self.definitions.insert(key, Defined::Busy);
        self.chain.push(name.clone());
        let (fuel, origin) = (self.fuel, self.origin.take());
        let result = definitions.evaluate(at, scope, self);
        (self.fuel, self.origin) = (fuel, origin);
        self.chain.pop();
        self.definitions.insert(key, Defined::Done(result.clone()));
        result
    }

    fn cycle(&self, name: &EcoString, span: Span) -> Error {
        let from = self.chain.iter().position(|link| link == name).unwrap_or(0);
        let chain = self.chain[from..].iter().chain([name]).cloned().collect();
        Error::new(ErrorKind::Cycle { chain }, span)
    }

    /// A computed value: asked for once, then remembered.
    pub(super) fn compute(&mut self, name: &str, args: Vec<Value>, span: Span) -> Result<Value, Error> {
        let key = (EcoString::from(name), args);
        if let Some(known) = self.computed.get(&key) {
            return known.clone().map_err(|error| compute_error(name, &key.1, error, span));
        }
        if self.computed.len() >= self.limits.computed {
            return Err(self.limit(Limit::Computed, span));
        }
        let mut computed = self.world.compute(name, &key.1);
        self.computed_bytes += computed.as_ref().ok().and_then(Value::as_str).map_or(64, str::len);
        if self.computed_bytes > self.limits.computed_bytes {
            let most = self.limits.computed_bytes;
            let message = format!("computed values of more than {most} bytes in one evaluation");
            computed = Err(ComputeError::Failed { message, hint: None });
        }
        let result = computed.clone().map_err(|error| compute_error(name, &key.1, error, span));
        self.computed.insert(key, computed);
        result
    }
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
