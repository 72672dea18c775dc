//! The network's floor: a server on the broker's own connection code that stores nothing.
//!
//! Sockets, executor, framing, header decoding, batching of answers and writer tasks are the server's, so the difference
//! between its figures and the broker's is what the broker does with a message. A send is answered as soon as its header
//! is decoded, with an answer of the broker's size whose offsets never change; its body is dropped. Requests that a load
//! generator needs before it sends (topics, routes, heartbeats, counters) are answered truly, on both ports alike.
//! Everything else gets RocketMQ's "not supported". Not a broker: nothing can be read back.
#![forbid(unsafe_code)]

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, Write},
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    rc::Rc,
    time::Duration,
};

use clap::Parser;
use engine::io::{
    Listener, Runtime,
    event::{Event, first},
    ring::{self, RingOptions, RingRuntime},
};
use protocol::{
    Command, Serialization, Session,
    body::KvTable,
    code::{request, response},
    frame::FRAME_BYTES_MAX,
    header::{admin::CreateTopicRequest, register::RegisterBrokerRequest},
    message::{body_crc, offset_message_id},
    write_request, write_response,
};
use server::{
    connection::{
        Service, Shared, Step, accept_loop, send_dirty,
        table::{ConnectionKey, ConnectionLimits, Connections},
    },
    namesrv::{ConnectionId, NameServer, NamesrvOptions},
    shard_server::explain_bind,
    stop_signal::StopSignal,
    topic::TopicTable,
};

/// A server that stores nothing: what the sockets alone allow.
#[derive(Parser)]
#[command(name = "null_server", max_term_width = 100)]
struct Args {
    /// Core that it is pinned to
    #[arg(long, value_name = "CORE")]
    cores: Option<usize>,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    ip: IpAddr,
    /// Port to listen on; 0: one that the kernel gives, told in the `ready` line
    #[arg(long, value_name = "PORT", default_value_t = 10_911)]
    port: u16,
    /// Port of the name server inside it; 0: one that the kernel gives, told in the `ready` line
    #[arg(long, value_name = "PORT", default_value_t = 9_876)]
    embedded_namesrv: u16,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _unsaid = writeln!(io::stderr(), "null_server: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let stop = StopSignal::new();
    stop_on_signals(&stop)?;
    let options = RingOptions {
        name: NAME.to_owned(),
        core: args.cores,
        helper_cores: Vec::new(),
        buffer_bytes: BUFFER_BYTES,
        spin_before_park: Duration::ZERO,
    };
    let addresses = (SocketAddr::new(args.ip, args.port), SocketAddr::new(args.ip, args.embedded_namesrv));
    let thread = ring::start(options, move |runtime| serve(runtime, addresses, stop))
        .map_err(|error| format!("cannot start its thread: {error}"))?;
    match thread.join() {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => Err(format!("io_uring cannot be used here: {error}; `ringmq doctor` tells why")),
        Err(_) => Err("its thread ended by a panic".to_owned()),
    }
}

fn stop_on_signals(stop: &StopSignal) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot watch for signals: {error}");
    let wanted = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];
    let mut signals = signal_hook::iterator::Signals::new(wanted).map_err(failed)?;
    let stop = stop.clone();
    let watch = move || {
        if signals.forever().next().is_some() {
            stop.set();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop).map_err(failed)
}

/// Serves both ports on this thread until told to stop.
async fn serve(
    runtime: RingRuntime,
    (address, namesrv_address): (SocketAddr, SocketAddr),
    stop: StopSignal,
) -> Result<(), String> {
    let listen = |address| runtime.listen(address).map_err(|error| explain_bind(address, &error));
    let (main, namesrv) = (listen(address)?, listen(namesrv_address)?);
    let (address, namesrv_address) = (main.local_address(), namesrv.local_address());
    let service: Shared<NullService> = Rc::new(RefCell::new(NullService::new(address)));
    service.borrow_mut().register();
    for listener in [main, namesrv] {
        runtime.spawn(accept_loop(runtime.clone(), listener, Rc::clone(&service), Event::new()));
    }
    print_ready(address, namesrv_address)?;
    first(stop.wait(), count_seconds(&runtime, &service)).await;
    let mut service = service.borrow_mut();
    send_dirty(&runtime, service.connections());
    service.connections().shut_down_all();
    Ok(())
}

async fn count_seconds(runtime: &RingRuntime, service: &Shared<NullService>) {
    loop {
        runtime.sleep(Duration::from_secs(1)).await;
        service.borrow_mut().connections.on_second();
    }
}

fn print_ready(address: SocketAddr, namesrv: SocketAddr) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "ready {NAME}={address} namesrv={namesrv}")
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot write to stdout: {error}"))
}

/// Answers commands; see the module.
struct NullService {
    address: SocketAddr,
    connections: Connections<RingRuntime>,
    topics: TopicTable,
    namesrv: NameServer,
    sends: u64,
    answer: Vec<u8>,
}

impl NullService {
    fn new(address: SocketAddr) -> NullService {
        NullService {
            address,
            connections: Connections::new(LIMITS),
            topics: TopicTable::default(),
            namesrv: NameServer::new(NamesrvOptions::default()),
            sends: 0,
            answer: Vec::new(),
        }
    }

