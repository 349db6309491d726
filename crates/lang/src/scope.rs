//! The names visible at one place: layers, the innermost first.
//!
//! A scope is persistent and cheap to clone; adding a layer copies nothing below it. A layer over an object's
//! entries is the object itself.

use std::sync::Arc;

use ecow::EcoString;

use crate::document::Definitions;
use crate::envelope::Envelope;
use crate::paged_list::PagedList;
use crate::shape::{ShapeCell, Types};
use crate::syntax::{Name, Program};
use crate::value::{Key, KeyTable, LastPosition, Object, Repeated, Value};

/// The names visible at one place.
#[derive(Clone, Default)]
pub struct Scope(Option<Arc<Layer>>);

struct Layer {
    label: EcoString,
    names: LayerNames,
    parent: Scope,
}

enum LayerNames {
    Values(Arc<Object>),
    Entries(KeyTable, Vec<ScopeEntry>),
}

/// What a name stands for.
#[derive(Clone)]
pub enum ScopeEntry {
    /// A plain value.
    Plain(Value),
    /// The output of a node or step.
    Output(Arc<Envelope>),
    /// A table of definitions, evaluated when they are read.
    Definitions(Arc<Definitions>),
    /// A name that exists and has no value now; why, in words.
    Unset(EcoString),
    /// A name that has no value any more, of which something can still be read.
    Lapsed(Arc<Lapsed>),
    /// A table of names: the first step into it is one of them.
    Names(Scope),
    /// A value with names of the engine's own in front of its fields.
    Item(Arc<EngineItem>),
    /// A list that is read page by page.
    Paged(Arc<dyn PagedList>),
    /// A name that will have a value: what is known of it before.
    Promised(Arc<Promise>),
}

/// What is left of a name that has no value any more.
#[derive(Debug, Clone)]
pub struct Lapsed {
    /// Why there is none, in words.
    pub why: EcoString,
    /// An object of the fields that can still be read.
    pub also: Value,
}

/// A value, and names that a dot reads before the value's own fields: `item.index` is the engine's, `item["index"]`
/// the item's.
pub struct EngineItem {
    /// The value itself.
    pub value: Value,
    /// The engine's names, an object.
    pub own: Value,
}

/// What is known of a value that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Why there is no value yet, in words.
    pub why: EcoString,
    /// What it will be.
    pub shape: PromisedShape,
}

/// What a value will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromisedShape {
    /// A value, as far as it is known.
    Value(ShapeCell),
    /// A value with names in front of its fields.
    Item {
        /// The names and their types.
        own: FieldTypes,
        /// The value itself.
        value: ShapeCell,
    },
    /// The output of a step.
    Output {
        /// What is known of its value.
        value: ShapeCell,
        /// What is known about how it came about.
        meta: ShapeCell,
        /// The fields beside `value` and `meta`.
        also: FieldTypes,
    },
}

/// Names of fields and the types of their values.
pub type FieldTypes = &'static [(&'static str, Types)];

/// What a name was found to stand for, and where.
pub(crate) struct ScopeMatch<'a> {
    pub entry: EntryRef<'a>,
    /// The label of the layer that answered.
    pub label: &'a EcoString,
    /// The scope from that layer outwards.
    pub scope: &'a Scope,
}

