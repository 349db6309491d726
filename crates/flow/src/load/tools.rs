//! Tools of a file, and the servers that have them.

use ecow::EcoString;
use threadline_lang::Type;
use threadline_lang::diag::nearest;

use super::read::{Fields, Loader, Place, shown, span_of};
use crate::checks::Check;
use crate::fields::{SERVER, SHELL_TOOL};
use crate::model::{Action, Field, Reach, Server, ToolCall};

/// The tools that need no server.
pub(super) const BUILT_IN: [&str; 2] = ["shell", "http"];

/// The name of a step's tool.
pub(super) fn tool_name(fields: &Fields<'_>) -> Option<Field<EcoString>> {
    let place = fields.get("tool")?;
    let name = place.node.value.as_str()?;
    Some(place.field(name.into()))
}

impl Loader {
    pub(super) fn tool(&mut self, fields: &Fields<'_>) -> Option<Action> {
        self.tool_at(fields, &fields.get("tool")?)
    }

    /// The tool that is named there.
    pub(super) fn tool_at(&mut self, fields: &Fields<'_>, place: &Place<'_>) -> Option<Action> {
        let written = self.scalar_text(place, "tool")?;
        let name = place.field(written);
        if BUILT_IN.contains(&name.value.as_str()) {
            return self.built_in(fields, &name);
        }
        let Some((server, tool)) = name.value.split_once('.').filter(|(_, tool)| !tool.is_empty()) else {
            let problem =
                Check::UnknownTool.at(name.origin.span, format!("there is no tool `{}`", name.value));
            self.problem(match nearest(&name.value, BUILT_IN) {
                Some(near) => problem.hint(format!("did you mean `{near}`")),
                None => problem.hint("a tool of a server is named with it: `SERVER.TOOL`"),
            });
            return None;
        };
        let params = self.document_of(fields, "params");
        if let (Some(params), Some(place)) = (&params, fields.get("params"))
            && let Some(value) = params.value.as_fixed()
            && !matches!(value.kind(), Type::Object | Type::Null)
        {
            let message = format!("`params` takes an object, not {}", shown(value));
            self.problem(Check::WrongType.at(span_of(place.node), message));
        }
        Some(Action::Tool(ToolCall { server: server.into(), tool: tool.into(), name, params }))
    }

    /// A built-in tool does what the step of its name does.
    fn built_in(&mut self, fields: &Fields<'_>, name: &Field<EcoString>) -> Option<Action> {
        let Some(params) = fields.get("params") else {
            let message = format!("the tool `{}` needs `params` beside it", name.value);
            self.problem(Check::MissingKey.at(name.origin.span, message));
            return None;
        };
        if name.value == "http" {
            return self.request_of(fields, params);
        }
        let inner = self.fields(params, &SHELL_TOOL)?;
        match (inner.get("command"), inner.get("argv")) {
            (Some(command), None) => {
                let text = self.scalar_text(&command, "command")?;
                Some(Action::Shell { text: command.field(text), interpolate: true })
            }
            (None, Some(argv)) => {
                let words = self.arguments(&inner, "argv");
                self.program(words, Some(argv), "argv").map(Action::Argv)
            }
            (command, _) => {
                let message = "the tool `shell` takes `command`, text for a shell, or `argv`, a program and its arguments";
                let span = command.map_or(name.origin.span, |command| command.node.span);
                self.problem(Check::MissingKey.at(span, message));
                None
            }
        }
    }

    pub(super) fn servers(&mut self, fields: &Fields<'_>) -> Vec<Server> {
        let Some(place) = self.map(fields, "servers") else { return Vec::new() };
        let mut servers = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            if BUILT_IN.contains(&name) {
                let message = format!("`{name}` is a built-in tool");
                self.problem(Check::ReservedName.at(entry.key_span, message).hint("choose another name"));
                continue;
            }
            if let Some(reach) = self.reach(at) {
                servers.push(Server { name: name.into(), span: entry.key_span, reach });
            }
        }
        servers
    }

    fn reach(&mut self, place: Place<'_>) -> Option<Reach> {
        let fields = self.fields(place, &SERVER)?;
        let (url, command) = (fields.get("url"), fields.get("command"));
        let headers = self.headers(&fields);
        let (env, cwd) = (self.variables(&fields), self.template_of(&fields, "cwd"));
        if let Some(url) = url {
            self.not_beside(&fields, &["command", "env", "cwd"], "url");
            let url = self.template(&url, "url")?;
            self.written_url(&url);
            return Some(Reach::Url { url, headers });
        }
        if command.is_none() {
            if !fields.misspelt("command") && !fields.misspelt("url") {
                let message = "a server needs `command`, a program, or `url`";
                self.problem(Check::MissingKey.at(span_of(fields.place.node), message));
            }
            return None;
        }
        self.not_beside(&fields, &["headers"], "command");
        let words = self.templates(&fields, "command");
        let command = self.program(words, command, "command")?;
        Some(Reach::Program { command, env, cwd })
    }

    fn not_beside(&mut self, fields: &Fields<'_>, keys: &[&str], beside: &str) {
        for found in keys.iter().filter_map(|key| fields.found(key)) {
            let message = format!("`{}` does not go with `{beside}`", found.written);
            self.problem(Check::ConflictingKeys.at(found.entry.key_span, message));
        }
    }
}
