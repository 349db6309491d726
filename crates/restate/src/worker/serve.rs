//! The server of a worker: a loop that accepts connections, and a service that performs programs.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulShutdown;
use restate_sdk::endpoint::{Endpoint, HandlerOptions, ServiceOptions};
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::service::IntoServiceDefinition as _;
use rustix::net::sockopt;
use rustix::process::Signal;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use threadline_runner::process;

use super::WorkerSettings;
use super::act::{Performer, ThreadlineAct};
use super::coordinate::{CoordinatorCommand, ThreadlineRun};
use super::limits::ThreadlineLimit;
use crate::labels::offered;
use crate::remote::{MEMORY, PERFORM};

/// How long a connection may be silent while a program runs.
const LONGEST_ACT: Duration = Duration::from_hours(30 * 24);

/// The pauses before the Restate server has an act performed again that a worker could not end.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// It never gives up: an act that stood still would keep its run waiting.
const ATTEMPTS: u64 = 1_000_000;

/// How much a connection takes in before somebody reads it: wide, so that many acts fit side by side.
const CONNECTION_WINDOW: u32 = 64 << 20;
const STREAM_WINDOW: u32 = 16 << 20;

/// The time between two looks for what the cache keeps in vain.
const BETWEEN_SWEEPS: Duration = Duration::from_hours(1);
/// After so long without a word a connection is looked at, and after twice as long it is given up.
const SILENCE: Duration = Duration::from_secs(15);

/// How long the Restate server has to answer when a worker registers.
const REGISTERING: Duration = Duration::from_secs(30);

/// Performs programs until it is told to end, and then finishes what it performs. The port comes from the supervisor.
pub fn serve(
    settings: &WorkerSettings,
    coordinator: CoordinatorCommand,
    tell: fn(&str),
) -> Result<(), String> {
    // A worker without its supervisor ends: nobody would put right what it leaves.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let port = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let listener = TcpListener::from(port);
    let address = listener.local_addr();
    let address =
        address.map_err(|error| format!("the server of a worker is started by its supervisor: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    process::belong_to(settings.identity(address));
    process::prepare("");
    let mut signals = Signals::new([SIGTERM]).map_err(|error| error.to_string())?;
    let performer = Arc::new(Performer::new(settings, &settings.identity(address))?);
    let swept = Arc::clone(&performer);
    std::thread::spawn(move || {
        loop {
            swept.sweep_cache();
            std::thread::sleep(BETWEEN_SWEEPS);
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(settings.slots + 8)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (end, ended) = tokio::sync::watch::channel(false);
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = end.send(true);
        }
    });
    if settings.register.is_some() {
        let settings = settings.clone();
        std::thread::spawn(move || {
            if let Err(why) = register(&settings, address) {
                tell(&why);
            }
        });
    }
    super::sweep_journals();
    // A worker with labels is for what asks for them, and for nothing else.
    let runs = settings.labels.is_empty().then(|| ThreadlineRun {
        key: settings.key.clone(),
        name: settings.name.clone(),
        command: coordinator,
    });
    let endpoint = endpoint(&performer, &offered(&settings.labels)?, runs)?;
    runtime.block_on(accept(listener, endpoint, ended)).map_err(|error| error.to_string())
}

/// What the worker offers, with how the server is to use it.
fn endpoint(
    performer: &Arc<Performer>,
    services: &[String],
    runs: Option<ThreadlineRun>,
) -> Result<HyperEndpoint, String> {
    let options = ServiceOptions::new()
        .inactivity_timeout(LONGEST_ACT)
        .abort_timeout(LONGEST_ACT)
        .journal_retention(Duration::from_hours(1))
        .retry_policy_initial_interval(FIRST_PAUSE)
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(LONGEST_PAUSE)
        .retry_policy_max_attempts(ATTEMPTS);
    let remembered = || HandlerOptions::new().workflow_retention(MEMORY);
    let mut builder = Endpoint::builder();
    for service in services {
        let (performer, service) = (Arc::clone(performer), Arc::from(service.as_str()));
        let service = ThreadlineAct { performer, service }.definition()?;
        builder = builder.bind(service.options(options.clone().handler(PERFORM, remembered())));
    }
    // Whoever reaches the server does not reach this: only acts take turns.
    builder = builder
        .bind(ThreadlineLimit.into_service_definition().options(ServiceOptions::new().ingress_private(true)));
    if let Some(runs) = runs {
        builder = builder.bind(runs.into_service_definition().options(options.handler("run", remembered())));
    }
    Ok(HyperEndpoint::new(builder.build()))
}

async fn accept(
    listener: TcpListener,
    endpoint: HyperEndpoint,
    mut ended: tokio::sync::watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.changed() => break,
        };
        let Ok((stream, _)) = stream else {
            // No handles for a moment.
            tokio::time::sleep(FIRST_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        notice_lost_machines(&stream);
        let connection = http2::Builder::new(TokioExecutor::new())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_concurrent_streams(None::<u32>)
            .serve_connection(TokioIo::new(stream), endpoint.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A connection that breaks drops what it carried, and that ends its programs.
            let _ = connection.await;
        });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// Has the kernel ask whether the machine at the other end is still there: one that lost its power or its network closes no
/// connection, and a program whose connection is gone is performed elsewhere.
fn notice_lost_machines(stream: &tokio::net::TcpStream) {
    // Where that cannot be set, a connection breaks later.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, SILENCE);
    let _ = sockopt::set_tcp_keepintvl(stream, SILENCE / 3);
    let _ = sockopt::set_tcp_keepcnt(stream, 3);
}

/// Tells a Restate server where the worker is.
fn register(settings: &WorkerSettings, address: SocketAddr) -> Result<(), String> {
    let Some(admin) = &settings.register else { return Ok(()) };
    let uri = settings.advertised.clone().unwrap_or_else(|| format!("http://{address}/"));
    let body = format!(
        "{{\"uri\":{},\"force\":true}}",
        threadline_lang::Value::from(uri.as_str()).to_json(threadline_lang::value::JsonStyle::Compact,)
    );
    let agent: ureq::Agent =
        ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build().into();
    let url = format!("{}/deployments", admin.trim_end_matches('/'));
    let began = std::time::Instant::now();
    loop {
        let request = agent.post(&url).header("content-type", "application/json");
        let sent = request.config().timeout_global(Some(REGISTERING)).build().send(&body);
        let why = match sent {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(mut answer) => {
                let text = answer.body_mut().read_to_string().unwrap_or_default();
                format!("status {}: {text}", answer.status().as_u16())
            }
            Err(error) => error.to_string(),
        };
        // The server, or a balancer in front of the worker, may not be there yet.
        if began.elapsed() > REGISTERING {
            return Err(format!("the worker could not be registered at `{admin}`: {why}"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
