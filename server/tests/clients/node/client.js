'use strict';
// The npm client ali-ons, driven by the harness: see ../README.md for the commands, the plan and the events.

const fs = require('fs');
const readline = require('readline');
const { Consumer, Producer, Message } = require('ali-ons');

const BATCH = 10;
const SEND_DEADLINE_MS = 90000;

const options = Object.fromEntries(process.argv.slice(3).map(argument => {
  const eq = argument.indexOf('=');
  return [ argument.slice(0, eq), argument.slice(eq + 1) ];
}));

// The harness says a line when it wants the next step; closing the pipe says so for ever.
const waiting = [];
let lines = 0;
let closed = false;
readline.createInterface({ input: process.stdin })
  .on('line', () => (waiting.length ? waiting.shift()() : lines++))
  .on('close', () => {
    closed = true;
    waiting.splice(0).forEach(go => go());
  });

function wait() {
  if (closed || lines > 0) {
    lines = Math.max(0, lines - 1);
    return Promise.resolve();
  }
  return new Promise(resolve => waiting.push(resolve));
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
const encode = value => (value === undefined || value === null ? null : Buffer.from(value).toString('base64'));
const decode = text => Buffer.from(text, 'base64');
const line = value => process.stdout.write(JSON.stringify(value) + '\n');
const problem = err => line({ ev: 'error', text: encode(String(err && err.message)) });

const logger = {
  info() {},
  debug() {},
  warn: (...args) => console.error(...args),
  error: (...args) => console.error(...args),
};

function common() {
  return {
    nameSrv: options.namesrv.split(';'),
    // Only asked for a list of name servers when none is given; the client insists on having one.
    httpclient: { request() { throw new Error('no HTTP look-up is wanted'); } },
    instanceName: options.instance,
    clientIP: '127.0.0.1',
    logger,
  };
}

function readPlan() {
  return fs.readFileSync(options.plan, 'utf8').trimEnd().split('\n').map(text => {
    const f = text.split('\t');
    const message = new Message(options.topic, decode(f[3]).toString(), decode(f[4]));
    message.keys = [ decode(f[2]).toString() ];
    for (const pair of f[5].split(',')) {
      const [ name, value ] = pair.split(':');
      message.properties[name] = decode(value).toString();
    }
    return { index: Number(f[0]), how: f[1], message };
  });
}

async function sendOne(producer, one) {
  const deadline = Date.now() + SEND_DEADLINE_MS;
  for (;;) {
    try {
      const result = await producer.send(one.message);
      line({
        ev: 'sent', i: one.index, status: result.sendStatus,
        broker: result.messageQueue.brokerName, queue: result.messageQueue.queueId,
      });
      return;
    } catch (err) {
      problem(err);
      if (Date.now() > deadline) throw err;
      await pause(300);
    }
  }
}

async function send() {
  const producer = new Producer(Object.assign(common(), { producerGroup: options.group }));
  producer.on('error', problem);
  await producer.ready();
  line({ ev: 'ready' });
  const stopAt = Number(options.pause === undefined ? -1 : options.pause);
  const plan = readPlan();
  for (let at = 0; at < plan.length;) {
    if (at === stopAt) {
      line({ ev: 'paused' });
      await wait();
    }
    let end = at + 1;
    while (end < plan.length && end !== stopAt && end - at < BATCH && plan[end].how === plan[at].how) end++;
    const run = plan.slice(at, end);
    if (run[0].how === 'async') {
      await Promise.all(run.map(one => sendOne(producer, one)));
    } else {
      for (const one of run) await sendOne(producer, one);
    }
    at = end;
  }
  line({ ev: 'done' });
  await wait();
  await producer.close();
  line({ ev: 'stopped' });
}

async function consume() {
  const consumer = new Consumer(Object.assign(common(), {
    consumerGroup: options.group,
    isBroadcast: options.model === 'broadcast',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  }));
  consumer.on('error', problem);
  consumer.subscribe(options.topic, '*', async (m, queue) => {
    const props = {};
    for (const [ name, value ] of Object.entries(m.properties)) props[name] = encode(value);
    line({
      ev: 'recv', broker: queue.brokerName, queue: m.queueId, offset: Number(m.queueOffset),
      key: encode(m.keys), tag: encode(m.tags), body: encode(m.body), props,
    });
  });
  await consumer.ready();
  line({ ev: 'ready' });
  await wait();
  await consumer.close();
  line({ ev: 'stopped' });
}

({ send, consume })[process.argv[2]]().then(() => process.exit(0), err => {
  console.error(err);
  process.exit(1);
});
