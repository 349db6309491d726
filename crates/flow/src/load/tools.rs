//! Reads calls of tools, and the servers that provide them.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_lang::Type;
use threadline_lang::diag::nearest;

use super::read::{LocatedNode, ObjectFields, WorkflowLoader, shown, span_of};
use crate::checks::Check;
use crate::fields::{AGENT_TOOL, SERVER, SHELL_TOOL};
use crate::model::{Action, AgentTool, BuiltInTool, Field, Reach, Server, ToolCall};

/// The tools that need no server.
pub(super) const BUILT_IN: [&str; 2] = ["shell", "http"];

/// The keys that name the tool of a step.
pub(super) fn tool_name(fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
    let place = fields.get("tool")?;
    let name = place.node.value.as_str()?;
    Some(place.field(name.into()))
}

impl WorkflowLoader {
    pub(super) fn read_tool(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        self.read_tool_at(fields, &fields.get("tool")?)
    }

    /// Reads the tool that a node names.
    pub(super) fn read_tool_at(
        &mut self,
        fields: &ObjectFields<'_>,
        place: &LocatedNode<'_>,
    ) -> Option<Action> {
        let written = self.read_scalar_text(place, "tool")?;
        let name = place.field(written);
        if BUILT_IN.contains(&name.value.as_str()) {
            return self.read_built_in(fields, &name);
        }
        let Some((server, tool)) = name.value.split_once('.').filter(|(_, tool)| !tool.is_empty()) else {
            let problem = Check::UnknownTool.at(name.origin.span, format!("unknown tool `{}`", name.value));
            self.report(match nearest(&name.value, BUILT_IN) {
                Some(near) => problem.did_you_mean(near),
                None => problem.hint("write a tool of a server as `SERVER.TOOL`"),
            });
            return None;
        };
        let params = self.read_document_of(fields, "params");
        if let (Some(params), Some(place)) = (&params, fields.get("params"))
            && let Some(value) = params.value.as_fixed()
            && !matches!(value.kind(), Type::Object | Type::Null)
        {
            let message = format!("`params` takes an object, not {}", shown(value));
            self.report(Check::WrongType.at(span_of(place.node), message));
        }
        Some(Action::Tool(ToolCall { server: server.into(), tool: tool.into(), name, params }))
    }

    /// Reads a built-in tool, which does the same as the step of its name.
    fn read_built_in(&mut self, fields: &ObjectFields<'_>, name: &Field<EcoString>) -> Option<Action> {
        let Some(params) = fields.get("params") else {
            let message = format!("the tool `{}` needs `params`", name.value);
            self.report(Check::MissingKey.at(name.origin.span, message));
            return None;
        };
        if name.value == "http" {
            return self.read_request_of(fields, params);
        }
        let inner = self.read_fields(params, &SHELL_TOOL)?;
        match (inner.get("command"), inner.get("argv")) {
            (Some(command), None) => {
                let text = self.read_scalar_text(&command, "command")?;
                Some(Action::Shell { text: command.field(text), interpolate: true })
            }
            (None, Some(argv)) => {
                let words = self.read_arguments(&inner, "argv");
                self.check_program(words, Some(argv), "argv").map(Action::Argv)
            }
            (command, _) => {
                let message = "the tool `shell` takes `command`, a shell script, or `argv`, a program and its arguments";
                let span = command.map_or(name.origin.span, |command| command.node.span);
                self.report(Check::MissingKey.at(span, message));
                None
            }
        }
    }

