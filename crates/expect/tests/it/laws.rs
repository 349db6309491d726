//! Laws of expectations, tried on expectations of every key and on actual documents with all kinds of values.
//!
//! With `THREADLINE_LONG=1` each is tried on many more. A failing case is printed, reduced; none is kept.
#![expect(clippy::disallowed_methods, reason = "the environment says how many cases to try")]

use std::cell::Cell;

use crate::generate::{Gen, Part, Without, list, object};
use crate::support::{self, answer, evaluating, json, loaded, outcomes};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use threadline_expect::{Actual, DocumentKind, ExpectationAnswer, Expectations};
use threadline_lang::data::{DataFormat, yaml};

// ---- the ground --------------------------------------------------------------------------------------------

fn config(cases: u32) -> ProptestConfig {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    // The same cases each time gate a change; the long form looks for new ones, and a failure prints its input.
    let (cases, rng_seed) = if long { (cases * 20, RngSeed::Random) } else { (cases, RngSeed::Fixed(42)) };
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..80)
}

const ANY: Without = Without { plan: false, presence: false };
const NO_PLAN: Without = Without { plan: true, presence: false };

fn document() -> impl Strategy<Value = String> {
    choices().prop_map(|choices| Gen::new(&choices, ANY).document())
}

fn parts(without: Without) -> impl Strategy<Value = Vec<Part>> {
    choices().prop_map(move |choices| Gen::new(&choices, without).parts())
}

fn expectation(without: Without) -> impl Strategy<Value = String> {
    choices().prop_map(move |choices| Gen::new(&choices, without).expectation())
}

fn members(without: Without) -> impl Strategy<Value = Vec<String>> {
    choices().prop_map(move |choices| Gen::new(&choices, without).expectations())
}

fn check() -> impl Strategy<Value = String> {
    choices().prop_map(|choices| Gen::new(&choices, ANY).check())
}

/// An expectation in a file where logic may be nested deep.
fn file(expectation: &str) -> String {
    format!("{{\"depth\": 50, \"expectations\": {{\"it\": {expectation}}}}}")
}

fn sound(expectation: &str) -> Expectations {
    support::sound(&file(expectation))
}

fn actual(document: &str) -> Actual {
    Actual::new(DocumentKind::Answer, json(document)).unwrap_or_else(|_| panic!("too deep"))
}

fn answer_of(expectation: &str, actual: &Actual) -> ExpectationAnswer {
    answer(&sound(expectation), actual)
}

fn negated(answer: ExpectationAnswer) -> ExpectationAnswer {
    match answer {
        ExpectationAnswer::Met => ExpectationAnswer::Unmet,
        ExpectationAnswer::Unmet => ExpectationAnswer::Met,
        ExpectationAnswer::NotEvaluable => ExpectationAnswer::NotEvaluable,
    }
}

fn not(expectation: &str) -> String {
    format!("{{\"not\": {expectation}}}")
}

fn each_not(members: &[String]) -> Vec<String> {
    members.iter().map(|member| not(member)).collect()
}

fn all(members: &[String]) -> String {
    format!("{{\"all\": {}}}", list(members))
}

fn some_of(members: &[String]) -> String {
    format!("{{\"any\": {}}}", list(members))
}

