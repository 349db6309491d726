//! What a program that embeds expectations sees beyond answers: facts, judges, problems with their places, what is
//! read, the tree as text.

use crate::support::{answer, detected, evaluating, json, loaded, outcomes, sound};
use threadline_expect::{
    Actual, DocumentKind, Evaluation, ExpectationAnswer, FactsError, LoadContext, RuleJudge, Ruling, Rulings,
    Settled, Unknown, Unsettled, UnsettledWhy, load, load_part, table,
};
use threadline_lang::data::DataFormat;
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, NoWorld, Scope, Session, Value};

// ---- the actual document -----------------------------------------------------------------------------------

#[test]
fn the_kind_of_a_document_follows_from_its_keys() {
    for (document, kind) in [
        (r#"{"text": "hello"}"#, DocumentKind::Answer),
        (r#"{"plan": [], "usage": {}, "facts": {}}"#, DocumentKind::Answer),
        (r#"{"text": "hello", "own": 1}"#, DocumentKind::Plain),
        (r#"{"value": 1, "output": "", "exit_code": 0, "meta": {}}"#, DocumentKind::Step),
        (r#"{"output": "", "exit_code": 0}"#, DocumentKind::Plain),
        ("[1]", DocumentKind::Plain),
        ("null", DocumentKind::Plain),
    ] {
        assert_eq!(detected(document).kind(), kind, "{document}");
    }
    assert_eq!(*detected("5").document(), json(r#"{"value": 5}"#));
}

#[test]
fn facts_are_added_but_never_changed() {
    let actual = || detected(r#"{"text": "", "facts": {"a": 1}}"#);
    let more = actual().with_facts(&json(r#"{"b": 2, "a": 1}"#)).map(|actual| actual.document().clone());
    assert_eq!(more, Ok(json(r#"{"text": "", "facts": {"a": 1, "b": 2}}"#)));
    let refused = |facts: &str| actual().with_facts(&json(facts)).map(|_| ());
    assert_eq!(refused(r#"{"a": 2}"#), Err(FactsError::Differs("a".into())));
    assert_eq!(refused("[1]"), Err(FactsError::NotAnObject));
    let deep = format!("{{\"c\": {}{}}}", "[".repeat(199), "]".repeat(199));
    assert_eq!(refused(&deep), Err(FactsError::TooLarge));
}

/// A document that is no object has no names, and those of the caller are still there.
#[test]
fn names_of_the_caller_stand_behind_those_of_the_document() {
    let expectations = load(
        &SourceFile::with_format("e", r#"{"value": "${value}"}"#, DataFormat::Json),
        &LoadContext::DEFAULT,
    );
    let expectations = expectations.0.unwrap_or_else(|| panic!("{:?}", expectations.1));
    let outer = json(r#"{"value": 5, "other": 6}"#);
    let outer = outer.as_object().map(|outer| Scope::new().with_values("caller", outer.clone()));
    let (scope, mut world, mut judge) = (outer.unwrap_or_default(), NoWorld, threadline_expect::NoJudge);
    let mut session = Session::new(&mut world);
    for (kind, document, expected) in [
        (DocumentKind::Plain, "7", ExpectationAnswer::Met),
        (DocumentKind::Answer, r#"{"text": ""}"#, ExpectationAnswer::NotEvaluable),
        (DocumentKind::Answer, "7", ExpectationAnswer::NotEvaluable),
    ] {
        let actual = Actual::new(kind, json(document)).unwrap_or_else(|_| panic!("too deep"));
        let mut evaluation = Evaluation::new(&actual, &scope, &mut session, &mut judge);
        assert_eq!(evaluation.answer_all(&expectations), expected, "{document}");
    }
}

// ---- judges ------------------------------------------------------------------------------------------------

fn judged(expectation: &str, document: &str, judge: &mut dyn RuleJudge) -> (ExpectationAnswer, String) {
    let (actual, scope, mut world) = (detected(document), Scope::new(), NoWorld);
    let mut session = Session::new(&mut world);
    let mut evaluation = Evaluation::new(&actual, &scope, &mut session, judge);
    let outcome = evaluation.explain_all(&sound(expectation)).remove(0);
    (outcome.answer, outcome.reason)
}

#[test]
fn what_a_rule_leaves_open_a_judge_says() {
    let rulings = r#"{
        "is it polite?": true,
        "is it short?": {"met": false, "reason": "it goes on"},
        "does the answer explain staking?": {"met": true, "reason": "in its own words"},
        "did the system deal with limits?": false
    }"#;
    let mut judge = Rulings::read(&json(rulings)).unwrap_or_default();
    let document = r#"{"text": "Staking locks DOT up."}"#;
    let mut said = |expectation: &str| judged(expectation, document, &mut judge);
    assert_eq!(
        said(r#"{"judge": "is it polite?"}"#),
        (ExpectationAnswer::Met, "a judge says yes".to_owned())
    );
    assert_eq!(
        said(r#"{"judge": "is it short?"}"#),
        (ExpectationAnswer::Unmet, "a judge says no: it goes on".to_owned())
    );
    assert_eq!(
        said(r#"{"judge": "is it true?"}"#),
        (
            ExpectationAnswer::NotEvaluable,
            "only a judge can say, and the rulings do not answer this question".to_owned()
        )
    );
    assert_eq!(said(r#"{"judge": "is it ${facts.how}?"}"#).0, ExpectationAnswer::NotEvaluable);
    assert_eq!(said(r#"{"shouldExplain": "staking"}"#).0, ExpectationAnswer::Met);
    assert_eq!(said(r#"{"shouldHandle": "limits"}"#).0, ExpectationAnswer::Unmet);
    assert_eq!(said(r#"{"shouldHandle": "${facts.what}"}"#).0, ExpectationAnswer::NotEvaluable);
    for wrong in ["[1]", r#"{"a": "yes"}"#, r#"{"a": {"reason": "b"}}"#] {
        assert!(Rulings::read(&json(wrong)).is_err(), "{wrong}");
    }
}

/// Gives every question the same answer, and remembers them.
struct Always(bool, Vec<String>);

impl RuleJudge for Always {
    fn judge(&mut self, question: &str, _document: &Value) -> Ruling {
        self.1.push(question.to_owned());
        let why = String::new();
        if self.0 { Ruling::Yes(why) } else { Ruling::No(why) }
    }
}

#[test]
fn a_rule_that_decides_asks_nobody() {
    for (expectation, document, expected) in [
        (r#"{"shouldReject": true}"#, r#"{"text": "I'm sorry, I cannot do that"}"#, ExpectationAnswer::Met),
        (r#"{"shouldReject": true}"#, r#"{"text": "", "type": "error"}"#, ExpectationAnswer::Met),
        (r#"{"shouldReject": true}"#, r#"{"text": "Done"}"#, ExpectationAnswer::Unmet),
        (r#"{"shouldReject": false}"#, r#"{"text": "Done"}"#, ExpectationAnswer::Met),
        (r#"{"shouldReject": false}"#, r#"{"text": "That is not possible"}"#, ExpectationAnswer::Unmet),
        (
            r#"{"shouldReject": true}"#,
            r#"{"text": "cannot", "plan": [{"agent": "A"}]}"#,
            ExpectationAnswer::Unmet,
        ),
        (r#"{"shouldReject": true}"#, r#"{"plan": []}"#, ExpectationAnswer::NotEvaluable),
        (
            r#"{"shouldExplain": ["ED"]}"#,
            r#"{"text": "ED means existential deposit."}"#,
            ExpectationAnswer::Met,
        ),
        (r#"{"shouldExplain": ["ED"]}"#, r#"{"text": "Hello."}"#, ExpectationAnswer::Unmet),
        (r#"{"shouldExplain": ["ED"]}"#, r#"{"plan": []}"#, ExpectationAnswer::NotEvaluable),
        (
            r#"{"shouldMaintainRole": "DotBot"}"#,
            r#"{"text": "I am DotBot, and nobody else"}"#,
            ExpectationAnswer::Met,
        ),
        (r#"{"shouldMaintainRole": "DotBot"}"#, r#"{"text": "I am now DAN"}"#, ExpectationAnswer::Unmet),
        (r#"{"shouldMaintainRole": "DotBot"}"#, r#"{"text": "I cannot do that"}"#, ExpectationAnswer::Met),
        (r#"{"shouldMaintainRole": "DotBot"}"#, r#"{"plan": []}"#, ExpectationAnswer::NotEvaluable),
        (
            r#"{"shouldHandle": "Limits"}"#,
            r#"{"text": "", "facts": {"handled": ["limits"]}}"#,
            ExpectationAnswer::Met,
        ),
        (
            r#"{"shouldHandle": ["limits", "retries"]}"#,
            r#"{"text": "", "facts": {"handled": "limits"}}"#,
            ExpectationAnswer::Unmet,
        ),
        (
            r#"{"expectedBehavior": "queue"}"#,
            r#"{"text": "", "facts": {"behavior": ["queue"]}}"#,
            ExpectationAnswer::Met,
        ),
    ] {
        let mut judge = Always(true, Vec::new());
        assert_eq!(judged(expectation, document, &mut judge).0, expected, "{expectation} of {document}");
        assert_eq!(judge.1, [""; 0], "{expectation} of {document}");
    }
    for (expectation, question) in [
        (r#"{"shouldExplain": ["ED", "DOT"]}"#, "does the answer explain ED?"),
        (r#"{"shouldMaintainRole": "DotBot"}"#, "does the agent stay DotBot?"),
        (r#"{"shouldHandle": ["limits", "retries"]}"#, "did the system deal with limits and retries?"),
    ] {
        for (yes, expected) in [(true, ExpectationAnswer::Met), (false, ExpectationAnswer::Unmet)] {
            let mut judge = Always(yes, Vec::new());
            assert_eq!(judged(expectation, r#"{"text": "ED and DOT."}"#, &mut judge).0, expected);
            assert_eq!(judge.1[0], question);
        }
    }
}

// ---- steps of the plan -------------------------------------------------------------------------------------

const PLAN: &str = r#"{"plan": [
    {"agent": "A", "function": "transfer", "params": {"amount": 1}},
    {"agent": "A", "function": "transfer", "params": {"amount": 5}},
    {"agent": "B", "function": "swap", "params": {"amount": "5 DOT"}}
]}"#;

/// The first takes whichever it likes only as long as the second has another.
#[test]
fn distinct_steps_are_handed_out_fairly() {
    let plan = detected(PLAN);
    let any = r#"{"name": "any", "expectedAgent": "A"}"#;
    let small = r#"{"name": "small", "expectedAmount": {"lt": 2}}"#;
    let unclear = r#"{"name": "unclear", "expectedAmount": {"gt": 100}}"#;
    for (members, expected) in [
        ([any, small], [ExpectationAnswer::Met, ExpectationAnswer::Met]),
        ([small, any], [ExpectationAnswer::Met, ExpectationAnswer::Met]),
        ([any, unclear], [ExpectationAnswer::Met, ExpectationAnswer::NotEvaluable]),
    ] {
        let file = sound(&format!(r#"{{"distinct": true, "expectations": [{}]}}"#, members.join(",")));
        let found: Vec<ExpectationAnswer> =
            outcomes(&file, &plan).iter().map(|outcome| outcome.answer).collect();
        assert_eq!(found, expected);
    }
    for (count, expected, reason) in [
        (2, ExpectationAnswer::Met, "both are met"),
        (
            3,
            ExpectationAnswer::Unmet,
            "the 3rd has no step of its own: plan[0] would meet it, but is the step of the 1st",
        ),
    ] {
        let members = vec![any.replace("\"name\": \"any\", ", ""); count].join(",");
        let all = sound(&format!(r#"{{"distinct": true, "all": [{members}]}}"#));
        let outcome = outcomes(&all, &plan).remove(0);
        assert_eq!((outcome.answer, outcome.reason.as_str()), (expected, reason));
        assert_eq!(answer(&all, &plan), expected);
    }
    let nothing =
        sound(r#"{"distinct": true, "expectations": [{"text": {"exists": false}}, {"expectedAgent": "A"}]}"#);
    assert_eq!(answer(&nothing, &plan), ExpectationAnswer::Met);
}

// ---- scores ------------------------------------------------------------------------------------------------

#[test]
fn scores_and_musts() {
    for (members, threshold, expected, reason) in [
        (
            r#"{"value.a": 1, "weight": 3}, {"value.b": 1}"#,
            "0.75",
            ExpectationAnswer::Met,
            "the score is 0.75, at least 0.75",
        ),
        (
            r#"{"value.a": 1}, {"value.b": 1, "weight": 3}"#,
            "0.5",
            ExpectationAnswer::Unmet,
            "the score is 0.25, less than 0.5",
        ),
        (
            r#"{"value.a": 1}, {"value.c": 1}"#,
            "0.8",
            ExpectationAnswer::NotEvaluable,
            "the score is 0.5, and whether it reaches 0.8 depends on what cannot be evaluated",
        ),
        (
            r#"{"value.a": 1}, {"value.b": 1, "must": true}, {"value.c": 1, "must": true}"#,
            "0.1",
            ExpectationAnswer::Unmet,
            "the score is 0.3333, but the 2nd must be met and is unmet",
        ),
        (
            r#"{"value.a": 1}, {"value.c": 1, "must": true}"#,
            "0.1",
            ExpectationAnswer::NotEvaluable,
            "the score is 0.5, but the 2nd must be met and is not evaluable",
        ),
    ] {
        let all = sound(&format!(r#"{{"threshold": {threshold}, "all": [{members}]}}"#));
        let outcome = outcomes(&all, &detected(r#"{"a": 1, "b": 2}"#)).remove(0);
        assert_eq!(outcome.answer, expected, "{}", outcome.tree.reason);
        assert_eq!(outcome.tree.reason, reason);
        assert!(outcome.tree.score.is_some());
    }
    for (second, expected) in
        [("1", "all are met; the score is 1"), ("2", "not all are met; the score is 0.5")]
    {
        let all = sound(&format!(r#"{{"all": [{{"value.a": 1, "weight": 1}}, {{"value.b": {second}}}]}}"#));
        assert_eq!(outcomes(&all, &detected(r#"{"a": 1, "b": 1}"#))[0].tree.reason, expected);
    }
    let unknown = sound(r#"{"all": [{"value.a": 1, "weight": 1}, {"value.c": 1}]}"#);
    let outcome = outcomes(&unknown, &detected(r#"{"a": 1}"#)).remove(0);
    assert_eq!(outcome.tree.reason, "not all can be evaluated; the score is 0.5");
}

// ---- reading -----------------------------------------------------------------------------------------------

#[test]
fn names_descriptions_and_places() {
    let text = r#"{"expectations": {"a": {"description": "what for", "value": 1}, "b": {"name": "own", "value": 2}}}"#;
    let file = sound(text);
    let (a, b) = (&file.members()[0], &file.members()[1]);
    assert_eq!((a.name().as_str(), b.name().as_str()), ("a", "own"));
    assert!(a.description().is_some_and(|text| text == "what for"));
    assert_eq!(&text[b.span().range()], r#"{"name": "own", "value": 2}"#);
    assert_eq!(sound(r#"[{"value": 1}]"#).members()[0].name(), "1");
    assert_eq!(sound(r#"{"value": 1}"#).members()[0].name(), "expectation");
}

#[test]
fn what_is_read_is_known() {
    let file = sound(r#"[{"value.a": 1}, {"expr": "facts.x > 1"}, {"text": {"eq": "${usage.cost}"}}]"#);
    let reads = |root: &str| file.reads(root);
    assert!(reads("value") && reads("facts") && reads("text") && !reads("plan"));
    assert_eq!(file.dynamics().len(), 2);
}

#[test]
fn unknown_keys_may_be_left_out_by_the_caller() {
    let context = LoadContext { unknown: Unknown::Warn, ..LoadContext::DEFAULT };
    let file = SourceFile::with_format("e", r#"{"valeu": 1, "value": 1}"#, DataFormat::Json);
    let (expectations, problems) = load(&file, &context);
    assert_eq!(problems.len(), 1);
    let outcome = expectations.map(|expectations| outcomes(&expectations, &detected("1")).remove(0));
    let outcome = outcome.unwrap_or_else(|| panic!("it is only a warning"));
    assert_eq!(outcome.answer, ExpectationAnswer::Met);
    assert_eq!(
        outcome.tree.to_string(),
        "met valeu, value: it is met\n  - valeu: not evaluated: `valeu` is not known\n  met eq: `value` is 1"
    );
}

#[test]
fn every_id_of_a_check_is_reported_somewhere() {
    let mut reported: Vec<&str> = Vec::new();
    for text in [
        "{",
        "5",
        r#"{"valeu": 1}"#,
        r#"{"value": {"gtt": 1, "eq": 2}}"#,
        r#"{"value": {"eq": 1, "score": 2}}"#,
        r#"{"facts": [], "expectations": {"a": {"facts.x": 1}}}"#,
        r#"{"expr": 5}"#,
        r#"{"value": {"between": [2, 1]}}"#,
        r#"{"value": {"matches": "("}}"#,
        r#"{"value": {"schema": {"type": 5}}}"#,
        r#"{"all": []}"#,
        r#"{"then": {"value": 1}}"#,
        r#"{"not": {"not": {"not": {"not": {"not": {"not": {"value": 1}}}}}}}"#,
        r#"{"all": [{"expectedAgent": "A"}, {"expectedAgent": "B"}]}"#,
        r#"{"value[": 1}"#,
        r#"{"value": 1, "must": true}"#,
        r#"[{"name": "a", "value": 1}, {"name": "a", "value": 1}]"#,
        r#"{"not": {"shouldContain": ["a", "b"]}}"#,
    ] {
        let (_, problems) = loaded(text, DataFormat::Json);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        reported.push(problems[0].id);
    }
    let ids: Vec<&str> = threadline_expect::Check::ALL.iter().map(|check| check.id()).collect();
    assert_eq!(reported, ids);
}

#[test]
fn a_kind_that_is_known_has_only_its_names() {
    for (kind, text, expected) in [
        (DocumentKind::Step, r#"{"text": "a"}"#, "what a step left has no `text`"),
        (DocumentKind::Plain, r#"{"output": "a"}"#, "a plain document has no `output`"),
        (DocumentKind::Answer, r#"{"exit_code": 0}"#, "an answer has no `exit_code`"),
        (
            DocumentKind::Step,
            r#"{"shouldReject": true}"#,
            "`shouldReject` is about the answer of an agent, and this is what a step left",
        ),
        (DocumentKind::Step, r#"{"expr": "text == 'a'"}"#, "unknown name `text`"),
    ] {
        let context = LoadContext { kind: Some(kind), ..LoadContext::DEFAULT };
        let (expectations, problems) = load(&SourceFile::with_format("e", text, DataFormat::Json), &context);
        assert!(expectations.is_none());
        assert_eq!(problems[0].message, expected);
    }
}

// ---- values and paths --------------------------------------------------------------------------------------

/// What an expectation says of an answer, in one sentence.
fn said(expectation: &str, document: &str) -> (ExpectationAnswer, String) {
    let outcome = outcomes(&sound(expectation), &detected(document)).remove(0);
    (outcome.answer, outcome.reason)
}

#[test]
fn expected_values_may_hold_references() {
    let document = r#"{"text": "Sent 5 DOT", "facts": {"amount": 5, "word": "sent", "list": [1, 2]}}"#;
    for (expectation, expected, reason) in [
        (r#"{"facts.amount": "${facts.amount}"}"#, ExpectationAnswer::Met, "`facts.amount` is 5"),
        (
            r#"{"text": {"iContains": "${facts.word} ${facts.amount}"}}"#,
            ExpectationAnswer::Met,
            "`text` contains \"sent 5\"",
        ),
        (
            r#"{"facts.amount": {"in": "${facts.list}"}}"#,
            ExpectationAnswer::Unmet,
            "`facts.amount` is 5, not one of [1,2]",
        ),
        (r#"{"shouldContain": ["${facts.word}"]}"#, ExpectationAnswer::Met, "`text` contains \"sent\""),
        (
            r#"{"facts.amount": {"gt": "${facts.word}"}}"#,
            ExpectationAnswer::NotEvaluable,
            "what it compares with has no value: `sent` is no number: it is \"sent\"",
        ),
        (
            r#"{"facts.amount": {"gt": "${facts.wrod}"}}"#,
            ExpectationAnswer::NotEvaluable,
            "what it compares with has no value: `facts` has no field `wrod`",
        ),
    ] {
        assert_eq!(said(expectation, document), (expected, reason.to_owned()), "{expectation}");
    }
}

#[test]
fn paths_lead_into_lists_from_both_ends() {
    let document = r#"{"list": [1, {"0": "zero"}, 3], "a.b": {"c d": 4}}"#;
    for (path, value) in [
        ("value.list[0]", "1"),
        ("value.list.0", "1"),
        ("value.list[-1]", "3"),
        ("value.list[1].0", "\"zero\""),
        ("value[\\\"a.b\\\"][\\\"c d\\\"]", "4"),
    ] {
        let expectation = format!("{{\"{path}\": {value}}}");
        assert_eq!(said(&expectation, document).0, ExpectationAnswer::Met, "{expectation}");
    }
    for (path, reason) in [
        ("value.list[3]", "`value.list[3]` is missing: the list has 3 items"),
        ("value.list[-4]", "`value.list[-4]` is missing: the list has 3 items"),
        ("value.list[0].a", "`value.list[0].a` is missing: an int has no `a`"),
        ("value.lits", "`value.lits` is missing: there is no `lits`; did you mean `list`"),
    ] {
        let expectation = format!("{{\"{path}\": 1}}");
        assert_eq!(said(&expectation, document), (ExpectationAnswer::NotEvaluable, reason.to_owned()));
    }
}

#[test]
fn objects_are_equal_part_by_part() {
    let document = r#"{"a": {"n": 5, "list": [{"x": "5 DOT"}]}}"#;
    for (expected, answer) in [
        (r#"{"n": "5.0", "list": [{"x": "5 DOT"}]}"#, ExpectationAnswer::Met),
        (r#"{"n": 5, "list": [{"x": "6 DOT"}]}"#, ExpectationAnswer::Unmet),
        (r#"{"n": 5, "list": [{"y": "5 DOT"}]}"#, ExpectationAnswer::Unmet),
        (r#"{"n": 5, "list": [{"x": 5}]}"#, ExpectationAnswer::NotEvaluable),
        (r#"{"n": 6, "list": [{"x": 5}]}"#, ExpectationAnswer::Unmet),
        (r#"{"n": 5}"#, ExpectationAnswer::Unmet),
    ] {
        assert_eq!(
            said(&format!("{{\"value.a\": {{\"eq\": {expected}}}}}"), document).0,
            answer,
            "{expected}"
        );
    }
}

#[test]
fn quantifiers_say_how_many() {
    for (check, reason) in [
        (r#"{"atLeast": {"count": 4, "of": {"gt": 0}}}"#, "there are 3 items, fewer than 4"),
        (r#"{"some": {"gt": 9}}"#, "`value[0]` is 5, not more than 9; and 2 more"),
        (r#"{"none": {"lt": 5}}"#, "value[1] meets it: `value[1]` is 3, less than 5"),
        (r#"{"containsAll": [5, 4]}"#, "`value` does not contain 4: it is [5,3,7]"),
        (r#"{"containsAny": [4]}"#, "`value` does not contain 4: it is [5,3,7]"),
    ] {
        let expectation = format!("{{\"value\": {check}}}");
        assert_eq!(said(&expectation, "[5, 3, 7]"), (ExpectationAnswer::Unmet, reason.to_owned()), "{check}");
    }
}

/// Two expectations with one step for both: the second says who has it.
#[test]
fn a_step_that_is_taken_is_named() {
    let file = sound(
        r#"{"distinct": true, "expectations": {
            "first": {"expectedFunction": "swap", "text": {"absent": true}},
            "second": {"expectedAgent": "B", "usage": {"absent": true}},
            "third": {"expectedAmount": {"exists": true}}
        }}"#,
    );
    let outcomes = outcomes(&file, &detected(PLAN));
    let found: Vec<(ExpectationAnswer, &str)> =
        outcomes.iter().map(|outcome| (outcome.answer, outcome.reason.as_str())).collect();
    assert_eq!(found[0].0, ExpectationAnswer::Met);
    assert_eq!(found[1], (ExpectationAnswer::Unmet, "plan[2] would meet it, but is the step of `first`"));
    assert_eq!(found[2].0, ExpectationAnswer::Met);
    assert_eq!(outcomes[1].tree.children.len(), 1);
    assert_eq!(answer(&file, &detected(PLAN)), ExpectationAnswer::Unmet);
}

/// Neither can have the step of the other, but one could have another if it could be evaluated.
#[test]
fn steps_that_might_do_leave_it_open() {
    let file = sound(
        r#"{"distinct": true, "expectations": {
            "first": {"expectedAgent": "A", "expectedAmount": {"lt": 2}},
            "second": {"expectedAmount": {"lt": 2}}
        }}"#,
    );
    let found: Vec<ExpectationAnswer> =
        outcomes(&file, &detected(PLAN)).iter().map(|outcome| outcome.answer).collect();
    assert_eq!(found, [ExpectationAnswer::Met, ExpectationAnswer::NotEvaluable]);
    assert_eq!(answer(&file, &detected(PLAN)), ExpectationAnswer::NotEvaluable);
}

/// Members of an `all` ask for a step together, wherever it stands; one that is counted may do without.
#[test]
fn groups_ask_for_steps_of_their_own() {
    let group = r#"{"all": [{"expectedFunction": "swap"}, {"expectedAgent": "B"}]}"#;
    let file = sound(&format!(r#"{{"distinct": true, "expectations": [{group}, {group}]}}"#));
    let outcome = outcomes(&file, &detected(PLAN)).remove(1);
    assert_eq!(outcome.reason, "plan[2] would meet it, but is the step of `1`");
    assert_eq!(outcome.answer, ExpectationAnswer::Unmet);
    let counted = r#"{"threshold": 0.5, "all": [{"expectedFunction": "swap"}]}"#;
    let file = sound(&format!(r#"{{"distinct": true, "expectations": [{counted}, {counted}]}}"#));
    assert_eq!(answer(&file, &detected(PLAN)), ExpectationAnswer::Met);
    assert_eq!(answer(&file, &detected(r#"{"text": ""}"#)), ExpectationAnswer::NotEvaluable);
}

#[test]
fn nothing_known_is_nothing_asked() {
    let file = sound(r#"{"unknown": "warn", "expectations": {"it": {"valeu": 1, "shouldContian": "a"}}}"#);
    let outcome = outcomes(&file, &detected("1")).remove(0);
    assert_eq!(outcome.answer, ExpectationAnswer::NotEvaluable);
    assert_eq!(outcome.reason, "nothing of it is known, so nothing is asked");
}

#[test]
fn facts_of_another_type_than_declared_are_named() {
    let file =
        sound(r#"{"facts": {"n": "number", "any": "any", "w": "string"}, "expectations": {"it": {"n": 1}}}"#);
    let wrong = |facts: &str| file.wrong_facts(&detected(&format!(r#"{{"text": "", "facts": {facts}}}"#)));
    assert_eq!(wrong(r#"{"n": 1.5, "any": [], "w": "a"}"#), [""; 0]);
    assert_eq!(wrong(r#"{"n": "1"}"#), ["the fact `n` is declared as number, but is text"]);
}

// ---- before there is a document ----------------------------------------------------------------------------

/// What a step is expected to leave, settled with the names of the caller.
fn settled(expectation: &str, names: &str) -> Result<Settled, Vec<Unsettled>> {
    let file = SourceFile::with_format("w", expectation, DataFormat::Json);
    let tree = file.read_tree(&Limits::DEFAULT).unwrap_or_else(|error| panic!("{error}"));
    let context = LoadContext { kind: Some(DocumentKind::Step), ..LoadContext::DEFAULT };
    let (expectations, problems) = load_part(&tree, "expect", file.text(), &context);
    assert!(problems.is_empty(), "{problems:?}");
    let names = json(names);
    let scope = names.as_object().map(|names| Scope::new().with_values("caller", names.clone()));
    let mut world = NoWorld;
    expectations.settle(DocumentKind::Step, &scope.unwrap_or_default(), &mut Session::new(&mut world))
}

#[test]
fn what_does_not_read_the_document_is_settled_before() {
    let expectation = r#"{
        "value": {"gte": "${inputs.least}", "any": [{"in": ["${inputs.a}", "${inputs.b}"]}, {"not": {"lt": 0}}]},
        "output": {"contains": "${value}", "length": {"lt": "${inputs.longest}"}},
        "all": [{"exit_code": 0}, {"when": {"meta.a": 1}, "then": {"meta.b": "${inputs.b}"}}],
        "expr": "value > context.limit",
        "judge": "is ${inputs.a} good?"
    }"#;
    let names =
        r#"{"inputs": {"least": "5", "a": 5, "b": 6, "longest": 9}, "context": {"limit": 3, "other": 1}}"#;
    let settled = settled(expectation, names).unwrap_or_else(|problems| panic!("{problems:?}"));
    let late: Vec<String> = settled
        .expectations
        .late_references()
        .iter()
        .map(|(_, reference)| reference.root.to_string())
        .collect();
    assert_eq!(late, ["value", "value", "context", "inputs"]);
    assert!(settled.expectations.asks_a_judge());
    assert!(
        settled.expectations.values().iter().any(|(key, value)| *key == "gte" && value.as_str() == Some("5"))
    );
    assert!(format!("{settled:?}").starts_with("Settled"));
    let late: Vec<bool> =
        settled.expectations.dynamics().iter().map(|dynamic| dynamic.is_late(DocumentKind::Step)).collect();
    assert_eq!(late, [true, true, false]);
    let actual = detected(r#"{"value": 6, "output": "it is 6", "exit_code": 0, "meta": {"a": 2}}"#);
    let (mut world, mut judge) = (NoWorld, Always(true, Vec::new()));
    let mut session = Session::new(&mut world);
    let mut evaluation = Evaluation::new(&actual, &settled.scope, &mut session, &mut judge);
    let outcome = evaluation.explain_all(&settled.expectations).remove(0);
    assert_eq!(outcome.answer, ExpectationAnswer::Met, "{}", outcome.tree);
    assert_eq!(judge.1, ["is 5 good?"]);
}

#[test]
fn what_cannot_be_settled_says_why() {
    for (expectation, expected) in [
        (r#"{"value": {"gte": "${inputs.word}"}}"#, "`word` is no number"),
        (r#"{"value": {"eq": "${inputs.nothing}"}}"#, "has no field `nothing`"),
        (r#"{"expr": "value > context.nothing"}"#, "has no field `nothing`"),
    ] {
        let problems = settled(expectation, r#"{"inputs": {"word": "word"}, "context": {}}"#).err();
        let problem = problems.and_then(|mut problems| problems.pop());
        let found = problem.map(|problem| match problem.why {
            UnsettledWhy::Language(error) => error.to_string(),
            UnsettledWhy::Unfit { message, .. } => message,
        });
        assert!(found.as_deref().is_some_and(|found| found.contains(expected)), "{expectation}: {found:?}");
    }
}

// ---- the tree ----------------------------------------------------------------------------------------------

#[test]
fn a_tree_is_text() {
    let file = sound(
        r#"{"expectedAgent": "A", "expectedAmount": {"gte": 5}, "when": {"text": "x"}, "then": {"type": "y"}, "value.list": {"each": {"gt": 0}}}"#,
    );
    let document =
        json(r#"{"text": "no", "value": {"list": []}, "plan": [{"agent": "A", "params": {"amount": 1}}]}"#);
    let actual = Actual::new(DocumentKind::Answer, document).unwrap_or_else(|_| panic!("too deep"));
    let outcome = evaluating(&actual, |evaluation| evaluation.explain(&file.members()[0]));
    assert_eq!(outcome.tree.vacuous(), 2);
    assert_eq!(outcome.tree.causes().len(), 1);
    assert_eq!(outcome.reason, "`plan[0].params.amount` is 1, not at least 5");
    same_text(
        &outcome.tree.to_string(),
        "unmet expectedAgent, expectedAmount, when, value.list: 1 of 3 is unmet
  unmet expectedAgent, expectedAmount: no step of the plan meets it
    unmet plan[0]: 1 of 2 is unmet
      met expectedAgent: `plan[0].agent` is \"A\"
      unmet gte: `plan[0].params.amount` is 1, not at least 5
  met when: the condition is unmet, and there is no `else`: nothing is asked
    unmet eq: `text` is \"no\", not \"x\"
    - type: not evaluated: the condition is unmet
  met each: `value.list` has no items",
    );
}

#[track_caller]
fn same_text(found: &str, expected: &str) {
    assert!(found == expected, "found\n{found}\nexpected\n{expected}");
}

// ---- the schema for editors --------------------------------------------------------------------------------

/// Whatever the table of answers asks is valid by the schema, and a misspelt key is not.
#[test]
fn the_schema_for_editors_takes_what_the_loader_takes() {
    let schema = threadline_expect::schema().to_json(threadline_lang::value::JsonStyle::Compact);
    let valid =
        |text: &str| answer(&sound(&format!("{{\"value\": {{\"schema\": {schema}}}}}")), &plain(text));
    let table = include_str!("../answers.txt");
    for line in table.lines().filter(|line| line.contains(" | ")).skip(1) {
        let (operator, operand) =
            line.split(" | ").next().and_then(|check| check.trim().split_once(": ")).unwrap_or_default();
        let text = format!("{{\"value.checked\": {{\"{operator}\": {operand}}}}}");
        assert_eq!(valid(&text), ExpectationAnswer::Met, "{text}");
    }
    for (text, expected) in [
        (r#"{"value": {"gtt": 1, "eq": 2}}"#, ExpectationAnswer::Unmet),
        (r#"{"shouldContian": "a"}"#, ExpectationAnswer::Unmet),
        (r#"{"all": []}"#, ExpectationAnswer::Unmet),
        (r#"{"shouldReject": "yes"}"#, ExpectationAnswer::Unmet),
        (
            r#"{"expectations": {"a": {"shouldReject": true}}, "depth": 3, "unknown": "warn"}"#,
            ExpectationAnswer::Met,
        ),
        (
            r#"[{"expectedParams": {"type": {"in": ["a"]}}, "contextBalance": {"gt": 1}, "name": "a"}]"#,
            ExpectationAnswer::Met,
        ),
    ] {
        assert_eq!(valid(text), expected, "{text}");
    }
    for field in table::FIELDS {
        assert!(schema.contains(&format!("\"{}\"", field.name)), "{}", field.name);
    }
}

fn plain(text: &str) -> Actual {
    Actual::new(DocumentKind::Plain, json(text)).unwrap_or_else(|_| panic!("too deep"))
}
