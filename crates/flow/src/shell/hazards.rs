//! The table of hazards: the places in shell text that evaluate a value again even if it is bound correctly.
//!
//! The analysis, the page of the reference and the tests all read this table. Its list of programs can never
//! be complete.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::options::{HasWord, operands};

/// A place in shell text that evaluates a bound value again, or changes it.
pub struct Hazard {
    /// Stable name of the hazard.
    pub id: &'static str,
    /// What happens to a value there, in words that follow "a value here".
    pub effect: &'static str,
    /// The programs and builtins with this hazard; empty if it belongs to the syntax of the shell.
    pub programs: &'static [&'static str],
    /// The arguments of these programs that are affected.
    pub selector: ArgSelector,
    /// What the analysis does about a reference there.
    pub rule: HazardRule,
    /// What to write instead.
    pub fix: &'static str,
    /// A command with this hazard, in which the reference is `${v}`.
    pub example: &'static str,
}

impl Hazard {
    /// Whether both are the same row of the table.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The part of a command that a hazard affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgSelector {
    /// A construct of the shell itself, which the reader recognises.
    Syntax,
    /// Every argument of the program.
    Every,
    /// The argument of one of these options, attached or in the next word.
    Options(&'static [&'static str]),
    /// The operands, starting with one of them.
    Operands {
        /// Index of the first affected operand.
        from: usize,
        /// Whether only that operand is affected.
        only: bool,
        /// Options that make all operands harmless.
        unless: &'static [&'static str],
        /// Options with arguments of their own, and how many each takes.
        values: &'static [(&'static str, usize)],
    },
    /// Names of variables: words without `=`, or the part before it.
    Names,
    /// Standard input, if neither a file nor an option provides the program text.
    Input {
        /// Number of operands before a file with the program text.
        operands: usize,
        /// Options that provide the program text.
        unless: &'static [&'static str],
        /// Options with arguments of their own, and how many each takes.
        values: &'static [(&'static str, usize)],
    },
    /// Standard input, if one of these options names it in place of a file.
    FileInput(&'static [&'static str]),
    /// The word after one of these words.
    After(&'static [&'static str]),
    /// The operand that names the command to run.
    CommandWord {
        /// Number of operands before the command.
        operands: usize,
    },
}

/// What the analysis does about a reference at a hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HazardRule {
    /// Refuse the text before the run.
    Refuse,
    /// Allow only an int, which is checked when the value is bound.
    Int,
    /// Warn, and refuse a value that starts with `-` when it is bound.
    Dash,
    /// Warn: the value may be changed, but is not run.
    Warn,
}

/// The hazards of a program or builtin, in the order of the table: every command of a text is looked up.
pub(super) fn of_program(program: &str) -> &'static [&'static Hazard] {
    static BY_PROGRAM: LazyLock<BTreeMap<&str, Vec<&Hazard>>> = LazyLock::new(|| {
        let mut all: BTreeMap<&str, Vec<&Hazard>> = BTreeMap::new();
        for hazard in HAZARDS {
            for program in hazard.programs {
                all.entry(program).or_default().push(hazard);
            }
        }
        all
    });
    BY_PROGRAM.get(program).map_or(&[], Vec::as_slice)
}

