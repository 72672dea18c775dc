//! The process: what was typed becomes running shards, and a signal ends them.
//!
//! The order, each for a reason:
//! 1. settings are read and checked before anything is touched;
//! 2. the placement is decided from what the data directory is, and the layout is written before any shard, so that a
//!    crash in between leaves a directory that says what it is;
//! 3. the main thread moves to the cores without a shard before the log thread and the signal handlers start, because
//!    threads inherit affinity; shards pin themselves;
//! 4. the embedded name server listens before the shards, which register with it;
//! 5. every shard on its core; when all serve, one `ready` line.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::mpsc,
    thread::JoinHandle,
};

use clap::Parser;
use engine::io::{
    Listener,
    event::Event,
    ring::{self, RingOptions},
};

use crate::{
    config::{
        self,
        cli::{Cli, Command, NamesrvArgs, ServeArgs},
    },
    connection::{self, table::ConnectionLimits},
    namesrv_service,
    placement::{Facts, Placement, ShardPlace, place},
    shard_server::{self, ShardError, ShardReady, ShardStart, explain_bind},
    stop_signal::StopSignal,
};

/// Why the process doesn't run: one message for the operator.
struct StartError(String);

/// Ring memory beyond the tail's cache: groups in flight and preparation.
const BUFFER_BYTES_EXTRA: u64 = 32 << 20;
/// Ring memory of a thread that writes no log.
const BUFFER_BYTES_CONTROL: usize = 1 << 20;

/// Runs `ringmq` with these arguments, the program's name first.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let is_failure = error.use_stderr();
            // Help and errors go where clap says; nobody is left to tell if that fails.
            let _unsaid = error.print();
            return if is_failure { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match cli.command {
        Command::Serve(args) => serve(&args),
        Command::Namesrv(args) => namesrv(&args),
        Command::Doctor(args) => return crate::doctor::run(&args, ring::probe),
    };
    crate::log::flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(StartError(text)) => {
            let _unsaid = writeln!(io::stderr(), "ringmq: {text}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), StartError> {
    let loaded = config::load(args).map_err(|error| StartError(error.to_string()))?;
    for note in &loaded.notes {
        crate::log::warn(&note.to_string());
    }
    let mut settings = loaded.settings;
    if args.check {
        return print_line(&settings.to_toml());
    }
    let root = &settings.store_path_root_dir.clone();
    let facts = Facts::gather(root).map_err(|error| {
        StartError(format!(
            "cannot look at the {error}; choose a directory that this user may use with --data"
        ))
    })?;
    let placement = place(&settings, &facts).map_err(|error| StartError(error.to_string()))?;
    for note in &placement.notes {
        crate::log::info(note);
    }
    write_layout(root, &placement)?;
    let helper_cores = helper_cores(&facts, &placement);
    move_to_cores(&helper_cores)?;
    crate::log::start();
    raise_open_files(&mut settings, placement.shards.len());
    let stop = StopSignal::new();
    watch_signals(&stop)?;
    let mut threads = Vec::new();
    let embedded_namesrv = match settings.namesrv_port_embedded() {
        Some(port) => {
            let address = SocketAddr::new(settings.listen_address(), port);
            let (thread, bound) = start_namesrv(address, helper_cores.clone(), stop.clone())?;
            threads.push(thread);
            Some(SocketAddr::new(settings.broker_ip1, bound.port()))
        }
        None => None,
    };
    let mut ready = Vec::new();
    let outcome = (|| {
        for shard in &placement.shards {
            let start = ShardStart {
                place: shard.clone(),
                settings: settings.clone(),
                shard_count: u32::try_from(placement.shards.len()).expect("bounded by its setting"),
                embedded_namesrv,
                stop: stop.clone(),
            };
            let (thread, said) = start_shard(shard, start, helper_cores.clone())?;
            threads.push(thread);
            ready.push(said.recv().unwrap_or_else(|_| Err(gone(shard)))?);
        }
        print_line(&ready_line(&ready, embedded_namesrv))?;
        Ok(())
    })();
    if outcome.is_err() {
        stop.set();
    }
    let joined = join_all(threads);
    outcome.and(joined)
}

fn ready_line(shards: &[ShardReady], namesrv: Option<SocketAddr>) -> String {
    let mut line = "ready".to_owned();
    for shard in shards {
        line.push_str(&format!(" {}={}", shard.broker_name, shard.address));
    }
    if let Some(address) = namesrv {
        line.push_str(&format!(" namesrv={address}"));
    }
    line
}

type ShardThread = JoinHandle<Result<(), StartError>>;

fn start_shard(
    place: &ShardPlace,
    start: ShardStart,
    helper_cores: Vec<usize>,
) -> Result<(ShardThread, mpsc::Receiver<Result<ShardReady, StartError>>), StartError> {
    let (say, said) = mpsc::channel();
    let wanted = start.settings.tail_cache_bytes.0 + BUFFER_BYTES_EXTRA;
    let options = RingOptions {
        name: place.broker_name.clone(),
        core: Some(place.core),
        helper_cores,
        buffer_bytes: usize::try_from(wanted).unwrap_or(usize::MAX),
        spin_before_park: start.settings.spin_before_park,
    };
    let say_failure = say.clone();
    let thread = ring::start(options, move |runtime| async move {
        let outcome = shard_server::run(runtime, start, move |ready| {
            // The main thread waits for it.
            let _heard = say.send(Ok(ready));
        })
        .await;
        outcome.map_err(|ShardError(text)| {
            let _heard = say_failure.send(Err(StartError(text.clone())));
            text
        })
    })
    .map_err(|error| StartError(format!("cannot start a thread for {}: {error}", place.broker_name)))?;
    let name = place.broker_name.clone();
    let watcher = std::thread::Builder::new()
        .name(format!("{name}-end"))
        .spawn(move || match thread.join() {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(text))) => Err(StartError(text)),
            Ok(Err(error)) => Err(StartError(explain_ring(&error))),
            Err(_) => {
                // A broken rule of ours: the other cores must not go on as if nothing had happened.
                let _unsaid =
                    writeln!(io::stderr(), "ringmq: {name}: an invariant was broken; the process ends");
                std::process::exit(EXIT_BROKEN_INVARIANT);
            }
        })
        .map_err(|error| StartError(format!("cannot start a thread: {error}")))?;
    Ok((watcher, said))
}

