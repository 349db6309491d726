//! What of a run a page shows, which stands in the address and nowhere else, and the addresses of other views of it.

use threadline_engine::event::Address;
use threadline_inspect::run_state::Standing;

use crate::parameters::{GivenArguments, encoded};

/// What stands in the middle of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pane {
    Source,
    Steps,
    Items,
    Log,
    Agents,
    Called,
}

impl Pane {
    pub(crate) const ALL: [Self; 6] =
        [Self::Source, Self::Steps, Self::Items, Self::Log, Self::Agents, Self::Called];

    /// Their names in addresses.
    pub(crate) const NAMES: [&'static str; 6] = ["source", "steps", "items", "log", "agents", "called"];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The words on its tab.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Steps => "Steps",
            Self::Items => "Items",
            Self::Log => "Log",
            Self::Agents => "Agents",
            Self::Called => "Called runs",
        }
    }
}

/// What of a run is shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewChoice {
    /// Whether the page is a file: then its links lead to places in it.
    pub(crate) is_file: bool,
    /// As it was after this event.
    pub(crate) at: Option<u64>,
    pub(crate) pane: Option<Pane>,
    /// The execution whose attempts, log or items are shown.
    pub(crate) step: Option<Address>,
    /// Which attempt of it.
    pub(crate) attempt: Option<u64>,
    /// The item whose values stand in the source: indexes, the outermost first.
    pub(crate) item: Option<Vec<u64>>,
    /// The visit of a state whose values stand in the source.
    pub(crate) visit: Option<Address>,
    /// The value that is looked at, by its line and column.
    pub(crate) value: Option<(usize, usize)>,
    /// Only items that stand like this.
    pub(crate) standing: Vec<Standing>,
    /// Items behind this one, or lines.
    pub(crate) after: Option<u64>,
    pub(crate) stream: Option<&'static str>,
    /// Only lines with this text.
    pub(crate) search: Option<String>,
}

impl ViewChoice {
    pub(crate) fn of(given: &GivenArguments) -> Self {
        let address = |name: &str| given.text(name).and_then(|text| Address::parse(text).ok());
        let pane = given.text("pane").and_then(|name| Pane::ALL.into_iter().find(|pane| pane.name() == name));
        let item = given
            .text("item")
            .map(|text| text.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().unwrap_or_default());
        let value = given.text("value").and_then(|text| {
            let (line, column) = text.split_once(':')?;
            Some((line.parse().ok()?, column.parse().ok()?))
        });
        Self {
            is_file: false,
            at: given.number("at"),
            pane,
            step: address("step"),
            attempt: given.number("attempt"),
            item: item.filter(|item| !item.is_empty()),
            visit: address("visit"),
            value,
            standing: Standing::ALL
                .into_iter()
                .filter(|known| given.words("standing").contains(&known.name()))
                .collect(),
            after: given.number("after"),
            stream: ["stdout", "stderr"].into_iter().find(|stream| given.text("stream") == Some(stream)),
            search: given.text("search").map(str::to_owned),
        }
    }

    /// The query of the address, with a `?` before it.
    pub(crate) fn query(&self) -> String {
        if self.is_file {
            return match (self.value, &self.step, &self.item) {
                (Some((line, column)), ..) => format!("#v{line}-{column}"),
                (None, Some(step), _) => format!("#{}", step_id(step)),
                _ => "#main".to_owned(),
            };
        }
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(self.at.map(|at| ("at", at.to_string())));
        pairs.extend(self.pane.map(|pane| ("pane", pane.name().to_owned())));
        pairs.extend(self.step.as_ref().map(|step| ("step", step.to_string())));
        pairs.extend(self.attempt.map(|attempt| ("attempt", attempt.to_string())));
        pairs.extend(self.item.as_ref().map(|item| ("item", item_text(item))));
        pairs.extend(self.visit.as_ref().map(|visit| ("visit", visit.to_string())));
        pairs.extend(self.value.map(|(line, column)| ("value", format!("{line}:{column}"))));
        pairs.extend(self.standing.iter().map(|standing| ("standing", standing.name().to_owned())));
        pairs.extend(self.after.map(|after| ("after", after.to_string())));
        pairs.extend(self.stream.map(|stream| ("stream", stream.to_owned())));
        pairs.extend(self.search.clone().map(|search| ("search", search)));
        let pairs: Vec<String> =
            pairs.into_iter().map(|(name, value)| format!("{name}={}", encoded(&value))).collect();
        format!("?{}", pairs.join("&"))
    }

    /// The fields of a form that keeps the view but for some of them.
    pub(crate) fn fields(&self, without: &[&str]) -> Vec<(String, String)> {
        let query = self.query();
        let pairs = query.trim_start_matches('?').split('&').filter_map(|pair| pair.split_once('='));
        let decoded = |text: &str| crate::parameters::decoded(text, true).unwrap_or_default();
        pairs
            .filter(|(name, _)| !without.contains(name))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect()
    }

    /// The same view with something else.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut other = self.clone();
        change(&mut other);
        other.query()
    }

    /// Another pane, without what belongs to this one.
    pub(crate) fn pane(&self, pane: Pane) -> String {
        let Self { is_file, at, item, visit, .. } = self.clone();
        Self { is_file, at, item, visit, pane: Some(pane), ..Self::default() }.query()
    }

    /// An execution in a pane.
    pub(crate) fn step(&self, pane: Pane, step: &Address) -> String {
        let Self { is_file, at, item, visit, .. } = self.clone();
        let step = Some(step.clone());
        Self { is_file, at, item, visit, pane: Some(pane), step, ..Self::default() }.query()
    }
}

/// The id of an execution in a page that is a file: letters and digits alone.
pub(crate) fn step_id(step: &Address) -> String {
    let plain = |char: char| match char {
        char if char.is_ascii_alphanumeric() => char.to_string(),
        char => format!("-{:x}-", u32::from(char)),
    };
    format!("s-{}", step.as_str().chars().map(plain).collect::<String>())
}

/// The indexes of an item: `3`, or `3.1` for the second item of a list in the fourth.
pub(crate) fn item_text(item: &[u64]) -> String {
    item.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}