    pub(super) fn read_servers(&mut self, fields: &ObjectFields<'_>) -> Vec<Server> {
        let Some(place) = self.read_map(fields, "servers") else { return Vec::new() };
        let mut servers = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            if BUILT_IN.contains(&name) || BuiltInTool::ALL.iter().any(|tool| tool.name() == name) {
                let message = format!("`{name}` is a built-in tool");
                self.report(Check::ReservedName.at(entry.key_span, message).hint("choose another name"));
                continue;
            }
            if let Some(reach) = self.read_reach(at) {
                let results = BTreeMap::new();
                servers.push(Server { name: name.into(), span: entry.key_span, reach, results });
            }
        }
        servers
    }

    /// Reads what an agent may call. Whether the servers exist is known later.
    pub(super) fn read_agent_tools(&mut self, fields: &ObjectFields<'_>) -> Vec<AgentTool> {
        let Some(place) = fields.get("tools") else { return Vec::new() };
        let items: Vec<LocatedNode<'_>> = match place.node.value.as_list() {
            Some(_) => place.items().collect(),
            None => vec![place],
        };
        let mut tools: Vec<AgentTool> = Vec::new();
        for item in items {
            let is_object = item.node.value.as_object().is_some();
            let span = span_of(item.node);
            let tool = if is_object { self.read_tool_object(item) } else { self.read_tool_word(&item) };
            let Some(tool) = tool else { continue };
            let is_same = |known: &AgentTool| match (known, &tool) {
                (AgentTool::BuiltIn(known), AgentTool::BuiltIn(tool)) => known == tool,
                (AgentTool::Workflow { name: known, .. }, AgentTool::Workflow { name, .. }) => known == name,
                _ => false,
            };
            if tools.iter().any(is_same) {
                let hint = "two workflows need two names: `{workflow: FILE, name: NAME}`";
                self.report(Check::DuplicateName.at(span, "another tool has the same name").hint(hint));
                continue;
            }
            tools.push(tool);
        }
        tools
    }

    /// Reads a tool that is only a name: a built-in one, a server, or one tool of a server.
    fn read_tool_word(&mut self, place: &LocatedNode<'_>) -> Option<AgentTool> {
        let word = self.read_scalar_text(place, "tools")?;
        if let Some(tool) = BuiltInTool::ALL.into_iter().find(|tool| tool.name() == word) {
            return Some(AgentTool::BuiltIn(tool));
        }
        if word == "shell" {
            let message = "an agent gets no shell: what it writes would run as code";
            let hint = "write a workflow whose steps run the command with `inputs`, and name it: \
                        `tools: [{workflow: FILE}]`";
            self.report(Check::UnknownTool.at(span_of(place.node), message).hint(hint));
            return None;
        }
        let (server, allow) = match word.split_once('.') {
            Some((server, tool)) => (server.into(), vec![place.field(EcoString::from(tool))]),
            None => (word, Vec::new()),
        };
        Some(AgentTool::Server { server: place.field(server), allow, deny: Vec::new() })
    }

    fn read_tool_object(&mut self, place: LocatedNode<'_>) -> Option<AgentTool> {
        let fields = self.read_fields(place, &AGENT_TOOL)?;
        match (fields.get("server"), fields.get("workflow")) {
            (Some(place), None) => {
                self.refuse_beside(&fields, &["name", "description"], "server");
                let server = self.read_scalar_text(&place, "server")?;
                let allow = self.read_tool_names(&fields, "allow");
                let deny = self.read_tool_names(&fields, "deny");
                Some(AgentTool::Server { server: place.field(server), allow, deny })
            }
            (None, Some(_)) => {
                self.refuse_beside(&fields, &["allow", "deny"], "workflow");
                let path = self.read_called_path(&fields)?;
                let name = self.read_name(&fields, "name").map(|name| name.value);
                let description = self.read_text(&fields, "description");
                let name = name.unwrap_or_else(|| super::name_of(&path.value));
                Some(AgentTool::Workflow { path, name, description })
            }
            (Some(_), Some(_)) => {
                self.refuse_beside(&fields, &["workflow"], "server");
                None
            }
            (None, None) => {
                if !fields.misspelt("server") && !fields.misspelt("workflow") {
                    let message = "an entry of `tools` needs either `server` or `workflow`";
                    self.report(Check::MissingKey.at(span_of(fields.place.node), message));
                }
                None
            }
        }
    }

    /// Reads names of tools, in which a `*` may stand at the end.
    fn read_tool_names(&mut self, fields: &ObjectFields<'_>, key: &str) -> Vec<Field<EcoString>> {
        let Some(place) = fields.get(key) else { return Vec::new() };
        let span = span_of(place.node);
        let items: Vec<LocatedNode<'_>> = match place.node.value.as_list() {
            Some(_) => place.items().collect(),
            None => vec![place],
        };
        if items.is_empty() {
            let message = format!("`{key}` names no tool");
            self.report(Check::WrongType.at(span, message).hint("remove it, or name one"));
        }
        let mut names = Vec::new();
        for item in items {
            let Some(name) = self.read_scalar_text(&item, key) else { continue };
            if name.is_empty() || name[..name.len() - 1].contains('*') {
                let message = format!("`{name}` is not the name of a tool: a `*` may only stand at its end");
                self.report(Check::WrongType.at(span_of(item.node), message));
                continue;
            }
            names.push(item.field(name));
        }
        names
    }

    fn read_reach(&mut self, place: LocatedNode<'_>) -> Option<Reach> {
        let fields = self.read_fields(place, &SERVER)?;
        let (url, command) = (fields.get("url"), fields.get("command"));
        let headers = self.read_headers(&fields);
        let (env, cwd) = (self.read_variables(&fields), self.read_template_of(&fields, "cwd"));
        if let Some(url) = url {
            self.refuse_beside(&fields, &["command", "env", "cwd"], "url");
            let url = self.read_template(&url, "url")?;
            self.check_url(&url);
            return Some(Reach::Url { url, headers });
        }
        if command.is_none() {
            if !fields.misspelt("command") && !fields.misspelt("url") {
                let message = "a server needs either `command`, a program, or `url`";
                self.report(Check::MissingKey.at(span_of(fields.place.node), message));
            }
            return None;
        }
        self.refuse_beside(&fields, &["headers"], "command");
        let words = self.read_templates(&fields, "command");
        let command = self.check_program(words, command, "command")?;
        Some(Reach::Program { command, env, cwd })
    }

    fn refuse_beside(&mut self, fields: &ObjectFields<'_>, keys: &[&str], beside: &str) {
        for found in keys.iter().filter_map(|key| fields.found(key)) {
            let message = format!("`{}` cannot be combined with `{beside}`", found.written);
            self.report(Check::ConflictingKeys.at(found.entry.key_span, message));
        }
    }
}
