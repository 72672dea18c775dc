//! The name server behind sockets: connections, and the passing of time, around the state machine.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use engine::io::{Listener, Runtime, event::Event};
use protocol::Command;

use crate::{
    connection::{
        Service, Shared, Step, accept_loop, send_dirty,
        table::{ConnectionKey, ConnectionLimits, Connections},
    },
    namesrv::{ConnectionId, NameServer, NamesrvOptions, SCAN_INTERVAL},
};

/// See the module.
pub struct NamesrvService<R: Runtime> {
    runtime: R,
    started: Instant,
    registry: NameServer,
    connections: Connections<R>,
    answer: Vec<u8>,
}

impl<R: Runtime> NamesrvService<R> {
    /// A name server that knows nobody.
    pub fn new(runtime: R, limits: ConnectionLimits) -> NamesrvService<R> {
        NamesrvService {
            started: runtime.now(),
            runtime,
            registry: NameServer::new(NamesrvOptions::default()),
            connections: Connections::new(limits),
            answer: Vec::new(),
        }
    }

    fn since_start(&self) -> Duration {
        self.runtime.now().saturating_duration_since(self.started)
    }
}

impl<R: Runtime> Service<R> for NamesrvService<R> {
    fn connections(&mut self) -> &mut Connections<R> {
        &mut self.connections
    }

    fn on_command(&mut self, connection: ConnectionKey, command: &Command<'_>) -> Step {
        self.connections.assert_owned_here();
        self.connections.on_activity(connection);
        if !command.is_response() {
            let now = self.since_start();
            self.answer.clear();
            self.registry.on_command(ConnectionId(connection.0), command, now, &mut self.answer);
            let answer = &self.answer;
            if !answer.is_empty() {
                self.connections.answer(connection, |out| out.extend_from_slice(answer));
            }
        }
        Step::Done
    }

    fn after_commands(&mut self) {}

    fn on_disconnected(&mut self, connection: ConnectionKey) {
        for departed in self.registry.on_disconnect(ConnectionId(connection.0)) {
            crate::log::info(&format!(
                "name server: {} ({}) is gone: its connection ended",
                departed.broker_name, departed.address
            ));
        }
    }
}

/// Serves on `listener` until `stop` is set.
pub async fn serve<R: Runtime>(runtime: R, listener: R::Listener, limits: ConnectionLimits, stop: Event) {
    let service: Shared<NamesrvService<R>> =
        Rc::new(std::cell::RefCell::new(NamesrvService::new(runtime.clone(), limits)));
    crate::log::info(&format!("name server listens on {}", listener.local_address()));
    let ticking = tick_loop(runtime.clone(), Rc::clone(&service));
    let accepting = accept_loop(runtime.clone(), listener, Rc::clone(&service), stop);
    engine::io::event::first(accepting, ticking).await;
    let mut service = service.borrow_mut();
    send_dirty(&runtime, service.connections());
    service.connections().shut_down_all();
}

async fn tick_loop<R: Runtime>(runtime: R, service: Shared<NamesrvService<R>>) {
    let mut since_scan = Duration::ZERO;
    loop {
        runtime.sleep(Duration::from_secs(1)).await;
        let mut service = service.borrow_mut();
        service.connections.on_second();
        since_scan += Duration::from_secs(1);
        if since_scan >= SCAN_INTERVAL {
            since_scan = Duration::ZERO;
            let now = service.since_start();
            for (connection, departed) in service.registry.on_tick(now) {
                crate::log::info(&format!(
                    "name server: {} ({}) is gone: it said nothing for too long",
                    departed.broker_name, departed.address
                ));
                service.connections.close(ConnectionKey(connection.0));
            }
        }
    }
}