/// Exit status when a rule of ours was broken.
const EXIT_BROKEN_INVARIANT: i32 = 70;

fn gone(place: &ShardPlace) -> StartError {
    StartError(format!(
        "{}: the executor could not be started; see the message above, and run `ringmq doctor`",
        place.broker_name
    ))
}

/// Says why an executor can't be made, and what to do.
fn explain_ring(error: &io::Error) -> String {
    let text = error.to_string();
    if text.to_ascii_lowercase().contains("memlock") {
        return format!(
            "too little memory may be locked for io_uring ({text}); raise it with `ulimit -l 65536` or \
             LimitMEMLOCK=64M in the unit file"
        );
    }
    format!(
        "io_uring cannot be used here ({text}); it may be forbidden by `sysctl kernel.io_uring_disabled` (set it to \
         0), by the container's seccomp profile (allow io_uring_setup, io_uring_enter, io_uring_register), or missing \
         from a kernel before 5.8; `ringmq doctor` shows which"
    )
}

fn join_all(threads: Vec<ShardThread>) -> Result<(), StartError> {
    let mut first = Ok(());
    for thread in threads {
        let ended =
            thread.join().unwrap_or_else(|_| Err(StartError("a thread ended unexpectedly".to_owned())));
        if first.is_ok() {
            first = ended;
        }
    }
    first
}

fn namesrv(args: &NamesrvArgs) -> Result<(), StartError> {
    crate::log::start();
    let stop = StopSignal::new();
    watch_signals(&stop)?;
    let address = SocketAddr::new(args.ip, args.port);
    let (thread, bound) = start_namesrv(address, Vec::new(), stop)?;
    print_line(&format!("ready namesrv={bound}"))?;
    join_all(vec![thread])
}

