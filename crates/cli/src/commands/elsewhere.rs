//! Runs whose programs run on other machines: `run --on`, and `threadline worker`.

use std::path::PathBuf;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::event::{KeySource, RemoteService};
use threadline_flow::plan::Plan;
use threadline_runner::project::Project;
use threadline_runner::workplace::{Here, Workplace};

use crate::arguments::{KeptArguments, KeyArguments, RunArguments, WorkerArguments};
use crate::exit::CommandFailure;

/// Where the programs of a run are to run, when that is elsewhere.
pub(super) fn service(call: &RunArguments) -> Result<Option<RemoteService>, CommandFailure> {
    let key = key_source(&call.key);
    if call.bundle && (call.replicate || call.detach) {
        let flag = if call.detach { "--detach" } else { "--replicate" };
        return Err(CommandFailure::Usage(format!(
            "`{flag}` cannot be used with `--bundle`: what programs change in the project is only on the disk of the \
             coordinator, so leave `--bundle` out, and let all machines share the folder"
        )));
    }
    match (&call.on, key) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(CommandFailure::Usage("a key is used only with `--on`".to_owned())),
        (Some(_), None) => Err(without_key("--on")),
        (Some(address), Some(key)) => Ok(Some(RemoteService {
            address: address.into(),
            key,
            blobs: call.blobs.as_ref().map(EcoString::from),
            bundle: call.bundle,
            replicated: call.replicate || call.detach,
        })),
    }
}

/// Where the programs of a run are to run that goes on, and where its journal is: as it was recorded, or as the caller
/// says now.
pub(super) fn service_again(
    recorded: Option<&RemoteService>,
    given: &KeptArguments,
) -> Result<Option<RemoteService>, CommandFailure> {
    let Some(recorded) = recorded else {
        if given.on.is_some() {
            let message = "`--on` is about a run whose programs ran on workers from its beginning";
            return Err(CommandFailure::Usage(message.to_owned()));
        }
        return Ok(None);
    };
    let RemoteService { address, key, blobs, bundle, replicated } = recorded.clone();
    Ok(Some(RemoteService {
        address: given.on.as_ref().map_or(address, EcoString::from),
        key: key_source(&given.key).unwrap_or(key),
        blobs: given.blobs.as_ref().map(EcoString::from).or(blobs),
        bundle,
        replicated,
    }))
}

pub(super) fn without_key(what: &str) -> CommandFailure {
    CommandFailure::Usage(format!(
        "`{what}` needs the key that coordinators and workers share: `--key-file FILE` or `--key-variable NAME`"
    ))
}

pub(super) fn key_source(given: &KeyArguments) -> Option<KeySource> {
    match given {
        // A run is resumed in other folders, too.
        KeyArguments { key_file: Some(path), .. } => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Some(KeySource::File(EcoString::from(path.display().to_string())))
        }
        KeyArguments { key_variable: Some(name), .. } => Some(KeySource::Variable(name.into())),
        KeyArguments { .. } => None,
    }
}

/// Where the programs of a run are performed.
pub(super) fn workplace(
    on: Option<&RemoteService>,
    plan: &Plan,
    project: &Project,
) -> Result<Arc<dyn Workplace>, CommandFailure> {
    match on {
        None => Ok(Arc::new(Here)),
        Some(service) => built::workplace(service, plan, project),
    }
}

/// `threadline worker`.
pub(crate) fn worker(call: &WorkerArguments) -> Result<(), CommandFailure> {
    let key = key_source(&call.key).ok_or_else(|| without_key("worker"))?;
    let project = call.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    built::worker(call, &key, project)
}

#[cfg(feature = "restate")]
mod built {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use threadline_engine::event::{KeySource, RemoteService};
    use threadline_flow::plan::Plan;
    use threadline_flow::problem::Problem;
    use threadline_flow::worker_labels::WorkerLabels;
    use threadline_restate::address::ServerAddress;
    use threadline_restate::key::SharedKey;
    use threadline_restate::remote::{FilesOfWorkers, Remote};
    use threadline_restate::worker::{self, WorkerSettings};
    use threadline_runner::project::Project;
    use threadline_runner::workplace::Workplace;

    use crate::arguments::WorkerArguments;
    use crate::commands::kept;
    use crate::exit::CommandFailure;
    use crate::report::{self, Report, ReportSource};