// ---- logic -------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn not_turns_met_and_unmet_around(it in expectation(ANY), document in document()) {
        let actual = actual(&document);
        let plain = answer_of(&it, &actual);
        prop_assert_eq!(answer_of(&not(&it), &actual), negated(plain));
        prop_assert_eq!(answer_of(&not(&not(&it)), &actual), plain);
    }

    /// Members that ask for a step of the plan ask for one together, so they have no plan here.
    #[test]
    fn not_all_is_any_not(members in members(NO_PLAN), document in document()) {
        let actual = actual(&document);
        prop_assert_eq!(
            answer_of(&not(&all(&members)), &actual),
            answer_of(&some_of(&each_not(&members)), &actual)
        );
    }

    #[test]
    fn not_any_is_all_not(members in members(ANY), document in document()) {
        let actual = actual(&document);
        prop_assert_eq!(
            answer_of(&not(&some_of(&members)), &actual),
            answer_of(&all(&each_not(&members)), &actual)
        );
    }

    #[test]
    fn the_order_of_members_does_not_matter(members in members(ANY), document in document()) {
        let actual = actual(&document);
        let reversed: Vec<String> = members.iter().rev().cloned().collect();
        prop_assert_eq!(answer_of(&all(&members), &actual), answer_of(&all(&reversed), &actual));
        prop_assert_eq!(answer_of(&some_of(&members), &actual), answer_of(&some_of(&reversed), &actual));
    }

    #[test]
    fn keys_side_by_side_are_all_of_them(parts in parts(ANY), document in document()) {
        let actual = actual(&document);
        let members: Vec<String> = parts.iter().map(|part| object(part.iter())).collect();
        let together = answer_of(&object(parts.iter().flatten()), &actual);
        prop_assert_eq!(together, answer_of(&all(&members), &actual));
        let reversed: Vec<&(String, String)> = parts.iter().rev().flatten().collect();
        prop_assert_eq!(together, answer_of(&object(reversed.into_iter()), &actual));
    }

    /// `when C then T else E` is `(C and T) or (not C and E)` wherever C can be evaluated.
    #[test]
    fn when_is_both_of_its_branches(
        when in expectation(ANY), then in expectation(ANY), other in expectation(ANY), document in document()
    ) {
        let actual = actual(&document);
        let found = answer_of(&format!("{{\"when\": {when}, \"then\": {then}, \"else\": {other}}}"), &actual);
        let expected = match answer_of(&when, &actual) {
            ExpectationAnswer::Met => answer_of(&then, &actual),
            ExpectationAnswer::Unmet => answer_of(&other, &actual),
            ExpectationAnswer::NotEvaluable => ExpectationAnswer::NotEvaluable,
        };
        prop_assert_eq!(found, expected);
    }

    /// A threshold of the whole weight is every member, whatever the weights.
    #[test]
    fn a_threshold_of_one_is_all(members in members(NO_PLAN), weights in [1..9_u8, 1..9, 1..9], document in document()) {
        let actual = actual(&document);
        let weighed: Vec<String> = members
            .iter()
            .zip(weights)
            .map(|(member, weight)| format!("{}, \"weight\": 0.{weight}}}", &member[..member.len() - 1]))
            .collect();
        let scored = format!("{{\"all\": {}, \"threshold\": 1}}", list(&weighed));
        let plain = answer_of(&all(&members), &actual);
        prop_assert_eq!(answer_of(&scored, &actual), plain);
        prop_assert_eq!(answer_of(&all(&weighed), &actual), plain, "without a threshold a weight is only shown");
    }
}

// ---- steps of the plan -------------------------------------------------------------------------------------

/// The best that any way of giving each expectation a step of its own comes to.
fn best(answers: &[Vec<ExpectationAnswer>], taken: &mut Vec<usize>) -> ExpectationAnswer {
    let Some((first, rest)) = answers.split_first() else { return ExpectationAnswer::Met };
    let mut found = ExpectationAnswer::Unmet;
    for (step, answer) in first.iter().enumerate() {
        if *answer == ExpectationAnswer::Unmet || taken.contains(&step) {
            continue;
        }
        taken.push(step);
        let others = best(rest, taken);
        taken.pop();
        match (answer, others) {
            (ExpectationAnswer::Met, ExpectationAnswer::Met) => return ExpectationAnswer::Met,
            (_, ExpectationAnswer::Unmet) => {}
            _ => found = ExpectationAnswer::NotEvaluable,
        }
    }
    found
}

fn worst(answers: &[ExpectationAnswer]) -> ExpectationAnswer {
    let worst = [ExpectationAnswer::Unmet, ExpectationAnswer::NotEvaluable]
        .into_iter()
        .find(|answer| answers.contains(answer));
    worst.unwrap_or(ExpectationAnswer::Met)
}

fn asking_for_steps() -> impl Strategy<Value = Vec<String>> {
    choices().prop_map(|choices| {
        let mut make = Gen::new(&choices, ANY);
        (0..3).map(|_| object(make.plan_field().iter())).collect()
    })
}

fn steps() -> impl Strategy<Value = Vec<String>> {
    choices().prop_map(|choices| Gen::new(&choices, ANY).steps())
}

proptest! {
    #![proptest_config(config(400))]

    /// `distinct` against every way there is to give out the steps.
    #[test]
    fn distinct_finds_steps_when_there_are_enough(members in asking_for_steps(), steps in steps()) {
        let on = |steps: &[String]| actual(&format!("{{\"plan\": {}}}", list(steps)));
        let each: Vec<ExpectationAnswer> = members.iter().map(|member| answer_of(member, &on(&steps))).collect();
        let alone = |member: &String| -> Vec<ExpectationAnswer> {
            steps.iter().map(|step| answer_of(member, &on(std::slice::from_ref(step)))).collect()
        };
        let answers: Vec<Vec<ExpectationAnswer>> = members.iter().map(alone).collect();
        let mut together = each.clone();
        together.push(best(&answers, &mut Vec::new()));
        let expected = worst(&together);
        let file = support::sound(&format!("{{\"distinct\": true, \"expectations\": {}}}", list(&members)));
        prop_assert_eq!(answer(&file, &on(&steps)), expected);
        let explained: Vec<ExpectationAnswer> =
            outcomes(&file, &on(&steps)).into_iter().map(|outcome| outcome.answer).collect();
        prop_assert_eq!(worst(&explained), expected);
        let all = format!("{{\"distinct\": true, \"all\": {}}}", list(&members));
        prop_assert_eq!(answer_of(&all, &on(&steps)), expected);
        prop_assert_eq!(outcomes(&sound(&all), &on(&steps))[0].answer, expected);
    }
}

