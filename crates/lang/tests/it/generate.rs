//! Sources of the language from its grammar: one function per rule, each making one of the rule's alternatives.
//!
//! A [`Gen`] takes its decisions from a list of numbers. Where the list has ended every decision is the first
//! alternative, which is the shortest; so a shorter list of smaller numbers gives a simpler source, and that is how a
//! failing case is reduced.

use threadline_lang::func::{FUNCTIONS, Function, FunctionGroup, ParamKind};

/// The roots that the scope of the laws has.
pub(crate) const ROOTS: [&str; 14] =
    ["a", "b", "t", "f", "n", "s", "xs", "ys", "o", "rows", "item", "context", "unset", "prev"];
/// Those that cannot stand bare in an expression.
const ODD_ROOTS: [&str; 4] = ["tool-1", "2nd", "in", "é-1"];
const NAMES: [&str; 12] = ["k", "l", "m", "name", "score", "x", "y", "result", "value", "meta", "and", "été"];
const WORDS: [&str; 12] = ["a", "b c", "é", "1", "}", "{", "|", ":", "-", "😀", "\n", "$"];

pub(crate) struct Gen<'c> {
    choices: std::slice::Iter<'c, u16>,
    depth: usize,
    /// In an element expression bare names are fields.
    element: bool,
}

impl<'c> Gen<'c> {
    pub(crate) fn new(choices: &'c [u16]) -> Self {
        Self { choices: choices.iter(), depth: 6, element: false }
    }

