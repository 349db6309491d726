//! Effects, performed on this machine: processes, requests, tools, files, called runs, items, worktrees.
//!
//! Each becomes plain data that says what happened. What that means for the run is the engine's business.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::agent::stream::{self, AnswerStream};
use threadline_engine::event::{Address, Listed};
use threadline_engine::execute::effect::{
    CallEnd, CallSpec, ChosenItems, Effect, EffectKey, EffectResult, FileSpec, ItemsSource, ItemsSpec,
    ListingSpec, NotChosen, ReadSpec, Role, ToolAnswer, ToolSpec,
};
use threadline_engine::execute::{
    Driver as _, FieldEvaluation, PRINTED_FORMAT, SecretView, StepSite, has_worktrees,
};
use threadline_engine::machine::Task;
use threadline_engine::select::ResolvedSource;
use threadline_engine::spend::Spend;
use threadline_engine::view::View;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, ForEach, OnCrash};
use threadline_lang::Value;
use threadline_store::JournalError;

use crate::called::{self, CallAttempt, CallOutcome};
use crate::choice::{ChooseError, choose};
use crate::driver::{DriveError, Notice, PrintedNotices};
use crate::item_worktree;
use crate::items::{ChunkError, ChunkWriter, ItemSource, SelectError};
use crate::local::LocalDriver;
use crate::process::{Asked, Stream};
use crate::project::{FileError, WriteHow};
use crate::results::{CHUNK_BYTES, CHUNK_ITEMS};
use crate::secrets::masks::MaskStream;
use crate::teller::NoticeSender;
use crate::tools::CalledTool;
use crate::workplace::{self, ActLimit, ActSurroundings, ActWatch, Clock, WorkOrder};
use crate::worktrees::WorktreeError;

