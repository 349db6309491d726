//! Addresses: which execution of which step. Only this file reads and writes their text.
//!
//! | text | what it names |
//! |---|---|
//! | (empty) | the run, and the list of its steps |
//! | `3` | the third step of the workflow |
//! | `3[17]` | item 17 of that step, and the list of the item's steps |
//! | `3[17]/1` | the first step for item 17 |
//! | `3/on_failure` | the steps that run after a failure of the third step |
//! | `3/on_failure/1` | the first of them |
//! | `finally`, `finally/1` | the steps at the end of the run, and the first of them; `on_failure` and `on_success` alike |
//! | `setup/1`, `map[17]/1` | steps of the phases of a map-reduce, which have names instead of numbers |
//! | `check#3` | the third visit of the state `check` of a loop |
//!
//! Steps count from 1, items from 0, visits from 1. The text is what the journal stores and what people type,
//! so there is one form of each address: [`Address::parse`] refuses every other.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_flow::plan::{List, Part, Plan, StepNumber};

use crate::event::Seq;
use crate::visits::LoopSlice;

/// Between a step and what stands in it.
const INSIDE: char = '/';

/// Before the index of an item.
const ITEM: char = '[';

/// Between the name of a state and the number of a visit.
const VISIT: char = '#';

/// The address of an execution of a step, of an item, or of a list of steps. Cheap to clone, to compare and
/// to hash.
///
/// Addresses are ordered by their text, so everything inside an address lies side by side in a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(EcoString);

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: EcoString,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the address of a step", self.text.escape_debug())
    }
}

impl std::error::Error for AddressError {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl Borrow<str> for Address {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Address {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl PartialEq<&str> for Address {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

// ---- making addresses -----------------------------------------------------------------------------------

impl Address {
    /// The run itself, and the list of the workflow's own steps.
    pub const fn root() -> Self {
        Self(EcoString::new())
    }

    /// A list of the workflow that runs when the outcome of the run is known.
    pub fn of_run(part: Part) -> Self {
        Self(part.key().into())
    }

    /// Reads an address. It says nothing about whether a plan has such a step.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut words = text.split(INSIDE);
        let valid = text.is_empty() || words.try_fold(Position::Run, Position::enter).is_some();
        if valid { Ok(Self(text.into())) } else { Err(AddressError { text: text.into() }) }
    }

    /// The step at a position of the list that has this address.
    #[must_use]
    pub fn child(&self, list: &List, position: usize) -> Self {
        let word = list.word(position);
        if self.is_root() { Self(word) } else { Self(eco_format!("{self}{INSIDE}{word}")) }
    }

    /// A visit of the state that has this address, from 1.
    #[must_use]
    pub fn at_visit(&self, visit: u64) -> Self {
        Self(eco_format!("{self}{VISIT}{visit}"))
    }

    /// An item of the step that has this address, from 0, and the list of that item's steps.
    #[must_use]
    pub fn item(&self, index: u64) -> Self {
        Self(eco_format!("{self}{ITEM}{index}]"))
    }

    /// A list of the step that has this address. The steps of a phase have the address of the phase.
    #[must_use]
    pub fn part(&self, part: Part) -> Self {
        match part {
            Part::Do => self.clone(),
            _ => Self(eco_format!("{self}{INSIDE}{}", part.key())),
        }
    }
}

// ---- asking addresses -----------------------------------------------------------------------------------

impl Address {
    /// The text, for storing and showing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the run itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is an item.
    pub fn is_item(&self) -> bool {
        self.0.ends_with(']')
    }

    /// Whether it is an item, or stands in one.
    pub fn is_in_items(&self) -> bool {
        self.0.contains(ITEM)
    }

    /// Whether it stands in a list other than the workflow's own.
    pub fn is_nested(&self) -> bool {
        self.0.contains(INSIDE)
    }

    /// Whether it is a visit of a state, and not something inside one.
    pub fn is_visit(&self) -> bool {
        self.0.contains(VISIT) && !self.0.contains([INSIDE, ITEM])
    }

    /// The step whose item it is, and which item, when it is an item.
    pub fn as_item(&self) -> Option<(Self, u64)> {
        let start = self.0.rfind(ITEM).filter(|_| self.is_item())?;
        Some((self.until(start), number(self.0.get(start + 1..self.0.len() - 1)?)?))
    }

    /// Which list of its parent it is, when it is a list of a step.
    pub fn as_part(&self) -> Option<Part> {
        let (_, word) = self.0.rsplit_once(INSIDE)?;
        part_called(word)
    }

