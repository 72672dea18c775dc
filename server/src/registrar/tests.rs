//! A whole shard on the scripted runtime, and a name server there that notes what it is told.

use std::{cell::RefCell, path::PathBuf};

use engine::io::{
    Listener,
    script::{Client, ScriptRuntime},
};
use protocol::{
    Serialization,
    body::RegisterBrokerBody,
    code::{request, response},
    header::admin::CreateTopicRequest,
    write_request,
};

use super::*;
use crate::{
    config::{ByteSize, PrepareMode, Settings},
    namesrv::{ConnectionId, NameServer, NamesrvOptions},
    placement::ShardPlace,
    shard_server::{self, ShardError, ShardReady},
    stop_signal::StopSignal,
};

const NAMESRV: &str = "127.0.0.1:9876";

/// What a name server heard: the code, and the topics of a registration.
type Heard = Rc<RefCell<Vec<(i32, Vec<String>)>>>;

async fn namesrv(runtime: ScriptRuntime, heard: Heard) {
    let listener = runtime.listen(NAMESRV.parse().unwrap()).unwrap();
    let mut server = NameServer::new(NamesrvOptions::default());
    loop {
        let stream = listener.accept().await.unwrap();
        let mut link = Link { stream, session: Session::new(FRAME_BYTES_MAX), unsent: Vec::new() };
        while link.stream.readable().await.is_ok() {
            let Ok(true) = link.receive() else { break };
            while let Some(command) = link.session.poll_command().unwrap() {
                let topics = match command.code {
                    request::REGISTER_BROKER => {
                        let body = RegisterBrokerBody::decode(command.body, false, command.version).unwrap();
                        body.topic_config_table.into_keys().collect()
                    }
                    _ => Vec::new(),
                };
                heard.borrow_mut().push((command.code, topics));
                server.on_command(ConnectionId(1), &command, Duration::ZERO, &mut link.unsent);
            }
            link.send().unwrap();
        }
    }
}

struct Rig {
    runtime: ScriptRuntime,
    stop: StopSignal,
    ready: Rc<RefCell<Option<ShardReady>>>,
    ended: Rc<RefCell<Option<Result<(), ShardError>>>>,
}

/// A shard that registers at [`NAMESRV`].
fn start(runtime: &ScriptRuntime) -> Rig {
    let stop = StopSignal::new();
    let settings = Settings {
        namesrv_addr: vec![NAMESRV.to_owned()],
        mapped_file_size_commit_log: ByteSize(8 << 20),
        prepare_mode: PrepareMode::Allocate,
        ..Settings::default()
    };
    let place = ShardPlace {
        index: 0,
        core: 0,
        broker_name: "b".to_owned(),
        listen_port: 10_911,
        ha_port: 10_912,
        fast_port: 0,
        directory: PathBuf::from("/store"),
    };
    let start = ShardStart { place, settings, shard_count: 1, embedded_namesrv: None, stop: stop.clone() };
    let rig = Rig { runtime: runtime.clone(), stop, ready: Rc::default(), ended: Rc::default() };
    let (world, ready, ended) = (runtime.clone(), Rc::clone(&rig.ready), Rc::clone(&rig.ended));
    runtime.spawn(async move {
        let outcome = shard_server::run(world, start, |now| *ready.borrow_mut() = Some(now)).await;
        *ended.borrow_mut() = Some(outcome);
    });
    rig
}

impl Rig {
    fn create(&self, client: &Client, topic: &str) {
        let mut frame = Vec::new();
        let header = CreateTopicRequest {
            topic,
            default_topic: "TBW102",
            read_queue_nums: 4,
            write_queue_nums: 4,
            perm: 6,
            topic_filter_type: None,
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        };
        let writer = write_request(&mut frame, Serialization::Json, request::UPDATE_AND_CREATE_TOPIC, 1, 0);
        header.encode(writer).finish();
        client.send(&frame).unwrap();
        self.runtime.advance(Duration::from_millis(200));
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(&client.receive_some().unwrap());
        assert_eq!(session.poll_command().unwrap().unwrap().code, response::SUCCESS);
    }

    fn stop(self) {
        self.stop.set();
        self.runtime.advance(Duration::from_secs(5));
        assert!(matches!(*self.ended.borrow(), Some(Ok(()))), "{:?}", self.ended.borrow());
    }
}

#[test]
fn all_topics_are_told_before_ready_then_each_change_alone_and_a_good_bye_at_the_stop() {
    let (runtime, heard) = (ScriptRuntime::new(1), Heard::default());
    runtime.spawn(namesrv(runtime.clone(), Rc::clone(&heard)));
    let rig = start(&runtime);
    runtime.advance(Duration::from_secs(1));
    let ready = rig.ready.borrow().clone().unwrap();
    {
        let heard = heard.borrow();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].1.len() > 1 && heard[0].1.contains(&"TBW102".to_owned()), "{heard:?}");
    }
    let client = runtime.net().connect(ready.address).unwrap();
    for topic in ["one", "two"] {
        rig.create(&client, topic);
        let last = heard.borrow().last().cloned();
        assert_eq!(last, Some((request::REGISTER_BROKER, vec![topic.to_owned()])));
    }
    assert_eq!(heard.borrow().len(), 3);
    rig.stop();
    assert_eq!(heard.borrow()[3..], [(request::UNREGISTER_BROKER, Vec::new())]);
}

#[test]
fn a_shard_starts_and_stops_without_its_name_server_and_registers_when_it_comes() {
    let (runtime, heard) = (ScriptRuntime::new(1), Heard::default());
    let rig = start(&runtime);
    runtime.advance(Duration::from_secs(2));
    assert!(rig.ready.borrow().is_some(), "nobody listens: there is nothing to wait for");
    runtime.spawn(namesrv(runtime.clone(), Rc::clone(&heard)));
    // Pauses double: it was tried at once and after 1 s, and is tried again after 3 s.
    runtime.advance(Duration::from_secs(8));
    assert_eq!(heard.borrow().iter().map(|heard| heard.0).collect::<Vec<_>>(), [request::REGISTER_BROKER]);
    rig.stop();
}
