//! Journey: the broker's own code from received bytes to answers, for a group of sends that came together.
//!
//! A real broker on a real store, and a loopback connection, so that nothing is left out: framing, header, topic look-up,
//! checks, properties, record, promise, dispatch, answer. Timed is what runs between the system calls: neither receiving
//! nor sending is in the figure, nor is the log's writing, which happens between the samples.
//!
//! Copied, as far as the results tell: the text of the header's fields, the record, its properties once more while they
//! are put together, and the answer.

use std::{
    cell::RefCell,
    io::Read,
    net::{SocketAddr, TcpStream},
    path::Path,
    rc::Rc,
};

use engine::{
    io::{Listener, Runtime, ring::RingRuntime},
    metadata::MetadataWriter,
};
use protocol::{
    Serialization, Session,
    code::response,
    frame::FRAME_BYTES_MAX,
    header::{admin::CreateTopicRequest, send::SendResponse},
};
use server::{
    broker::{Broker, BrokerParts, Identity, Metadata, RecoverySummary},
    client_registry::{ClientRegistry, ClientRegistryLimits},
    config::Settings,
    connection::{
        Service, Step, send_dirty,
        table::{ConnectionKey, ConnectionLimits, Connections},
    },
    consumer_offset::ConsumerOffsets,
    group::GroupTable,
    topic::TopicTable,
};

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{BROKER, QUEUES, Requests, SERIALIZATIONS, TIME_MS, TOPIC},
    store::{BenchStore, on_ring},
};

/// One figure per serialisation.
///
/// # Errors
/// When no store or connection can be made.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    let mut figures = Vec::new();
    for (serialization, name) in SERIALIZATIONS {
        let samples = SAMPLES_WARMING + run.samples;
        figures.push(on_ring(run, move |runtime, root| async move {
            let store = BenchStore::open(&runtime, root.clone()).await?;
            let mut journey = Journey::open(&runtime, &store, &root, serialization).await?;
            let mut meter = Meter::new(format!("journey {name}"));
            for sample in 0..samples {
                journey.take_group(&mut meter, &store, sample * GROUP)?;
                store.settle().await;
            }
            // The broker shares the store.
            drop(journey);
            store.close().await?;
            Ok(meter.figure(true))
        })?);
    }
    Ok(figures)
}

/// A broker and one producer.
struct Journey {
    runtime: RingRuntime,
    broker: Broker<RingRuntime>,
    connection: ConnectionKey,
    inbound: Session,
    producer: Producer,
    requests: Requests,
    serialization: Serialization,
    received: Vec<u8>,
}

