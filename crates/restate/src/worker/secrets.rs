//! The secrets of acts: a worker is told where they are looked up, and looks them up itself.
//!
//! What is found is kept in memory, by what proves that it is the value that the coordinator means. Nothing of it is
//! recorded at the server: a program's output is masked with these before it is an entry there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use threadline_engine::execute::effect::Effect;
use threadline_flow::model::SecretSource;
use threadline_runner::process::Environment;
use threadline_runner::secrets::masks::Masks;
use threadline_runner::secrets::named::fill_in;

use crate::key::SharedKey;
use crate::wire::{SentSecret, SentSecrets};

/// So many sets of secrets are remembered with what finds them.
const MOST_SETS: usize = 16;

/// Names and values of secrets.
type FoundSecrets = Vec<(EcoString, String)>;

/// The secrets that a worker has found.
#[derive(Default)]
pub(super) struct WorkerSecrets(Mutex<FoundValues>);

#[derive(Default)]
struct FoundValues {
    /// By their proofs.
    values: BTreeMap<String, String>,
    masks: Vec<(FoundSecrets, Arc<Masks>)>,
}

impl WorkerSecrets {
    /// Puts the secrets of an act in place, and gives what finds them in what comes of it.
    pub(super) fn put_in_place(
        &self,
        effect: &mut Effect,
        sent: &SentSecrets,
        key: &SharedKey,
        (folder, env): (&Path, &Environment),
    ) -> Result<Option<Arc<Masks>>, String> {
        let mut values: Vec<Option<String>> = Vec::new();
        for secret in &sent.list {
            match self.value(secret, key, folder, env) {
                Ok(value) => values.push(Some(value)),
                Err(why) if secret.is_needed => return Err(why),
                // What is not here cannot be printed here.
                Err(_) => values.push(None),
            }
        }
        fill_in(effect, &sent.nonce, &|place| values.get(place).cloned().flatten())?;
        let names = sent.list.iter().map(|secret| secret.reference.name.clone());
        let found: FoundSecrets =
            names.zip(values).filter_map(|(name, value)| Some((name, value?))).collect();
        if found.is_empty() { Ok(None) } else { self.masks(found).map(Some) }
    }

    fn state(&self) -> MutexGuard<'_, FoundValues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(
        &self,
        secret: &SentSecret,
        key: &SharedKey,
        folder: &Path,
        env: &Environment,
    ) -> Result<String, String> {
        if let Some(known) = self.state().values.get(&secret.proof) {
            return Ok(known.clone());
        }
        let SentSecret { reference, proof, is_needed } = secret;
        let value = reference.look_up(folder, env, *is_needed)?;
        if SentSecret::proof_of(key, &reference.name, &value) == *proof {
            self.state().values.insert(proof.clone(), value.clone());
        } else if *is_needed {
            let place = match &reference.source {
                SecretSource::Variable(name) => format!("the variable `{name}`"),
                SecretSource::File(path) => format!("the file `{path}`"),
                SecretSource::Command(command) => {
                    format!("what `{}` prints", command.first().map_or("", EcoString::as_str))
                }
            };
            return Err(format!(
                "the secret `{}`: {place} has another value here than at the coordinator",
                reference.name
            ));
        }
        Ok(value)
    }

    fn masks(&self, found: FoundSecrets) -> Result<Arc<Masks>, String> {
        if let Some((_, masks)) = self.state().masks.iter().find(|(known, _)| *known == found) {
            return Ok(Arc::clone(masks));
        }
        let masks = Masks::new(found.iter().map(|(name, value)| (name, value.as_str())));
        let masks = Arc::new(masks.map_err(|_| "its secrets are too large together to look for".to_owned())?);
        let mut state = self.state();
        if state.masks.len() >= MOST_SETS {
            state.masks.remove(0);
        }
        state.masks.push((found, Arc::clone(&masks)));
        Ok(masks)
    }
}
