//! What can be wrong with a workflow file, beside what the language itself reports: one table of ids.
//!
//! The last of them are what the shell analysis reports of a text before values are known.

threadline_lang::checks! {
    /// The file is not YAML or JSON that can be read.
    Unreadable "unreadable" Error
    /// The file is neither a list of steps nor an object of a workflow's keys.
    NotAWorkflow "not-a-workflow" Error
    /// The file asks for another version of the language.
    OtherVersion "other-version" Error
    /// The file is a set of scenarios, which this version does not run.
    OtherShape "other-shape" Error
    /// A key that no object of this kind has.
    UnknownKey "unknown-key" Error
    /// A key of files of older systems; the hint says what to write.
    OldKey "old-key" Error
    /// A key that a later version will have.
    NotInVersion "not-in-version" Error
    /// A key that must be there is not.
    MissingKey "missing-key" Error
    /// Two keys that cannot stand together.
    ConflictingKeys "conflicting-keys" Error
    /// A key that does not go with what the step does.
    KeyNotHere "key-not-here" Error
    /// A value of the wrong type behind a key.
    WrongType "wrong-type" Error
    /// A word that is not one of those a key takes.
    UnknownChoice "unknown-choice" Error
    /// What cannot be read as a duration.
    BadDuration "bad-duration" Error
    /// What cannot be read as a size.
    BadSize "bad-size" Error
    /// A name that a phase exports, and no step of it gives.
    UnknownExport "unknown-export" Error
    /// What is no JSONPath.
    BadJsonPath "bad-json-path" Error
    /// What cannot be the mode of a file.
    BadMode "bad-mode" Error
    /// What cannot be a URL, a header or a query of a request.
    BadRequest "bad-request" Error
    /// An id, a capture or a variable with characters that a name cannot have.
    BadName "bad-name" Error
    /// An id or a capture that is called like a root of the language.
    ReservedName "reserved-name" Error
    /// Two steps with one id, or an id and a capture with one name.
    DuplicateName "duplicate-name" Error
    /// A list of steps without a step.
    NoSteps "no-steps" Error
    /// An agent that is not declared.
    UnknownAgent "unknown-agent" Error
    /// A tool that is not built in, or of a server that is not declared.
    UnknownTool "unknown-tool" Error
    /// The file of a workflow that is called, which cannot be read.
    UnreadableCall "unreadable-call" Error
    /// Workflows that call each other, or too many one inside the other.
    CallCycle "call-cycle" Error
    /// Files that are made of each other, or too many one behind the other.
    ImportCycle "import-cycle" Error
    /// A file that is imported and has no fragments.
    NoFragments "no-fragments" Warning
    /// A state of a fragment that does not exist.
    UnknownFragment "unknown-fragment" Error
    /// A parameter that a fragment does not have.
    UnknownParam "unknown-param" Error
    /// A parameter that a fragment needs and is not given.
    MissingParam "missing-param" Error
    /// An input that a called workflow does not have.
    UnknownInput "unknown-input" Error
    /// An input that a called workflow needs and is not given.
    MissingInput "missing-input" Error
    /// A name that a called workflow does not export.
    NotExported "not-exported" Error
    /// A step that is read before it has run.
    RunsLater "runs-later" Error
    /// A name that is not set on every way to where it is read.
    MaybeUnset "maybe-unset" Error
    /// A name that ends with its item or its phase, read outside of it.
    EndsWithItem "ends-with-item" Error
    /// `item` outside of the steps for each item.
    ItemOutside "item-outside" Error
    /// `prev` or `json:` where no step came before.
    NoStepBefore "no-step-before" Error
    /// A name that is not known where it is read: in `context`, in an agent's command, in a phase before it is made.
    NotKnownHere "not-known-here" Error
    /// A name of `captured`, `context` or `inputs` that nothing declares, with a default that would always take its place.
    UndeclaredName "undeclared-name" Error
    /// Entries of `context` that need each other.
    ContextCycle "context-cycle" Error
    /// An edge or a need of a node that does not exist.
    UnknownNode "unknown-node" Error
    /// A branch that a node does not have.
    UnknownBranch "unknown-branch" Error
    /// Nodes of a graph that wait for each other.
    GraphCycle "graph-cycle" Error
    /// A route to a state that does not exist.
    UnknownState "unknown-state" Error
    /// A state that no way from `initial` leads to.
    UnreachableState "unreachable-state" Error
    /// An end of a loop that no way from `initial` leads to.
    UnusedEnd "unused-end" Warning
    /// A state that neither leads on nor ends the loop.
    NoWayOut "no-way-out" Error
    /// A verdict that a state can come to and that has no route.
    UnroutedVerdict "unrouted-verdict" Error
    /// A route for a verdict that a state never comes to.
    UnknownVerdict "unknown-verdict" Error
    /// Conditions of `route` after which nothing follows when none of them holds.
    UnroutedCondition "unrouted-condition" Warning
    /// `max_retries` without a state that follows when they are spent.
    UnroutedRetry "unrouted-retry" Warning
    /// States that lead to no end, in a loop without a limit of its own.
    NeverEnds "never-ends" Warning
    /// A state with the name of a bad end that is declared a good one.
    TerminalName "terminal-name" Warning
    /// A limit or a setting of iterations in a loop that has only one.
    OneIteration "one-iteration" Warning
    /// A capture that is read where no way of an iteration has set it.
    NeverSet "never-set" Error
    /// A name inside an item or a phase that hides one outside.
    HiddenName "hidden-name" Warning
    /// `cmd:` without the permission to run commands.
    CommandsNotAllowed "commands-not-allowed" Error
    /// A shell for which references cannot be bound.
    UnknownShell "unknown-shell" Error
    /// A reference in an environment variable that programs take for code.
    CodeVariable "code-variable" Error
    /// A value in a command that would be evaluated again, as code, as a name or as a number.
    ShellEvaluates "shell-evaluates" Error
    /// A value in a command that is read as an option when it begins with `-`.
    ShellOption "shell-option" Warning
    /// A value in a command that the program alters.
    ShellAltered "shell-altered" Warning
    /// A name that the script sets and that the workflow has too.
    ShellClash "shell-clash" Error
    /// A name of the workflow with an operator of the shell.
    ShellOperator "shell-operator" Error
    /// A backslash before a reference.
    ShellEscape "shell-escape" Error
    /// `words` where only one word can stand.
    ShellWords "shell-words" Error
    /// A list or object that is bound as if it were one word.
    ShellList "shell-list" Error
    /// A value that is pasted as code.
    ShellRaw "shell-raw" Warning
    /// Code from `context` with references in it.
    ShellCode "shell-code" Error
    /// A name that the bound values need.
    ShellReserved "shell-reserved" Error
    /// A quote, bracket or here-document that is never closed.
    ShellUnclosed "shell-unclosed" Error
    /// Shell text of which it is not known how a value would be read.
    ShellUnknown "shell-unknown" Error
}