/// The time between two looks of a pause whether somebody wants it to end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl LocalDriver<'_, '_> {
    /// Performs an effect of a command. `view` is the view of a command that reads items.
    pub(crate) fn perform(
        &mut self,
        key: &EffectKey,
        effect: &Effect,
        view: Option<&View>,
    ) -> Result<EffectResult, DriveError> {
        match effect {
            Effect::Nothing => Ok(EffectResult::Nothing),
            Effect::Pause(duration) => Ok(self.pause(*duration)),
            // The driver reveals it first.
            Effect::WithSecrets(_) => Ok(EffectResult::Refused(Failure::new(
                FailureKind::Evaluation,
                "its secrets were not put in place",
            ))),
            Effect::Process(_) | Effect::Request(_) => self.perform_act(key, effect),
            Effect::Tool(spec) => Ok(self.call_tool(key, spec)),
            Effect::ListTools(spec) => Ok(self.list_tools(spec)),
            Effect::ReadFile(spec) => Ok(self.read_file(spec)),
            Effect::WriteFile(spec) => Ok(self.write_file(spec)),
            Effect::Workflow(spec) => self.call_workflow(key, spec),
            Effect::ReadItems(spec) => self.read_items(key, view, spec),
            Effect::EnterWorktree { item, entry } => {
                let Some(entered) = self.shared.unlocked(|| self.shared.enter(*item, *entry))? else {
                    return Ok(EffectResult::Cancelled);
                };
                let entered = entered.map_err(|error| item_worktree::failure(&error));
                Ok(EffectResult::Worktree(entered.map(|placed| self.placed = Some(placed))))
            }
            Effect::MergeItem(item) => {
                let merge = || self.shared.worktrees().and_then(|worktrees| worktrees.merge(*item));
                let Some(merged) = self.shared.unlocked(merge)? else { return Ok(EffectResult::Cancelled) };
                let merged = merged.map(|_| ()).map_err(|error| item_worktree::failure(&error));
                Ok(EffectResult::Worktree(merged))
            }
            Effect::AbandonItem { item, keep } => {
                let abandon =
                    || self.shared.worktrees().and_then(|worktrees| worktrees.abandon(*item, *keep));
                let Some(abandoned) = self.shared.unlocked(abandon)? else {
                    return Ok(EffectResult::Cancelled);
                };
                Ok(self.branch(key, abandoned.map(|branch| branch.map(EcoString::from))))
            }
            Effect::CloseWorktrees => {
                let Some(closed) = self.shared.unlocked(|| self.shared.leave_worktrees())? else {
                    return Ok(EffectResult::Cancelled);
                };
                Ok(self.branch(key, closed.map(|closed| closed?.branch.map(EcoString::from))))
            }
        }
    }

    /// Waits, unless somebody asks to end before.
    fn pause(&self, duration: Duration) -> EffectResult {
        let until = Instant::now().checked_add(duration);
        loop {
            let rings = self.shared.stop.bell().rings();
            if self.shared.stop.asked() || self.shared.control.asked() != Asked::Nothing {
                return EffectResult::Cancelled;
            }
            let left = until.map_or(BETWEEN_LOOKS, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return EffectResult::Nothing;
            }
            self.shared.stop.bell().wait(rings, Some(left.min(BETWEEN_LOOKS)));
        }
    }

    // ---- programs and requests ---------------------------------------------------------------------------------------

    /// Performs a program or a request wherever the run performs them.
    fn perform_act(&self, key: &EffectKey, effect: &Effect) -> Result<EffectResult, DriveError> {
        let shared = self.shared;
        let surroundings = ActSurroundings {
            root: self.project().root().to_owned(),
            folder: self.project().here().to_owned(),
            env: self.environment(&key.at),
            value_folder: self.value_folder(),
            spool: self.private_folder(),
            masks: shared.surroundings.masks().cloned(),
        };
        let step = key.at.step(&shared.plan);
        let is_program = matches!(effect, Effect::Process(_));
        // The tool `http` of an agent only gets.
        let is_asked = matches!(effect, Effect::Request(spec) if spec.request.method == "POST");
        let act = WorkOrder {
            started: &shared.started,
            run: shared.journal.run(),
            key,
            once: self.begins_once(key),
            repeats: self.is_rerun && shared.in_flight == Some(OnCrash::Rerun),
            not_after: self.not_after,
            effect,
            named: self.named.as_ref(),
            secrets: &shared.surroundings,
            model: is_asked.then(|| stream::asked(&shared.plan, key)).flatten(),
            limit: self.limit(key, is_program || is_asked),
            labels: step.and_then(|step| shared.plan.labels_of(step, key.role == Role::Judge)),
            surroundings: &surroundings,
        };
        let mut watcher = self.answer_watcher(key).filter(|_| is_program || is_asked);
        let tells_all = is_program && shared.printed == PrintedNotices::All;
        let (teller, at) = (shared.teller.clone(), key.at.clone());
        let print = move |stream: Stream, bytes: &[u8]| match &mut watcher {
            Some(watcher) if stream == Stream::Stdout => watcher.hear(bytes),
            _ if tells_all => teller.tell(Notice::Printed(at.clone(), stream, bytes.to_vec())),
            _ => {}
        };
        let tell = |why: String| shared.warn(&key.at, "not-begun", why);
        let mut watch = ActWatch { control: &shared.control, print: Box::new(print), tell: &tell };
        let (result, mut leaked) = shared.workplace.perform(&act, &mut watch)?.split_leaked();
        let (result, more) = match (result, &surroundings.masks) {
            (EffectResult::Process(Ok(end)), Some(masks)) if end.worker.is_some() => masks.mask_end(end),
            (EffectResult::Response(Ok(response), timing), Some(masks)) if response.worker.is_some() => {
                masks.mask_result(EffectResult::Response(Ok(response), timing))
            }
            (result, _) => result,
        }
        .split_leaked();
        // What came of it elsewhere is told when it has ended, and without secrets.
        match &result {
            EffectResult::Process(Ok(end)) if end.worker.is_some() => {
                (watch.print)(Stream::Stdout, end.stdout.as_deref().unwrap_or_default());
                (watch.print)(Stream::Stderr, &end.stderr);
            }
            EffectResult::Response(Ok(response), _) if response.worker.is_some() => {
                (watch.print)(Stream::Stdout, &response.body);
            }
            _ => {}
        }
        leaked.extend(more);
        leaked.sort();
        leaked.dedup();
        Ok(if leaked.is_empty() { result } else { EffectResult::Leaked(Box::new(result), leaked) })
    }

    /// The limit of the agent that an effect asks, as far as all runs together are concerned.
    fn limit(&self, key: &EffectKey, may_ask: bool) -> Option<ActLimit> {
        let plan = &self.shared.plan;
        let call = self.call.as_ref().filter(|_| may_ask && stream::asked(plan, key).is_some())?;
        let name = self.shared.surroundings.account(&plan.workflow, &call.agent);
        Some(ActLimit { name, most: call.max_parallel? })
    }

    /// Whether an effect is one that may begin at most once: what a step does, where `on_crash` says so.
    fn begins_once(&self, key: &EffectKey) -> bool {
        let plan = &self.shared.plan;
        let step = key.at.step(plan).filter(|_| key.role == Role::Act);
        let on_crash = step.map(|step| plan.workflow.on_crash(&plan.steps[step as usize].step));
        on_crash.is_some_and(|on_crash| on_crash != OnCrash::Rerun)
    }

    fn folder(&self, cwd: Option<&str>) -> PathBuf {
        workplace::folder(self.project().here(), cwd)
    }

    // ---- tools -----------------------------------------------------------------------------

    /// Who tells what an agent says while it says it, if an effect asks one and somebody wants to know.
    fn answer_watcher(&self, key: &EffectKey) -> Option<AnswerWatcher> {
        let stream = match self.shared.printed {
            PrintedNotices::None => None,
            PrintedNotices::Agents | PrintedNotices::All => AnswerStream::of(&self.shared.plan, key),
        };
        let masks = self.shared.surroundings.masks().cloned().map(MaskStream::new);
        let (teller, at) = (self.shared.teller.clone(), key.at.clone());
        Some(AnswerWatcher { stream: stream?, masks, teller, at })
    }

    fn call_tool(&self, key: &EffectKey, spec: &ToolSpec) -> EffectResult {
        let clock = Clock::start();
        let (servers, spec) = (Arc::clone(&self.shared.servers), spec.clone());
        // A server says nothing while it works, so nobody can tell whether it is worth waiting for: the first
        // signal ends the call, and the step begins anew when the run is resumed.
        let is_over = || self.shared.stop.asked();
        let control = self.shared.control.child();
        let answer = match control.aside_unless(is_over, move || servers.call(&spec.call, spec.limits)) {
            Ok(None) => return EffectResult::Cancelled,
            Ok(Some(CalledTool { answer, unchecked })) => {
                if let Some(message) = unchecked {
                    let masks = self.shared.surroundings.masks();
                    let message = masks.map_or_else(|| message.clone(), |masks| masks.masked_text(&message));
                    self.shared.warn(&key.at, "tool-schema", message);
                }
                answer
            }
            Err(error) => {
                let failure = Failure::new(FailureKind::Tool, format!("no tool can be called: {error}"));
                ToolAnswer { result: Err(failure), version: None }
            }
        };
        EffectResult::Tool(answer, clock.timing())
    }

    fn list_tools(&self, spec: &ListingSpec) -> EffectResult {
        let clock = Clock::start();
        let (servers, spec) = (Arc::clone(&self.shared.servers), spec.clone());
        let is_over = || self.shared.stop.asked();
        let control = self.shared.control.child();
        let listed = match control.aside_unless(is_over, move || servers.described(&spec.server, spec.limits))
        {
            Ok(None) => return EffectResult::Cancelled,
            Ok(Some(listed)) => listed,
            Err(error) => {
                Err(Failure::new(FailureKind::Tool, format!("no server can be asked for its tools: {error}")))
            }
        };
        EffectResult::Tools(listed, clock.timing())
    }

    // ---- files and workflows ----------------------------------------------------------------------------

    fn read_file(&self, spec: &ReadSpec) -> EffectResult {
        let clock = Clock::start();
        let text = self.project().read(&spec.path, self.project().here());
        EffectResult::Read(text.map_err(file_failure), clock.timing())
    }

    fn write_file(&self, spec: &FileSpec) -> EffectResult {
        let clock = Clock::start();
        let folder = self.folder(spec.cwd.as_deref());
        let how = WriteHow { from: &folder, mode: spec.mode, create_dirs: spec.create_dirs };
        let written = self.project().write(&spec.path, &spec.content, &how);
        EffectResult::Written(written.map(|_| ()).map_err(file_failure), clock.timing())
    }

    fn call_workflow(&self, key: &EffectKey, spec: &CallSpec) -> Result<EffectResult, DriveError> {
        let clock = Clock::start();
        let step = key.at.step(&self.shared.plan);
        let Some(plan) = step.and_then(|step| self.shared.plan.callee(step, &spec.call.file)) else {
            let message = format!("`{}` was not loaded with the workflow that calls it", spec.call.file);
            let value = Err(Failure::new(FailureKind::Workflow, message));
            let end = CallEnd { value, meta: Vec::new(), spent: Spend::default() };
            return Ok(EffectResult::Called(end, clock.timing()));
        };
        let folder = self.folder(spec.cwd.as_deref());
        let attempt = CallAttempt { key, spec, plan, folder: &folder, project: self.project() };
        Ok(match called::call(self.shared, &attempt)? {
            CallOutcome::Over(end) => EffectResult::Called(end, clock.timing()),
            CallOutcome::Stopped => EffectResult::Cancelled,
            CallOutcome::Waiting(decisions) => {
                self.shared.await_decisions(decisions);
                EffectResult::Cancelled
            }
            CallOutcome::OverBudget(reached) => {
                self.shared.hold_call(reached);
                EffectResult::Cancelled
            }
        })
    }

    // ---- items ------------------------------------------------------------------------------------------

    fn read_items(
        &mut self,
        key: &EffectKey,
        view: Option<&View>,
        spec: &ItemsSpec,
    ) -> Result<EffectResult, DriveError> {
        let shared = self.shared;
        let step = key.at.step(&shared.plan);
        let each = step.and_then(|step| match &shared.plan.steps[step as usize].step.action {
            Action::ForEach(each) => Some((step, each)),
            _ => None,
        });
        let (Some((step, each)), Some(view)) = (each, view) else { return Ok(EffectResult::Cancelled) };
        if each.worktree && has_worktrees(&shared.plan) {
            let Some(opened) = shared.unlocked(|| shared.worktrees())? else {
                return Ok(EffectResult::Cancelled);
            };
            match opened {
                Ok(worktrees) => shared.tell_uncommitted(&key.at, &worktrees),
                Err(error) => {
                    return Ok(EffectResult::Items(Err(NotChosen::Failed(item_worktree::failure(&error)))));
                }
            }
        }
        let task = Task { at: key.at.clone(), step, as_of: key.as_of };
        Ok(EffectResult::Items(self.choose_items(&task, view, each, spec)?))
    }

    fn choose_items(
        &mut self,
        task: &Task,
        view: &View,
        each: &ForEach,
        spec: &ItemsSpec,
    ) -> Result<Result<ChosenItems, NotChosen>, DriveError> {
        let store = self.shared.journal.store();
        let project = &self.project().clone();
        let source = match &spec.source {
            ItemsSource::Resolved(resolved) => match ItemSource::open(project, resolved) {
                Ok(Some(source)) => source,
                Ok(None) => {
                    let message = "the items: their command was not run";
                    return Ok(Err(NotChosen::Failed(Failure::new(FailureKind::Input, message))));
                }
                Err(error) => {
                    let is_command = each.is_map
                        && matches!(resolved, ResolvedSource::File { path, .. } if path.contains(char::is_whitespace));
                    let hint = if is_command {
                        "; what a command prints: `input: {shell: COMMAND}`".to_owned()
                    } else {
                        error.hint.map(|hint| format!("; {hint}")).unwrap_or_default()
                    };
                    let message = format!("the items: {}{hint}", error.message);
                    return Ok(Err(NotChosen::Failed(Failure::new(FailureKind::Input, message))));
                }
            },
            ItemsSource::Printed(text) => {
                let format = match &spec.expansion.source {
                    ResolvedSource::Shell { format, .. } => *format,
                    _ => None,
                };
                let (name, read) = ("what the command printed".to_owned(), Box::new(text.as_bytes()));
                ItemSource::Stream { name, read, format: Some(format.unwrap_or(PRINTED_FORMAT)) }
            }
        };
        let (masks, mut leaked) = (self.shared.surroundings.masks(), Vec::new());
        let mut chunks = ChunkWriter::new(store, CHUNK_ITEMS, CHUNK_BYTES);
        let spool = self.private_folder();
        let secrets = SecretView::Masked;
        let site = StepSite { plan: &self.shared.plan, task, view, secrets }.with(&spec.earlier);
        let FieldEvaluation { result: chosen, computed } = self.evaluate(site, |scope, session, _| {
            let mut take = |value: Value| {
                let value = match masks {
                    Some(masks) => {
                        let (value, secrets) = masks.mask_value(&value);
                        leaked.extend(secrets);
                        value
                    }
                    None => value,
                };
                chunks.push(value)
            };
            choose((each, &spec.expansion), source, (scope, session), &spool, &mut take)
        })?;
        if let Some(secret) = leaked.first() {
            let message = format!("an item contains the secret `{secret}`, and items are recorded");
            return Ok(Err(NotChosen::Failed(Failure::new(FailureKind::SecretOutput, message))));
        }
        let counts = match chosen {
            Ok(counts) => counts,
            Err(SelectError::Caller(ChooseError::Field(error))) => {
                return Ok(Err(NotChosen::Fields(vec![*error])));
            }
            Err(SelectError::Caller(ChooseError::Taker(ChunkError::Journal(error)))) => {
                return Err(error.into());
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                let failure = Failure::new(FailureKind::Input, format!("the items: {error}{hint}"));
                return Ok(Err(NotChosen::Failed(failure)));
            }
        };
        let leads_nowhere = each.json_path.is_some() && counts.complete && counts.read == 0;
        let chunks = chunks.finish().map_err(JournalError::from)?;
        let items = Listed::Chunks(chunks.store(store).map_err(JournalError::from)?);
        let read = counts.read;
        Ok(Ok(ChosenItems { items, count: chunks.len(), read, leads_nowhere, computed }))
    }

    /// The branch that keeps commits. What cannot be tidied up now is when the worktrees are opened again.
    fn branch(&self, key: &EffectKey, branch: Result<Option<EcoString>, WorktreeError>) -> EffectResult {
        EffectResult::Branch(branch.unwrap_or_else(|error| {
            self.shared.warn(&key.at, "worktrees", error.to_string());
            None
        }))
    }
}

fn file_failure(error: FileError) -> Failure {
    let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Failure::new(FailureKind::File, format!("{}{hint}", error.message))
}

/// Tells what an agent says while it says it, and at the end what was held back because a secret could have begun there.
struct AnswerWatcher {
    stream: AnswerStream,
    masks: Option<MaskStream>,
    teller: NoticeSender,
    at: Address,
}

impl AnswerWatcher {
    fn hear(&mut self, bytes: &[u8]) {
        let said = self.stream.push(bytes);
        let said = self.masks.as_mut().map_or_else(|| said.clone(), |masks| masks.push(&said));
        self.tell(said);
    }

    fn tell(&self, said: Vec<u8>) {
        if !said.is_empty() {
            self.teller.tell(Notice::Printed(self.at.clone(), Stream::Stdout, said));
        }
    }
}

impl Drop for AnswerWatcher {
    fn drop(&mut self) {
        let said = self.masks.as_mut().map(MaskStream::finish);
        self.tell(said.unwrap_or_default());
    }
}
