//! The table of checks: every sort of problem that a workflow file can have, beside those of the language.
//!
//! Each row has an id that stays the same between versions, a severity, and the line of the reference. The
//! rows that start with `Shell` come from the analysis of shell text.

threadline_lang::checks! {
    /// The file is not valid YAML or JSON.
    Unreadable "unreadable" Error
    /// The file is neither a list of steps nor an object with the keys of a workflow.
    NotAWorkflow "not-a-workflow" Error
    /// The file requires another version of the language.
    OtherVersion "other-version" Error
    /// A set of scenarios that cannot be tried as it is.
    BadScenario "bad-scenario" Error
    /// A scenario that expects nothing, so every answer passes.
    NothingExpected "nothing-expected" Warning
    /// A key that this object does not have.
    UnknownKey "unknown-key" Error
    /// A key of another system; the hint says what to write instead.
    OldKey "old-key" Error
    /// A key of another system that changes nothing here, or that the run goes without.
    IgnoredKey "ignored-key" Warning
    /// A spelling of an older system that means the same here; `threadline migrate` writes the present one.
    OldSpelling "old-spelling" Warning
    /// A key that this version does not support yet.
    NotInVersion "not-in-version" Error
    /// A required key is missing.
    MissingKey "missing-key" Error
    /// Two keys that cannot be used together.
    ConflictingKeys "conflicting-keys" Error
    /// A key that does not apply to this kind of step.
    KeyNotHere "key-not-here" Error
    /// A value of the wrong type.
    WrongType "wrong-type" Error
    /// A word that is not one of the choices of a key.
    UnknownChoice "unknown-choice" Error
    /// A text that is not a duration.
    BadDuration "bad-duration" Error
    /// A text that is not a size.
    BadSize "bad-size" Error
    /// A phase exports a name that none of its steps defines.
    UnknownExport "unknown-export" Error
    /// A text that is not a valid JSONPath.
    BadJsonPath "bad-json-path" Error
    /// A text that is not a file mode.
    BadMode "bad-mode" Error
    /// A URL, a header or a query of a request that is not valid.
    BadRequest "bad-request" Error
    /// An id, a capture or a variable with characters that a name cannot have.
    BadName "bad-name" Error
    /// An id or a capture with the name of a root of the language.
    ReservedName "reserved-name" Error
    /// Two steps with the same id, or an id and a capture with the same name.
    DuplicateName "duplicate-name" Error
    /// A list of steps that is empty.
    NoSteps "no-steps" Error
    /// An agent that is not declared.
    UnknownAgent "unknown-agent" Error
    /// The key of an API that is not read from a secret.
    KeyNotSecret "key-not-secret" Error
    /// Items that run at once and continue one thread.
    SharedThread "shared-thread" Error
    /// A tool that is neither built in nor of a declared server.
    UnknownTool "unknown-tool" Error
    /// The file of a called workflow cannot be read.
    UnreadableCall "unreadable-call" Error
    /// A file of items that no run may read.
    UnreadableItems "unreadable-items" Warning
    /// Workflows that call each other, or calls that are nested too deeply.
    CallCycle "call-cycle" Error
    /// Files that import each other, or imports that are nested too deeply.
    ImportCycle "import-cycle" Error
    /// An imported file without fragments.
    NoFragments "no-fragments" Warning
    /// A state uses a fragment that does not exist.
    UnknownFragment "unknown-fragment" Error
    /// A parameter that the fragment does not have.
    UnknownParam "unknown-param" Error
    /// A required parameter of a fragment is not passed.
    MissingParam "missing-param" Error
    /// An input that the called workflow does not have.
    UnknownInput "unknown-input" Error
    /// A required input of the called workflow is not passed.
    MissingInput "missing-input" Error
    /// A state of an older loop that gives a called loop everything it has.
    PassesAll "passes-all" Warning
    /// A name that the called workflow does not export.
    NotExported "not-exported" Error
    /// A step is read before it has run.
    RunsLater "runs-later" Error
    /// A name that is not set on every path to the place where it is read.
    MaybeUnset "maybe-unset" Error
    /// A name of an item or a phase is read outside of it.
    EndsWithItem "ends-with-item" Error
    /// `item` is read outside of the steps for each item.
    ItemOutside "item-outside" Error
    /// `prev` or `json:` is read where no step came before.
    NoStepBefore "no-step-before" Error
    /// A name that is not available where it is read: in `context`, in a setting of an agent, or in an
    /// earlier phase.
    NotKnownHere "not-known-here" Error
    /// A name of `captured`, `context` or `inputs` that nothing declares, so its default would always be
    /// used.
    UndeclaredName "undeclared-name" Error
    /// Entries of `context` that depend on each other.
    ContextCycle "context-cycle" Error
    /// An edge or a `needs` entry names a node that does not exist.
    UnknownNode "unknown-node" Error
    /// A branch that the node does not have.
    UnknownBranch "unknown-branch" Error
    /// Nodes of a graph that wait for each other.
    GraphCycle "graph-cycle" Error
    /// A route to a state that does not exist.
    UnknownState "unknown-state" Error
    /// A state that cannot be reached from `initial`.
    UnreachableState "unreachable-state" Warning
    /// A terminal state that cannot be reached from `initial`.
    UnusedEnd "unused-end" Warning
    /// A state without a route that does not end the loop.
    NoWayOut "no-way-out" Error
    /// A possible verdict of a state has no route.
    UnroutedVerdict "unrouted-verdict" Error
    /// A route for a verdict that the state never has.
    UnknownVerdict "unknown-verdict" Error
    /// The conditions of `route` do not say what follows if none of them holds.
    UnroutedCondition "unrouted-condition" Warning
    /// `max_retries` does not say which state follows when the retries are exhausted.
    UnroutedRetry "unrouted-retry" Warning
    /// States that cannot reach a terminal state, in a loop without a limit of its own.
    NeverEnds "never-ends" Warning
    /// A terminal state with the name of a failure that is declared a success.
    TerminalName "terminal-name" Warning
    /// A limit or a setting for iterations in a loop that has only one.
    OneIteration "one-iteration" Warning
    /// A capture is read where no path of an iteration has set it.
    NeverSet "never-set" Error
    /// A name inside an item or a phase that hides one outside.
    HiddenName "hidden-name" Warning
    /// `{{ name }}` or `${{ name }}`, which other systems use for references and which is text here.
    ForeignReference "foreign-reference" Warning
    /// A pattern that is looked for as it is, although it is written as a regular expression.
    LiteralPattern "literal-pattern" Warning
    /// Items that run at once and commit in one folder.
    SharedFolder "shared-folder" Warning
    /// A secret in a field that is recorded, or that decides something.
    SecretPlace "secret-place" Error
    /// A secret as an argument of a program, which other users of the computer can read.
    SecretArgument "secret-argument" Error
    /// A function or an operator that makes something of a secret that could not be masked.
    SecretUse "secret-use" Error
    /// A variable whose name looks like a secret, read as `${env.NAME}`, which is recorded.
    SecretInEnv "secret-in-env" Warning
    /// `cmd:` without the permission to run commands.
    CommandsNotAllowed "commands-not-allowed" Error
    /// A shell for which references cannot be bound.
    UnknownShell "unknown-shell" Error
    /// A reference in an environment variable that programs execute as code.
    CodeVariable "code-variable" Error
    /// A value in a command that would be evaluated again, as code, as a name or as a number.
    ShellEvaluates "shell-evaluates" Error
    /// A command that cannot be followed, so that a value could be run as code.
    ShellNotKnown "shell-not-known" Error
    /// A value in a command that is read as an option if it starts with `-`.
    ShellOption "shell-option" Warning
    /// A value in a command that the program changes.
    ShellAltered "shell-altered" Warning
    /// A name that the script sets and that the workflow has too.
    ShellClash "shell-clash" Error
    /// A name of the workflow with an operator of the shell.
    ShellOperator "shell-operator" Error
    /// A backslash before a reference.
    ShellEscape "shell-escape" Error
    /// `words` where only a single word is possible.
    ShellWords "shell-words" Error
    /// A list or an object that is bound as a single word.
    ShellList "shell-list" Error
    /// A value that is pasted as code.
    ShellRaw "shell-raw" Warning
    /// Code from `context` that contains references.
    ShellCode "shell-code" Error
    /// A variable name that is reserved for bound values.
    ShellReserved "shell-reserved" Error
    /// A quote, bracket or here-document that is never closed.
    ShellUnclosed "shell-unclosed" Error
    /// Shell text in which the meaning of a value cannot be determined.
    ShellUnknown "shell-unknown" Error
}
