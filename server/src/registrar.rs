//! The broker's side of the name servers: it tells each of them all its topics, at start, on every change at once, every
//! `registerNameServerPeriod`, and says good-bye at a clean stop.
//!
//! One task per name server, so that one that is down or slow delays no other. The whole topic table is sent each time:
//! a name server that lost its memory is complete again after one period, and there is no order of increments to get
//! wrong. An unreachable one is warned about once and tried again every second.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};

use engine::io::{
    Runtime, Stream,
    event::{Event, first},
};
use protocol::{
    Serialization, Session,
    code::{request, response},
    header::register::{BrokerIdentityRequest, RegisterBrokerRequest},
    message::body_crc,
    write_request,
};

use crate::{
    broker::{Broker, Identity},
    connection::Shared,
    shard_server::ShardStart,
};

/// How long after a failure the next attempt follows.
const RETRY: Duration = Duration::from_secs(1);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long starting waits for the first registration with all name servers.
const FIRST: Duration = Duration::from_secs(3);
/// How long a stop waits for a name server to take the good-bye.
const GOOD_BYE: Duration = Duration::from_secs(1);
/// RocketMQ clamps its period to these.
const PERIOD_MIN: Duration = Duration::from_secs(10);
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// The tasks that keep name servers informed.
pub struct Registration {
    stop: Event,
    running: Rc<RefCell<usize>>,
    ended: Event,
    stops: Vec<Event>,
}

impl Registration {
    /// Says good-bye to every name server that listens.
    pub async fn stop<R: Runtime>(&self, runtime: &R) {
        self.stop.set();
        for stop in &self.stops {
            stop.set();
        }
        let until = runtime.now() + GOOD_BYE + CONNECT;
        while *self.running.borrow() > 0 && runtime.now() < until {
            engine::stages::wait_or_timeout(runtime, &self.ended, Some(Duration::from_millis(50))).await;
        }
    }
}

/// Starts a task per name server, and waits (bounded) until each was told once.
pub async fn start<R: Runtime>(runtime: &R, broker: &Shared<Broker<R>>, start: &ShardStart) -> Registration {
    let mut names: Vec<String> = start.settings.namesrv_addr.clone();
    names.extend(start.embedded_namesrv.map(|address| address.to_string()));
    let told = Event::new();
    let waiting = Rc::new(RefCell::new(names.len()));
    let mut registration = Registration {
        stop: Event::new(),
        running: Rc::new(RefCell::new(names.len())),
        ended: Event::new(),
        stops: Vec::new(),
    };
    for name in names {
        let stop = Event::new();
        registration.stops.push(stop.clone());
        let task = Task {
            runtime: runtime.clone(),
            broker: Rc::clone(broker),
            name,
            stop,
            waiting: Rc::clone(&waiting),
            told: told.clone(),
            opaque: 0,
            is_told: false,
            is_warned: false,
        };
        let (running, ended) = (Rc::clone(&registration.running), registration.ended.clone());
        runtime.spawn(async move {
            task.run().await;
            *running.borrow_mut() -= 1;
            ended.set();
        });
    }
    let until = runtime.now() + FIRST;
    while *waiting.borrow() > 0 && runtime.now() < until {
        engine::stages::wait_or_timeout(runtime, &told, Some(Duration::from_millis(100))).await;
    }
    registration
}

struct Task<R: Runtime> {
    runtime: R,
    broker: Shared<Broker<R>>,
    name: String,
    stop: Event,
    waiting: Rc<RefCell<usize>>,
    told: Event,
    opaque: i32,
    is_told: bool,
    is_warned: bool,
}

/// What was told last: the topics' version and whether they are writable.
type Told = (i64, bool);

impl<R: Runtime> Task<R> {
    async fn run(mut self) {
        loop {
            match self.serve().await {
                Ok(()) => return,
                Err(problem) => {
                    if !self.is_warned {
                        self.is_warned = true;
                        crate::log::warn(&format!(
                            "name server {}: {problem}; tried again every second",
                            self.name
                        ));
                    }
                    // The start doesn't wait for one that is down.
                    self.count_told();
                }
            }
            let stopped = Rc::new(RefCell::new(false));
            let stop = self.stop.clone();
            let flag = Rc::clone(&stopped);
            first(
                async move {
                    stop.wait().await;
                    *flag.borrow_mut() = true;
                },
                self.runtime.sleep(RETRY),
            )
            .await;
            if *stopped.borrow() {
                return;
            }
        }
    }