    /// What it stands in: of a step its list, of an item the step with the items, of a list the step whose
    /// list it is.
    pub fn parent(&self) -> Option<Self> {
        let end = self.0.rfind([INSIDE, ITEM]);
        (!self.is_root()).then(|| end.map_or(Self::root(), |end| self.until(end)))
    }

    /// Everything it stands in, without the run, from the outermost to itself.
    pub fn lineage(&self) -> impl DoubleEndedIterator<Item = Self> {
        let ends = self.0.match_indices([INSIDE, ITEM]).map(|(end, _)| end);
        let own = (!self.is_root()).then_some(self.0.len());
        ends.chain(own).map(|end| self.until(end))
    }

    /// The outermost step or list that it stands in, or is; the run has none.
    pub fn outermost(&self) -> Option<Self> {
        self.lineage().next()
    }

    /// The items that it stands in, or is, from the outermost.
    pub fn items_around(&self) -> impl DoubleEndedIterator<Item = Self> {
        self.0.match_indices(']').map(|(end, _)| self.until(end + 1))
    }

    /// The indexes of the items that it stands in, or is, from the outermost.
    pub fn items(&self) -> impl Iterator<Item = u64> {
        self.0.split(ITEM).skip(1).filter_map(|rest| number(rest.split(']').next()?))
    }

    /// The items as they stand behind the name of a step: `[3][0]` for `3[3]/1[0]/2`, nothing outside of
    /// items.
    pub fn item_suffix(&self) -> String {
        self.items().fold(String::new(), |mut text, index| {
            // Writing into a text cannot fail.
            let _ = write!(text, "{ITEM}{index}]");
            text
        })
    }

    /// Whether it stands in another, at any depth. An address does not stand in itself.
    pub fn is_inside(&self, outer: &Self) -> bool {
        match self.0.strip_prefix(outer.as_str()) {
            Some(rest) => !rest.is_empty() && (outer.is_root() || rest.starts_with([INSIDE, ITEM])),
            None => false,
        }
    }

    /// Whether it is an item of a step, or stands in one.
    pub fn is_in_items_of(&self, step: &Self) -> bool {
        self.0.strip_prefix(step.as_str()).is_some_and(|rest| rest.starts_with(ITEM))
    }

    /// The step of a list that it stands in, or is.
    pub fn step_in(&self, list: &Self) -> Option<Self> {
        let found = self.lineage().find(|at| at.parent().as_ref() == Some(list) && !at.is_item());
        found.filter(|at| at.as_part().is_none() && part_called(&at.0).is_none())
    }

    /// The position of a step in its list, from 0, where steps have numbers.
    pub fn position(&self) -> Option<usize> {
        let word = self.0.rsplit(INSIDE).next()?;
        usize::try_from(number(word)?).ok()?.checked_sub(1)
    }

    /// The position among the workflow's own steps of the one that it is or stands in; none for the steps at
    /// the end.
    pub fn outermost_position(&self, plan: &Plan) -> Option<usize> {
        let outermost = self.outermost().filter(|outermost| part_called(&outermost.0).is_none())?;
        plan.lists.first()?.position(AddressWord::read(&outermost.0)?.name)
    }

    /// The name of the state that it is a visit of, or stands in such a visit.
    pub fn state(&self) -> Option<&str> {
        let (name, _) = self.0.split_once(VISIT)?;
        Some(name)
    }

    /// Which visit of its state it is, or stands in, from 1.
    pub fn visit(&self) -> Option<u64> {
        let (_, rest) = self.0.split_once(VISIT)?;
        number(rest.split([INSIDE, ITEM]).next()?)
    }

    /// The visit of a state that it is, or stands in.
    pub fn visit_around(&self) -> Option<Self> {
        Self::visit_of(&self.0).map(|visit| self.until(visit.len()))
    }

    /// The visit of a state that the address with this text is, or stands in.
    pub(crate) fn visit_of(text: &str) -> Option<&str> {
        let outermost = text.split([INSIDE, ITEM]).next()?;
        outermost.contains(VISIT).then_some(outermost)
    }

    /// Which list of the workflow it is or stands in, when that runs after the workflow's own steps.
    pub fn run_part(&self) -> Option<Part> {
        part_called(self.0.split(INSIDE).next()?)
    }

    /// As people name it: the id of its step with its items, or the address itself.
    pub fn shown(&self, plan: &Plan) -> EcoString {
        let step = self.step(plan).map(|step| &plan.steps[step as usize].step);
        match step.and_then(|step| step.id.as_ref()) {
            Some(id) => eco_format!("{}{}", id.value, self.item_suffix()),
            None => self.0.clone(),
        }
    }

