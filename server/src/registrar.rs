//! The broker's side of the name servers: it tells each of them its topics, at start, on every change at once, every
//! `registerNameServerPeriod`, and says good-bye at a clean stop.
//!
//! One task per name server, so that one that is down or slow delays no other. Each task owns a connection and feeds a
//! [`Registration`], which decides what is said and when; here is only what awaits: names, sockets, time, the stop.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use engine::{
    io::{
        Runtime, Stream,
        event::{Broadcast, Event, first},
    },
    stages::wait_or_timeout,
    tasks::Tasks,
};
use protocol::{Session, body::topic::perm, frame::FRAME_BYTES_MAX};

use crate::{
    broker::Broker,
    connection::Shared,
    namesrv::registration::{Identity, Outcome, Registration, Schedule},
    shard_server::ShardStart,
};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long starting waits for the first registration with all name servers.
const FIRST: Duration = Duration::from_secs(3);
/// How long a stop waits for a name server to take the good-bye.
const GOOD_BYE: Duration = Duration::from_secs(1);
/// RocketMQ clamps its period to these.
const PERIOD_MIN: Duration = Duration::from_secs(10);
const PERIOD_MAX: Duration = Duration::from_secs(60);
/// Room for one receive; answers are short.
const ROOM_BYTES: usize = 4096;

/// Which topics changed, as far as name servers are concerned: one change is told alone, several with all topics.
#[derive(Debug, Default)]
pub struct TopicChanges {
    count: u64,
    last: String,
}

impl TopicChanges {
    /// `topic` was created or changed.
    pub fn add(&mut self, topic: &str) {
        self.count += 1;
        self.last.clear();
        self.last.push_str(topic);
    }
}

/// The tasks that keep name servers informed.
pub struct Registrar<R: Runtime> {
    tasks: Tasks<R>,
    common: Rc<Common>,
}

/// What the tasks and their owner tell each other.
struct Common {
    /// Tasks that haven't heard from their name server for the first time, nor failed to.
    waiting: Cell<usize>,
    /// Set when `waiting` went down.
    fewer: Event,
    is_stopping: Cell<bool>,
    /// Wakes the tasks when `is_stopping` becomes true.
    stop: Broadcast,
}

impl<R: Runtime> Registrar<R> {
    /// Says good-bye to every name server that listens.
    pub async fn stop(&self, runtime: &R) {
        self.common.is_stopping.set(true);
        self.common.stop.wake_all();
        let until = runtime.now() + 2 * GOOD_BYE;
        while self.tasks.running() > 0 && runtime.now() < until {
            self.tasks.one_ended_or(until.saturating_duration_since(runtime.now())).await;
        }
    }
}

/// Starts a task per name server, and waits (bounded) until each was told once.
pub async fn start<R: Runtime>(runtime: &R, broker: &Shared<Broker<R>>, start: &ShardStart) -> Registrar<R> {
    let mut names: Vec<String> = start.settings.namesrv_addr.clone();
    names.extend(start.embedded_namesrv.map(|address| address.to_string()));
    let tasks = Tasks::new(runtime.clone());
    let common = Rc::new(Common {
        waiting: Cell::new(names.len()),
        fewer: Event::new(),
        is_stopping: Cell::new(false),
        stop: Broadcast::new(),
    });
    for name in names {
        tasks.spawn(Task::new(runtime, broker, &common, name).run());
    }
    let until = runtime.now() + FIRST;
    while common.waiting.get() > 0 && runtime.now() < until {
        let wait = until.saturating_duration_since(runtime.now());
        wait_or_timeout(runtime, &common.fewer, Some(wait)).await;
    }
    Registrar { tasks, common }
}

/// One name server's.
struct Task<R: Runtime> {
    runtime: R,
    broker: Shared<Broker<R>>,
    common: Rc<Common>,
    name: String,
    registration: Registration,
    /// The registration counts time from here.
    started: Instant,
    /// How many of the broker's topic changes the registration knows.
    changes_seen: u64,
    permission: i32,
    is_waited_for: bool,
    is_warned: bool,
}

impl<R: Runtime> Task<R> {
    fn new(runtime: &R, broker: &Shared<Broker<R>>, common: &Rc<Common>, name: String) -> Task<R> {
        let now = broker.borrow();
        let identity = Identity {
            cluster_name: now.identity.cluster.clone(),
            broker_name: now.identity.name.clone(),
            broker_addr: now.identity.address.to_string(),
            ha_server_addr: now.identity.ha_address.to_string(),
            broker_id: 0,
        };
        let schedule = Schedule {
            period: now.settings.register_name_server_period.clamp(PERIOD_MIN, PERIOD_MAX),
            timeout: now.settings.register_broker_timeout,
        };
        Task {
            runtime: runtime.clone(),
            broker: Rc::clone(broker),
            common: Rc::clone(common),
            name,
            registration: Registration::new(identity, schedule),
            started: runtime.now(),
            changes_seen: now.topic_changes.count,
            permission: permission(&now),
            is_waited_for: true,
            is_warned: false,
        }
    }

    /// One connection after the other until the broker stops.
    async fn run(mut self) {
        while let Some(at) = self.registration.connect_at() {
            let pause = self.runtime.sleep(at.saturating_sub(self.now()));
            if self.unless_stopped(pause).await.is_none() {
                return;
            }
            match self.serve().await {
                Ok(()) => return,
                Err(problem) => self.on_problem(&problem),
            }
            self.registration.on_disconnected(self.now());
        }
    }

