//! `threadline vars`: lists the names of a run with the steps that set them, or the history of one name.

use std::collections::BTreeMap;

use anstyle::Style;
use threadline_engine::replay::NameSort;
use threadline_inspect::explanation::{Readers, readers_of};
use threadline_inspect::labels::title;
use threadline_inspect::names::{AssignedValue, latest_names, of_name, setting_json};
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::explain::text::readers_named;
use super::history::{History, clock_text};
use super::kept::stored;
use super::{print, print_styled};
use crate::arguments::VarsArguments;
use crate::exit::CommandFailure;
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// The maximum number of items that are shown for one name.
const MAX_ITEMS: usize = 5;

pub(crate) fn vars(call: &VarsArguments) -> Result<(), CommandFailure> {
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    let mut settings = match &call.name {
        Some(name) => of_name(&history, name)?,
        None => latest_names(&history)?,
    };
    let shown_items = if call.name.is_some() || call.json { usize::MAX } else { MAX_ITEMS };
    let more = leave_out(&mut settings, shown_items);
    for setting in &mut settings {
        setting.load(&history)?;
    }
    let mut readers: Readers = settings.iter().map(|setting| (setting.maker.clone(), Vec::new())).collect();
    readers_of(&history, &mut readers)?;
    if call.json {
        let names = settings.iter().map(|setting| setting_json(&history, setting, &readers));
        let value = Value::record([
            ("run", history.info.id.as_str().into()),
            ("workflow", history.started.workflow.as_str().into()),
            ("names", Value::sequence(names)),
        ]);
        return print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    let shown = |value: &Value| if call.full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
    let mut table = Table::default();
    for setting in &settings {
        let value = match (&setting.before, call.name.is_some()) {
            (Some(before), true) => format!("{} → {}", shown(before), shown(&setting.value)),
            _ => shown(&setting.value),
        };
        let previous = match (&setting.before, setting.iteration) {
            (Some(before), Some(_)) if call.name.is_none() => format!("; before it {}", shown(before)),
            _ => String::new(),
        };
        table.row([
            (BOLD, setting.shown_name()),
            (PLAIN, format!("= {value}")),
            (DIM, setting.value.kind().name().to_owned()),
            (DIM, set_by(&history, setting) + &previous + &read_by(&history, setting, &readers)),
        ]);
    }
    let more = more.iter().fold(String::new(), |text, (name, count)| {
        text + &format!("{count} more of `{name}`: `threadline vars {} {name}`\n", history.info.id)
    });
    print_styled(&(table.text("") + &more))
}

/// Leaves out all but some values of each name that items set. How many of which were left out.
fn leave_out(settings: &mut Vec<AssignedValue>, shown: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::<String, usize>::new();
    settings.retain(|setting| {
        let count = counts.entry(setting.name.clone()).and_modify(|count| *count += 1).or_insert(1);
        !setting.at.is_in_items() || *count <= shown
    });
    counts.retain(|_, count| *count > shown);
    for count in counts.values_mut() {
        *count -= shown;
    }
    counts
}

fn set_by(history: &History<'_>, setting: &AssignedValue) -> String {
    let when = match (setting.seq, setting.time) {
        (Some(seq), Some(time)) => format!(", event {seq}, {}", clock_text(time)),
        _ => String::new(),
    };
    let who = match setting.sort {
        NameSort::Input => "input".to_owned(),
        NameSort::Context if setting.seq.is_none() => "context, as written".to_owned(),
        NameSort::Context => "context".to_owned(),
        NameSort::Step | NameSort::Capture => format!("set by {}", title(&history.plan, &setting.at)),
    };
    let iteration = match setting.iteration {
        Some((iteration, true)) => format!(", iteration {iteration}, which is over"),
        Some((iteration, false)) => format!(", iteration {iteration}"),
        None => String::new(),
    };
    format!("{who}{when}{iteration}")
}

fn read_by(history: &History<'_>, setting: &AssignedValue, readers: &Readers) -> String {
    let readers = readers.get(&setting.maker).into_iter().flatten();
    readers_named(history, readers).map_or(String::new(), |names| format!("; read by {names}"))
}