/// Every hazard, in the order of the reference.
pub static HAZARDS: &[&Hazard] = &[
    &ARITHMETIC,
    &NUMERIC_TEST,
    &SUBSCRIPT,
    &SUBSTRING,
    &LET,
    &NUMBER,
    &INTEGER_VARIABLE,
    &Hazard {
        id: "name-reference",
        effect: "is used as the name of a variable",
        programs: &["declare", "typeset", "local"],
        selector: ArgSelector::Options(&["-n"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_NAME,
        example: "declare -n REF=${v}",
    },
    &Hazard {
        id: "name",
        effect: VARIABLE_NAME,
        programs: NAME_PROGRAMS,
        selector: ArgSelector::Names,
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_NAME,
        example: "unset ${v}",
    },
    &Hazard {
        id: "printf-name",
        effect: VARIABLE_NAME,
        programs: &["printf"],
        selector: ArgSelector::Options(&["-v"]),
        rule: HazardRule::Refuse,
        fix: "write out the name: `printf -v NAME '%s' ${v}`",
        example: "printf -v ${v} x",
    },
    &Hazard {
        id: "test-name",
        effect: VARIABLE_NAME,
        programs: &["[", "[[", "test"],
        selector: ArgSelector::After(&["-v", "-R"]),
        rule: HazardRule::Refuse,
        fix: "compare the value itself: `[ -n ${v} ]`",
        example: "[[ -v ${v} ]]",
    },
    &INDIRECT,
    &EXPANDED_AGAIN,
    &PRINTF_NUMBER,
    &Hazard {
        id: "callback",
        effect: RUN_AS_COMMAND,
        programs: &["mapfile", "readarray"],
        selector: ArgSelector::Options(&["-C"]),
        rule: HazardRule::Refuse,
        fix: "write out the command",
        example: "mapfile -C ${v} A",
    },
    &LOOP_NAME,
    &Hazard {
        id: "eval",
        effect: RUN_AS_COMMAND,
        programs: &["eval"],
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "write out the command without `eval`, and pass the value as a word",
        example: "eval echo ${v}",
    },
    &Hazard {
        id: "trap",
        effect: "is run as a command when the trap fires",
        programs: &["trap"],
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "put it in a variable first: `V=${v}; trap 'rm -f -- \"$V\"' EXIT`",
        example: "trap \"echo ${v}\" EXIT",
    },
    &Hazard {
        id: "alias",
        effect: "is run as a command when the alias is used",
        programs: &["alias", "bind", "complete", "compgen", "bindkey", "zstyle", "fc"],
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "write a function that takes the value as an argument: `f() { echo \"$1\"; }; f ${v}`",
        example: "alias show=\"echo ${v}\"",
    },
    &Hazard {
        id: "source",
        effect: "names a file that is run",
        programs: &["source", ".", "enable", "emulate", "autoload", "zmodload"],
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "write out the name of the file, and choose with `case`",
        example: ". ${v}",
    },
    &SCRIPT_FILE,
    &SCRIPT_NAME,
    &COMMAND_WORD,
    &Hazard {
        id: "command-of-command",
        effect: CHOOSES_PROGRAM,
        programs: COMMAND_OF_COMMAND_PROGRAMS,
        selector: ArgSelector::CommandWord { operands: 0 },
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_PROGRAM,
        example: "env ${v}",
    },
    &Hazard {
        id: "command-after-argument",
        effect: CHOOSES_PROGRAM,
        programs: &[
            "timeout", "chroot", "flock", "runuser", "setpriv", "cgexec", "dotenv", "chrt", "taskset",
        ],
        selector: ArgSelector::CommandWord { operands: 1 },
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_PROGRAM,
        example: "timeout 5 ${v}",
    },
    &FIND_COMMAND,
    &SHELL_TEXT,
    &Hazard {
        id: "shell-input",
        effect: "is run as shell text, read from standard input",
        programs: SHELLS,
        selector: ArgSelector::Input {
            operands: 0,
            unless: &["-c"],
            values: &[("-o", 1), ("-O", 1), ("+O", 1), ("--rcfile", 1)],
        },
        rule: HazardRule::Refuse,
        fix: "pass it as an argument: `sh -s -- ${v} <<'END'` with `\"$1\"` in the text",
        example: "echo \"echo ${v}\" | sh",
    },
    &Hazard {
        id: "remote-shell",
        effect: "is run by the shell of the remote machine",
        programs: &["ssh", "rsh", "mosh", "autossh"],
        selector: ArgSelector::Operands { from: 1, only: false, unless: &[], values: REMOTE_SHELL_VALUES },
        rule: HazardRule::Refuse,
        fix: "send it on standard input: `ssh host 'cat > file' <<< ${v}`",
        example: "ssh host rm ${v}",
    },
    &Hazard {
        id: "remote-input",
        effect: "is run by the shell of the remote machine",
        programs: &["ssh", "rsh", "mosh", "autossh"],
        selector: ArgSelector::Input { operands: 1, unless: &[], values: REMOTE_INPUT_VALUES },
        rule: HazardRule::Refuse,
        fix: "name a command that reads it as data: `ssh host 'cat > file' <<< ${v}`",
        example: "echo \"rm ${v}\" | ssh host",
    },
    &Hazard {
        id: "runs-its-words",
        effect: "is run as shell text",
        programs: RUNS_ITS_WORDS_PROGRAMS,
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "put the value in the environment: `V=${v} watch 'ls -l \"$V\"'`",
        example: "watch ls ${v}",
    },
    &Hazard {
        id: "command-option",
        effect: RUN_AS_COMMAND,
        programs: COMMAND_OPTION_PROGRAMS,
        selector: ArgSelector::Options(&["-c", "--command", "--run", "--call", "--cmd"]),
        rule: HazardRule::Refuse,
        fix: "put the value in the environment: `V=${v} script -qc 'ls -l \"$V\"' /dev/null`",
        example: "su -c \"ls ${v}\"",
    },
    &Hazard {
        id: "rsync-option",
        effect: NAMES_PROGRAM,
        programs: &["rsync"],
        selector: ArgSelector::Options(&["-e", "--rsh", "--rsync-path"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "rsync -e ${v} a b",
    },
    &TAR_OPTION,
    &Hazard {
        id: "ssh-option",
        effect: NAMES_PROGRAM,
        programs: &["ssh", "scp", "sftp", "autossh"],
        selector: ArgSelector::Options(&["-o", "-S", "-F"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "ssh -o ${v} host",
    },
    &Hazard {
        id: "env-option",
        effect: NAMES_PROGRAM,
        programs: &["env"],
        selector: ArgSelector::Options(&["-S", "--split-string"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "env -S ${v}",
    },
    &GIT_OPTION,
    &Hazard {
        id: "git-helper",
        effect: NAMES_PROGRAM,
        programs: &["git"],
        selector: ArgSelector::Options(&[
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--config",
            "--extcmd",
        ]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "git clone --upload-pack=${v} url",
    },
    &GIT_COMMAND_OPTION,
    &Hazard {
        id: "zip-option",
        effect: NAMES_PROGRAM,
        programs: &["zip"],
        selector: ArgSelector::Options(&["-TT", "--unzip-command"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "zip -T -TT ${v} a.zip a",
    },
    &PROMPT,
    &Hazard {
        id: "tool-option",
        effect: NAMES_PROGRAM,
        programs: &["gdb", "sort", "less", "vim", "vi", "nvim", "split"],
        selector: ArgSelector::Options(&["-ex", "--compress-program", "--cmd", "--filter"]),
        rule: HazardRule::Refuse,
        fix: WRITE_OUT_ARGUMENT,
        example: "sort --compress-program=${v} file",
    },
    &Hazard {
        id: "git-command",
        effect: RUN_AS_COMMAND,
        programs: &["git"],
        selector: ArgSelector::After(&["run", "foreach"]),
        rule: HazardRule::Refuse,
        fix: "write out the command, and put the value in the environment: `V=${v} git bisect run ./test`",
        example: "git bisect run ${v}",
    },
    &XARGS_INPUT,
    &PROGRAM_TEXT,
    &Hazard {
        id: "program-input",
        effect: "is run as a program in another language, read from standard input",
        programs: PROGRAM_INPUT_PROGRAMS,
        selector: ArgSelector::Input {
            operands: 0,
            unless: PROGRAM_INPUT_UNLESS,
            values: &[("-W", 1), ("-X", 1), ("-I", 1), ("-r", 1), ("--require", 1)],
        },
        rule: HazardRule::Refuse,
        fix: "pass it as an argument: `python3 - ${v} <<'END'` with `sys.argv[1]` in the text",
        example: "python3 <<END\nprint('${v}')\nEND",
    },
    &Hazard {
        id: "file-input",
        effect: "is run as a program, read from standard input",
        programs: &[
            "awk", "gawk", "mawk", "nawk", "sed", "gsed", "make", "gmake", "psql", "jq", "gnuplot", "bc",
            "curl",
        ],
        selector: ArgSelector::FileInput(&["-f", "--file", "--from-file", "--makefile", "-K", "--config"]),
        rule: HazardRule::Refuse,
        fix: "write out the program, and put the value in the environment: `V=${v} awk '{ print ENVIRON[\"V\"] }'`",
        example: "echo \"{ print ${v} }\" | awk -f - file",
    },
    &Hazard {
        id: "command-input",
        effect: "is run as a command, read from standard input",
        programs: &["at", "batch", "su", "parallel", "gdb", "crontab", "ex"],
        selector: ArgSelector::Input { operands: 1000, unless: &["-c", "--command"], values: NO_VALUES },
        rule: HazardRule::Refuse,
        fix: "write out the command, and put the value in the environment",
        example: "echo \"touch ${v}\" | at now",
    },
    &Hazard {
        id: "awk-text",
        effect: OTHER_LANGUAGE,
        programs: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        selector: ArgSelector::Operands {
            from: 0,
            only: true,
            unless: &["-f", "--file"],
            values: &[("-F", 1), ("-v", 1), ("--assign", 1), ("--field-separator", 1)],
        },
        rule: HazardRule::Refuse,
        fix: "put it in the environment: `V=${v} awk '{ print ENVIRON[\"V\"] }'`",
        example: "awk \"{ print ${v} }\"",
    },
    &Hazard {
        id: "awk-program-option",
        effect: OTHER_LANGUAGE,
        programs: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        selector: ArgSelector::Options(&["-e", "--source", "-l", "--load", "-i", "--include"]),
        rule: HazardRule::Refuse,
        fix: "put it in the environment: `V=${v} awk '{ print ENVIRON[\"V\"] }'`",
        example: "gawk -e \"{ print ${v} }\"",
    },
    &Hazard {
        id: "sed-text",
        effect: OTHER_LANGUAGE,
        programs: &["sed", "gsed"],
        selector: ArgSelector::Operands {
            from: 0,
            only: true,
            unless: &["-e", "-f", "--expression", "--file"],
            values: &[("-l", 1), ("--line-length", 1)],
        },
        rule: HazardRule::Refuse,
        fix: "replace in the shell: `\"${TEXT//old/${v}}\"`, or with awk and `ENVIRON`",
        example: "sed \"s/old/${v}/\"",
    },
    &Hazard {
        id: "sed-text-option",
        effect: OTHER_LANGUAGE,
        programs: &["sed", "gsed"],
        selector: ArgSelector::Options(&["-e", "--expression"]),
        rule: HazardRule::Refuse,
        fix: "replace in the shell: `\"${TEXT//old/${v}}\"`, or with awk and `ENVIRON`",
        example: "sed -e \"s/old/${v}/\"",
    },
    &Hazard {
        id: "jq-text",
        effect: OTHER_LANGUAGE,
        programs: &["jq", "yq", "gojq", "jaq"],
        selector: ArgSelector::Operands {
            from: 0,
            only: true,
            unless: &["-f", "--from-file"],
            values: &[
                ("--arg", 2),
                ("--argjson", 2),
                ("--slurpfile", 2),
                ("--rawfile", 2),
                ("--argfile", 2),
                ("--indent", 1),
                ("-L", 1),
            ],
        },
        rule: HazardRule::Refuse,
        fix: "pass it as a variable: `jq --arg v ${v} '.name = $v'`",
        example: "jq -n \".name = ${v}\"",
    },
    &EVAL_COMMAND,
    &Hazard {
        id: "sql-option",
        effect: "is run as SQL or as a command of the client",
        programs: SQL_OPTION_PROGRAMS,
        selector: ArgSelector::Options(&[
            "-c",
            "-e",
            "-cmd",
            "--command",
            "--execute",
            "--eval",
            "--query",
            "-q",
        ]),
        rule: HazardRule::Refuse,
        fix: "pass it as a variable of the client: `psql -v v=${v} <<'END'` with `:'v'` in the text",
        example: "psql -c \"select '${v}'\"",
    },
    &Hazard {
        id: "sql-operand",
        effect: "is run as SQL or as a command of the client",
        programs: &["sqlite3", "duckdb"],
        selector: ArgSelector::Operands {
            from: 1,
            only: false,
            unless: &[],
            values: &[("-separator", 1), ("-cmd", 1), ("-init", 1)],
        },
        rule: HazardRule::Refuse,
        fix: "pass it as an argument to a program that binds it, for example Python's `sqlite3` with `?`",
        example: "sqlite3 :memory: \"select '${v}'\"",
    },
    &Hazard {
        id: "sql-input",
        effect: "is run as SQL or as a command of the client",
        programs: SQL_INPUT_PROGRAMS,
        selector: ArgSelector::Input {
            operands: 1000,
            unless: &["-c", "-e", "-f", "--command", "--file"],
            values: NO_VALUES,
        },
        rule: HazardRule::Refuse,
        fix: "pass it as a variable of the client: `psql -v v=${v} <<'END'` with `:'v'` in the text",
        example: "psql <<END\nselect '${v}';\nEND",
    },
    &Hazard {
        id: "make",
        effect: "is expanded by make, which can run commands",
        programs: &["make", "gmake", "ninja", "just", "task"],
        selector: ArgSelector::Every,
        rule: HazardRule::Refuse,
        fix: "put it in the environment: `V=${v} make target`, with `\"$$V\"` in the recipe",
        example: "make V=${v}",
    },
    &CODE_VARIABLE,
    &RUNNING_OPTION,
    &Hazard {
        id: "option",
        effect: "is read as an option if it starts with `-`",
        programs: OPTION_PROGRAMS,
        selector: ArgSelector::Every,
        rule: HazardRule::Dash,
        fix: "put `--` before it if the program supports that, or `./` before a path",
        example: "rm ${v}",
    },
    &ECHO,
    &Hazard {
        id: "format",
        effect: "is read as a format, in which `%` and `\\` have a meaning",
        programs: &["printf"],
        selector: ArgSelector::Operands { from: 0, only: true, unless: &[], values: &[("-v", 1)] },
        rule: HazardRule::Warn,
        fix: "write `printf '%s' ${v}`",
        example: "printf ${v}",
    },
    &Hazard {
        id: "awk-variable",
        effect: "loses its backslashes",
        programs: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        selector: ArgSelector::Options(&["-v", "--assign"]),
        rule: HazardRule::Warn,
        fix: "put it in the environment: `V=${v} awk '{ print ENVIRON[\"V\"] }'`",
        example: "awk -v x=${v} '{ print x }'",
    },
    &FILE_OR_TEXT,
    &FILE_OR_HEADER,
    &Hazard {
        id: "file-or-form",
        effect: "is read as the name of a file if it starts with `@`",
        programs: &["curl"],
        selector: ArgSelector::Options(&["-F", "--form", "--data-urlencode"]),
        rule: HazardRule::Warn,
        fix: "write `--form-string name=${v}`, or put it on standard input with `--data-binary @-`",
        example: "curl -F name=${v} http://127.0.0.1:9/",
    },
    &REGEX,
    &UNQUOTED_VARIABLE,
];

/// Names of shells.
pub(super) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash", "mksh"];

/// Programs that run another command, with all of its hazards, somewhere after their own words.
#[rustfmt::skip]
pub(super) const CONTAINERS: &[&str] = &[
    "docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose", "lxc", "nsenter", "vagrant",
    "flatpak", "ssh", "crictl", "singularity", "apptainer", "machinectl", "toolbox", "distrobox", "nix",
    "wsl",
];

// ---- the hazards that the reader names ------------------------------------------------------------------

pub(super) static ARITHMETIC: Hazard = Hazard {
    id: "arithmetic",
    effect: ARITHMETIC_EFFECT,
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Int,
    fix: USE_AN_INT,
    example: "echo $((${v} + 1))",
};

pub(super) static NUMBER: Hazard = Hazard {
    id: "number",
    effect: "is evaluated as arithmetic by some shells",
    programs: &["exit", "return", "shift", "break", "continue", "ulimit", "repeat"],
    selector: ArgSelector::Every,
    rule: HazardRule::Int,
    fix: USE_AN_INT,
    example: "exit ${v}",
};

pub(super) static INTEGER_VARIABLE: Hazard = Hazard {
    id: "integer-variable",
    effect: ARITHMETIC_EFFECT,
    programs: &["declare", "typeset", "local", "export", "readonly", "integer", "float"],
    selector: ArgSelector::Options(&["-i", "-E", "-F"]),
    rule: HazardRule::Int,
    fix: "use an int, for example with `| int`, or remove `-i`",
    example: "declare -i N=${v}",
};

pub(super) static NUMERIC_TEST: Hazard = Hazard {
    id: "numeric-test",
    effect: ARITHMETIC_EFFECT,
    programs: &["[", "[[", "test"],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Int,
    fix: "use an int, for example with `| int`, or compare texts with `=`",
    example: "[[ ${v} -gt 1 ]]",
};

pub(super) static SUBSCRIPT: Hazard = Hazard {
    id: "subscript",
    effect: ARITHMETIC_EFFECT,
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Int,
    fix: USE_AN_INT,
    example: "a=(x y); echo \"${a[${v}]}\"",
};

pub(super) static SUBSTRING: Hazard = Hazard {
    id: "substring",
    effect: ARITHMETIC_EFFECT,
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Int,
    fix: USE_AN_INT,
    example: "S=abc; echo \"${S:${v}}\"",
};

pub(super) static LET: Hazard = Hazard {
    id: "let",
    effect: ARITHMETIC_EFFECT,
    programs: &["let"],
    selector: ArgSelector::Every,
    rule: HazardRule::Int,
    fix: USE_AN_INT,
    example: "let N=${v}+1",
};

pub(super) static INDIRECT: Hazard = Hazard {
    id: "indirect",
    effect: VARIABLE_NAME,
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_NAME,
    example: "X=${v}; echo \"${!X}\"",
};

pub(super) static EXPANDED_AGAIN: Hazard = Hazard {
    id: "expanded-again",
    effect: "is expanded again, including command substitutions",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "use the variable directly: `\"$X\"`",
    example: "X=${v}; echo \"${X@P}\"",
};

pub(super) static PRINTF_NUMBER: Hazard = Hazard {
    id: "printf-number",
    effect: "is evaluated as arithmetic by zsh",
    programs: &["printf", "print"],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Int,
    fix: "use an int, for example with `| int`, or print it with `%s`",
    example: "printf '%d' ${v}",
};

pub(super) static LOOP_NAME: Hazard = Hazard {
    id: "loop-name",
    effect: "is used as the name of a variable",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "write out the name: `for NAME in ...`",
    example: "for ${v} in a b; do :; done",
};

pub(super) static EVAL_COMMAND: Hazard = Hazard {
    id: "eval-command",
    effect: "is run as a program in another language",
    programs: &["deno"],
    selector: ArgSelector::After(&["eval"]),
    rule: HazardRule::Refuse,
    fix: "write the program into a file, and pass the value as an argument: `deno run main.ts ${v}`",
    example: "deno eval ${v}",
};

pub(super) static SCRIPT_FILE: Hazard = Hazard {
    id: "script-file",
    effect: "is written into a file that the script runs",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "pass it to the file as an argument: `sh run.sh ${v}`, with `\"$1\"` in the text",
    example: "echo \"echo ${v}\" > run.sh; sh run.sh",
};

pub(super) static SCRIPT_NAME: Hazard = Hazard {
    id: "script-name",
    effect: "chooses the file that is run",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "put the folder before it: `sh tests/${v}`, or write out the name and choose with `case`",
    example: "sh ${v}",
};

pub(super) static RUNNING_OPTION: Hazard = Hazard {
    id: "running-option",
    effect: "is read as an option, which can run a program, if it starts with `-`",
    programs: RUNNING_OPTION_PROGRAMS,
    selector: ArgSelector::Every,
    rule: HazardRule::Dash,
    fix: "put `--` before it if the program supports that, or `./` before a path",
    example: "tar -cf a.tar ${v}",
};

pub(super) static COMMAND_WORD: Hazard = Hazard {
    id: "command-word",
    effect: CHOOSES_PROGRAM,
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_PROGRAM,
    example: "${v} --version",
};

pub(super) static FIND_COMMAND: Hazard = Hazard {
    id: "find-command",
    effect: CHOOSES_PROGRAM,
    programs: &["find", "fd"],
    selector: ArgSelector::After(&["-exec", "-execdir", "-ok", "-okdir", "-x", "-X"]),
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_PROGRAM,
    example: "find . -maxdepth 0 -exec ${v} ;",
};

pub(super) static SHELL_TEXT: Hazard = Hazard {
    id: "shell-text",
    effect: "is run as shell text",
    programs: SHELLS,
    selector: ArgSelector::Options(&["-c"]),
    rule: HazardRule::Refuse,
    fix: "pass it as an argument: `sh -c 'printf \"%s\\n\" \"$1\"' sh ${v}`",
    example: "sh -c \"echo ${v}\"",
};

pub(super) static PROMPT: Hazard = Hazard {
    id: "prompt",
    effect: "is expanded as a prompt, which can run commands",
    programs: &["print"],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "print it without `-P`: `print -r -- ${v}`",
    example: "print -P ${v}",
};

pub(super) static TAR_OPTION: Hazard = Hazard {
    id: "tar-option",
    effect: NAMES_PROGRAM,
    programs: &["tar", "bsdtar"],
    selector: ArgSelector::Options(&[
        "-I",
        "--to-command",
        "--use-compress-program",
        "--checkpoint-action",
        "--rsh-command",
    ]),
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_ARGUMENT,
    example: "tar -I ${v} -cf a.tar a",
};

pub(super) static GIT_COMMAND_OPTION: Hazard = Hazard {
    id: "git-command-option",
    effect: NAMES_PROGRAM,
    programs: &["git"],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_ARGUMENT,
    example: "git rebase -x ${v} main",
};

pub(super) static GIT_OPTION: Hazard = Hazard {
    id: "git-option",
    effect: NAMES_PROGRAM,
    programs: &["git"],
    selector: ArgSelector::Options(&["-c", "--config-env", "--exec-path"]),
    rule: HazardRule::Refuse,
    fix: WRITE_OUT_ARGUMENT,
    example: "git -c ${v} status",
};

pub(super) static XARGS_INPUT: Hazard = Hazard {
    id: "xargs-input",
    effect: "is pasted into shell text by xargs",
    programs: &["xargs"],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "pass it as an argument: `xargs -0 -n 1 sh -c 'printf \"%s\\n\" \"$1\"' sh`",
    example: "echo ${v} | xargs -I{} sh -c 'echo {}'",
};

pub(super) static PROGRAM_TEXT: Hazard = Hazard {
    id: "program-text",
    effect: OTHER_LANGUAGE,
    programs: PROGRAM_TEXT_PROGRAMS,
    selector: ArgSelector::Options(PROGRAM_TEXT_OPTIONS),
    rule: HazardRule::Refuse,
    fix: "pass it as an argument: `python3 -c 'import sys; print(sys.argv[1])' ${v}`",
    example: "python3 -c \"print('${v}')\"",
};

pub(super) static CODE_VARIABLE: Hazard = Hazard {
    id: "code-variable",
    effect: "is stored in a variable that decides which code runs",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Refuse,
    fix: "write out the value, and choose with `case`",
    example: "PATH=${v}:/bin ls",
};

pub(super) static ECHO: Hazard = Hazard {
    id: "echo",
    effect: "is changed if it contains backslashes or starts with `-`",
    programs: &["echo", "print"],
    selector: ArgSelector::Every,
    rule: HazardRule::Warn,
    fix: "write `printf '%s\\n' ${v}`",
    example: "echo ${v}",
};

pub(super) static REGEX: Hazard = Hazard {
    id: "regex",
    effect: "is read as a pattern by shells other than bash",
    programs: &["[["],
    selector: ArgSelector::After(&["=~"]),
    rule: HazardRule::Warn,
    fix: "compare with `==`, or ask the language: `${= v | matches(\"pattern\") }`",
    example: "[[ abc =~ ${v} ]]",
};

pub(super) static UNQUOTED_VARIABLE: Hazard = Hazard {
    id: "unquoted-variable",
    effect: "is split into words and expanded to file names, because the variable is not quoted",
    programs: &[],
    selector: ArgSelector::Syntax,
    rule: HazardRule::Warn,
    fix: "put double quotes around the variable, as in `\"$F\"`",
    example: "F=${v}; ls $F",
};

// ---- words and lists that rows share --------------------------------------------------------------------

const ARITHMETIC_EFFECT: &str = "is evaluated as arithmetic";
const CHOOSES_PROGRAM: &str = "would choose the program to run";
const NAMES_PROGRAM: &str = "can name a program to run";
const OTHER_LANGUAGE: &str = "is run as a program in another language";
const RUN_AS_COMMAND: &str = "is run as a command";
const USE_AN_INT: &str = "use an int, for example with `| int`";
const VARIABLE_NAME: &str = "is used as the name of a variable, in which a subscript can run commands";
const WRITE_OUT_ARGUMENT: &str = "write out the argument of the option, and choose with `case`";
const WRITE_OUT_NAME: &str = "write out the name, and choose with `case`";
const WRITE_OUT_PROGRAM: &str = "write out the program, and choose with `case`";

#[rustfmt::skip]
const NAME_PROGRAMS: &[&str] = &[
    "read", "unset", "export", "local", "declare", "typeset", "readonly", "mapfile", "readarray",
    "getopts", "vared", "integer", "float",
];

#[rustfmt::skip]
const COMMAND_OF_COMMAND_PROGRAMS: &[&str] = &[
    "exec", "command", "builtin", "env", "sudo", "doas", "nohup", "time", "nice", "ionice", "stdbuf",
    "setsid", "xargs", "noglob", "nocorrect", "catchsegv", "strace", "ltrace", "ssh-agent",
    "unbuffer", "busybox", "npx", "bunx", "uvx", "systemd-run",
];

#[rustfmt::skip]
pub(super) const REMOTE_SHELL_VALUES: &[(&str, usize)] = &[
    ("-p", 1), ("-i", 1), ("-l", 1), ("-o", 1), ("-F", 1), ("-J", 1), ("-L", 1), ("-R", 1), ("-D", 1),
    ("-b", 1), ("-c", 1), ("-E", 1), ("-e", 1), ("-I", 1), ("-m", 1), ("-O", 1), ("-Q", 1), ("-S", 1),
    ("-W", 1), ("-w", 1), ("-B", 1),
];

#[rustfmt::skip]
const REMOTE_INPUT_VALUES: &[(&str, usize)] = &[
    ("-p", 1), ("-i", 1), ("-l", 1), ("-o", 1), ("-F", 1), ("-J", 1), ("-L", 1), ("-R", 1), ("-D", 1),
];

#[rustfmt::skip]
const RUNS_ITS_WORDS_PROGRAMS: &[&str] = &[
    "watch", "parallel", "entr", "at", "batch", "crontab", "tmux", "screen", "expect", "rlwrap",
];

#[rustfmt::skip]
const COMMAND_OPTION_PROGRAMS: &[&str] = &[
    "su", "runuser", "script", "flock", "nix-shell", "npm", "npx", "sg", "vim", "vi", "nvim", "ex",
];

#[rustfmt::skip]
const PROGRAM_TEXT_PROGRAMS: &[&str] = &[
    "python", "python2", "python3", "pypy", "pypy3", "perl", "ruby", "node", "nodejs", "deno", "bun",
    "php", "lua", "luajit", "Rscript", "osascript", "pwsh", "powershell", "tclsh", "julia", "ghci",
    "elixir", "groovy", "R", "ts-node", "emacs", "irb", "scala",
];

#[rustfmt::skip]
const PROGRAM_TEXT_OPTIONS: &[&str] = &[
    "-c", "-e", "-E", "-p", "-r", "-R", "-B", "-m", "-M", "--require", "--import", "--eval", "--print",
    "--run", "--execute", "-Command", "-command", "-eval",
];

#[rustfmt::skip]
const PROGRAM_INPUT_PROGRAMS: &[&str] = &[
    "python", "python2", "python3", "pypy", "pypy3", "perl", "ruby", "node", "nodejs", "php", "lua", "bc",
    "dc", "tclsh", "julia", "octave", "gnuplot", "ed", "m4",
];

#[rustfmt::skip]
const PROGRAM_INPUT_UNLESS: &[&str] = &[
    "-c", "-e", "-E", "-m", "-p", "-r", "-n", "--eval", "--print", "-f",
];

#[rustfmt::skip]
const SQL_OPTION_PROGRAMS: &[&str] = &[
    "psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "duckdb", "cqlsh", "mongosh", "mongo",
];

#[rustfmt::skip]
const SQL_INPUT_PROGRAMS: &[&str] = &[
    "psql", "mysql", "mariadb", "sqlite3", "duckdb", "clickhouse-client", "redis-cli", "mongosh", "mongo",
];

/// A body that can be the name of a file; the first character decides.
pub(super) static FILE_OR_TEXT: Hazard = Hazard {
    id: "file-or-text",
    effect: "is read as the name of a file if it starts with `@`",
    programs: &["curl"],
    selector: ArgSelector::Options(&["-d", "--data", "--data-binary", "--data-ascii", "--json"]),
    rule: HazardRule::Warn,
    fix: "write `--data-raw ${v}`, or put it on standard input with `--data-binary @-`",
    example: "curl -d ${v} http://127.0.0.1:9/",
};

/// A header that can be the name of a file; the first character decides.
pub(super) static FILE_OR_HEADER: Hazard = Hazard {
    id: "file-or-header",
    effect: "is read as the name of a file if it starts with `@`",
    programs: &["curl"],
    selector: ArgSelector::Options(&["-H", "--header"]),
    rule: HazardRule::Warn,
    fix: "write the name of the header before it: `-H \"Name: \"${v}`",
    example: "curl -H ${v} http://127.0.0.1:9/",
};

const NO_VALUES: &[(&str, usize)] = &[];

/// Programs with options that run programs, load code, or write files that are code.
#[rustfmt::skip]
const RUNNING_OPTION_PROGRAMS: &[&str] = &[
    "mail", "nc", "sqlite3", "split", "podman", "lua", "ansible", "ansible-playbook", "awk", "bash", "brew", "bsdtar", "bun", "cargo", "composer", "curl",
    "dash", "deno", "docker", "docker-compose", "env", "fd", "find", "gawk", "gcc", "gdb", "gh", "git", "go",
    "gradle", "helm", "hg", "kubectl", "less", "make", "man", "mvn", "mysql", "node", "npm", "npx",
    "nvim", "openssl", "perl", "php", "pip", "pip3", "pnpm", "poetry", "psql", "pytest", "python", "python3",
    "rg", "rsync", "ruby", "scp", "sed", "sftp", "sh", "sort", "ssh", "su", "sudo", "svn", "tar", "terraform",
    "unzip", "uv", "vi", "view", "vim", "wget", "xargs", "yarn", "zip", "zsh",
];

/// Programs that read a word as an option when it begins with `-`.
#[rustfmt::skip]
pub static OPTION_PROGRAMS: &[&str] = &[
    "jq", "yq", "apt", "apt-get", "aws", "az", "base64", "bunzip2", "bzip2", "cat", "cd", "chgrp", "chmod", "chown",
    "cmp", "comm", "cp", "csplit", "cut", "date", "dd", "df", "diff", "du", "egrep", "ffmpeg", "fgrep",
    "file", "gcloud", "glab", "gpg", "grep", "gunzip", "gzip", "head", "id", "install", "kill", "ln", "ls",
    "md5sum", "mkdir", "mktemp", "more", "mv", "nl", "patch", "paste", "ping",
    "printf", "pushd", "readlink", "realpath", "rm", "rmdir", "rustup", "sendmail", "set", "sha1sum",
    "sha256sum", "shred", "stat", "tac", "tail", "tee", "touch", "tr", "truncate", "uniq",
    "useradd", "wait", "wc", "xz", "zstd",
];

/// Variables whose value decides which code runs.
#[rustfmt::skip]
pub static CODE_VARIABLES: &[&str] = &[
    "ANSIBLE_CONFIG", "AWS_CONFIG_FILE", "AWS_PAGER", "BASHOPTS", "BASH_ENV", "BASH_LOADABLES_PATH",
    "BAT_PAGER", "BROWSER", "BUNDLE_GEMFILE", "CARGO_HOME", "CC", "CCACHE_PREFIX", "CDPATH", "CFLAGS",
    "CLASSPATH", "CMAKE_TOOLCHAIN_FILE", "COMPILER_PATH", "COMPOSER_HOME", "CPPFLAGS", "CURL_HOME", "CXX",
    "CXXFLAGS", "DELTA_PAGER", "DOCKER_CONFIG", "DOCKER_HOST", "DOTNET_STARTUP_HOOKS",
    "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "EDITOR", "ELIXIR_ERL_OPTIONS", "ENV", "ERL_FLAGS",
    "EXECIGNORE", "EXINIT", "FCEDIT", "FIGNORE", "FPATH", "FZF_DEFAULT_COMMAND", "FZF_DEFAULT_OPTS",
    "GCC_EXEC_PREFIX", "GCONV_PATH", "GEMRC", "GEM_HOME", "GEM_PATH", "GH_PAGER", "GIT_ASKPASS",
    "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_SYSTEM",
    "GIT_DIR", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_OBJECT_DIRECTORY", "GIT_PAGER",
    "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE", "GLOBIGNORE", "GNUMAKEFLAGS", "GOFLAGS", "GOPATH", "GOROOT", "HGRCPATH",
    "HOME", "IFS", "INPUTRC", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JULIA_LOAD_PATH",
    "KSH_ENV", "KUBECONFIG", "LDFLAGS", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "LESS", "LESSCLOSE",
    "LESSOPEN", "LOCPATH", "LUA_CPATH", "LUA_INIT", "LUA_PATH", "MAILPATH", "MAILRC", "MAKEFILES",
    "MAKEFLAGS", "MANPAGER", "MAVEN_OPTS", "NLSPATH", "NODE_OPTIONS", "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE", "NPM_CONFIG_SCRIPT_SHELL", "NULLCMD", "OCTAVE_SITE_INITFILE", "OPENSSL_CONF",
    "PAGER", "PATH", "PERL5DB", "PERL5LIB", "PERL5OPT", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR",
    "PIP_INDEX_URL", "PROMPT", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "PSQLRC", "PSQL_PAGER",
    "PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE",
    "PYTHONWARNINGS", "READNULLCMD", "RPROMPT", "RPS1", "RSYNC_RSH", "RUBYLIB", "RUBYOPT", "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "RUSTDOC", "RUSTFLAGS", "RUSTUP_HOME", "R_ENVIRON",
    "R_PROFILE", "R_PROFILE_USER", "SCREENRC", "SHELL", "SHELLOPTS", "SSH_ASKPASS", "SUDO_ASKPASS",
    "SUDO_EDITOR", "SVN_SSH", "SYSTEMD_PAGER", "TAR_OPTIONS", "TCLLIBPATH", "TERMCAP", "TERMINFO",
    "TERMINFO_DIRS", "TEXINPUTS", "VIMINIT", "VISUAL", "WGETRC", "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR", "ZIPOPT", "_JAVA_OPTIONS", "cdpath", "chpwd_functions",
    "fpath", "module_path", "path", "precmd_functions", "prompt",
];

/// Prefixes of variables whose value decides which code runs, in upper case.
const CODE_PREFIXES: &[&str] = &[
    "BASH_FUNC_",
    "GIT_CONFIG_",
    "CARGO_TARGET_",
    "CARGO_BUILD_",
    "NPM_CONFIG_",
    "LD_",
    "DYLD_",
    "PIP_CONFIG",
];

/// Endings of variables that give options or programs to other programs.
const CODE_ENDINGS: &[&str] = &[
    "_OPTIONS",
    "_OPTS",
    "_PAGER",
    "_RSH",
    "_EDITOR",
    "_ASKPASS",
    "_WRAPPER",
    "_PRELOAD",
    "_LIBRARY_PATH",
    "_STARTUP_HOOKS",
    "_CONFIG_FILE",
    "_SSH_COMMAND",
    "FLAGS",
];

/// Whether the value of a variable decides which code runs, so that no value from data may go into it.
pub fn is_code_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    is_code_name(name)
        || CODE_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || CODE_ENDINGS.iter().any(|ending| upper.ends_with(ending))
}

/// Whether a variable decides which code runs even if it is not given to another program.
pub(super) fn is_code_name(name: &str) -> bool {
    CODE_VARIABLES.contains(&name)
}

/// Options that take the next word as their argument, whatever it starts with.
pub(super) fn value_options<W: HasWord>(name: &str, words: &[W]) -> Vec<&'static str> {
    let options = |name: &str| {
        VALUE_OPTIONS.iter().find(|(program, _)| *program == name).map_or(&[][..], |(_, options)| options)
    };
    let mut found = options(name).to_vec();
    if name == "git" {
        let command = operands(&words[1..], |option| usize::from(matches!(option, "-C" | "-c")));
        let command = command.first().and_then(|at| words[at + 1].word().text());
        found.extend(options(&format!("git {}", command.unwrap_or_default())));
    }
    found
}

#[rustfmt::skip]
static VALUE_OPTIONS: &[(&str, &[&str])] = &[
    ("aws", &["--body", "--message", "--name", "--region", "--profile", "--key", "--bucket", "--query", "--output"]),
    ("cargo", &["--package", "-p", "--features", "--manifest-path", "--bin", "--version"]),
    ("cut", &["-d", "-f", "-c", "-b"]),
    ("curl", &[
        "-A", "-H", "-T", "-X", "-b", "-c", "-d", "-e", "-o", "-u", "-w", "-x", "-m", "--data",
        "--data-binary", "--data-raw", "--data-urlencode", "--form", "-F", "--header", "--max-time",
        "--output", "--request", "--url", "--user", "--user-agent", "--json",
    ]),
    ("date", &["-d", "--date", "-r"]),
    ("docker", &[
        "-e", "-f", "-l", "-p", "-t", "-u", "-v", "-w", "--build-arg", "--env", "--label", "--name",
        "--tag", "--file",
    ]),
    ("find", &[
        "-name", "-iname", "-path", "-ipath", "-newer", "-regex", "-type", "-size", "-mtime", "-user",
    ]),
    ("gh", &[
        "-t", "-b", "-R", "-l", "-n", "-F", "-f", "--title", "--body", "--repo", "--label", "--notes",
        "--base", "--head", "--limit", "--state", "--json", "--jq",
    ]),
    ("git", &["-C"]),
    ("git add", &[]),
    ("git branch", &["-m", "-M", "--sort", "--format"]),
    ("git checkout", &["-b", "-B"]),
    ("git switch", &["-c", "-C"]),
    ("git clone", &["-b", "-o", "-j", "--branch", "--depth", "--origin"]),
    ("git commit", &["-m", "-F", "--message", "--author", "--date", "--file", "--trailer"]),
    ("git merge", &["-m", "--message", "-s", "-X"]),
    ("git tag", &["-m", "-F", "-n", "--message", "--sort"]),
    ("git log", &["-n", "--format", "--author", "--since", "--until", "--grep", "--date", "-S", "-G", "-L"]),
    ("git grep", &["-e", "-f", "-m", "-A", "-B", "-C"]),
    ("git fetch", &["--depth", "--deepen", "-j", "-o"]),
    ("git push", &["-o"]),
    ("git rebase", &["--onto"]),
    ("git stash", &["-m", "--message"]),
    ("git notes", &["-m", "-F"]),
    ("git worktree", &["-b", "-B"]),
    ("git archive", &["--format", "--prefix", "-o", "--output"]),
    ("git config", &["-f", "--file"]),
    ("git show", &["--format"]),
    ("git describe", &["--match", "--exclude"]),
    ("grep", &["-e", "-f", "-m", "-A", "-B", "-C"]),
    ("head", &["-n", "-c"]),
    ("helm", &["--set", "--set-string", "--values", "-f", "--namespace", "-n", "--version"]),
    ("jq", &["--arg", "--argjson"]),
    ("kubectl", &[
        "-n", "--namespace", "-f", "-l", "-o", "-p", "-c", "--context", "--patch", "--type", "--image", "--selector",
        "--output", "--container", "--replicas", "--timeout",
    ]),
    ("npm", &["--tag", "--otp", "--registry", "-w"]),
    ("rg", &["-e", "-f", "-g", "-m", "-t"]),
    ("sort", &["-k", "-t", "-o"]),
    ("tail", &["-n", "-c"]),
    ("tar", &["-f", "-C", "-T", "--file", "--directory"]),
    ("touch", &["-d", "-t", "-r"]),
    ("xargs", &["-n", "-P", "-L"]),
    ("zip", &[]),
];
