//! Secrets by name: what stands for them in an act that travels to where they are looked up.
//!
//! The fields of a step are evaluated with words in place of secrets, and what comes of that travels. What is to come of
//! it there is known here, too: the same fields with the values. So it is found out beforehand whether the two are the
//! same once the words are replaced, also inside of a URL and of JSON. What an expression made of a secret is not the
//! secret, stands for nothing that can be looked up, and does not travel.

use std::collections::BTreeSet;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::execute::effect::Effect;
use threadline_flow::model::{Agent, Workflow};
use threadline_lang::diag::words;
use threadline_lang::func::percent_encode;
use threadline_lang::{Scope, Value};

use super::masks::{Masks, json_escaped};
use super::{HeldSecret, RunSurroundings};
use crate::secrets::lookup::SecretReference;

/// How a value stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Plain,
    /// Percent-encoded, in a URL.
    Url,
    /// Inside the quotes of JSON.
    Json,
}

impl ValueForm {
    const ALL: [Self; 3] = [Self::Plain, Self::Url, Self::Json];

    fn letter(self) -> char {
        match self {
            Self::Plain => 'p',
            Self::Url => 'u',
            Self::Json => 'j',
        }
    }

    fn of(self, value: &str) -> String {
        match self {
            Self::Plain => value.to_owned(),
            Self::Url => {
                let mut encoded = String::new();
                percent_encode(value, &mut encoded);
                encoded
            }
            Self::Json => json_escaped(value),
        }
    }
}

/// An act with words in place of secrets.
pub struct TravellingAct<'s> {
    /// What is performed.
    pub effect: Effect,
    /// What the words begin with.
    pub nonce: String,
    /// All secrets of the run, by their numbers in words.
    pub secrets: Vec<TravellingSecret<'s>>,
}

/// A secret of an act.
pub struct TravellingSecret<'s> {
    /// What it is called, and where it is looked up.
    pub reference: &'s SecretReference,
    /// Its value, which does not travel.
    pub value: &'s str,
    /// Whether a word stands for it. Others are looked for in what comes back, where they are known.
    pub is_needed: bool,
}

/// What stands for a secret; its number is its place among those of the run.
fn word(nonce: &str, secret: usize, form: ValueForm) -> String {
    format!("{nonce}i{secret}{}", form.letter())
}

/// A word with what follows it: the secret, and how its value stands there.
type WordPiece<'t> = (usize, ValueForm, &'t str);

/// A text in pieces: what stands before the first word, and each word with what follows it.
fn pieces<'t>(text: &'t str, nonce: &str) -> Option<(&'t str, Vec<WordPiece<'t>>)> {
    let mut pieces = text.split(nonce);
    let first = pieces.next()?;
    let words = pieces.map(|piece| {
        let piece = piece.strip_prefix('i')?;
        let digits = piece.find(|c: char| !c.is_ascii_digit())?;
        let (number, rest) = piece.split_at(digits);
        let form = ValueForm::ALL.into_iter().find(|form| rest.starts_with(form.letter()))?;
        Some((number.parse().ok()?, form, &rest[1..]))
    });
    Some((first, words.collect::<Option<_>>()?))
}

/// Puts values in place of words. Fails if a word stands for a secret that is not given.
pub fn fill_in(
    effect: &mut Effect,
    nonce: &str,
    value: &dyn Fn(usize) -> Option<String>,
) -> Result<(), String> {
    for text in texts_of(effect) {
        if !text.contains(nonce) {
            continue;
        }
        let wrong = || "a word in it stands for no secret".to_owned();
        let (first, words) = pieces(text, nonce).ok_or_else(wrong)?;
        let mut filled = first.to_owned();
        for (secret, form, rest) in words {
            filled.push_str(&form.of(&value(secret).ok_or_else(wrong)?));
            filled.push_str(rest);
        }
        *text = filled;
    }
    Ok(())
}

fn texts_of(effect: &mut Effect) -> Vec<&mut String> {
    match effect {
        Effect::Process(spec) => spec.texts_mut(),
        Effect::Request(spec) => spec.texts_mut(),
        _ => Vec::new(),
    }
}

fn are_equal(one: &Effect, other: &Effect) -> bool {
    match (one, other) {
        (Effect::Process(one), Effect::Process(other)) => one == other,
        (Effect::Request(one), Effect::Request(other)) => one == other,
        _ => false,
    }
}

impl RunSurroundings {
    /// A scope of a workflow in which words stand for secrets.
    pub(crate) fn name_secrets(&self, workflow: &Workflow, scope: &Scope) -> Scope {
        self.with_secrets(workflow, scope, |place| {
            Value::from(word(&self.nonce, place, ValueForm::Plain).as_str())
        })
    }

