//! What can be wrong with an expectation when it is loaded, beside what the language itself reports: one table of ids.

threadline_lang::checks! {
    /// The file is not YAML or JSON that can be read.
    Unreadable "unreadable" Error
    /// What stands where an expectation belongs is no object, or an empty one.
    NotAnExpectation "not-an-expectation" Error
    /// A key that is neither a field, nor logic, nor a path into the actual document.
    UnknownField "unknown-field" Error
    /// A key that looks like an operator and is none.
    UnknownOperator "unknown-operator" Error
    /// Operators and other keys side by side.
    MixedKeys "mixed-keys" Error
    /// A fact that the file does not declare.
    UndeclaredFact "undeclared-fact" Error
    /// A value of the wrong type behind a key.
    WrongType "wrong-type" Error
    /// A range, or a lower and an upper bound, that nothing can meet.
    EmptyRange "empty-range" Error
    /// What cannot be read as a regular expression.
    BadPattern "bad-pattern" Error
    /// What cannot be read as a JSON Schema.
    BadSchema "bad-schema" Error
    /// `all` or `any` without a member.
    NoMembers "no-members" Error
    /// `then` or `else` without `when`, or `when` without either.
    WithoutWhen "without-when" Error
    /// Logic that is nested deeper than allowed.
    TooDeep "too-deep" Error
    /// Checks of one step of the plan that no step can meet together.
    Contradiction "contradiction" Error
    /// A path that cannot be read.
    BadPath "bad-path" Error
    /// An option that means something only elsewhere.
    OptionNotHere "option-not-here" Error
    /// Two expectations with one name.
    DuplicateName "duplicate-name" Error
    /// `not` over several words: it is met when one of them is missing.
    NotOfSeveral "not-of-several" Warning
}
