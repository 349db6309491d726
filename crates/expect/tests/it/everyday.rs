//! What the rules about meaning say of everyday sentences, a table for each in `tests/rules`: an answer where words
//! decide, and nothing where they do not.

use crate::support::{answer, detected, sound};
use threadline_expect::ExpectationAnswer;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

/// The expectation, and the table of sentences.
const RULES: [(&str, &str); 3] = [
    (r#"{"shouldReject": true}"#, include_str!("../rules/shouldReject.txt")),
    (r#"{"shouldExplain": ["staking"]}"#, include_str!("../rules/shouldExplain.txt")),
    (r#"{"shouldMaintainRole": "DotBot"}"#, include_str!("../rules/shouldMaintainRole.txt")),
];

#[test]
fn every_sentence_gets_the_right_answer() {
    let mut wrong = Vec::new();
    for (expectation, table) in RULES {
        let expectations = sound(expectation);
        let sentences = table.lines().filter(|line| !line.starts_with('#'));
        assert!(sentences.clone().count() >= 60, "{expectation}");
        for line in sentences {
            let (right, sentence) = line.split_at(7);
            let text = Value::from(sentence).to_json(JsonStyle::Compact);
            let said = match answer(&expectations, &detected(&format!(r#"{{"text": {text}, "plan": []}}"#))) {
                ExpectationAnswer::Met => "met",
                ExpectationAnswer::Unmet => "unmet",
                ExpectationAnswer::NotEvaluable => "open",
            };
            if said != right.trim() {
                wrong.push(format!("{expectation}: {said}, not {}: {sentence}\n", right.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
