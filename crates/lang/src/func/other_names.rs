//! The names that functions have in other languages, for the hint about an unknown one.
//!
//! None of these names is a function here; they are only recognised.

/// The built-in that does what a function of this name does elsewhere.
pub(crate) fn meant(name: &str) -> Option<&'static str> {
    let written = name.to_ascii_lowercase();
    SYNONYMS.iter().find(|(other, _)| *other == written).map(|(_, ours)| *ours)
}

/// What to write where no built-in does what a function of this name does elsewhere.
pub(crate) fn instead(name: &str) -> Option<&'static str> {
    let written = name.to_ascii_lowercase();
    INSTEAD.iter().find(|(other, _)| *other == written).map(|(_, hint)| *hint)
}

/// The other name, and ours.
static SYNONYMS: &[(&str, &str)] = &[
    ("average", "avg"),
    ("mean", "avg"),
    ("b64", "base64"),
    ("b64encode", "base64"),
    ("base64encode", "base64"),
    ("boolean", "bool"),
    ("to_bool", "bool"),
    ("tobool", "bool"),
    ("map", "collect"),
    ("pluck", "collect"),
    ("includes", "contains"),
    ("coalesce", "default"),
    ("ifnull", "default"),
    ("or_else", "default"),
    ("endswith", "ends_with"),
    ("has_suffix", "ends_with"),
    ("hassuffix", "ends_with"),
    ("is_defined", "exists"),
    ("defined", "exists"),
    ("has", "exists"),
    ("isset", "exists"),
    ("head", "first"),
    ("flat", "flatten"),
    ("regex_extract", "extract"),
    ("regexp_extract", "extract"),
    ("regex_find", "extract"),
    ("strftime", "format_date"),
    ("date_format", "format_date"),
    ("fromjson", "from_json"),
    ("json_decode", "from_json"),
    ("jsondecode", "from_json"),
    ("parse_json", "from_json"),
    ("parsejson", "from_json"),
    ("fromyaml", "from_yaml"),
    ("parse_yaml", "from_yaml"),
    ("groupby", "group_by"),
    ("integer", "int"),
    ("to_int", "int"),
    ("toint", "int"),
    ("entries", "items"),
    ("to_entries", "items"),
    ("implode", "join"),
    ("tail", "last"),
    ("length", "len"),
    ("lenght", "len"),
    ("size", "len"),
    ("strlen", "len"),
    ("split_lines", "lines"),
    ("splitlines", "lines"),
    ("downcase", "lower"),
    ("lcase", "lower"),
    ("lowercase", "lower"),
    ("tolower", "lower"),
    ("to_lower", "lower"),
    ("tolowercase", "lower"),
    ("match", "matches"),
    ("regex_match", "matches"),
    ("test", "matches"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("tonumber", "number"),
    ("to_number", "number"),
    ("parse_number", "number"),
    ("decimal", "number"),
    ("gsub", "replace"),
    ("replace_all", "replace"),
    ("replaceall", "replace"),
    ("sha256sum", "sha256"),
    ("slugify", "slug"),
    ("order", "sort"),
    ("sorted", "sort"),
    ("order_by", "sort_by"),
    ("orderby", "sort_by"),
    ("sortby", "sort_by"),
    ("explode", "split"),
    ("begins_with", "starts_with"),
    ("has_prefix", "starts_with"),
    ("hasprefix", "starts_with"),
    ("startswith", "starts_with"),
    ("total", "sum"),
    ("str", "text"),
    ("string", "text"),
    ("tostring", "text"),
    ("to_string", "text"),
    ("to_text", "text"),
    ("json_encode", "to_json"),
    ("jsonencode", "to_json"),
    ("stringify", "to_json"),
    ("tojson", "to_json"),
    ("toyaml", "to_yaml"),
    ("strip", "trim"),
    ("dedupe", "unique"),
    ("distinct", "unique"),
    ("uniq", "unique"),
    ("capitalize", "upper"),
    ("toupper", "upper"),
    ("to_upper", "upper"),
    ("touppercase", "upper"),
    ("ucase", "upper"),
    ("upcase", "upper"),
    ("uppercase", "upper"),
    ("encodeuricomponent", "url"),
    ("url_encode", "url"),
    ("urlencode", "url"),
    ("urlquote", "url"),
    ("date_diff", "seconds_between"),
    ("datediff", "seconds_between"),
    ("filter", "where"),
    ("select", "where"),
];

/// The name, and the hint.
static INSTEAD: &[(&str, &str)] = &[
    ("concat", "join texts with `+`, and lists with `+`"),
    ("format", "write the values into the text: `\"${name}: ${count}\"`"),
    ("printf", "write the values into the text: `\"${name}: ${count}\"`"),
    ("sprintf", "write the values into the text: `\"${name}: ${count}\"`"),
    ("get", "write a path: `name.field`, or `name[\"any key\"]`"),
    ("now", "the time is a computed value: `${date:%Y-%m-%d}`"),
    ("today", "the time is a computed value: `${date:%Y-%m-%d}`"),
    ("pow", "write `a ** b`"),
    ("range", "write the list: `[1, 2, 3]`; a command can print one: `foreach: {shell: seq 9}`"),
    ("seq", "write the list: `[1, 2, 3]`; a command can print one: `foreach: {shell: seq 9}`"),
    ("slice", "write a slice: `name[0:3]`"),
    ("substr", "write a slice: `name[0:3]`"),
    ("substring", "write a slice: `name[0:3]`"),
    ("take", "write a slice: `name[0:3]`"),
    ("env", "read a variable of the environment as `env.NAME`"),
    ("getenv", "read a variable of the environment as `env.NAME`"),
    ("secret", "declare it under `secrets:`, and read it as `secrets.NAME`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_not_ours_and_lead_to_ours() {
        for (other, ours) in SYNONYMS {
            assert!(crate::func::find(other).is_none(), "`{other}` is a function here");
            assert!(crate::func::find(ours).is_some(), "`{ours}` is no function");
        }
        for (other, _) in INSTEAD {
            assert!(crate::func::find(other).is_none(), "`{other}` is a function here");
        }
    }
}