    /// The step of a plan that it is an execution of; of an item, the step with the items.
    pub fn step(&self, plan: &Plan) -> Option<StepNumber> {
        let mut words = self.0.split(INSIDE).peekable();
        let part = words.peek().and_then(|word| part_called(word));
        let mut list = part.map_or(Some(0), |part| plan.run_part(part));
        if part.is_some() {
            words.next();
        }
        let mut step = None;
        for word in words {
            if let (Some(part), Some(owner)) = (part_called(word), step) {
                list = plan.part(owner, part);
                continue;
            }
            let word = AddressWord::read(word)?;
            let around = plan.lists.get(list? as usize)?;
            let number = *around.steps.get(around.position(word.name)?)?;
            step = Some(number);
            // The steps of a phase stand right below it, those of an item below the item.
            list = plan.part(number, Part::Do).filter(|_| word.item.is_some() || around.is_named());
        }
        step
    }

    fn until(&self, end: usize) -> Self {
        if end == self.0.len() { self.clone() } else { Self(self.0[..end].into()) }
    }
}

/// The name and the items of a text such as `each[3][0]`; [`Address::item_suffix`] writes them.
pub fn split_item_suffix(text: &str) -> Option<(&str, Vec<u64>)> {
    let Some((name, rest)) = text.split_once(ITEM) else { return Some((text, Vec::new())) };
    let indexes = rest.strip_suffix(']')?.split("][").map(|index| index.parse().ok());
    Some((name, indexes.collect::<Option<Vec<u64>>>()?))
}

/// A part of what happened in a run: everything outside of items, and of the items those on the way to some indexes, with
/// all that stands in them. Of a loop it may be the part of some visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSlice {
    /// The indexes of each item, those of the items around it first; in order.
    items: Vec<Vec<u64>>,
    /// The visits that belong to it; none if all do.
    visits: Option<Arc<LoopSlice>>,
}

impl RunSlice {
    /// The slice with these items; none of them for everything outside of items.
    pub fn new(mut items: Vec<Vec<u64>>) -> Self {
        items.sort_unstable();
        items.dedup();
        Self { items, visits: None }
    }

    /// The same of some visits of a loop.
    #[must_use]
    pub fn in_visits(self, visits: LoopSlice) -> Self {
        Self { visits: Some(Arc::new(visits)), ..self }
    }

    /// The visits that belong to it; none if all do.
    pub(crate) fn visits(&self) -> Option<&Arc<LoopSlice>> {
        self.visits.as_ref()
    }

    /// Whether it has some of the visits of a loop, and not all.
    pub fn has_visits(&self) -> bool {
        self.visits.is_some()
    }

    /// The last event that may belong to it.
    pub fn last(&self) -> Seq {
        self.visits.as_ref().map_or(Seq::MAX, |visits| visits.last())
    }

    /// Whether what happened at an address is asked for. Other visits of a loop are read because those that are asked for
    /// follow from them.
    pub fn asks_for(&self, at: &Address) -> bool {
        self.visits.as_ref().is_none_or(|visits| visits.asks_for(at))
    }

    /// Whether what is about the address with this text belongs to it. A text that is no address does
    /// where items do: whoever reads it says so.
    pub fn has(&self, address: &str) -> bool {
        if self.visits.as_ref().is_some_and(|visits| !visits.has(address)) {
            return false;
        }
        if !address.contains(ITEM) {
            return true;
        }
        if self.items.is_empty() {
            return false;
        }
        let indexes = address.split(ITEM).skip(1).map(|rest| rest.split(']').next().and_then(number));
        let Some(indexes) = indexes.collect::<Option<Vec<u64>>>() else { return true };
        let is_inside = (1..=indexes.len()).any(|len| self.has_item(&indexes[..len]));
        is_inside
            || self.items[self.first_from(&indexes)..].first().is_some_and(|item| item.starts_with(&indexes))
    }

    fn has_item(&self, indexes: &[u64]) -> bool {
        self.items.get(self.first_from(indexes)).is_some_and(|item| *item == *indexes)
    }

    /// The place of the first item that is not before one with these indexes.
    fn first_from(&self, indexes: &[u64]) -> usize {
        self.items.partition_point(|item| item.as_slice() < indexes)
    }

