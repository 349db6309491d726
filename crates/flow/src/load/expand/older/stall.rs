//! The evaluations of older loops that say `no` when nothing has changed for a while. They become a few lines at the end of
//! the state's command, which remember in the folder of the run what they saw.

use ecow::EcoString;
use threadline_lang::Type;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::Expander;
use crate::load::expand::{entries, text, without};

/// The keys of these evaluations.
const KEYS: [&str; 5] = ["type", "max_stall", "scope", "history_file", "epsilon"];

impl Expander<'_> {
    /// A state that is judged by its exit code, in place of one that is judged by whether something stalls; none if it is
    /// not, or if that cannot be written so.
    pub(in crate::load::expand) fn expand_stall(&mut self, name: &str, state: &TreeNode) -> Option<TreeNode> {
        let evaluate = state.get("evaluate")?;
        let kind = evaluate.get("type")?.value.as_str()?;
        let script = script(kind, name, evaluate)?;
        let span = evaluate.span;
        let judged = self.make_object(vec![text("type", "exit_code", span)], span);
        let Some(key) = ["action", "shell"].into_iter().find(|key| state.get(key).is_some()) else {
            let acts = ["argv", "agent", "claude", "tool", "workflow", "loop", "http", "value", "write_file"];
            if acts.iter().any(|key| state.get(key).is_some()) {
                return None;
            }
            let mut all = without(state, &["evaluate", "action_type"]);
            all.push(text("action", &script, span));
            all.push(("evaluate".into(), TreeEntry::made(span, judged)));
            return Some(self.make_object(all, state.span));
        };
        let action = &state.get(key)?;
        let is_shell = state.get("action_type").is_none_or(|kind| kind.value.as_str() == Some("shell"));
        let command = action.value.as_str().filter(|_| is_shell)?;
        // What ends the command would end what comes behind it.
        if command.split(|char: char| !char.is_alphanumeric()).any(|word| word == "exit") {
            return None;
        }
        let mut node = TreeNode::clone(action);
        node.value = format!("{}\n{script}", command.trim_end()).into();
        let all = entries(state).into_iter().map(|(at, entry)| match at.as_str() {
            "evaluate" => (at, TreeEntry { node: judged.clone(), ..entry }),
            at if at == key => (EcoString::from(at), TreeEntry { node: node.clone(), ..entry }),
            _ => (at, entry),
        });
        Some(self.make_object(all.collect(), state.span))
    }
}

/// The lines that end with 0 while something changes, and with 1 when it has stalled.
fn script(kind: &str, state: &str, evaluate: &TreeNode) -> Option<String> {
    let others = without(evaluate, &KEYS);
    if !others.is_empty() || !crate::forms::is_name(state) {
        return None;
    }
    let number = |key: &str, default: &str| match evaluate.get(key) {
        None => Some(default.to_owned()),
        Some(node) => matches!(node.value.kind(), Type::Int | Type::Decimal).then(|| node.value.to_string()),
    };
    let most = number("max_stall", "1")?;
    if kind == "diff_stall" {
        let mut paths = String::new();
        for path in evaluate.get("scope").map_or(&[][..], TreeNode::items) {
            let path = path.value.as_str().filter(|path| !path.contains(['"', '`', '\\']))?;
            paths.extend([" \"", path, "\""]);
        }
        let file = format!("${{run.dir}}/{state}.stall");
        return Some(format!(
            "TL_NOW=$(git diff --{paths} | cksum)\n\
             if [ \"$TL_NOW\" = \"$(cat \"{file}\" 2>/dev/null)\" ]; then echo same >> \"{file}.same\"; \
             else : > \"{file}.same\"; fi\n\
             printf '%s\\n' \"$TL_NOW\" > \"{file}\"\n\
             [ \"$(wc -l < \"{file}.same\")\" -lt {most} ]\n"
        ));
    }
    let (file, epsilon, better) = match kind {
        "score_stall" => (".score_history", "0.5", "$1 > best + least"),
        "open_question_stall" => (".open_questions_history", "0", "$1 < best - least"),
        _ => return None,
    };
    let epsilon = number("epsilon", epsilon)?;
    let file = match evaluate.get("history_file") {
        None => format!("${{run.dir}}/{file}"),
        Some(path) => path.value.as_str().filter(|path| !path.contains(['"', '`', '\\']))?.to_owned(),
    };
    Some(format!(
        "[ ! -e \"{file}\" ] || awk -v least={epsilon} -v most={most} 'NF {{ if (!rounds++ || {better}) {{ best = $1; same \
         = 0 }} else same++ }} END {{ exit (same >= most) }}' < \"{file}\"\n"
    ))
}
