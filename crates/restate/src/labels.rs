//! Which service of the Restate server performs what asks for labels.
//!
//! A server sends the requests of a service to the one deployment that offers it. So a worker with labels offers a service
//! for each choice of them, and what asks for labels asks the service of exactly those.

use threadline_flow::worker_labels::WorkerLabels;

/// What workers without labels offer.
const PLAIN: &str = "ThreadlineAct";

/// A worker has at most so many labels: it offers a service for each choice of them.
const MOST: usize = 5;

/// So much of the labels stands in the name of a service, for people.
const SHOWN: usize = 40;

/// The service that performs what asks for these labels.
pub(crate) fn service_of(labels: &WorkerLabels) -> String {
    if labels.is_empty() {
        return PLAIN.to_owned();
    }
    let text = labels.to_string();
    let shown = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(SHOWN);
    let hash = blake3::hash(text.as_bytes()).to_hex();
    format!("{PLAIN}.{}.{}", shown.collect::<String>(), &hash[..16])
}

/// The services that a worker with these labels offers. One with labels leaves what asks for none to others.
pub(crate) fn offered(labels: &WorkerLabels) -> Result<Vec<String>, String> {
    if labels.count() > MOST {
        return Err(format!("a worker has at most {MOST} labels, not {}", labels.count()));
    }
    if labels.is_empty() {
        return Ok(vec![service_of(labels)]);
    }
    let choices = 1_usize..1 << labels.count();
    Ok(choices.map(|choice| service_of(&labels.chosen(|place| choice >> place & 1 == 1))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_labels_has_a_service() {
        let labels = |pairs: &[&str]| WorkerLabels::of_pairs(pairs.iter().copied()).unwrap();
        assert_eq!(offered(&labels(&[])).unwrap(), ["ThreadlineAct"]);
        let both = offered(&labels(&["zone=eu", "gpu=true"])).unwrap();
        assert_eq!(both.len(), 3);
        for asked in [&["gpu=true"][..], &["zone=eu"], &["gpu=true", "zone=eu"]] {
            let service = service_of(&labels(asked));
            assert!(both.contains(&service), "{service} {both:?}");
            assert!(service.len() <= 80, "{service}");
        }
        assert!(!both.contains(&service_of(&labels(&["gpu=false"]))));
        assert_ne!(service_of(&labels(&["a=b-c"])), service_of(&labels(&["a=b:c"])));
        assert!(offered(&labels(&["a=1", "b=1", "c=1", "d=1", "e=1", "f=1"])).is_err());
    }
}