impl Journey {
    async fn open(
        runtime: &RingRuntime,
        store: &BenchStore,
        root: &Path,
        serialization: Serialization,
    ) -> Result<Journey, Problem> {
        let mut broker = broker(runtime, store, root)?;
        let failed = |error: std::io::Error| format!("cannot make a loopback connection: {error}");
        let listener = runtime.listen(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(failed)?;
        // The kernel completes it before it is accepted.
        let stream = TcpStream::connect(listener.local_address()).map_err(failed)?;
        let accepted = Rc::new(listener.accept().await.map_err(failed)?);
        let connection = broker.connections().open(accepted).ok_or("the broker takes no connection")?;
        Ok(Journey {
            runtime: runtime.clone(),
            broker,
            connection,
            inbound: Session::new(FRAME_BYTES_MAX),
            producer: Producer { stream, session: Session::new(FRAME_BYTES_MAX) },
            requests: Requests::new(),
            serialization,
            received: Vec::new(),
        })
    }

    /// One sample: a group is received, served and answered.
    fn take_group(&mut self, meter: &mut Meter, store: &BenchStore, first: usize) -> Result<(), Problem> {
        self.received.clear();
        for number in first..first + GROUP {
            self.requests.write(&mut self.received, self.serialization, number);
        }
        let log_start = store.shard().log().end();
        let (inbound, received) = (&mut self.inbound, &self.received);
        let room = meter.time(|| inbound.receive_room(RECEIVE_BYTES.max(received.len())));
        room[..received.len()].copy_from_slice(received);
        inbound.on_received(received.len());
        let text_bytes = meter.time(|| serve(&mut self.broker, self.connection, inbound))?;
        let log_bytes = store.shard().log().end().since(log_start);
        let answer_bytes = self.producer.take_answers(&self.runtime, &mut self.broker, meter, first)?;
        let properties = self.requests.message(first).properties.len() + ADDED_PROPERTIES_BYTES;
        meter.copied(text_bytes + usize::try_from(log_bytes).expect("a group is in memory") + answer_bytes);
        meter.copied(GROUP * properties);
        meter.end_sample(GROUP);
        Ok(())
    }
}

/// What the server does with one receive, up to sending; tells the bytes of the headers' fields.
fn serve(
    broker: &mut Broker<RingRuntime>,
    connection: ConnectionKey,
    inbound: &mut Session,
) -> Result<usize, Problem> {
    let mut text_bytes = 0;
    while let Some(command) = inbound.poll_command().expect("the stream is well-formed") {
        let Step::Done = broker.on_command(connection, &command) else {
            return Err("the broker has no room for a message, though everything was written".to_owned());
        };
        text_bytes += command.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    }
    broker.after_commands();
    Ok(text_bytes)
}

/// The other end of the connection.
struct Producer {
    stream: TcpStream,
    session: Session,
}

impl Producer {
    /// Lets the broker send, and checks the answers to a group; tells how long they are together.
    fn take_answers(
        &mut self,
        runtime: &RingRuntime,
        broker: &mut Broker<RingRuntime>,
        meter: &mut Meter,
        first: usize,
    ) -> Result<usize, Problem> {
        send_dirty(runtime, broker.connections());
        let (mut bytes, mut answered) = (0, 0);
        while answered < GROUP {
            let room = self.session.receive_room(RECEIVE_BYTES);
            let received =
                self.stream.read(room).map_err(|error| format!("cannot read the answers: {error}"))?;
            if received == 0 {
                return Err("the broker closed the connection".to_owned());
            }
            bytes += received;
            self.session.on_received(received);
            while let Some(answer) = self.session.poll_command().map_err(|error| error.to_string())? {
                if answer.code != response::SUCCESS {
                    return Err(format!("the broker refused a message: {} {:?}", answer.code, answer.remark));
                }
                let sent = SendResponse::decode(answer.fields).map_err(|error| error.to_string())?;
                let number = first + answered;
                assert_eq!(usize::try_from(answer.opaque), Ok(number), "answers come in append order");
                meter.check_number(sent.queue_offset.unsigned_abs());
                meter.check(sent.msg_id.as_bytes());
                answered += 1;
            }
        }
        Ok(bytes)
    }
}

fn broker(runtime: &RingRuntime, store: &BenchStore, root: &Path) -> Result<Broker<RingRuntime>, Problem> {
    let mut topics = TopicTable::default();
    let queue_nums = i32::try_from(QUEUES).expect("a few");
    let create = CreateTopicRequest {
        topic: TOPIC,
        default_topic: "TBW102",
        read_queue_nums: queue_nums,
        write_queue_nums: queue_nums,
        perm: protocol::body::topic::perm::READ | protocol::body::topic::perm::WRITE,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    };
    topics.update(&create, TIME_MS).map_err(|error| error.to_string())?;
    let mut writer = MetadataWriter::new();
    let metadata = Metadata {
        topics: writer.add(root.join("config/topics.json")),
        groups: writer.add(root.join("config/subscriptionGroup.json")),
        offsets: writer.add(root.join("config/consumerOffset.json")),
        writer: Rc::new(RefCell::new(writer)),
    };
    Ok(Broker::new(BrokerParts {
        identity: Identity {
            cluster: "DefaultCluster".to_owned(),
            name: "broker-a".to_owned(),
            address: BROKER,
            ha_address: BROKER,
        },
        settings: Rc::new(Settings::default()),
        runtime: runtime.clone(),
        shard: Rc::clone(&store.store().shard),
        topics,
        groups: GroupTable::default(),
        offsets: ConsumerOffsets::default(),
        clients: ClientRegistry::new(ClientRegistryLimits::default()),
        metadata,
        connections: Connections::new(LIMITS),
        recovery: RecoverySummary::default(),
    }))
}

/// What the server offers to one receive.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Region, cluster and trace switch, which the broker adds to every message.
const ADDED_PROPERTIES_BYTES: usize = "MSG_REGION=DefaultRegion;CLUSTER=DefaultCluster;TRACE_ON=true".len();
const LIMITS: ConnectionLimits =
    ConnectionLimits { count_max: 1, unsent_bytes_max: 20 << 20, idle_seconds_max: 120 };
