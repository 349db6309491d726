//! Which elements of a source are the items of a step: what its fields say, handed to the one selection.
//!
//! A run stores what is chosen, a preview counts it.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use threadline_engine::evaluate::FieldError;
use threadline_engine::select::{Elements, Expansion};
use threadline_flow::model::{ForEach, SortKey};
use threadline_lang::{Scope, Session, Value};

use crate::items::{self, ItemSource, KeyOrder, SelectError, SelectLimits, Selection, SelectionCounts};

/// What went wrong with one element.
#[derive(Debug)]
pub enum ChooseError<E> {
    /// A field that is evaluated for it has no value.
    Field(Box<FieldError>),
    /// Whoever takes it cannot.
    Taker(E),
}

impl<E: fmt::Display> fmt::Display for ChooseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(_) => f.write_str("a field has no value"),
            Self::Taker(error) => error.fmt(f),
        }
    }
}

/// Gives every item of a step to `take`, in order. `spool` is a folder for what does not fit in memory.
pub fn choose<E>(
    (each, expansion): (&ForEach, &Expansion),
    source: ItemSource<'_>,
    (scope, session): (&Scope, &mut Session<'_>),
    spool: &Path,
    take: &mut dyn FnMut(Value) -> Result<(), E>,
) -> Result<SelectionCounts, SelectError<ChooseError<E>>> {
    let elements = Elements::new(each, scope);
    let session = RefCell::new(session);
    let wrong = |error: FieldError| ChooseError::Field(Box::new(error));
    let mut keep =
        |value: &Value, index: u64| elements.keeps(value, index, &mut session.borrow_mut()).map_err(wrong);
    let mut keys = |value: &Value| elements.keys(value, &mut session.borrow_mut()).map_err(wrong);
    let mut identity = |value: &Value| elements.identity(value, &mut session.borrow_mut()).map_err(wrong);
    let orders: Vec<KeyOrder> = each.sort_by.iter().map(order).collect();
    let selection = Selection {
        json_path: each.json_path.as_ref().map(|path| &path.value),
        keep: (each.filter.is_some() || each.named.is_some()).then_some(&mut keep),
        sort: (!orders.is_empty()).then_some((&mut keys, orders.as_slice())),
        distinct: each.distinct.is_some().then_some(&mut identity),
        offset: expansion.offset,
        max_items: expansion.max_items,
    };
    let mut take = |value: Value| take(value).map_err(ChooseError::Taker);
    items::select(source, selection, spool, &SelectLimits::default(), &mut take)
}

fn order(key: &SortKey) -> KeyOrder {
    KeyOrder { descending: key.descending, nulls_first: key.nulls_first.unwrap_or(false) }
}
