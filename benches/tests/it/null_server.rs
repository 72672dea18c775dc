//! The null server, through a socket, as a load generator uses it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use benches::requests::{Requests, SERIALIZATIONS};
use protocol::{
    Serialization, Session,
    body::{ClusterInfo, TopicRouteData},
    code::{request, response},
    frame::FRAME_BYTES_MAX,
    header::{admin::CreateTopicRequest, send::SendResponse},
    write_request,
};

/// A running null server, killed when dropped.
struct NullServer {
    child: Child,
    broker: SocketAddr,
    namesrv: SocketAddr,
}

impl NullServer {
    fn start() -> NullServer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_null_server"))
            .args(["--port", "0", "--embedded-namesrv", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [ready, broker, namesrv] = words[..] else { panic!("{line:?}") };
        assert_eq!(ready, "ready");
        NullServer {
            child,
            broker: broker.strip_prefix("null=").unwrap().parse().unwrap(),
            namesrv: namesrv.strip_prefix("namesrv=").unwrap().parse().unwrap(),
        }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // It may have ended already, as the tests ask of it.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// One connection; answers are taken in the order in which they come.
struct Client {
    stream: TcpStream,
    session: Session,
}

/// What is looked at of an answer.
#[derive(Debug)]
struct Answer {
    code: i32,
    opaque: i32,
    sent: Option<(i32, String)>,
    body: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        Client { stream: TcpStream::connect(address).unwrap(), session: Session::new(FRAME_BYTES_MAX) }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn answer(&mut self) -> Answer {
        loop {
            if let Some(command) = self.session.poll_command().unwrap() {
                assert!(command.is_response());
                let sent = SendResponse::decode(command.fields).ok();
                return Answer {
                    code: command.code,
                    opaque: command.opaque,
                    sent: sent.map(|sent| (sent.queue_id, sent.msg_id.to_owned())),
                    body: command.body.to_vec(),
                };
            }
            let received = self.stream.read(self.session.receive_room(4096)).unwrap();
            assert!(received > 0, "the server closed the connection");
            self.session.on_received(received);
        }
    }

    fn ask(&mut self, code: i32, write: impl FnOnce(protocol::FrameWriter<'_>)) -> Answer {
        let mut frame = Vec::new();
        write(write_request(&mut frame, Serialization::Json, code, 7, 0));
        self.send(&frame);
        let answer = self.answer();
        assert_eq!(answer.opaque, 7);
        answer
    }
}

pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_send_is_answered_once_however_many_come_at_a_time() {
    let server = NullServer::start();
    let mut client = Client::connect(server.broker);
    let requests = Requests::new();
    for (serialization, _) in SERIALIZATIONS {
        let mut frames = Vec::new();
        (0..500).for_each(|number| requests.write(&mut frames, serialization, number));
        client.send(&frames);
        for number in 0..500 {
            let answer = client.answer();
            assert_eq!((answer.code, answer.opaque), (response::SUCCESS, number));
            let (queue_id, msg_id) = answer.sent.unwrap();
            assert_eq!((queue_id, msg_id.len()), (0, 32));
        }
    }
}

#[test]
fn a_load_generator_finds_broker_topic_and_counters() {
    let server = NullServer::start();
    let (mut broker, mut namesrv) = (Client::connect(server.broker), Client::connect(server.namesrv));
    let cluster = namesrv.ask(request::GET_BROKER_CLUSTER_INFO, |writer| writer.finish());
    let cluster = ClusterInfo::from_json(&cluster.body).unwrap();
    let address = &cluster.broker_addr_table["null"].broker_addrs[&0];
    assert_eq!(address.parse(), Ok(server.broker));
    let create = CreateTopicRequest {
        topic: "T",
        default_topic: "TBW102",
        read_queue_nums: 8,
        write_queue_nums: 8,
        perm: 6,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    };
    let route_of = |namesrv: &mut Client| {
        namesrv.ask(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.field("topic", "T").finish())
    };
    assert_eq!(route_of(&mut namesrv).code, response::TOPIC_NOT_EXIST);
    let created = broker.ask(request::UPDATE_AND_CREATE_TOPIC, |writer| create.encode(writer).finish());
    assert_eq!(created.code, response::SUCCESS);
    let route = TopicRouteData::from_json(&route_of(&mut namesrv).body).unwrap();
    assert_eq!(route.queue_datas[0].write_queue_nums, 8);
    assert_eq!(
        broker.ask(request::HEART_BEAT, |writer| writer.finish_with_body(b"{}")).code,
        response::SUCCESS
    );
    let counters = broker.ask(request::GET_BROKER_RUNTIME_INFO, |writer| writer.finish());
    assert!(
        text_of(&counters.body).contains("\"putMessageTimesTotal\":\"0\""),
        "{}",
        text_of(&counters.body)
    );
    let refused = broker.ask(request::PULL_MESSAGE, |writer| writer.finish());
    assert_eq!(refused.code, response::REQUEST_CODE_NOT_SUPPORTED);
}

#[test]
fn a_signal_stops_it_cleanly_with_clients_connected() {
    let mut server = NullServer::start();
    let _client = Client::connect(server.broker);
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}