    /// One of `n` alternatives.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        usize::from(self.choices.next().copied().unwrap_or(0)) % n
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.pick(of.len())]
    }

    /// With one level less to go; at the bottom the alternative without nesting.
    fn deeper(
        &mut self,
        nested: impl FnOnce(&mut Self) -> String,
        flat: impl FnOnce(&mut Self) -> String,
    ) -> String {
        if self.depth == 0 {
            return flat(self);
        }
        self.depth -= 1;
        let text = nested(self);
        self.depth += 1;
        text
    }

    /// A rule in braces: none, or up to `most` of them.
    fn repeated(&mut self, most: usize, mut rule: impl FnMut(&mut Self) -> String) -> String {
        (0..self.pick(most + 1)).map(|_| rule(self)).collect()
    }

    fn space(&mut self) -> &'static str {
        self.one(&["", " ", "", "  ", "\n", "\t"])
    }

    // ---- templates: template = { text | dollars | ref } ------------------------------------------------

    pub(crate) fn template(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..=self.pick(5) {
            let piece = match self.pick(4) {
                0 => self.reference(),
                1 => self.one(&WORDS).to_owned(),
                2 => "$".repeat(1 + self.pick(4)),
                _ => self.one(&["text ", "$$", "$${x}", "$$$${", "#", "'", "\\"]).to_owned(),
            };
            // Dollars and the brace behind them are one rule: two pieces must not make one, except pairs of dollars
            // before a reference.
            let dollars = out.bytes().rev().take_while(|byte| *byte == b'$').count();
            let opens = piece.trim_start_matches('$').starts_with('{');
            if opens && dollars % 2 == 1 || dollars > 0 && piece.starts_with('{') {
                out.push(' ');
            }
            out.push_str(&piece);
        }
        out
    }

    /// `ref = '${' ( '=' expr | kind ':' raw | head { '|' filter } [ ':-' rawdef ] ) '}'`
    pub(crate) fn reference(&mut self) -> String {
        let element = std::mem::replace(&mut self.element, false);
        let (before, after) = (self.space(), self.space());
        let inside = match self.pick(6) {
            4 => format!("{before}={}{after}", self.expr()),
            5 => format!("{before}{}", self.kind_and_raw()),
            _ => {
                let head = self.head();
                let filters =
                    self.repeated(2, |make| format!("{}|{}{}", make.space(), make.space(), make.filter()));
                let default =
                    if self.pick(3) == 1 { format!(":-{}", self.raw_default()) } else { after.to_owned() };
                format!("{before}{head}{filters}{default}")
            }
        };
        self.element = element;
        format!("${{{inside}}}")
    }

    /// `kind ':' raw`, raw not starting with `-`
    fn kind_and_raw(&mut self) -> String {
        match self.pick(5) {
            0 => format!("file:{}", self.raw("p/")),
            1 => format!("cmd:echo {}", self.one(&["hi", "a | b", "{x}", "$HOME", "$${HOME}", "é"])),
            2 => format!("date:{}", self.one(&["%Y-%m-%d", " %H:%M ", "%j"])),
            3 => format!("json:{}", self.one(&["a.b[0]", "a", "a:from:s", "b:from:o.k[\"l\"]"])),
            _ => format!("ticket:{}", self.raw("T")),
        }
    }

    /// A template up to the balanced brace.
    fn raw(&mut self, first: &str) -> String {
        let more = self.repeated(3, |make| match make.pick(5) {
            0 => make.one(&["a", " ", "é", "$ ", "'", "\"", "\\", "{b}", "{}", "-"]).to_owned(),
            1 => "$${x}".to_owned(),
            2 => " $$".to_owned() + &make.nested_reference(),
            _ => format!(" {}", make.nested_reference()),
        });
        format!("{first}{more}")
    }

    fn raw_default(&mut self) -> String {
        let first = self.one(&["", "x", " ", "-", "a | b", "{}", "é"]);
        self.raw(first)
    }

    fn nested_reference(&mut self) -> String {
        self.deeper(Self::reference, |_| "${a}".to_owned())
    }

    /// `head = path | NAME '(' args ')'`
    fn head(&mut self) -> String {
        match self.pick(4) {
            3 => self.deeper(Self::call, Self::path),
            _ => self.path(),
        }
    }

    /// `path = PNAME { '.' SEG | '[' ['-'] DIGITS ']' | '[' STR ']' }`
    fn path(&mut self) -> String {
        let root = match self.pick(8) {
            5 => self.one(&ODD_ROOTS).to_owned(),
            6 => self.one(&["env.HOME", "env.NOPE", "nodes[\"tool-1\"]", "nodes.node", "uuid"]).to_owned(),
            7 => self.one(&["nosuch", "file", "date", "if", "a-b-c"]).to_owned(),
            _ => self.one(&ROOTS).to_owned(),
        };
        let steps = self.repeated(3, |make| match make.pick(5) {
            0 => format!(".{}", make.one(&NAMES)),
            1 => format!(".{}", make.one(&["0", "1", "007", "2nd", "a-b"])),
            2 => format!("[{}]", make.one(&["0", "-1", "1", "-0", "99"])),
            3 => format!("[{}]", make.key()),
            _ => ".k".to_owned(),
        });
        root + &steps
    }

    // ---- expressions -----------------------------------------------------------------------------------

    /// `expr = or [ 'if' or 'else' expr ]`
    pub(crate) fn expr(&mut self) -> String {
        self.deeper(
            |make| match make.pick(6) {
                5 => format!("{} if {} else {}", make.or(), make.or(), make.expr()),
                _ => make.or(),
            },
            Self::primary_flat,
        )
    }

    /// `or = and { ('or'|'||') and }`
    fn or(&mut self) -> String {
        let first = self.and();
        if self.pick(6) != 5 {
            return first;
        }
        first + &self.repeated(2, |make| format!("{}{}", make.one(&[" or ", "||", " || "]), make.and()))
    }

    /// `and = not { ('and'|'&&') not }`
    fn and(&mut self) -> String {
        let first = self.not();
        if self.pick(6) != 5 {
            return first;
        }
        first + &self.repeated(2, |make| format!("{}{}", make.one(&[" and ", "&&", " && "]), make.not()))
    }

    /// `not = ('not'|'!') not | cmp`
    fn not(&mut self) -> String {
        match self.pick(8) {
            7 => self.deeper(|make| format!("{}{}", make.one(&["not ", "!", "! "]), make.not()), Self::cmp),
            _ => self.cmp(),
        }
    }

    /// `cmp = sum ( { relop sum } | ['not'] 'in' sum )`
    fn cmp(&mut self) -> String {
        let first = self.sum();
        match self.pick(6) {
            4 => first + &self.repeated(3, |make| format!("{}{}", make.relop(), make.sum())),
            5 => format!("{first}{}{}", self.one(&[" in ", " not in "]), self.sum()),
            _ => first,
        }
    }

    fn relop(&mut self) -> &'static str {
        self.one(&[" == ", " != ", "<", " <=", "> ", " >= "])
    }

    /// `sum = term { ('+'|'-') term }`
    fn sum(&mut self) -> String {
        let first = self.term();
        if self.pick(4) != 3 {
            return first;
        }
        first + &self.repeated(3, |make| format!("{}{}", make.one(&[" + ", "+", " - ", " -"]), make.term()))
    }

    /// `term = unary { ('*'|'/'|'//'|'%') unary }`
    fn term(&mut self) -> String {
        let first = self.unary();
        if self.pick(5) != 4 {
            return first;
        }
        first
            + &self
                .repeated(3, |make| format!("{}{}", make.one(&["*", " * ", "/", " // ", "%"]), make.unary()))
    }

    /// `unary = '-' unary | power`
    fn unary(&mut self) -> String {
        match self.pick(8) {
            7 => self.deeper(|make| format!("{}{}", make.one(&["-", "- "]), make.unary()), Self::power),
            _ => self.power(),
        }
    }

    /// `power = pipe [ '**' unary ]`
    fn power(&mut self) -> String {
        let base = self.pipe();
        match self.pick(10) {
            9 => base + self.one(&["**", " ** "]) + &self.deeper(Self::unary, Self::primary_flat),
            _ => base,
        }
    }

    /// `pipe = postfix { '|' filter }`
    fn pipe(&mut self) -> String {
        let input = self.postfix();
        if self.pick(6) != 5 {
            return input;
        }
        input + &self.repeated(2, |make| format!("{}|{}{}", make.space(), make.space(), make.filter()))
    }

    /// `postfix = primary { '.' NAME [ '(' args ')' ] | '.' DIGITS | '[' expr ']' | '[' [expr] ':' [expr] ']' }`
    fn postfix(&mut self) -> String {
        let primary = self.primary();
        // A dot behind a number is a part of the number.
        let number =
            primary.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-'))
                && primary.starts_with(|char: char| char.is_ascii_digit());
        if number || self.pick(3) != 2 {
            return primary;
        }
        // The first step into a table of names is literal.
        let first = if primary == "context" { format!(".{}", self.one(&NAMES)) } else { String::new() };
        primary + &first + &self.repeated(3, Self::postfix_step)
    }

    fn postfix_step(&mut self) -> String {
        match self.pick(7) {
            0 => format!(".{}", self.one(&NAMES)),
            1 => format!(".{}", self.one(&["0", "1", "12"])),
            2 => self.deeper(Self::method, |_| ".text()".to_owned()),
            3 => self.deeper(
                |make| format!("[{}{}{}]", make.space(), make.index(), make.space()),
                |_| "[0]".to_owned(),
            ),
            4 => self.deeper(
                |make| {
                    let from = if make.pick(2) == 1 { make.index() } else { String::new() };
                    let to = if make.pick(2) == 1 { make.expr() } else { String::new() };
                    format!("[{from}:{to}]")
                },
                |_| "[:1]".to_owned(),
            ),
            5 => format!("[{}]", self.key()),
            _ => format!("[{}]", self.one(&["0", "-1", "1"])),
        }
    }

    /// An expression between brackets: there a text has no reference in it.
    fn index(&mut self) -> String {
        let index = self.expr();
        let text = index.starts_with(['"', '\'']) && index.contains("${");
        // Digits alone are an index, which a list must be able to have.
        let large = index.len() > 18 && index.bytes().all(|byte| byte.is_ascii_digit());
        if text || large { format!("({index})") } else { index }
    }

    /// `primary = NUMBER | STR | NAME [ '(' args ')' ] | ref | '(' expr ')' | list | '{' (NAME|STR) ':' expr ... '}'`
    fn primary(&mut self) -> String {
        match self.pick(10) {
            0..=2 => self.name(),
            3 => self.number(),
            4 => self.string(),
            5 => self.deeper(Self::call, Self::number),
            6 => self.deeper(Self::reference, Self::name),
            7 => self.deeper(|make| format!("({}{}{})", make.space(), make.expr(), make.space()), Self::name),
            8 => self.deeper(Self::list, |_| "[]".to_owned()),
            _ => self.deeper(Self::object, |_| "{}".to_owned()),
        }
    }

    /// The alternatives of a primary that nest nothing.
    fn primary_flat(&mut self) -> String {
        match self.pick(3) {
            0 => self.name(),
            1 => self.number(),
            _ => format!("'{}'", self.one(&["", "a", "b", "é", "2026-01-02"])),
        }
    }

    fn name(&mut self) -> String {
        match self.pick(8) {
            4 => self.one(&["true", "false", "null", "True", "False", "None"]).to_owned(),
            5 if !self.element => self.one(&["env.HOME", "env[\"NOPE\"]", "nodes.node", "uuid"]).to_owned(),
            6 => self.one(&["nosuch", "itx", "été", "_"]).to_owned(),
            7 if self.element => "it".to_owned(),
            _ if self.element => self.one(&NAMES[..8]).to_owned(),
            _ => self.one(&ROOTS).to_owned(),
        }
    }

    /// `NUMBER = (0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`
    pub(crate) fn number(&mut self) -> String {
        let whole =
            self.one(&["1", "0", "2", "10", "85", "9223372036854775807", "123456789012345678901234567890"]);
        let fraction = self.one(&["", "", ".0", ".5", ".10", ".000000000000000000001"]);
        let exponent = self.one(&["", "", "", "e2", "E-3", "e+0", "e-40"]);
        format!("{whole}{fraction}{exponent}")
    }

    /// Text in either quote, a template inside.
    fn string(&mut self) -> String {
        let quote = self.one(&['"', '\'']);
        let inside = self.repeated(4, |make| match make.pick(6) {
            0 => make.one(&["a", " ", "é", "x y", "1", "$", "{", "}", "|", "😀", "#"]).to_owned() + "_",
            1 => make.one(&["\\n", "\\\\", "\\'", "\\\"", "\\t", "\\r", "\\u{e9}", "\\d", "\\ "]).to_owned(),
            2 => "$${x}".to_owned(),
            3 => "$$".to_owned() + &make.nested_reference(),
            4 => if quote == '"' { "'" } else { "\"" }.to_owned(),
            _ => make.nested_reference(),
        });
        format!("{quote}{inside}{quote}")
    }

    /// A text without a reference, for keys.
    fn key(&mut self) -> String {
        self.one(&[
            "'k'", "\"l\"", "\"\"", "'a b'", "\"0\"", "'q\\'\"'", "\"$\"", "'{'", "'\\d'", "'é'", "\"x$\"",
        ])
        .to_owned()
    }

    fn list(&mut self) -> String {
        let items: Vec<String> = (0..self.pick(4)).map(|_| self.expr()).collect();
        let comma = if !items.is_empty() && self.pick(4) == 3 { "," } else { "" };
        format!("[{}{comma}]", items.join(self.one(&[", ", ","])))
    }

    fn object(&mut self) -> String {
        let keys = ["k", "'l'", "\"m n\"", "in", "\"$\"", "''"];
        let first = self.pick(keys.len());
        let entries: Vec<String> = (0..self.pick(4))
            .map(|at| format!("{}{}: {}", keys[(first + at) % keys.len()], self.space(), self.expr()))
            .collect();
        format!("{{{}}}", entries.join(", "))
    }

    // ---- calls -----------------------------------------------------------------------------------------

    fn function(&mut self) -> &'static Function {
        let functions: Vec<&Function> =
            FUNCTIONS.iter().filter(|function| function.group != FunctionGroup::Binding).collect();
        self.one(&functions)
    }

    /// `NAME '(' args ')'`
    fn call(&mut self) -> String {
        match self.pick(10) {
            8 => format!("{}({})", self.one(&["file", "ticket"]), self.expr()),
            9 => self
                .one(&["date('%Y')", "date(\"%H\", 'Europe/Paris')", "cmd('ls')", "cmd(\"ls\", a)"])
                .to_owned(),
            _ => {
                let function = self.function();
                format!("{}({})", function.name, self.args(function, 0))
            }
        }
    }

    fn method(&mut self) -> String {
        let function = self.function();
        format!(".{}({})", function.name, self.args(function, 1))
    }

    /// `filter = NAME [ '(' args ')' ]`
    fn filter(&mut self) -> String {
        let function = self.function();
        let args = self.deeper(|make| make.args(function, 1), |_| Self::least_args(function));
        if args.is_empty() && self.pick(2) == 0 {
            return function.name.to_owned();
        }
        format!("{}({args})", function.name)
    }

    /// The arguments of a function, from the parameter at `skip` on.
    fn args(&mut self, function: &Function, skip: usize) -> String {
        let optional = function.params.len() - function.required;
        let count = function.required + self.pick(optional + 1);
        let mut args = Vec::new();
        for param in function.params.iter().take(count).skip(skip) {
            match param.kind {
                ParamKind::Value => args.push(self.expr()),
                ParamKind::Element => args.push(self.element_expr(function)),
                ParamKind::Rest => args.extend((0..self.pick(3)).map(|_| self.expr())),
            }
        }
        args.join(", ")
    }

    fn least_args(function: &Function) -> String {
        let params = function.params.iter().take(function.required).skip(1);
        let args: Vec<&str> =
            params.map(|param| if param.kind == ParamKind::Element { "\"it\"" } else { "a" }).collect();
        args.join(", ")
    }

    /// An expression over the elements, as a literal text. Behind a text, `min` and `max` read theirs as one more
    /// text, in which a reference is written without escapes: theirs has none.
    fn element_expr(&mut self, function: &Function) -> String {
        let element = std::mem::replace(&mut self.element, true);
        let inside = self.expr();
        self.element = element;
        let takes_texts = function.params.iter().any(|param| param.kind == ParamKind::Rest);
        let has_quotes = inside.contains(['\\', '"', '\'']);
        let inside = if takes_texts && has_quotes { "it".to_owned() } else { inside };
        let quote = self.one(&['"', '\'']);
        let escaped = inside.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
        format!("{quote}{escaped}{quote}")
    }
}