    /// What the broker's answer says, in the same order and lengths.
    fn answer_send(&mut self, connection: ConnectionKey, command: &Command<'_>) {
        self.sends += 1;
        if command.is_oneway() {
            return;
        }
        let id = offset_message_id(self.address.ip(), self.address.port(), LOG_OFFSET);
        self.connections.answer(connection, |out| {
            write_response(out, command.serialization, response::SUCCESS, command.opaque)
                .field_int("queueId", QUEUE_ID)
                .field_int("queueOffset", QUEUE_OFFSET)
                .field("MSG_REGION", "DefaultRegion")
                .field("TRACE_ON", "true")
                .field("msgId", id.as_str())
                .finish();
        });
    }

    fn create_topic(&mut self, connection: ConnectionKey, command: &Command<'_>) {
        let created = CreateTopicRequest::decode(command.fields)
            .map_err(|error| error.to_string())
            .and_then(|create| self.topics.update(&create, 0).map_err(|error| error.to_string()));
        if created.is_ok() {
            self.register();
        }
        self.connections.answer(connection, |out| {
            let code = if created.is_ok() { response::SUCCESS } else { response::SYSTEM_ERROR };
            let writer = write_response(out, command.serialization, code, command.opaque);
            match &created {
                Ok(_) => writer.finish(),
                Err(problem) => writer.remark(problem).finish(),
            }
        });
    }

    /// Tells the name server inside which topics there are, as a broker does.
    fn register(&mut self) {
        let body =
            self.topics.registration(protocol::body::topic::perm::READ | protocol::body::topic::perm::WRITE);
        let body = body.encode_plain();
        let address = self.address.to_string();
        let header = RegisterBrokerRequest {
            broker_name: NAME,
            broker_addr: &address,
            cluster_name: NAME,
            ha_server_addr: &address,
            broker_id: 0,
            heartbeat_timeout_ms: None,
            enable_acting_master: None,
            compressed: false,
            body_crc32: body_crc(&body),
        };
        let mut frame = Vec::new();
        let writer = write_request(&mut frame, Serialization::Json, request::REGISTER_BROKER, 0, 0);
        header.encode(writer).finish_with_body(&body);
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(&frame);
        let command = session.poll_command().expect("a frame of ours is well-formed").expect("it is whole");
        self.namesrv.on_command(ITSELF, &command, Duration::ZERO, &mut Vec::new());
    }

    fn counters(&self) -> KvTable {
        let mut table = BTreeMap::new();
        table.insert("putMessageTimesTotal".to_owned(), self.sends.to_string());
        table.insert("brokerVersion".to_owned(), protocol::VERSION.to_string());
        KvTable { table }
    }

    /// Success, with a body perhaps.
    fn succeed(&mut self, connection: ConnectionKey, command: &Command<'_>, body: &[u8]) {
        if !command.is_oneway() {
            self.connections.answer(connection, |out| {
                write_response(out, command.serialization, response::SUCCESS, command.opaque)
                    .finish_with_body(body);
            });
        }
    }

    /// What the name server inside says: routes, clusters, or that the request isn't supported.
    fn ask_namesrv(&mut self, connection: ConnectionKey, command: &Command<'_>) {
        self.answer.clear();
        self.namesrv.on_command(ConnectionId(connection.0), command, Duration::ZERO, &mut self.answer);
        let answer = &self.answer;
        if !answer.is_empty() {
            self.connections.answer(connection, |out| out.extend_from_slice(answer));
        }
    }
}

impl Service<RingRuntime> for NullService {
    fn connections(&mut self) -> &mut Connections<RingRuntime> {
        &mut self.connections
    }

    fn on_command(&mut self, connection: ConnectionKey, command: &Command<'_>) -> Step {
        self.connections.assert_owned_here();
        self.connections.on_activity(connection);
        if command.is_response() {
            return Step::Done;
        }
        match command.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                self.answer_send(connection, command);
            }
            request::UPDATE_AND_CREATE_TOPIC => self.create_topic(connection, command),
            request::HEART_BEAT | request::UNREGISTER_CLIENT => self.succeed(connection, command, &[]),
            request::GET_BROKER_RUNTIME_INFO => {
                let body = self.counters().to_json();
                self.succeed(connection, command, &body);
            }
            _ => self.ask_namesrv(connection, command),
        }
        Step::Done
    }

    fn after_commands(&mut self) {}

    fn on_disconnected(&mut self, _connection: ConnectionKey) {}
}

/// Its name, and that of its cluster.
const NAME: &str = "null";
/// The connection that registers: its own, which no socket has.
const ITSELF: ConnectionId = ConnectionId(u64::MAX);
/// What every answer says. As long as a broker's that has stored some millions of messages.
const QUEUE_ID: i64 = 0;
const QUEUE_OFFSET: i64 = 1_000_000;
const LOG_OFFSET: i64 = 1_200_000_000;
/// Ring memory; it writes no files.
const BUFFER_BYTES: usize = 1 << 20;
/// The server's defaults.
const LIMITS: ConnectionLimits =
    ConnectionLimits { count_max: 16_384, unsent_bytes_max: 20 << 20, idle_seconds_max: 120 };
