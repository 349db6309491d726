//! The items of a list before a run: how many there are and the first of them, where their source is there now.
//!
//! They are chosen as a run chooses them. A command is never run for it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;

use anstyle::Style;
use threadline_engine::evaluate::FieldError;
use threadline_engine::select::{self, Expansion};
use threadline_engine::view::{ItemRef, ItemView, with_item};
use threadline_flow::model::{Action, ForEach, Moment};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Scope, ScopeEntry, Session, Value};
use threadline_runner::choice::{ChooseError, choose};
use threadline_runner::items::{ItemSource, SelectError};
use threadline_runner::project::Project;

use super::{FieldPreview, foreach_of, layer};
use crate::report::{first_line, visible};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// So many items are shown.
const SHOWN: usize = 3;

/// The items of a list, or why they are not known.
pub(super) struct Items(Result<Chosen, String>);

struct Chosen {
    /// How many there are to choose from, where all were looked at.
    of: Option<u64>,
    count: u64,
    first: Vec<Value>,
}

/// A step that has items.
pub(super) struct PreviewedList<'p> {
    pub(super) plan: &'p Plan,
    pub(super) number: StepNumber,
    pub(super) each: &'p ForEach,
    pub(super) project: &'p Project,
}

impl PreviewedList<'_> {
    /// Looks for the items of the step whose fields are these.
    pub(super) fn items(&self, fields: &[FieldPreview], scope: &Scope, mut session: Session<'_>) -> Items {
        let chooses = |field: &&FieldPreview| matches!(field.moment, Moment::List | Moment::Selection);
        let mut references = fields.iter().filter(chooses).flat_map(|field| &field.references);
        let unknown = references.find_map(|known| Some((known, known.value.as_ref().err()?)));
        if let Some((known, why)) = unknown {
            return Items(Err(format!("not known yet: `{}` is {why}", known.reference)));
        }
        let expansion = match select::expand(self.plan, self.number, scope, &mut session) {
            Ok(expansion) => expansion,
            Err(errors) => return Items(Err(self.problem(errors.first()))),
        };
        Items(self.chosen(&expansion, scope, &mut session))
    }

    fn chosen(
        &self,
        expansion: &Expansion,
        scope: &Scope,
        session: &mut Session<'_>,
    ) -> Result<Chosen, String> {
        let source = match ItemSource::open(self.project, &expansion.source) {
            Ok(Some(source)) => source,
            Ok(None) => return Err("known when the command has run; a preview runs nothing".to_owned()),
            Err(error) => return Err(format!("cannot be read now: {}", error.message)),
        };
        let mut first = Vec::new();
        let mut take = |value: Value| -> Result<(), Infallible> {
            if first.len() < SHOWN {
                first.push(value);
            }
            Ok(())
        };
        let spool = std::env::temp_dir();
        let counts = choose((self.each, expansion), source, (scope, session), &spool, &mut take);
        match counts {
            Ok(counts) => {
                Ok(Chosen { of: counts.complete.then_some(counts.read), count: counts.given, first })
            }
            Err(SelectError::Caller(ChooseError::Field(error))) => Err(self.problem(Some(&error))),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                Err(format!("{error}{hint}"))
            }
        }
    }

    fn problem(&self, error: Option<&FieldError>) -> String {
        let text = self.plan.workflow.file.text();
        error.map_or_else(String::new, |error| error.problem(text).message)
    }
}

impl Items {
    pub(super) fn text(&self, full: bool, out: &mut String) {
        let shown = |value: &Value| if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
        // Writing into a text cannot fail.
        let _ = match &self.0 {
            Err(why) => writeln!(out, "  {BOLD}items{BOLD:#} {DIM}{}{DIM:#}", visible(first_line(why))),
            Ok(Chosen { of: Some(of), count, .. }) if of != count => {
                writeln!(out, "  {BOLD}items{BOLD:#} {count} {DIM}of {of}{DIM:#}")
            }
            Ok(Chosen { count, .. }) => writeln!(out, "  {BOLD}items{BOLD:#} {count}"),
        };
        let Ok(Chosen { count, first, .. }) = &self.0 else { return };
        for (index, item) in first.iter().enumerate() {
            let _ = writeln!(out, "    {DIM}[{index}]{DIM:#} {}", visible(&shown(item)));
        }
        if *count > first.len() as u64 {
            let _ = writeln!(out, "    {DIM}…{DIM:#}");
        }
    }

    pub(super) fn json(&self) -> Value {
        let (count, first, why) = match &self.0 {
            Ok(chosen) => (Value::from(chosen.count), Value::sequence(chosen.first.clone()), Value::NULL),
            Err(why) => (Value::NULL, Value::NULL, why.as_str().into()),
        };
        Value::record([("known", self.0.is_ok().into()), ("count", count), ("first", first), ("why", why)])
    }

    fn first(&self) -> Option<&Value> {
        self.0.as_ref().ok()?.first.first()
    }
}

/// The names of a step for the first item of each list around it, as far as those are known.
pub(super) fn with_first(
    plan: &Plan,
    step: StepNumber,
    lists: &BTreeMap<StepNumber, Items>,
    scope: Scope,
) -> Scope {
    let Some(list) = foreach_of(plan, plan.steps[step as usize].list) else { return scope };
    let Some((items, first)) = lists.get(&list).and_then(|items| Some((items, items.first()?))) else {
        return scope;
    };
    let of = ItemRef { list: 0, index: 0 };
    let item = ItemView { item: of, attempt: 1, runner: 0, has_agent: plan.is_map_reduce(), error: None };
    let mut scope = with_item(&scope, &item, first.clone(), None, None);
    if let (Action::ForEach(each), Ok(chosen)) = (&plan.steps[list as usize].step.action, &items.0) {
        let names = |of: &str, names| ScopeEntry::Names(layer(&Scope::new(), of, names));
        if each.worktree {
            let unknown = ScopeEntry::Unset("known when the item begins".into());
            let agent =
                vec![("id".into(), ScopeEntry::Plain("agent-1".into())), ("worktree".into(), unknown)];
            scope = layer(&scope, "agent", vec![("agent".into(), names("agent", agent))]);
        }
        if each.is_map {
            let total = vec![("total".into(), ScopeEntry::Plain(Value::from(chosen.count)))];
            scope = layer(&scope, "map", vec![("map".into(), names("map", total))]);
        }
    }
    scope
}

/// Behind the name of a step that is shown for the first item of its list.
pub(super) fn of_first(plan: &Plan, step: StepNumber, lists: &BTreeMap<StepNumber, Items>) -> &'static str {
    let list = foreach_of(plan, plan.steps[step as usize].list);
    let first = list.and_then(|list| lists.get(&list)).and_then(Items::first);
    if first.is_some() { ", for item 0" } else { "" }
}
