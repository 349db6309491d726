//! The table of carriers: how a value gets from its reference to another place in a text.
//!
//! The page of the reference and the tests read this table. Each example ends at a place that is refused, so a
//! carrier that the analysis loses makes a test fail.

/// A way that a value takes through a shell text.
pub struct Carrier {
    /// What carries the value.
    pub name: &'static str,
    /// A text in which the value of `${v}` is carried to a place that evaluates it.
    pub example: &'static str,
}

/// Every carrier, in the order of the reference.
#[rustfmt::skip]
pub static CARRIERS: &[Carrier] = &[
    Carrier { name: "an assignment", example: "X=${v}; Y=\"a $X\"; eval \"$Y\"" },
    Carrier { name: "a declaration", example: "declare X=${v}; eval \"$X\"" },
    Carrier { name: "an array", example: "A=(a ${v}); eval \"${A[1]}\"" },
    Carrier { name: "a default", example: ": \"${X:=${v}}\"; eval \"$X\"" },
    Carrier { name: "`read`", example: "read -r X <<< ${v}; eval \"$X\"" },
    Carrier { name: "`read` without a name", example: "read -r <<< ${v}; eval \"$REPLY\"" },
    Carrier { name: "`read` in a loop", example: "printf '%s\\n' ${v} | while read -r X; do eval \"$X\"; done" },
    Carrier { name: "`mapfile`", example: "mapfile -t A < <(echo ${v}); eval \"${A[0]}\"" },
    Carrier { name: "`printf -v`", example: "printf -v X '%s' ${v}; eval \"$X\"" },
    Carrier { name: "`for`", example: "for X in ${v}; do eval \"$X\"; done" },
    Carrier { name: "a match", example: "[[ ${v} =~ (.*) ]]; eval \"${BASH_REMATCH[1]}\"" },
    Carrier { name: "another name for a variable", example: "X=${v}; declare -n R=X; eval \"$R\"" },
    Carrier { name: "an argument of a function", example: "f() { eval \"$1\"; }; f ${v}" },
    Carrier { name: "the output of a function", example: "f() { echo \"$1\"; }; X=$(f ${v}); eval \"$X\"" },
    Carrier { name: "`set --`", example: "set -- ${v}; eval \"$1\"" },
    Carrier { name: "a substitution", example: "X=$(echo ${v} | tr a b); eval \"$X\"" },
    Carrier { name: "an argument of an inner text", example: "bash -c 'eval \"$1\"' _ ${v}" },
    Carrier { name: "a pipe", example: "X=${v}; echo \"$X\" | bash" },
    Carrier { name: "a here-document", example: "X=${v}\nbash <<END\necho \"$X\"\nEND" },
    Carrier { name: "a here-string", example: "X=${v}; bash <<< \"$X\"" },
    Carrier { name: "a process that is read", example: "bash <(echo ${v})" },
    Carrier { name: "a process that is written to", example: "echo ${v} > >(bash)" },
    Carrier { name: "an open descriptor", example: "exec 3<<< ${v}; bash <&3" },
    Carrier { name: "a coprocess", example: "coproc bash; echo ${v} >&\"${COPROC[1]}\"" },
    Carrier { name: "a file", example: "echo ${v} > run.sh; bash run.sh" },
    Carrier { name: "a temporary file", example: "T=$(mktemp); F=$T; echo ${v} > \"$T\"; bash \"$F\"" },
    Carrier { name: "a copied file", example: "echo ${v} | tee a; cp a b; bash b" },
    Carrier { name: "`xargs`", example: "echo ${v} | xargs sh -c" },
    Carrier { name: "`find -exec`", example: "find ${v} -exec sh -c 'ls {}' \\;" },
];