    pub(super) fn workplace(
        service: &RemoteService,
        plan: &Plan,
        project: &Project,
    ) -> Result<Arc<dyn Workplace>, CommandFailure> {
        let address = ServerAddress::parse(&service.address).map_err(CommandFailure::Usage)?;
        let key = read_key(&service.key)?;
        if let Err(error) = project.make_store() {
            let message = format!("`{}`: {error}", project.store().display());
            return Err(CommandFailure::NotStarted(vec![Report::plain(message)]));
        }
        let files = FilesOfWorkers {
            root: project.root().to_owned(),
            store: project.store(),
            blobs: service.blobs.as_ref().map(ToString::to_string),
            bundle: service.bundle,
        };
        let mut asked = plan.asked_labels();
        if asked.is_empty() {
            asked.insert(WorkerLabels::default(), (plan, 0));
        }
        let remote = Remote::connect(address, key, files, asked.keys());
        let remote = remote.map_err(|error| {
            let report = match asked.get(&error.labels).filter(|_| !error.labels.is_empty()) {
                Some((plan, step)) => {
                    let span = plan.steps[*step as usize].step.origin.span;
                    let problem = Problem::error("no-worker", span, error.message).hint(error.hint);
                    Report::problem(ReportSource::of(&plan.workflow.file), &problem)
                }
                None => Report::with_hint(error.message, &error.hint),
            };
            CommandFailure::NotStarted(vec![report])
        })?;
        Ok(Arc::new(remote))
    }

    pub(in crate::commands) fn read_key(source: &KeySource) -> Result<SharedKey, CommandFailure> {
        let key = match source {
            KeySource::File(path) => SharedKey::of_file(Path::new(path.as_str())),
            KeySource::Variable(name) => SharedKey::of_variable(name),
        };
        key.map_err(|why| CommandFailure::NotStarted(vec![Report::plain(why)]))
    }

    pub(super) fn worker(
        call: &WorkerArguments,
        key: &KeySource,
        project: PathBuf,
    ) -> Result<(), CommandFailure> {
        if call.register.is_some() && call.advertise.is_none() && call.listen.ip().is_unspecified() {
            let message = format!("`--advertise` has to say where a worker at `{}` is reached", call.listen);
            return Err(CommandFailure::Usage(message));
        }
        let labels = WorkerLabels::of_pairs(call.label.iter().map(String::as_str));
        let settings = WorkerSettings {
            labels: labels.map_err(|why| CommandFailure::Usage(format!("`--label`: {why}")))?,
            listen: call.listen,
            advertised: call.advertise.clone(),
            slots: call
                .slots
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
            project,
            blobs: call.blobs.clone(),
            cache: call.cache.clone().unwrap_or_else(worker::usual_cache),
            register: call.register.clone(),
            key: read_key(key)?,
            key_variable: call.key.key_variable.clone(),
            name: call.name.clone().unwrap_or_else(worker::machine_name),
        };
        let ended = if call.serving {
            let coordinator = kept::coordinator(call, &settings.project);
            worker::serve(&settings, coordinator, report::print_note)
        } else {
            let server = || {
                let mut command = std::process::Command::new(std::env::current_exe()?);
                command.args(std::env::args_os().skip(1)).arg("--serving");
                Ok(command)
            };
            worker::supervise(&settings, &server, &report::print_note)
        };
        ended.map_err(|why| CommandFailure::NotStarted(vec![Report::plain(why)]))
    }
}

#[cfg(not(feature = "restate"))]
pub(super) use built::not_built;
#[cfg(feature = "restate")]
pub(super) use built::read_key;

#[cfg(not(feature = "restate"))]
mod built {
    use std::path::PathBuf;
    use std::sync::Arc;

    use threadline_engine::event::{KeySource, RemoteService};
    use threadline_flow::plan::Plan;
    use threadline_runner::project::Project;
    use threadline_runner::workplace::Workplace;

    use crate::arguments::WorkerArguments;
    use crate::exit::CommandFailure;
    use crate::report::Report;

    pub(super) fn workplace(
        _service: &RemoteService,
        _plan: &Plan,
        _project: &Project,
    ) -> Result<Arc<dyn Workplace>, CommandFailure> {
        Err(not_built())
    }

    pub(super) fn worker(
        _call: &WorkerArguments,
        _key: &KeySource,
        _project: PathBuf,
    ) -> Result<(), CommandFailure> {
        Err(not_built())
    }

    pub(in crate::commands) fn not_built() -> CommandFailure {
        let message = "this program cannot run steps on other machines";
        let hint = "it was built without the feature `restate`, which the released program has";
        CommandFailure::NotStarted(vec![Report::with_hint(message.to_owned(), hint)])
    }
}