    /// One connection's life; ends well when the broker stops.
    async fn serve(&mut self) -> Result<(), String> {
        let address = self.resolve().await?;
        let stream = self.runtime.connect(address, CONNECT).await.map_err(|error| error.to_string())?;
        let period = self.broker.borrow().settings.register_name_server_period.clamp(PERIOD_MIN, PERIOD_MAX);
        let timeout = self.broker.borrow().settings.register_broker_timeout;
        let changed = self.broker.borrow().topics_changed.clone();
        let mut link = Link { session: Session::new(protocol::frame::FRAME_BYTES_MAX), stream };
        let mut told: Option<Told> = None;
        let mut due = self.runtime.now();
        loop {
            let current = self.current();
            if told != Some(current) || self.runtime.now() >= due {
                let frame = self.registration_frame();
                let code = link.call(&self.runtime, &frame, self.opaque, timeout).await?;
                if code != response::SUCCESS {
                    return Err(format!("it refused the registration with code {code}"));
                }
                told = Some(current);
                due = self.runtime.now() + period;
                if self.is_warned {
                    self.is_warned = false;
                    crate::log::info(&format!("name server {}: registered", self.name));
                }
                self.count_told();
                continue;
            }
            let stopped = Rc::new(RefCell::new(false));
            let (stop, flag) = (self.stop.clone(), Rc::clone(&stopped));
            let stopping = async move {
                stop.wait().await;
                *flag.borrow_mut() = true;
            };
            let wait = due.saturating_duration_since(self.runtime.now());
            // The peer says nothing unasked: readable means that it is gone.
            let gone = async {
                let _gone = link.stream.readable().await;
            };
            first(stopping, first(changed.wait(), first(gone, self.runtime.sleep(wait)))).await;
            if *stopped.borrow() {
                let frame = self.good_bye_frame();
                // Best effort: a name server that is gone forgets the broker by itself.
                let _best_effort = link.call(&self.runtime, &frame, self.opaque, GOOD_BYE).await;
                return Ok(());
            }
            if link.is_ended() {
                return Err("it closed the connection".to_owned());
            }
        }
    }

    /// The address of the name, looked up where it may block.
    async fn resolve(&self) -> Result<SocketAddr, String> {
        self.runtime.resolve(&self.name).await.map_err(|error| format!("its address can't be found: {error}"))
    }

    fn current(&self) -> Told {
        let broker = self.broker.borrow();
        (broker.topics.data_version().counter, broker.is_writable())
    }

    fn registration_frame(&mut self) -> Vec<u8> {
        self.opaque += 1;
        let broker = self.broker.borrow();
        let identity: Rc<Identity> = Rc::clone(&broker.identity);
        let mut permission = i32::try_from(broker.settings.broker_permission).unwrap_or(6);
        if !broker.is_writable() {
            permission &= protocol::body::topic::perm::READ;
        }
        let body = broker.topics.registration(permission).encode_plain();
        let header = RegisterBrokerRequest {
            broker_name: &identity.name,
            broker_addr: &identity.address.to_string(),
            cluster_name: &identity.cluster,
            ha_server_addr: &identity.ha_address.to_string(),
            broker_id: 0,
            heartbeat_timeout_ms: None,
            enable_acting_master: Some(false),
            compressed: false,
            body_crc32: body_crc(&body),
        };
        let mut frame = Vec::new();
        let writer = write_request(&mut frame, Serialization::Json, request::REGISTER_BROKER, self.opaque, 0);
        header.encode(writer).finish_with_body(&body);
        frame
    }

    fn good_bye_frame(&mut self) -> Vec<u8> {
        self.opaque += 1;
        let identity = Rc::clone(&self.broker.borrow().identity);
        let header = BrokerIdentityRequest {
            broker_name: &identity.name,
            broker_addr: &identity.address.to_string(),
            cluster_name: &identity.cluster,
            broker_id: 0,
        };
        let mut frame = Vec::new();
        let writer =
            write_request(&mut frame, Serialization::Json, request::UNREGISTER_BROKER, self.opaque, 0);
        header.encode(writer).finish();
        frame
    }

    fn count_told(&mut self) {
        if !self.is_told {
            self.is_told = true;
            *self.waiting.borrow_mut() -= 1;
            self.told.set();
        }
    }
}

/// A connection to a name server.
struct Link<S> {
    stream: S,
    session: Session,
}

impl<S: Stream> Link<S> {
    /// Sends a request and waits for its answer's code.
    async fn call<R: Runtime>(
        &mut self,
        runtime: &R,
        frame: &[u8],
        opaque: i32,
        timeout: Duration,
    ) -> Result<i32, String> {
        let outcome = RefCell::new(Err("it did not answer in time".to_owned()));
        first(
            async {
                let answered = self.send_and_receive(frame, opaque).await;
                *outcome.borrow_mut() = answered;
            },
            runtime.sleep(timeout),
        )
        .await;
        outcome.into_inner()
    }

    async fn send_and_receive(&mut self, frame: &[u8], opaque: i32) -> Result<i32, String> {
        let mut sent = 0;
        while sent < frame.len() {
            match self.stream.try_send(&frame[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.stream.writable().await.map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        loop {
            while let Some(command) = self.session.poll_command().map_err(|error| error.to_string())? {
                if command.is_response() && command.opaque == opaque {
                    return Ok(command.code);
                }
            }
            match self.stream.try_receive(self.session.receive_room(ROOM_BYTES)) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(received) => self.session.on_received(received),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.stream.readable().await.map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Whether the peer has closed its end. What it says unasked is dropped.
    fn is_ended(&mut self) -> bool {
        let mut room = [0; 64];
        loop {
            match self.stream.try_receive(&mut room) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    }
}

/// Room for one receive; answers are short.
const ROOM_BYTES: usize = 4096;