    /// The items of a step that belong to it, in order; none if all do.
    pub(crate) fn items_of(&self, step: &Address, count: u64) -> Option<Vec<u64>> {
        let around: Vec<u64> = step.items().collect();
        let mut found = Vec::new();
        for item in self.items.iter().filter(|item| item.iter().zip(&around).all(|(one, other)| one == other))
        {
            // Everything that stands in an item belongs to the slice with it.
            found.push(*item.get(around.len())?);
        }
        found.retain(|index| *index < count);
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

// ---- addresses as keys ----------------------------------------------------------------------------------

impl Address {
    /// Removes from a map what stands in the lists below this address, `3/..`, and leaves its items, `3[..`.
    pub fn remove_lists_from<T>(&self, map: &mut BTreeMap<Self, T>) {
        remove_from(map, self, INSIDE);
    }

    /// Removes from a map the items of the step with this address, `3[..`, and what stands in them.
    pub fn remove_items_from<T>(&self, map: &mut BTreeMap<Self, T>) {
        remove_from(map, self, ITEM);
    }
}

fn remove_from<T>(map: &mut BTreeMap<Address, T>, at: &Address, sign: char) {
    if map.is_empty() {
        return;
    }
    let mut prefix = at.0.clone();
    prefix.push(sign);
    let prefix = prefix.as_str();
    let first = (Bound::Included(prefix), Bound::Unbounded);
    let keys = map.range::<str, _>(first).map(|(key, _)| key);
    let keys: Vec<Address> = keys.take_while(|key| key.0.starts_with(prefix)).cloned().collect();
    for key in keys {
        map.remove(&key);
    }
}

// ---- reading the text -----------------------------------------------------------------------------------

/// How far an address is read, and so what may follow.
#[derive(Clone, Copy)]
enum Position {
    /// Nothing is read.
    Run,
    /// A list of steps with numbers: of a step, of an item, or at the end of the run.
    List,
    /// A step with a name that is no visit: its steps stand right below it.
    Phase,
    Step,
}

impl Position {
    fn enter(self, word: &str) -> Option<Self> {
        match self {
            Self::Run | Self::Phase | Self::Step if part_called(word).is_some() => return Some(Self::List),
            Self::Step => return None,
            Self::Run | Self::List | Self::Phase => {}
        }
        let word = AddressWord::read(word)?;
        let has_name = number(word.name).is_none();
        match (has_name, word.visit, word.item) {
            (true, _, _) if !matches!(self, Self::Run) => None,
            (true, None, _) if part_called(word.name).is_some() => None,
            (false, Some(_), _) => None,
            (_, _, Some(_)) => Some(Self::List),
            (true, None, None) => Some(Self::Phase),
            _ => Some(Self::Step),
        }
    }
}

/// A step as it stands in an address: its number or name, the visit, the item.
struct AddressWord<'a> {
    name: &'a str,
    visit: Option<u64>,
    item: Option<u64>,
}

impl<'a> AddressWord<'a> {
    fn read(word: &'a str) -> Option<Self> {
        let (head, item) = match word.split_once(ITEM) {
            Some((head, rest)) => (head, Some(number(rest.strip_suffix(']')?)?)),
            None => (word, None),
        };
        let (name, visit) = match head.split_once(VISIT) {
            Some((name, visit)) => (name, Some(number(visit).filter(|visit| *visit > 0)?)),
            None => (head, None),
        };
        let is_digits = name.bytes().all(|byte| byte.is_ascii_digit());
        let counts = number(name).is_some_and(|number| number > 0);
        let fits = !name.is_empty() && !name.contains(']') && (counts || !is_digits);
        fits.then_some(Self { name, visit, item })
    }
}

/// The list of a step that is called so.
fn part_called(word: &str) -> Option<Part> {
    Part::ALL.into_iter().find(|part| *part != Part::Do && part.key() == word)
}

/// A number in its one form: digits without a leading zero.
fn number(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let leads = digits.len() > 1 && digits.starts_with('0');
    if plain && !leads { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Address, Part, RunSlice, split_item_suffix};
    use crate::random::Random;

    fn at(text: &str) -> Address {
        Address::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An address by chance: the same letters as [`Address::child`] and the others write.
    fn any(random: &mut Random) -> String {
        let mut text =
            ["", "3", "finally", "on_failure", "map", "check#2", "12[0]", "map[17]", "check#40[3]"]
                [usize::try_from(random.below(8)).unwrap()]
            .to_owned();
        for _ in 0..random.below(4) {
            let holds_steps = text == "finally"
                || text == "on_failure"
                || text == "map"
                || text.ends_with([']', 'e', 's', 'y']);
            if holds_steps {
                text = format!("{text}/{}", 1 + random.below(12));
            } else if !text.is_empty() {
                text += ["[0]", "[31]", "/on_failure", "/on_success", "/finally"]
                    [usize::try_from(random.below(5)).unwrap()];
            }
        }
        text
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let mut random = Random::new(7);
        for _ in 0..5_000 {
            let text = any(&mut random);
            assert_eq!(at(&text).to_string(), text);
        }
    }

    #[test]
    fn what_is_made_of_an_address_is_one() {
        let mut random = Random::new(8);
        for _ in 0..5_000 {
            let whole = at(&any(&mut random));
            for outer in whole.lineage() {
                assert_eq!(at(outer.as_str()), outer);
                assert!(outer == whole || whole.is_inside(&outer), "{outer} {whole}");
            }
            let lineage: Vec<Address> = whole.lineage().collect();
            let mut parents: Vec<Address> =
                std::iter::successors(Some(whole.clone()), Address::parent).collect();
            assert_eq!(parents.pop(), Some(Address::root()));
            parents.reverse();
            assert_eq!(lineage, parents, "{whole}");
            let items: Vec<u64> = whole.items_around().map(|item| item.as_item().unwrap().1).collect();
            assert_eq!(items, whole.items().collect::<Vec<_>>(), "{whole}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        const LETTERS: [&str; 14] =
            ["/", "[", "]", "#", "0", "1", "17", "finally", "on_failure", "do", "map", "ä", " ", "-"];
        let mut random = Random::new(9);
        for _ in 0..50_000 {
            let letters = (0..random.below(9)).map(|_| LETTERS[usize::try_from(random.below(14)).unwrap()]);
            let text: String = letters.collect();
            let Ok(at) = Address::parse(&text) else { continue };
            assert_eq!(at.as_str(), text);
            let (_, _, _) = (at.as_item(), at.as_part(), at.position());
            let (_, _, _) = (at.visit(), at.state(), at.lineage().count());
            let _ = split_item_suffix(&text);
        }
    }

    #[test]
    fn there_is_one_form_of_each() {
        let wrong = [
            "/",
            "3/",
            "/3",
            "3//1",
            "0",
            "03",
            "3[01]",
            "3[]",
            "3[1",
            "3]",
            "3[1]]",
            "3[-1]",
            "3[1][2]",
            "3[+1]",
            "3/do/1",
            "3/1",
            "3[1]/finally/1",
            "3/on_failure/x",
            "setup/x",
            "check#0",
            "check#",
            "check#01",
            "#1",
            "3#1",
            "check#1#2",
            "finally/finally",
            "on_failure/on_success",
            "on_success[0]",
            "finally[0]",
            "check#3/1",
            "99999999999999999999",
            "3[99999999999999999999]",
        ];
        for text in wrong {
            assert!(Address::parse(text).is_err(), "`{text}` is read");
        }
    }

    #[test]
    fn an_address_says_where_it_is() {
        let inner = at("map[17]/2/on_failure/1");
        assert_eq!(inner.outermost(), Some(at("map")));
        assert_eq!(inner.items().collect::<Vec<_>>(), [17]);
        assert_eq!(inner.items_around().collect::<Vec<_>>(), [at("map[17]")]);
        assert_eq!(inner.step_in(&at("map[17]")), Some(at("map[17]/2")));
        assert_eq!(inner.parent().and_then(|list| list.as_part()), Some(Part::OnFailure));
        assert!(inner.is_inside(&at("map")) && inner.is_in_items_of(&at("map")));
        assert!(!at("30").is_inside(&at("3")) && !at("3").is_inside(&at("3")));
        assert_eq!((at("check#3/finally/1").visit(), at("check#3").state()), (Some(3), Some("check")));
        assert_eq!(at("3[4]/1[0]/2").item_suffix(), "[4][0]");
        assert_eq!(split_item_suffix("each[4][0]"), Some(("each", vec![4, 0])));
        assert_eq!(at("finally/1").step_in(&Address::root()), None);
    }

    /// An address belongs to a slice if one of its items and an item of the slice are on one way, however many there are.
    #[test]
    fn a_slice_has_what_is_on_the_way_to_its_items() {
        let mut random = Random::new(11);
        for _ in 0..2_000 {
            let mut number = || random.below(4);
            let count = number() * number();
            let items: Vec<Vec<u64>> =
                (0..count).map(|_| (0..=number() % 3).map(|_| number()).collect()).collect();
            let asked: Vec<u64> = (0..number()).map(|_| number()).collect();
            let slice = RunSlice::new(items.clone());
            let address = asked.iter().fold("map".to_owned(), |text, index| format!("{text}[{index}]/1"));
            let is_on_the_way = |item: &Vec<u64>| item.iter().zip(&asked).all(|(one, other)| one == other);
            let expected = asked.is_empty() || items.iter().any(is_on_the_way);
            assert_eq!(slice.has(&address), expected, "{address} in {items:?}");
        }
        assert!(RunSlice::new(vec![vec![1]]).has("map[x]/1"), "what is no address is read, and reported");
    }
}
