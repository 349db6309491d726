//! Random values and choices from a seed: the same each time, unless the long form looks for new ones.

/// A small generator: the same seed gives the same numbers.
pub(crate) struct Random(u64);

/// Whether the long form was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1")
}

/// A fixed seed gates a change; the long form takes a new one and prints it.
#[expect(clippy::print_stdout, reason = "a failure of the long form is repeated with it")]
pub(crate) fn seed(what: &str) -> u64 {
    if !is_long() {
        return 42;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = u64::from(since.subsec_nanos()) ^ since.as_secs();
    println!("{what}: seed {seed}");
    seed
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A value made to break quoting, and to leave a file behind if it runs.
    pub(crate) fn hostile(&mut self) -> String {
        let length = [0, 1, 1, 2, 3, 4, 6, 9][self.below(8)];
        (0..length).map(|_| *self.choose(FRAGMENTS)).collect()
    }
}

/// What means something to a shell, and what is easily damaged.
const FRAGMENTS: &[&str] = &[
    "'",
    "\"",
    "`",
    "$",
    "\\",
    "\\\\",
    "\\'",
    "\\\"",
    "''",
    "\"\"",
    "'\\''",
    "\n",
    "\n\n",
    "\t",
    " ",
    "  ",
    "\r",
    "\r\n",
    ";",
    "&",
    "&&",
    "|",
    "||",
    "<",
    ">",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    "*",
    "?",
    "[a-z]*",
    "~",
    "~root",
    "#",
    " #",
    "!",
    "!!",
    "^",
    "%",
    "%s",
    "%n",
    "%%",
    "-",
    "-n",
    "-e",
    "--",
    "-x",
    "=",
    "==",
    ":",
    ",",
    "@",
    "+",
    "$(touch hit)",
    "`touch hit`",
    "${HOME}",
    "$HOME",
    "${x:-`touch hit`}",
    "$((1+1))",
    "$((a[$(touch hit)]))",
    "a[$(touch hit)]",
    ";touch hit;",
    "|touch hit",
    "\ntouch hit\n",
    "&&touch hit",
    "'$(touch hit)'",
    "\"$(touch hit)\"",
    "\";touch hit;\"",
    "';touch hit;'",
    ")\ntouch hit\n(",
    "}touch hit{",
    "$'\\n'",
    "$\"x\"",
    "<(touch hit)",
    ">hit",
    "\nEOF\n",
    "EOF",
    "\n'EOF'\n",
    "esac",
    "done",
    "fi",
    ";;",
    "in",
    "\u{1}",
    "\u{7}",
    "\u{1b}[31m",
    "\u{7f}",
    "é",
    "😀",
    "e\u{301}",
    "\u{2028}",
    "\u{a0}",
    "\u{feff}",
    "ß",
    "日本",
    "a",
    "b",
    "z",
    "0",
    "1",
    "-1",
    "08",
    "1e9",
    "true",
    "null",
    "${TL_1}",
    "$TL_1",
    "\\$",
    "\\`",
    "\\\n",
    "\n ",
    " \n",
    "\t\t",
    "a b",
    "x=y",
    "/",
    "/etc/passwd",
    "../..",
    ".",
    "..",
];