// ---- checks of one value -----------------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn not_before_an_operator_is_not_of_it(choices in choices(), document in document()) {
        let (name, operand) = Gen::new(&choices, ANY).operator();
        let opposite = match name.strip_prefix("not-") {
            Some(plain) => plain.to_owned(),
            None => format!("not-{name}"),
        };
        let actual = actual(&document);
        let expected = negated(answer_of(&format!("{{\"value.a\": {{\"{name}\": {operand}}}}}"), &actual));
        for same in [
            format!("{{\"value.a\": {{\"{opposite}\": {operand}}}}}"),
            format!("{{\"value.a\": {{\"not\": {{\"{name}\": {operand}}}}}}}"),
            format!("{{\"not\": {{\"value.a\": {{\"{name}\": {operand}}}}}}}"),
        ] {
            prop_assert_eq!(answer_of(&same, &actual), expected, "{}", same);
        }
    }

    #[test]
    fn each_some_and_none_are_duals(check in check(), document in document()) {
        let actual = actual(&document);
        let of = |text: String| answer_of(&format!("{{\"value.list\": {text}}}"), &actual);
        let each = of(format!("{{\"each\": {check}}}"));
        let some = of(format!("{{\"some\": {check}}}"));
        prop_assert_eq!(of(format!("{{\"some\": {{\"not\": {check}}}}}")), negated(each));
        prop_assert_eq!(of(format!("{{\"none\": {{\"not\": {check}}}}}")), each);
        prop_assert_eq!(of(format!("{{\"each\": {{\"not\": {check}}}}}")), negated(some));
        prop_assert_eq!(of(format!("{{\"none\": {check}}}")), negated(some));
        prop_assert_eq!(of(format!("{{\"atLeast\": {{\"count\": 1, \"of\": {check}}}}}")), some);
    }

    /// Logic about one value is logic about expectations of that value.
    #[test]
    fn logic_of_a_value_is_logic_of_expectations(one in check(), other in check(), document in document()) {
        let actual = actual(&document);
        let at = |check: &str| format!("{{\"value.a\": {check}}}");
        for key in ["all", "any"] {
            prop_assert_eq!(
                answer_of(&at(&format!("{{\"{key}\": [{one}, {other}]}}")), &actual),
                answer_of(&format!("{{\"{key}\": [{}, {}]}}", at(&one), at(&other)), &actual)
            );
        }
        prop_assert_eq!(
            answer_of(&at(&format!("{{\"when\": {one}, \"then\": {other}}}")), &actual),
            answer_of(&format!("{{\"when\": {}, \"then\": {}}}", at(&one), at(&other)), &actual)
        );
    }

    /// A path of several steps is the same as paths within paths.
    #[test]
    fn a_path_is_its_steps(check in check(), document in document()) {
        let actual = actual(&document);
        prop_assert_eq!(
            answer_of(&format!("{{\"value.a.b\": {check}}}"), &actual),
            answer_of(&format!("{{\"value\": {{\"a\": {{\"b\": {check}}}}}}}"), &actual)
        );
    }
}

// ---- evaluation --------------------------------------------------------------------------------------------