fn start_namesrv(
    address: SocketAddr,
    helper_cores: Vec<usize>,
    stop: StopSignal,
) -> Result<(ShardThread, SocketAddr), StartError> {
    let (say, said) = mpsc::channel();
    let options = RingOptions {
        name: "namesrv".to_owned(),
        core: None,
        helper_cores,
        buffer_bytes: BUFFER_BYTES_CONTROL,
        spin_before_park: std::time::Duration::ZERO,
    };
    let thread = ring::start(options, move |runtime: ring::RingRuntime| async move {
        let listener = match connection::listen(&runtime, address).await {
            Ok(listener) => listener,
            Err(error) => {
                // The main thread waits for it.
                let _heard =
                    say.send(Err(StartError(format!("name server: {}", explain_bind(address, &error)))));
                return;
            }
        };
        let _heard = say.send(Ok(listener.local_address()));
        let stopped = Event::new();
        let serving = namesrv_service::serve(runtime.clone(), listener, NAMESRV_LIMITS, stopped);
        engine::io::event::first(serving, stop.wait()).await;
    })
    .map_err(|error| StartError(format!("cannot start the name server's thread: {error}")))?;
    let watcher = std::thread::Builder::new()
        .name("namesrv-end".to_owned())
        .spawn(move || match thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(StartError(explain_ring(&error))),
            Err(_) => Err(StartError("the name server ended unexpectedly".to_owned())),
        })
        .map_err(|error| StartError(format!("cannot start a thread: {error}")))?;
    match said.recv() {
        Ok(Ok(bound)) => Ok((watcher, bound)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(join_all(vec![watcher])
            .err()
            .unwrap_or(StartError("the name server did not start".to_owned()))),
    }
}

const NAMESRV_LIMITS: ConnectionLimits =
    ConnectionLimits { count_max: 16_384, unsent_bytes_max: 16 << 20, idle_seconds_max: 120 };

/// The cores that helper threads use: those without a shard, or all when every core has one.
fn helper_cores(facts: &Facts, placement: &Placement) -> Vec<usize> {
    let is_free = |core: &&usize| !placement.shards.iter().any(|shard| shard.core == **core);
    let free: Vec<usize> = facts.cores_allowed.iter().filter(is_free).copied().collect();
    if free.is_empty() {
        crate::log::info("every core is a shard's: helper threads share them");
        return facts.cores_allowed.clone();
    }
    free
}

/// Moves the calling thread, and those that it starts from now on, off the shards' cores.
fn move_to_cores(cores: &[usize]) -> Result<(), StartError> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| {
        StartError(format!("cannot run on cores {cores:?}: {error}; choose others with --cores"))
    })
}

/// Lets the process open as many files as the system permits it: the usual soft limit of 1024 is there for programs that
/// use select(). Where even that is too few for `maxConnections`, fewer are accepted, so that clients can't take the
/// descriptors that the stores need.
fn raise_open_files(settings: &mut config::Settings, shards: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let allowed = if is_raised { limit.maximum } else { limit.current };
    let shards = shards as u64;
    let asked = settings.max_connections;
    let wanted = (u64::from(asked) + FILES_PER_SHARD) * shards;
    let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) else { return };
    let each = allowed / shards;
    let used = each.saturating_sub(FILES_PER_SHARD).max(each / 2).max(1);
    settings.max_connections = u32::try_from(used).unwrap_or(asked).min(asked);
    crate::log::warn(&format!(
        "this process may open {allowed} files: maxConnections is {} instead of {asked}, the stores need the rest; raise \
         it with `ulimit -n {wanted}` or LimitNOFILE={wanted} in the unit file",
        settings.max_connections
    ));
}

/// Files of a store, rings and the process' own.
const FILES_PER_SHARD: u64 = 512;

fn write_layout(root: &Path, placement: &Placement) -> Result<(), StartError> {
    let explain = |error: io::Error| {
        StartError(format!(
            "cannot write to the data directory {}: {error}; make it writable for this user, or choose another with \
             --data",
            root.display()
        ))
    };
    create_durably(root).map_err(explain)?;
    if let Some(layout) = placement.layout_to_write {
        let temporary = root.join("ringmq.json.tmp");
        let mut file = fs::File::create(&temporary).map_err(explain)?;
        file.write_all(layout.to_json().as_bytes()).and_then(|()| file.sync_all()).map_err(explain)?;
        fs::rename(&temporary, root.join("ringmq.json")).map_err(explain)?;
        fs::File::open(root).and_then(|directory| directory.sync_all()).map_err(explain)?;
    }
    Ok(())
}

/// Creates a directory and those above it that are missing. Their names survive a power cut when this returns: what is
/// acknowledged lies below them.
fn create_durably(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(directory)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn watch_signals(stop: &StopSignal) -> Result<(), StartError> {
    let failed = |error: io::Error| StartError(format!("cannot watch for signals: {error}"));
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .map_err(failed)?;
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                stop.set();
            }
        })
        .map_err(failed)?;
    Ok(())
}

fn print_line(text: &str) -> Result<(), StartError> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", text.trim_end())
        .and_then(|()| stdout.flush())
        .map_err(|error| StartError(format!("cannot write to stdout: {error}")))
}