    /// What the calls of an agent are counted by over all runs: the address with the keys of an API, or the name of an agent
    /// that is a program. It holds secrets.
    pub(crate) fn account(&self, workflow: &Workflow, agent: &EcoString) -> String {
        let Some(account) = workflow.agent(agent).and_then(Agent::account) else {
            return format!("program\n{agent}");
        };
        let held = self.workflows.get(workflow.file.name()).into_iter().flat_map(|given| &given.secrets);
        let held = held.map(|place| &self.secrets[*place]);
        let keys = held.filter(|held| account.secrets.contains(&held.reference.name));
        keys.fold(account.address.to_string(), |name, held| format!("{name}\n{}", held.value))
    }

    /// Variables with words in place of the secrets that they hold.
    pub fn name_in_variables(&self, variables: &mut [(EcoString, Option<String>)]) {
        for (_, value) in variables {
            let Some(value) = value else { continue };
            // The longest first: one may be a part of another.
            let mut places: Vec<usize> = (0..self.secrets.len()).collect();
            places.sort_by_key(|place| std::cmp::Reverse(self.secrets[*place].value.len()));
            for place in places {
                let secret = &self.secrets[place].value;
                if value.contains(secret.as_str()) {
                    *value = value.replace(secret.as_str(), &word(&self.nonce, place, ValueForm::Plain));
                }
            }
        }
    }

    /// An act as it travels: `named` has words in place of secrets, and comes to `real` where they are looked up.
    pub fn travelling(&self, real: &Effect, named: &Effect) -> Result<TravellingAct<'_>, String> {
        let mut effect = named.clone();
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let mut needed = BTreeSet::new();
        if let Some(masks) = self.masks() {
            let mut wanted = real.clone();
            let wanted = texts_of(&mut wanted).into_iter().map(|text| &*text);
            for (text, wanted) in texts_of(&mut effect).into_iter().zip(wanted) {
                let found = self.with_forms(text, wanted, masks, &nonce)?;
                let Some((named, secrets)) = found else { return Err(made_of_secrets()) };
                needed.extend(secrets);
                *text = named;
            }
            let mut filled = effect.clone();
            fill_in(&mut filled, &nonce, &|place| Some(self.secrets.get(place)?.value.clone()))?;
            if !are_equal(&filled, real) {
                return Err(made_of_secrets());
            }
        }
        let secrets = self.secrets.iter().enumerate().map(|(place, HeldSecret { reference, value })| {
            TravellingSecret { reference, value, is_needed: needed.contains(&place) }
        });
        Ok(TravellingAct { effect, nonce, secrets: secrets.collect() })
    }

    /// A text whose words say how the values stand in it, and the secrets of these words; nothing where it does not come
    /// to what is wanted.
    fn with_forms(
        &self,
        named: &str,
        wanted: &str,
        masks: &Arc<Masks>,
        nonce: &str,
    ) -> Result<Option<(String, Vec<usize>)>, String> {
        let Some((first, found)) = pieces(named, &self.nonce) else { return Ok(None) };
        let Some(mut left) = wanted.strip_prefix(first) else { return Ok(None) };
        check_piece(first, masks)?;
        let (mut text, mut secrets, last) = (first.to_owned(), Vec::new(), found.len());
        for (number, (place, _, rest)) in found.into_iter().enumerate() {
            let Some(HeldSecret { value, .. }) = self.secrets.get(place) else { return Ok(None) };
            let after = |form: &ValueForm| {
                let after = left.strip_prefix(&form.of(value))?.strip_prefix(rest)?;
                (number + 1 < last || after.is_empty()).then_some(after)
            };
            let form = ValueForm::ALL.into_iter().find_map(|form| Some((form, after(&form)?)));
            let Some((form, after)) = form else { return Ok(None) };
            check_piece(rest, masks)?;
            text.push_str(&word(nonce, place, form));
            text.push_str(rest);
            secrets.push(place);
            left = after;
        }
        Ok(left.is_empty().then_some((text, secrets)))
    }
}

/// Fails if a piece of a text that travels as it is holds a secret.
fn check_piece(piece: &str, masks: &Arc<Masks>) -> Result<(), String> {
    let found = masks.mask_text(piece).1;
    if found.is_empty() {
        return Ok(());
    }
    let names = words::names(found.iter().map(|name| format!("`{name}`")));
    let noun = if found.len() == 1 { "secret" } else { "secrets" };
    Err(format!(
        "what it is given holds the value of the {noun} {names}, and values of secrets do not travel to workers: read \
         it as `${{secrets.{}}}`",
        found[0]
    ))
}

fn made_of_secrets() -> String {
    "it is given what an expression or a filter makes of a secret, and only secrets themselves are looked up by workers: \
     declare what is made of it as a secret of its own"
        .to_owned()
}