/// A law that only ever meets one answer says little.
#[test]
fn all_three_answers_come_up() {
    let counts = [(); 3].map(|()| Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(config(1000));
    let tried = runner.run(&(expectation(ANY), document()), |(it, document)| {
        counts[answer_of(&it, &actual(&document)) as usize].update(|count| count + 1);
        Ok(())
    });
    assert!(tried.is_ok() && counts.iter().all(|count| count.get() > 150), "{counts:?}");
}

/// What an expectation comes to, and how much was evaluated for it.
fn counted(expectation: &str, actual: &Actual) -> (ExpectationAnswer, u64) {
    let expectations = sound(expectation);
    evaluating(actual, |evaluation| (evaluation.answer_all(&expectations), evaluation.evaluated()))
}

/// How much the members take up to the one with this answer.
fn up_to(deciding: ExpectationAnswer, members: &[String], actual: &Actual) -> u64 {
    let mut sum = 0;
    for member in members {
        let (answer, evaluated) = counted(member, actual);
        sum += evaluated;
        if answer == deciding {
            break;
        }
    }
    sum
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn all_and_any_stop_at_the_member_that_decides(members in members(NO_PLAN), document in document()) {
        let actual = actual(&document);
        prop_assert_eq!(counted(&all(&members), &actual).1, up_to(ExpectationAnswer::Unmet, &members, &actual));
        prop_assert_eq!(counted(&some_of(&members), &actual).1, up_to(ExpectationAnswer::Met, &members, &actual));
    }

    #[test]
    fn when_evaluates_one_branch(
        when in expectation(ANY), then in expectation(ANY), other in expectation(ANY), document in document()
    ) {
        let actual = actual(&document);
        let whole = format!("{{\"when\": {when}, \"then\": {then}, \"else\": {other}}}");
        let (condition, mut expected) = counted(&when, &actual);
        expected += match condition {
            ExpectationAnswer::Met => counted(&then, &actual).1,
            ExpectationAnswer::Unmet => counted(&other, &actual).1,
            ExpectationAnswer::NotEvaluable => 0,
        };
        prop_assert_eq!(counted(&whole, &actual).1, expected);
    }

    /// Members behind the one that decides are in the tree, as not evaluated.
    #[test]
    fn an_explained_answer_is_the_answer(members in members(ANY), document in document()) {
        let actual = actual(&document);
        for text in [all(&members), some_of(&members), members[0].clone()] {
            let expectations = sound(&text);
            let outcome = outcomes(&expectations, &actual).remove(0);
            prop_assert_eq!(outcome.answer, answer(&expectations, &actual));
            prop_assert_eq!(outcome.tree.answer, Some(outcome.answer));
            prop_assert!(!outcome.reason.is_empty());
            for (_, line) in outcome.tree.lines() {
                prop_assert!(!line.reason.is_empty(), "a line without a sentence: {:?}", line);
            }
        }
    }

    #[test]
    fn a_file_is_met_when_every_expectation_is(members in members(ANY), document in document()) {
        let actual = actual(&document);
        let expectations = support::sound(&format!("{{\"depth\": 50, \"expectations\": {}}}", list(&members)));
        let each: Vec<ExpectationAnswer> = members.iter().map(|member| answer_of(member, &actual)).collect();
        let found: Vec<ExpectationAnswer> =
            outcomes(&expectations, &actual).into_iter().map(|outcome| outcome.answer).collect();
        prop_assert_eq!(&found, &each);
        prop_assert_eq!(answer(&expectations, &actual), worst(&each));
    }

    #[test]
    fn yaml_and_json_are_one(it in expectation(ANY), document in document()) {
        let text = file(&it);
        let mut written = String::new();
        yaml::write(&json(&text), &mut written);
        let (expectations, problems) = loaded(&written, DataFormat::Yaml);
        prop_assert!(expectations.is_some(), "{:?} in {}", problems, written);
        let actual = actual(&document);
        let of_yaml = expectations.map(|expectations| outcomes(&expectations, &actual));
        prop_assert_eq!(of_yaml, Some(outcomes(&sound(&it), &actual)));
    }

    /// Nothing that is decided is decided otherwise when a value that was missing is there, unless somebody asks
    /// whether it is.
    #[test]
    fn what_is_decided_stays_decided(choices in choices(), document in document(), value in choices()) {
        let it = Gen::new(&choices, Without { plan: false, presence: true }).expectation();
        let before = json(&document);
        let more = json(&Gen::new(&value, ANY).document());
        let (less, more) = (actual(&document), Actual::new(DocumentKind::Answer, filled(&before, &more)).unwrap_or_else(|_| panic!("too deep")));
        let (then, now) = (answer_of(&it, &less), answer_of(&it, &more));
        prop_assert!(then == ExpectationAnswer::NotEvaluable || now == then, "{:?} became {:?} with {:?}", then, now, more);
    }
}

/// A document with what another has beyond it: names at the root and one level below.
fn filled(document: &threadline_lang::Value, more: &threadline_lang::Value) -> threadline_lang::Value {
    use threadline_lang::Value;
    let entries = |value: &Value| -> Vec<(ecow::EcoString, Value)> {
        let object = value.as_object().into_iter().flat_map(|object| object.iter());
        object.map(|(key, value)| (key.name().clone(), value.clone())).collect()
    };
    let merged = |one: &Value, other: &Value| {
        let mut all = entries(one);
        all.extend(entries(other).into_iter().filter(|(key, _)| one.get(key).is_none()));
        Value::object(all).unwrap_or_default()
    };
    let mut all = entries(document);
    for (key, value) in &mut all {
        if let Some(more) =
            more.get(key).filter(|_| matches!(key.as_str(), "value" | "facts" | "usage" | "meta"))
        {
            *value = merged(value, more);
        }
    }
    let known = Value::object(all).unwrap_or_default();
    merged(&known, more)
}
