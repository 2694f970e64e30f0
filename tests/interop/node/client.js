// Node's client `ali-ons` as a user runs it, told what to do: one JSON object a line in, one a line out.
//
// A line in has a "verb" and its words. It is answered by {"answer": …}, or by {"refused": "…", "code": …} with what was
// thrown; between answers, what happens by itself is told as {"event": …, "of": name, …}. Verbs and words are those of
// the Java program beside this one, as far as Node's client has the thing. It can send and be handed messages, no more.
'use strict';

const path = require('path');
const readline = require('readline');
const zlib = require('zlib');

// Where the package was installed is told, for it does not lie beside this file.
const { Consumer, Message, Producer } = require(path.resolve(process.argv[2], 'node_modules', 'ali-ons'));

// Longer bodies are told by their length and sum alone.
const SHOWN = 1000;
const LOGGER = { debug() {}, info() {}, warn: console.error, error: console.error };

const producers = new Map();
const consumers = new Map();

const verbs = {
  'producer': startProducer,
  'producer-stop': words => stop(producers, words.name),
  'send': send,
  'push': startPush,
  'push-stop': words => stop(consumers, words.name),
};

function tell(what) {
  process.stdout.write(JSON.stringify(what) + '\n');
}

function happened(event, of, facts) {
  tell({ event, of, ...facts });
}

function shared(words) {
  return {
    httpclient: { request() { throw new Error('the name server is given: nobody is asked for it'); } },
    nameSrv: words.name_server,
    instanceName: words.name,
    logger: LOGGER,
    // Quicker than a user has them, so that tests do not wait.
    pollNameServerInteval: words.settings.pollNameServerInterval,
    persistConsumerOffsetInterval: words.settings.persistConsumerOffsetInterval,
    rebalanceInterval: 1000,
  };
}

async function startProducer(words) {
  const producer = new Producer({ ...shared(words), producerGroup: words.group });
  producer.on('error', error => happened('error', words.name, { thrown: String(error) }));
  await producer.ready();
  producers.set(words.name, producer);
  return producer.clientId;
}

async function stop(table, name) {
  const stopped = table.get(name);
  if (!stopped) {
    throw new Error(`no ${name} runs`);
  }
  table.delete(name);
  await stopped.close();
  return null;
}

async function send(words) {
  const result = await producers.get(words.name).send(readMessage(words.message));
  return {
    status: result.sendStatus,
    id: result.msgId,
    offset_id: result.msgId,
    queue: Number(result.messageQueue.queueId),
    offset: result.queueOffset,
  };
}

// A body is given as text, or as a letter and how often.
function readMessage(words) {
  const message = new Message(words.topic, words.tags || null, words.body.repeat(words.times || 1));
  if (!words.tags) {
    delete message.properties.TAGS; // or it would be sent as the word "null"
  }
  if (words.keys) {
    message.keys = words.keys.split(' ');
  }
  if (words.level) {
    message.delayTimeLevel = words.level;
  }
  if (words.shard) {
    message.shardingKey = words.shard;
  }
  Object.assign(message.properties, words.properties || {});
  return message;
}

async function startPush(words) {
  const consumer = new Consumer({
    ...shared(words),
    consumerGroup: words.group,
    consumeFromWhere: words.settings.consumeFromWhere,
    isBroadcast: words.settings.messageModel === 'BROADCASTING',
  });
  consumer.on('error', error => happened('error', words.name, { thrown: String(error) }));
  for (const [topic, kind, expression] of words.subscriptions) {
    const wanted = kind === 'SQL92' ? { expressionType: kind, subString: expression } : expression;
    consumer.subscribe(topic, wanted, async message => handled(words.name, message));
  }
  await consumer.ready();
  consumers.set(words.name, consumer);
  return consumer.clientId;
}

// With "fails", a message fails so many times; with "slow_ms", handling it takes that long.
async function handled(name, message) {
  const properties = message.properties || {};
  const failed = message.reconsumeTimes < Number(properties.fails || 0);
  happened('message', name, { message: toldMessage(message), failed, at_ms: Date.now(), batch: 1 });
  await new Promise(resolve => setTimeout(resolve, Number(properties.slow_ms || 0)));
  return failed ? Consumer.ACTION_RETRY : undefined;
}

function toldMessage(message) {
  const body = message.body || Buffer.alloc(0);
  const { TAGS, ...others } = message.properties;
  return {
    topic: message.topic,
    broker: null,
    queue: message.queueId,
    offset: message.queueOffset,
    body: body.length > SHOWN ? null : body.toString(),
    size: body.length,
    sum: sumOf(body),
    tags: TAGS || null,
    keys: message.keys || null,
    id: message.msgId,
    unique: others.UNIQ_KEY || null,
    times: message.reconsumeTimes,
    born_ms: message.bornTimestamp,
    stored_ms: message.storeTimestamp,
    sys_flag: message.sysFlag,
    properties: TAGS ? message.properties : others,
  };
}

// The CRC-32 that ends what gzip writes: Node 20 has no other way to it.
function sumOf(body) {
  const packed = zlib.gzipSync(body, { level: 1 });
  return packed.readUInt32LE(packed.length - 8);
}

async function answered(line) {
  try {
    const words = JSON.parse(line);
    const verb = verbs[words.verb];
    if (!verb) {
      throw new Error(`Node's client has no ${words.verb}`);
    }
    tell({ answer: await verb(words) });
  } catch (error) {
    tell({ refused: String(error), code: Number.isInteger(error.code) ? error.code : -1 });
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await answered(line);
  }
  // Nobody is left to talk to: go without saying good-bye, which would wait for servers that may be gone.
  process.exit(0);
}

main();