#[derive(Clone, Copy)]
pub(crate) enum EntryRef<'a> {
    Plain(&'a Value),
    Output(&'a Envelope),
    Definitions(&'a Definitions),
    Unset(&'a EcoString),
    Lapsed(&'a Lapsed),
    Names(&'a Scope),
    Item(&'a EngineItem),
    Paged(&'a dyn PagedList),
    Promised(&'a Promise),
}

impl<'a> From<&'a ScopeEntry> for EntryRef<'a> {
    fn from(entry: &'a ScopeEntry) -> Self {
        match entry {
            ScopeEntry::Plain(value) => Self::Plain(value),
            ScopeEntry::Output(envelope) => Self::Output(envelope),
            ScopeEntry::Definitions(definitions) => Self::Definitions(definitions),
            ScopeEntry::Unset(why) => Self::Unset(why),
            ScopeEntry::Lapsed(lapsed) => Self::Lapsed(lapsed),
            ScopeEntry::Names(names) => Self::Names(names),
            ScopeEntry::Item(item) => Self::Item(item),
            ScopeEntry::Paged(list) => Self::Paged(&**list),
            ScopeEntry::Promised(promise) => Self::Promised(promise),
        }
    }
}

impl Scope {
    /// A scope without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// This scope behind a layer of an object's entries. The label is what traces show.
    #[must_use]
    pub fn with_values(&self, label: &str, values: Arc<Object>) -> Self {
        self.with(label, LayerNames::Values(values))
    }

    /// This scope behind a layer of entries; two of one name are an error.
    pub fn with_entries(
        &self,
        label: &str,
        entries: impl IntoIterator<Item = (EcoString, ScopeEntry)>,
    ) -> Result<Self, Repeated> {
        let (names, entries): (Vec<Key>, Vec<ScopeEntry>) =
            entries.into_iter().map(|(name, entry)| (Key::new(name), entry)).unzip();
        Ok(self.with(label, LayerNames::Entries(KeyTable::new(names)?, entries)))
    }

    fn with(&self, label: &str, names: LayerNames) -> Self {
        Self(Some(Arc::new(Layer { label: label.into(), names, parent: self.clone() })))
    }

    /// The value of a name, when it stands for one.
    pub fn value(&self, name: &str) -> Option<&Value> {
        match self.find(name)?.entry {
            EntryRef::Plain(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a name that stands for just a value.
    #[inline]
    pub(crate) fn plain(&self, name: Name, program: &Program, last: &LastPosition) -> Option<&Value> {
        let mut scope = self;
        while let Some(layer) = &scope.0 {
            match &layer.names {
                LayerNames::Values(object) => {
                    if let Some(value) = object.get_near(name.hash, || program.name(name), last) {
                        return Some(value);
                    }
                }
                LayerNames::Entries(keys, entries) => {
                    if let Some(at) = keys.position_near(name.hash, || program.name(name), last) {
                        return match &entries[at] {
                            ScopeEntry::Plain(value) => Some(value),
                            _ => None,
                        };
                    }
                }
            }
            scope = &layer.parent;
        }
        None
    }

    #[inline]
    pub(crate) fn lookup(
        &self,
        name: Name,
        program: &Program,
        last: &LastPosition,
    ) -> Option<ScopeMatch<'_>> {
        let mut scope = self;
        while let Some(layer) = &scope.0 {
            let entry = match &layer.names {
                LayerNames::Values(object) => {
                    object.get_near(name.hash, || program.name(name), last).map(EntryRef::Plain)
                }
                LayerNames::Entries(keys, entries) => keys
                    .position_near(name.hash, || program.name(name), last)
                    .map(|at| EntryRef::from(&entries[at])),
            };
            if let Some(entry) = entry {
                return Some(ScopeMatch { entry, label: &layer.label, scope });
            }
            scope = &layer.parent;
        }
        None
    }

    /// What a name stands for, found by its text.
    pub(crate) fn find(&self, name: &str) -> Option<ScopeMatch<'_>> {
        self.find_where(name, |_| true)
    }

    /// The innermost output of an id, whatever else has its name.
    pub(crate) fn output(&self, id: &str) -> Option<ScopeMatch<'_>> {
        self.find_where(id, is_output)
    }

    fn find_where(&self, name: &str, keep: impl Fn(EntryRef<'_>) -> bool) -> Option<ScopeMatch<'_>> {
        let key = &Key::new(name);
        let mut scope = self;
        while let Some(layer) = &scope.0 {
            let entry = match &layer.names {
                LayerNames::Values(object) => object.get(key).map(EntryRef::Plain),
                LayerNames::Entries(keys, entries) => {
                    keys.position(key).map(|at| EntryRef::from(&entries[at]))
                }
            };
            if let Some(entry) = entry.filter(|entry| keep(*entry)) {
                return Some(ScopeMatch { entry, label: &layer.label, scope });
            }
            scope = &layer.parent;
        }
        None
    }

    /// Every visible name, the innermost layer first, each once.
    pub fn names(&self) -> Vec<EcoString> {
        self.names_where(|_| true)
    }

    /// The ids of the outputs.
    pub(crate) fn output_ids(&self) -> Vec<EcoString> {
        self.names_where(is_output)
    }

    fn names_where(&self, keep: impl Fn(EntryRef<'_>) -> bool) -> Vec<EcoString> {
        let mut names = Vec::new();
        let mut scope = self;
        while let Some(layer) = &scope.0 {
            let (keys, entries): (_, Box<dyn Iterator<Item = EntryRef<'_>>>) = match &layer.names {
                LayerNames::Values(object) => {
                    (&**object.keys(), Box::new(object.values().iter().map(EntryRef::Plain)))
                }
                LayerNames::Entries(keys, entries) => (keys, Box::new(entries.iter().map(EntryRef::from))),
            };
            let kept = keys.as_slice().iter().zip(entries).filter(|(_, entry)| keep(*entry));
            names.extend(kept.map(|(key, _)| key.name().clone()));
            scope = &layer.parent;
        }
        let mut seen = hashbrown::HashSet::with_hasher(foldhash::fast::FixedState::default());
        names.retain(|name: &EcoString| seen.insert(name.clone()));
        names
    }
}

fn is_output(entry: EntryRef<'_>) -> bool {
    match entry {
        EntryRef::Output(_) => true,
        EntryRef::Promised(promise) => matches!(promise.shape, PromisedShape::Output { .. }),
        _ => false,
    }
}
