//! Walks commands: assignments, redirections, pipelines and compound commands.

use ecow::EcoString;
use threadline_lang::Binding;
use threadline_lang::diag::Severity;

use super::super::hazards::{CODE_VARIABLE, INTEGER_VARIABLE, LOOP_NAME, is_code_name, is_code_variable};
use super::super::names::DECLARES;
use super::super::options::{HasWord, is_assignment, plain_path};
use super::super::tree::{
    AssignedWords, Assignment, CommandList, CommandSyntax, Joint, Operation, Pipeline, Redirection,
    RedirectionTarget, ShellCommand, Word, WordPart,
};
use super::super::{Dialect, ShellProblem};
use super::fact::{Fact, Passage, ValueSource};
use super::guards::{diverges, matches_digits, split_conditional};
use super::words::FollowedWord;
use super::{Branch, FactKey, OutputFacts, ValueFollower};
use crate::model::SECRETS_ROOT;

/// Maximum number of calls of one function, or of contents of one array, that are told apart.
const MAX_CALLS: usize = 32;

/// Maximum number of commands that one command is expanded to.
const MAX_VARIANTS: usize = 64;

impl ValueFollower<'_> {
    /// Walks commands one after another, with what arrives on their standard input.
    pub(super) fn walk_list(&mut self, list: &CommandList, input: &Fact) -> OutputFacts {
        let height = self.guards.len();
        let mut chain = self.guards.len();
        let mut output = OutputFacts::default();
        let mut pending = None;
        for (at, item) in list.items.iter().enumerate() {
            if item.joint != Joint::And {
                self.guards.truncate(chain.min(self.guards.len()));
            }
            let branch = if item.joint == Joint::Sequence { Branch::Always } else { Branch::Sometimes };
            let facts = self.in_branch(branch, |follower| follower.walk_pipeline(&item.pipeline, input));
            if list.items.len() == 1 {
                output = facts;
            } else {
                output.join(&facts);
            }
            if let Some(guard) = pending.take() {
                self.guards.truncate(chain.min(self.guards.len()));
                self.guards.push(guard);
                chain = self.guards.len();
            }
            let next = list.items.get(at + 1);
            for (guard, holds) in self.find_guards(&item.pipeline) {
                match next.map(|next| (next.joint, &next.pipeline)) {
                    Some((Joint::And, _)) if holds => self.guards.push(guard),
                    Some((Joint::And, other)) if !holds && diverges(other, &self.functions) => {
                        pending = Some(guard);
                    }
                    Some((Joint::Or, other)) if holds && diverges(other, &self.functions) => {
                        pending = Some(guard);
                    }
                    _ => {}
                }
            }
            for guard in self.find_later_guards(&item.pipeline) {
                self.guards.truncate(chain.min(self.guards.len()));
                self.guards.push(guard);
                chain = self.guards.len();
            }
        }
        self.guards.truncate(height.min(self.guards.len()));
        output
    }

    fn walk_pipeline(&mut self, pipeline: &Pipeline, input: &Fact) -> OutputFacts {
        let mut arriving = input.clone();
        let mut output = OutputFacts::default();
        for command in &pipeline.commands {
            let errors = std::mem::take(&mut output.err);
            output = self.walk_command(command, &arriving);
            output.err.join_sources(&errors);
            arriving = output.out.clone();
        }
        output
    }

    pub(super) fn walk_command(&mut self, command: &ShellCommand, input: &Fact) -> OutputFacts {
        if self.is_exhausted() {
            return OutputFacts::default();
        }
        // A substitution in its words reads what the command around it reads.
        let mut input = input.clone();
        // `exec < file` changes the input of what follows, wherever it stands.
        if let Some(kept) = self.facts.get(&FactKey::Descriptor("0".into())) {
            input.join_sources(kept);
        }
        let outer = std::mem::replace(&mut self.input, input.clone());
        let output = self.walk_redirected(command, &input);
        self.input = outer;
        output
    }

    fn walk_redirected(&mut self, command: &ShellCommand, input: &Fact) -> OutputFacts {
        let arriving = self.redirected_input(&command.redirections, input);
        let mut output = match &command.syntax {
            CommandSyntax::Simple { assignments, words } => {
                self.walk_simple(command, assignments, words, &arriving)
            }
            CommandSyntax::Group(list) => self.walk_list(list, &arriving),
            CommandSyntax::If { branches, otherwise } => {
                self.in_branch(Branch::Sometimes, |follower| follower.walk_if(branches, otherwise, &arriving))
            }
            CommandSyntax::While { until, condition, body } => self
                .in_branch(Branch::Repeatedly, |follower| {
                    follower.walk_while(*until, condition, body, &arriving)
                }),
            CommandSyntax::For { name, words, body } => self.in_branch(Branch::Repeatedly, |follower| {
                follower.walk_for(name, words.as_deref(), body, &arriving)
            }),
            CommandSyntax::Counted { header, body } => {
                self.drop_guards_of_loop(&[body]);
                self.check_arithmetic(header);
                self.in_branch(Branch::Repeatedly, |follower| follower.walk_list(body, &arriving))
            }
            CommandSyntax::Case { subject, clauses } => {
                self.in_branch(Branch::Sometimes, |follower| follower.walk_case(subject, clauses, &arriving))
            }
            CommandSyntax::Arithmetic(arithmetic) => {
                self.check_arithmetic(arithmetic);
                OutputFacts::default()
            }
            CommandSyntax::Conditional(words) => {
                self.walk_conditional(words);
                OutputFacts::default()
            }
            CommandSyntax::Function { name, body } => {
                self.walk_function(name, body);
                OutputFacts::default()
            }
            CommandSyntax::Coprocess { name, body } => {
                let arriving = self.fact(&FactKey::Descriptor("*".into()));
                let output = self.walk_command(body, &arriving);
                self.add_fact(FactKey::Variable(name.clone()), &Fact::unknown());
                self.add_fact(FactKey::Descriptor("*".into()), &output.out);
                OutputFacts::default()
            }
        };
        self.redirect_output(&command.redirections, &mut output);
        output
    }

    fn walk_while(
        &mut self,
        until: bool,
        condition: &CommandList,
        body: &CommandList,
        input: &Fact,
    ) -> OutputFacts {
        self.drop_guards_of_loop(&[condition, body]);
        let mut output = self.walk_list(condition, input);
        let guards = if until { Vec::new() } else { self.find_guards_of_condition(condition) };
        let height = self.guards.len();
        self.guards.extend(guards);
        output.join(&self.walk_list(body, input));
        self.guards.truncate(height.min(self.guards.len()));
        output
    }

    fn walk_if(
        &mut self,
        branches: &[(CommandList, CommandList)],
        otherwise: &CommandList,
        input: &Fact,
    ) -> OutputFacts {
        let mut output = OutputFacts::default();
        let start = self.guards.len();
        for (condition, body) in branches {
            output.join(&self.walk_list(condition, input));
            let height = self.guards.len();
            let guards = self.find_guards_of_condition(condition);
            self.guards.extend(guards);
            output.join(&self.walk_list(body, input));
            self.guards.truncate(height.min(self.guards.len()));
            // Behind a test that failed, what it denies holds.
            let denied = self.find_denied_guards(condition);
            self.guards.extend(denied);
        }
        output.join(&self.walk_list(otherwise, input));
        self.guards.truncate(start.min(self.guards.len()));
        output
    }

    fn walk_for(
        &mut self,
        name: &Word,
        words: Option<&[Word]>,
        body: &CommandList,
        input: &Fact,
    ) -> OutputFacts {
        self.drop_guards_of_loop(&[body]);
        let named = self.follow_word(name, false);
        self.apply_to_word(&named, &LOOP_NAME);
        let mut fact = Fact::default();
        match words {
            Some(words) => {
                for word in words {
                    let word = self.follow_word(word, true);
                    self.warn_if_unquoted(&word);
                    fact.join(&word.fact);
                }
            }
            None => fact = self.follow_name("@"),
        }
        if let Some(variable) = name.text() {
            self.set_variable(variable, &fact, name.range.start);
            // `select` reads the answer.
            self.set_variable("REPLY", &input.split(), name.range.start);
        }
        self.walk_list(body, input)
    }

    fn walk_case(
        &mut self,
        subject: &Word,
        clauses: &[super::super::tree::CaseClause],
        input: &Fact,
    ) -> OutputFacts {
        self.follow_word(subject, false);
        let mut output = OutputFacts::default();
        let start = self.guards.len();
        for clause in clauses {
            for pattern in &clause.patterns {
                self.follow_word(pattern, false);
            }
            let height = self.guards.len();
            self.guards.extend(self.find_guard_of_clause(subject, clause));
            output.join(&self.walk_list(&clause.body, input));
            self.guards.truncate(height.min(self.guards.len()));
            self.guards.extend(self.find_guard_behind_clause(subject, clause));
        }
        self.guards.truncate(start.min(self.guards.len()));
        output
    }

    fn walk_conditional(&mut self, words: &[Word]) {
        let height = self.guards.len();
        // Behind `&&` what was tested before it holds.
        for test in split_conditional(words) {
            let mut words = vec![Word::fixed("[[")];
            words.extend(test.iter().cloned());
            self.walk_test(&words);
            let guard = self.find_guard_of_test(test, true);
            self.guards.extend(guard.into_iter().filter(|(_, holds)| *holds).map(|(guard, _)| guard));
        }
        self.guards.truncate(height.min(self.guards.len()));
    }

    fn walk_test(&mut self, words: &[Word]) {
        let words = self.follow_words_unsplit(words);
        if words.iter().any(|word| word.word().is("=~")) {
            let mut matched = Fact::default();
            let digits = words.last().and_then(FollowedWord::text).is_some_and(matches_digits);
            for word in words.iter().filter(|_| !digits) {
                matched.join(&word.fact);
            }
            self.set_variable("BASH_REMATCH", &matched.derived(), 0);
            for name in ["MATCH", "match"] {
                if self.dialect == Dialect::Zsh {
                    self.set_variable(name, &matched.derived(), 0);
                }
            }
        }
        self.apply_hazards("[[", &words);
    }

    pub(super) fn follow_words_unsplit<'w>(&mut self, words: &'w [Word]) -> Vec<FollowedWord<'w>> {
        words.iter().map(|word| self.follow_word(word, false)).collect()
    }

    fn walk_function(&mut self, name: &Word, body: &ShellCommand) {
        let named = self.follow_word(name, false);
        self.apply_to_word(&named, &super::super::hazards::COMMAND_WORD);
        let Some(function) = name.text().map(EcoString::from) else { return };
        let ends = super::guards::command_diverges(body, &self.functions);
        if self.functions.insert(function.clone(), ends) != Some(ends) {
            self.changed = true;
        }
        let outer = std::mem::replace(&mut self.frame, function.clone());
        let guards = std::mem::take(&mut self.guards);
        let branch = std::mem::replace(&mut self.branch, Branch::Always);
        let input = self.fact(&FactKey::Input(function.clone()));
        let output = self.walk_command(body, &input);
        self.branch = branch;
        self.add_fact(FactKey::Output(function.clone()), &output.out);
        self.add_fact(FactKey::Errors(function), &output.err);
        self.guards = guards;
        self.frame = outer;
    }

    /// Calls a function or an inner text with arguments.
    pub(super) fn pass_arguments(&mut self, frame: &EcoString, arguments: &[FollowedWord<'_>]) {
        let mut from = None;
        for (at, argument) in (1..).zip(arguments) {
            let is_list = |slot: usize| self.slots[slot].reference.binding() == Some(Binding::Words);
            let several = argument.is_several() || argument.word().slots().any(is_list);
            if from.is_none() && (several || at > 9) {
                from = Some(at.min(9));
            }
            let key = match from {
                Some(from) => FactKey::LaterArgument(frame.clone(), from),
                None => FactKey::Argument(frame.clone(), at),
            };
            self.add_fact(key, &argument.fact);
        }
        let given = arguments.iter().map(FollowedWord::owned).collect();
        let calls = self.calls.entry(frame.clone()).or_default();
        if calls.len() < MAX_CALLS {
            calls.push(given);
        } else {
            self.uncounted_calls.insert(frame.clone());
        }
    }

    /// Tells the calls of a function no longer apart.
    pub(super) fn forget_calls(&mut self, frame: &EcoString) {
        self.changed |= self.uncounted_calls.insert(frame.clone());
    }

    /// The commands that a command with `"$@"` or `"${list[@]}"` among its words can be.
    fn expand_lists<'w>(&self, words: Vec<FollowedWord<'w>>) -> Vec<Vec<FollowedWord<'w>>> {
        if words.iter().all(|word| self.lists_of(word).is_none()) {
            return vec![words];
        }
        let mut variants = vec![Vec::new()];
        for word in words {
            let lists = self.lists_of(&word).filter(|lists| lists.len() * variants.len() <= MAX_VARIANTS);
            let Some(lists) = lists else {
                for variant in &mut variants {
                    variant.push(word.owned());
                }
                continue;
            };
            let before = std::mem::take(&mut variants);
            for variant in &before {
                for list in &lists {
                    let longer = variant.iter().chain(list).map(FollowedWord::owned).collect();
                    variants.push(longer);
                }
            }
        }
        variants
    }

    /// The lists of words that a word stands for, if they are known.
    fn lists_of(&self, word: &FollowedWord<'_>) -> Option<Vec<Vec<FollowedWord<'static>>>> {
        let [WordPart::Parameter(parameter)] = &word.word().parts[..] else { return None };
        let plain = matches!(parameter.operation, Operation::Plain) && parameter.evaluates.is_none();
        if !plain || !parameter.quoted || parameter.is_length || parameter.lists_keys.is_some() {
            return None;
        }
        if parameter.name == "@" && !self.uncounted_calls.contains(&self.frame) {
            let calls = self.earlier_calls.get(&self.frame)?;
            let (least, most) = self.shifted_before(word.range().start);
            let mut lists = Vec::new();
            for call in calls {
                for from in least.min(call.len())..=most.min(call.len()) {
                    lists.push(call[from..].iter().map(FollowedWord::owned).collect());
                }
            }
            return Some(lists);
        }
        let subscript = parameter.subscript.as_ref()?;
        let all = subscript.is_whole;
        if !all || self.unknown_arrays.contains(&parameter.name) {
            return None;
        }
        self.earlier_arrays
            .get(&parameter.name)
            .map(|lists| lists.iter().map(|list| list.iter().map(FollowedWord::owned).collect()).collect())
    }

    /// The least and the greatest number of arguments that are shifted away before a position.
    pub(super) fn shifted_before(&self, at: usize) -> (usize, usize) {
        let (mut least, mut most) = (0, 0_usize);
        for (position, shift) in self.shifts.get(&self.frame).into_iter().flatten() {
            match shift.branch {
                Branch::Always if *position < at => {
                    // `set --` gives new arguments, which earlier shifts do not touch.
                    least += if self.resets.contains(&self.frame) { 0 } else { shift.by };
                    most = most.saturating_add(shift.by);
                }
                Branch::Always => {}
                Branch::Sometimes => most = most.saturating_add(shift.by),
                Branch::Repeatedly => most = usize::MAX,
            }
        }
        (least, most)
    }

    /// Walks commands that do not run exactly once when those around them do.
    fn in_branch<T>(&mut self, branch: Branch, walk: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.branch;
        self.branch = outer.max(branch);
        let walked = walk(self);
        self.branch = outer;
        walked
    }

    /// Notes what an assignment puts into an array.
    fn note_array(&mut self, assignment: &Assignment) {
        let AssignedWords::Many(elements) = &assignment.value else {
            if assignment.subscript.is_some() {
                self.unknown_arrays.insert(assignment.name.clone());
            }
            return;
        };
        let list: Vec<FollowedWord<'static>> =
            elements.iter().map(|word| self.follow_word(word, true).owned()).collect();
        let lists = self.arrays.entry(assignment.name.clone()).or_default();
        if lists.len() >= MAX_CALLS {
            self.unknown_arrays.insert(assignment.name.clone());
        } else if assignment.appends && !lists.is_empty() {
            // What is appended comes behind everything that the array can be so far.
            let longer: Vec<Vec<_>> = lists
                .iter()
                .map(|known| known.iter().chain(&list).map(FollowedWord::owned).collect())
                .collect();
            lists.extend(longer);
        } else {
            lists.push(list);
        }
    }

    // ---- simple commands -------------------------------------------------------------------------------

    fn walk_simple(
        &mut self,
        command: &ShellCommand,
        assignments: &[Assignment],
        words: &[Word],
        input: &Fact,
    ) -> OutputFacts {
        let external = words.first().is_some_and(|word| !self.is_builtin_word(word));
        for assignment in assignments {
            self.assign(assignment, external);
        }
        if words.is_empty() {
            // `$(< file)` prints the file.
            let out = if assignments.is_empty() { input.clone() } else { Fact::default() };
            return OutputFacts { out, err: Fact::default() };
        }
        // The shell does not split what a declaration assigns.
        let declares = words[0].text().is_some_and(|name| DECLARES.contains(&name));
        let whole = declares && self.dialect != Dialect::Posix;
        let words: Vec<FollowedWord<'_>> =
            words.iter().map(|word| self.follow_word(word, !(whole && is_assignment(word)))).collect();
        for word in words.iter().skip(1).filter(|word| !(whole && is_assignment(word.word()))) {
            self.warn_if_unquoted(word);
        }
        if external {
            words[1..].iter().for_each(|word| self.mark_external(word.word()));
        }
        let runs_program = match words[0].text() {
            Some("command" | "exec") => words.get(1).is_some_and(|word| !self.is_builtin_word(word.word())),
            _ => external,
        };
        if runs_program {
            words[1..].iter().for_each(|word| self.refuse_secret(word));
        }
        if let Some(last) = words.last() {
            self.add_fact(FactKey::Variable("_".into()), &last.fact.clone());
        }
        if let [word] = &words[..]
            && word.text() == Some("exec")
        {
            self.redirect_for_good(&command.redirections);
        }
        self.feed_processes(&words, input);
        // What a program prints can come from its environment.
        let mut given = Fact::default();
        for assignment in assignments.iter().filter(|_| external) {
            given.join_sources(&self.follow_name(&assignment.name).derived());
        }
        let sets = words[0].text() == Some("set");
        if sets && words.iter().any(|word| self.lists_of(word).is_some()) {
            // Arguments that are made of the arguments have no end.
            self.forget_calls(&self.frame.clone());
        }
        let mut output: Option<OutputFacts> = None;
        for words in if sets { vec![words] } else { self.expand_lists(words) } {
            let facts = self.run(&words, input, 0);
            match &mut output {
                Some(output) => output.join(&facts),
                None => output = Some(facts),
            }
        }
        let mut output = output.unwrap_or_default();
        output.out.join_sources(&given);
        output.err.join_sources(&given);
        output
    }

    pub(super) fn is_builtin_word(&self, word: &Word) -> bool {
        word.text()
            .is_some_and(|name| super::apply::BUILTINS.contains(&name) || self.functions.contains_key(name))
    }

    /// Notes that the values of a word are passed to another program.
    pub(super) fn mark_external(&mut self, word: &Word) {
        for slot in word.slots() {
            self.slots[slot].external = true;
        }
    }

    /// Refuses a secret as an argument of a program: every user of the computer can read the arguments of all programs.
    fn refuse_secret(&mut self, word: &FollowedWord<'_>) {
        if !self.reporting || !word.fact.holds_value() {
            return;
        }
        let secret = word.fact.sources.iter().find_map(|(source, passage)| {
            if passage.has(Passage::IN_FILE) || passage.has(Passage::DERIVED) {
                return None;
            }
            match source {
                ValueSource::Slot(slot) => {
                    let references = self.slots.get(*slot as usize)?.reference.references();
                    references.into_iter().find(|reference| reference.root == SECRETS_ROOT)?.first
                }
                ValueSource::Environment(at) => self.context.environment.get(*at as usize)?.secret.clone(),
                ValueSource::File(_) => None,
            }
        });
        let Some(name) = secret else { return };
        let span = self.span(&word.range());
        let message = format!(
            "the secret `{name}` would be an argument of a program, which every user of the computer can see"
        );
        let hint = "let the program read it from its environment, from standard input or from a file: \
                    `printf %s \"$NAME\" | program`, `${secrets.NAME | as_file}`";
        self.push_problem(ShellProblem {
            id: "secret-argument",
            severity: Severity::Error,
            span,
            message,
            hint: Some(hint.replace("secrets.NAME", &format!("secrets.{name}"))),
            fix: None,
        });
    }

    fn assign(&mut self, assignment: &Assignment, external: bool) {
        let name = &assignment.name;
        if let Some(subscript) = &assignment.subscript {
            self.check_arithmetic(subscript);
            if subscript.is_key {
                // The keys of the array can be values, too.
                let key = self.follow_word(&subscript.word, false).fact;
                self.set_variable(name, &key, assignment.range.start);
            }
        }
        let several = matches!(assignment.value, AssignedWords::Many(_));
        for word in assignment.words() {
            if external {
                self.mark_external(word);
            }
            let word = self.follow_word(word, several);
            if several {
                self.warn_if_unquoted(&word);
            }
            if external && is_code_variable(name) {
                self.apply_to_word(&word, &CODE_VARIABLE);
            }
            self.assign_word(name, &word, assignment.range.start);
        }
        if several {
            self.add_fact(FactKey::Variable(name.clone()), &Fact::unknown());
        }
        self.note_array(assignment);
    }

    /// Puts a word into a variable, with what that does in special ones.
    pub(super) fn assign_word(&mut self, name: &str, word: &FollowedWord<'_>, at: usize) {
        if is_code_name(name) {
            self.apply_to_word(word, &CODE_VARIABLE);
        }
        if self.integers.contains(name) {
            self.apply_to_word(word, &INTEGER_VARIABLE);
            self.apply_to_bare_names(word, &INTEGER_VARIABLE);
            return;
        }
        self.set_variable(name, &word.fact, at);
    }

    // ---- redirections ----------------------------------------------------------------------------------

    /// What arrives on standard input behind the redirections of a command.
    fn redirected_input(&mut self, redirections: &[Redirection], input: &Fact) -> Fact {
        let mut arriving = input.clone();
        for redirection in redirections {
            let descriptor = redirection.descriptor.as_deref();
            let fact = match &redirection.target {
                RedirectionTarget::Input(word) => {
                    let word = self.follow_word(word, true);
                    self.warn_if_unquoted(&word);
                    let mut fact = self.content(&word);
                    fact.join_sources(&word.fact.derived());
                    fact
                }
                RedirectionTarget::HereString(word) => self.follow_word(word, false).fact,
                RedirectionTarget::HereDocument(index) => {
                    let Some(tree) = self.trees.last().cloned() else { continue };
                    let Some(document) = tree.documents.get(*index) else { continue };
                    self.follow_word(document, false).fact
                }
                RedirectionTarget::InputDescriptor(word) => {
                    let word = self.follow_word(word, true);
                    self.descriptor(&word)
                }
                RedirectionTarget::Output(_) | RedirectionTarget::OutputDescriptor(_) => continue,
            };
            match descriptor {
                None | Some("0") => arriving = fact,
                Some(number) => self.add_fact(FactKey::Descriptor(number.into()), &fact),
            }
        }
        arriving
    }

    /// What is read from the descriptor that a word names.
    fn descriptor(&self, word: &FollowedWord<'_>) -> Fact {
        let mut fact = self.fact(&FactKey::Descriptor("*".into()));
        match word.text() {
            Some(number) => {
                fact.join_sources(&self.fact(&FactKey::Descriptor(number.trim_end_matches('-').into())));
            }
            None => {
                for (key, known) in &self.facts {
                    if matches!(key, FactKey::Descriptor(_)) {
                        fact.join_sources(known);
                    }
                }
            }
        }
        fact
    }

    /// Puts what a command writes where its redirections say.
    fn redirect_output(&mut self, redirections: &[Redirection], output: &mut OutputFacts) {
        for redirection in redirections {
            let descriptor = redirection.descriptor.as_deref();
            match &redirection.target {
                RedirectionTarget::Output(word) => {
                    let followed = self.follow_word(word, true);
                    self.warn_if_unquoted(&followed);
                    let written = match descriptor {
                        None | Some("1") => std::mem::take(&mut output.out),
                        Some("2") => std::mem::take(&mut output.err),
                        Some(number) => self.fact(&FactKey::Descriptor(number.into())),
                    };
                    self.write_to(&followed, &written);
                }
                RedirectionTarget::OutputDescriptor(word) => {
                    let followed = self.follow_word(word, true);
                    match (descriptor, followed.text()) {
                        (Some("2"), Some("1")) => {
                            let errors = output.err.clone();
                            output.out.join_sources(&errors);
                        }
                        (None | Some("1"), Some("2")) => {
                            let out = std::mem::take(&mut output.out);
                            output.err.join_sources(&out);
                        }
                        (_, Some("1" | "2" | "-")) => {}
                        (_, Some(number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                            let out = std::mem::take(&mut output.out);
                            self.add_fact(FactKey::Descriptor(number.into()), &out);
                        }
                        // `>& file` writes both.
                        (_, Some(_)) => {
                            let out = std::mem::take(&mut output.out);
                            self.write_to(&followed, &out);
                        }
                        (_, None) => {
                            let out = std::mem::take(&mut output.out);
                            self.add_fact(FactKey::Descriptor("*".into()), &out);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes redirections of `exec` without a command, which hold for the rest of the text.
    fn redirect_for_good(&mut self, redirections: &[Redirection]) {
        for redirection in redirections {
            match &redirection.target {
                RedirectionTarget::Output(word) => {
                    let everything = self.fact(&FactKey::Output(EcoString::new()));
                    let followed = self.follow_word(word, true);
                    self.write_to(&followed, &everything);
                }
                RedirectionTarget::Input(_)
                | RedirectionTarget::HereString(_)
                | RedirectionTarget::HereDocument(_)
                    if redirection.descriptor.is_none() =>
                {
                    let arriving = self.redirected_input(std::slice::from_ref(redirection), &Fact::default());
                    self.add_fact(FactKey::Descriptor("0".into()), &arriving);
                }
                _ => {}
            }
        }
    }

    /// Writes to the file or the process that a word names.
    pub(super) fn write_to(&mut self, target: &FollowedWord<'_>, written: &Fact) {
        for (part, _) in target.parts() {
            if let WordPart::Process { list, is_output: true, .. } = part {
                self.walk_list(&std::rc::Rc::clone(list), written);
            }
        }
        if !written.holds_value() {
            return;
        }
        let derived = written.passed(|passage| passage.with(Passage::BEGINS));
        for path in file_keys(&target.fact) {
            self.add_fact(FactKey::File(path), &derived);
        }
    }

    /// Lets the processes among the arguments of a command read what it can write to them.
    fn feed_processes(&mut self, words: &[FollowedWord<'_>], input: &Fact) {
        let has_process = |part: &WordPart| matches!(part, WordPart::Process { is_output: true, .. });
        if !words.iter().any(|word| word.parts().any(|(part, _)| has_process(part))) {
            return;
        }
        let mut written = input.derived();
        for word in words {
            written.join_sources(&word.fact.derived());
        }
        for word in words {
            self.write_to(word, &written.clone());
        }
    }

    /// What the file that a word names can hold.
    pub(super) fn content(&self, word: &FollowedWord<'_>) -> Fact {
        let mut content = word.fact.file_content();
        let files =
            || self.facts.range(FactKey::File(EcoString::new())..FactKey::Descriptor(EcoString::new()));
        if files().next().is_none() {
            return content;
        }
        for path in file_keys(&word.fact).into_iter().chain(["*".into()]) {
            if let Some(known) = self.facts.get(&FactKey::File(path)) {
                content.join_sources(known);
            }
        }
        if word.fact.texts().1 && word.text().is_none() {
            // The name is not known, so it can be any of them.
            for (_, known) in files() {
                content.join_sources(known);
            }
        }
        content
    }
}

/// The files that a text can name; `*` is any.
fn file_keys(path: &Fact) -> Vec<EcoString> {
    let (known, any) = path.texts();
    // A path in the working folder is the same with and without it.
    let plain = |path: &EcoString| {
        let path = path.strip_prefix("\0PWD/").unwrap_or(path);
        EcoString::from(plain_path(path))
    };
    // Nothing comes out of it again.
    let keeps = |path: &EcoString| path != "/dev/null";
    let mut keys: Vec<EcoString> = known.iter().map(plain).filter(keeps).collect();
    if any {
        keys.push("*".into());
    }
    keys
}