    /// One connection's life; ends well when the broker stops.
    async fn serve(&mut self) -> Result<(), String> {
        let Some(connected) = self.unless_stopped(self.connect()).await else { return Ok(()) };
        let mut link =
            Link { stream: connected?, session: Session::new(FRAME_BYTES_MAX), unsent: Vec::new() };
        self.registration.on_connected(self.now());
        let mut good_bye_until = None;
        loop {
            let is_unregistered = self.hear(&mut link)?;
            let now = self.now();
            if is_unregistered || good_bye_until.is_some_and(|until| now >= until) {
                return Ok(());
            }
            if self.registration.is_overdue(now) {
                return Err("it did not answer in time".to_owned());
            }
            if good_bye_until.is_none() {
                if self.common.is_stopping.get() {
                    self.registration.unregister_request(now, &mut link.unsent);
                    good_bye_until = Some(now + GOOD_BYE);
                } else {
                    self.tell(now, &mut link.unsent);
                }
            }
            link.send().map_err(|error| error.to_string())?;
            let deadline = good_bye_until.or_else(|| self.registration.poll_deadline());
            let pause = deadline.map_or(PERIOD_MAX, |until| until.saturating_sub(now));
            self.wait(&link, pause).await.map_err(|error| error.to_string())?;
        }
    }

    async fn connect(&self) -> Result<R::Stream, String> {
        let address: SocketAddr = self
            .runtime
            .resolve(&self.name)
            .await
            .map_err(|error| format!("its address can't be found: {error}"))?;
        self.runtime.connect(address, CONNECT).await.map_err(|error| error.to_string())
    }

    /// Takes what the name server said; whether it has forgotten the broker, as asked.
    fn hear(&mut self, link: &mut Link<R::Stream>) -> Result<bool, String> {
        let now = self.now();
        let mut is_unregistered = false;
        while link.receive().map_err(|error| error.to_string())? {
            while let Some(command) = link.session.poll_command().map_err(|error| error.to_string())? {
                match self.registration.on_command(&command, now) {
                    Outcome::Registered { .. } => self.on_registered(),
                    Outcome::Refused { code, remark } => {
                        self.on_problem(&format!("it refused the registration with code {code}: {remark}"));
                    }
                    Outcome::Unregistered => is_unregistered = true,
                    Outcome::NotOurs => {}
                }
            }
        }
        Ok(is_unregistered)
    }

    /// Writes the request that is due, if one is.
    fn tell(&mut self, now: Duration, out: &mut Vec<u8>) {
        let broker = self.broker.borrow();
        match broker.topic_changes.count - self.changes_seen {
            0 => {}
            1 => self.registration.on_topic_changed(&broker.topic_changes.last),
            _ => self.registration.on_all_changed(now),
        }
        self.changes_seen = broker.topic_changes.count;
        let permission = permission(&broker);
        if permission != self.permission {
            self.permission = permission;
            self.registration.on_all_changed(now);
        }
        self.registration.poll_request(now, &broker.topics, permission, out);
    }

    /// Waits until there may be something to do: a stop, a change, something to receive, room to send, or `pause` is
    /// over.
    async fn wait(&self, link: &Link<R::Stream>, pause: Duration) -> io::Result<()> {
        let changed = self.broker.borrow().topics_changed.clone();
        let failure = Cell::new(None);
        let note = |waited: io::Result<()>| failure.set(waited.err());
        let socket = first(async { note(link.stream.readable().await) }, async {
            if link.unsent.is_empty() {
                std::future::pending::<()>().await;
            }
            note(link.stream.writable().await);
        });
        let told = first(self.common.stop.wait(), changed.wait());
        first(told, first(socket, self.runtime.sleep(pause))).await;
        failure.into_inner().map_or(Ok(()), Err)
    }

    /// The outcome of `work`, or `None` when the broker stops before.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        if self.common.is_stopping.get() {
            return None;
        }
        let mut outcome = None;
        first(async { outcome = Some(work.await) }, self.common.stop.wait()).await;
        outcome
    }

    fn on_registered(&mut self) {
        if self.is_warned {
            self.is_warned = false;
            crate::log::info(&format!("name server {}: registered", self.name));
        }
        self.end_waiting();
    }

    /// Warned about once. The start doesn't wait for a name server that is down.
    fn on_problem(&mut self, problem: &str) {
        if !self.is_warned {
            self.is_warned = true;
            crate::log::warn(&format!("name server {}: {problem}; it is tried again", self.name));
        }
        self.end_waiting();
    }

    fn end_waiting(&mut self) {
        if self.is_waited_for {
            self.is_waited_for = false;
            self.common.waiting.set(self.common.waiting.get() - 1);
            self.common.fewer.set();
        }
    }

    fn now(&self) -> Duration {
        self.runtime.now().saturating_duration_since(self.started)
    }
}

/// What every topic's permission is restricted to: a fenced broker takes no messages.
fn permission<R: Runtime>(broker: &Broker<R>) -> i32 {
    let permission = i32::try_from(broker.settings.broker_permission).expect("bounded by its setting");
    if broker.is_writable() { permission } else { permission & perm::READ }
}

/// A connection to a name server.
struct Link<S> {
    stream: S,
    session: Session,
    unsent: Vec<u8>,
}

impl<S: Stream> Link<S> {
    /// Sends what the socket takes.
    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let outcome = loop {
            if sent == self.unsent.len() {
                break Ok(());
            }
            match self.stream.try_send(&self.unsent[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..sent);
        outcome
    }

    /// Receives what is there; `false` when nothing is.
    fn receive(&mut self) -> io::Result<bool> {
        match self.stream.try_receive(self.session.receive_room(ROOM_BYTES)) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(received) => {
                self.session.on_received(received);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
