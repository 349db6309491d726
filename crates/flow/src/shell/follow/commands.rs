//! Walks commands: assignments, redirections, pipelines and compound commands.

use ecow::EcoString;

use super::super::hazards::{CODE_VARIABLE, INTEGER_VARIABLE, LOOP_NAME, is_code_name, is_code_variable};
use super::super::options::{HasWord, plain_path};
use super::super::tree::{
    Assignment, CommandList, CommandSyntax, Joint, Pipeline, Redirection, RedirectionTarget, ShellCommand,
    Word, WordPart,
};
use super::fact::{Fact, Literals, Passage};
use super::guards::diverges;
use super::words::FollowedWord;
use super::{FactKey, OutputFacts, ValueFollower};

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
            let facts = self.walk_pipeline(&item.pipeline, input);
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
        let arriving = self.redirected_input(&command.redirections, input);
        let mut output = match &command.syntax {
            CommandSyntax::Simple { assignments, words } => {
                self.walk_simple(command, assignments, words, &arriving)
            }
            CommandSyntax::Group(list) => self.walk_list(list, &arriving),
            CommandSyntax::If { branches, otherwise } => self.walk_if(branches, otherwise, &arriving),
            CommandSyntax::While { until, condition, body } => {
                self.drop_guards_of_loop(&[condition, body]);
                let mut output = self.walk_list(condition, &arriving);
                let guards = if *until { Vec::new() } else { self.find_guards_of_condition(condition) };
                let height = self.guards.len();
                self.guards.extend(guards);
                output.join(&self.walk_list(body, &arriving));
                self.guards.truncate(height.min(self.guards.len()));
                output
            }
            CommandSyntax::For { name, words, body } => {
                self.walk_for(name, words.as_deref(), body, &arriving)
            }
            CommandSyntax::Counted { header, body } => {
                self.drop_guards_of_loop(&[body]);
                self.check_arithmetic(header);
                self.walk_list(body, &arriving)
            }
            CommandSyntax::Case { subject, clauses } => self.walk_case(subject, clauses, &arriving),
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
        let words = self.follow_words_unsplit(words);
        if words.iter().any(|word| word.word().is("=~")) {
            let mut matched = Fact::default();
            for word in &words {
                matched.join(&word.fact);
            }
            self.set_variable("BASH_REMATCH", &matched.derived(), 0);
            for name in ["MATCH", "match"] {
                if self.dialect == super::Dialect::Zsh {
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
        let input = self.fact(&FactKey::Input(function.clone()));
        let output = self.walk_command(body, &input);
        self.add_fact(FactKey::Output(function.clone()), &output.out);
        self.add_fact(FactKey::Errors(function), &output.err);
        self.guards = guards;
        self.frame = outer;
    }

    /// Calls a function or an inner text with arguments.
    pub(super) fn pass_arguments(&mut self, frame: &EcoString, arguments: &[FollowedWord<'_>]) {
        let mut several = false;
        for (at, argument) in (1..).zip(arguments) {
            several |= argument.is_several();
            let at = if several || at > 9 { 0 } else { at };
            self.add_fact(FactKey::Argument(frame.clone(), at), &argument.fact);
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
            return OutputFacts::default();
        }
        let words = self.follow_words(words);
        for word in &words[1..] {
            self.warn_if_unquoted(word);
        }
        if external {
            words[1..].iter().for_each(|word| self.mark_external(word.word()));
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
        self.run(&words, input, 0)
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

    fn assign(&mut self, assignment: &Assignment, external: bool) {
        let name = &assignment.name;
        if let Some(subscript) = &assignment.subscript {
            self.check_arithmetic(subscript);
        }
        let several = assignment.words().len() != 1;
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
    }

    /// Puts a word into a variable, with what that does in special ones.
    pub(super) fn assign_word(&mut self, name: &str, word: &FollowedWord<'_>, at: usize) {
        if is_code_name(name) {
            self.apply_to_word(word, &CODE_VARIABLE);
        }
        if self.integers.contains(name) {
            self.apply_to_word(word, &INTEGER_VARIABLE);
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
        for path in file_keys(&word.fact) {
            content.join_sources(&self.fact(&FactKey::File(path)));
        }
        content.join_sources(&self.fact(&FactKey::File("*".into())));
        content.literals = Literals::Any;
        content
    }
}

/// The files that a text can name; `*` is any.
fn file_keys(path: &Fact) -> Vec<EcoString> {
    let (known, any) = path.texts();
    let mut keys: Vec<EcoString> = known.iter().map(|path| plain_path(path).into()).collect();
    if any {
        keys.push("*".into());
    }
    keys
}
