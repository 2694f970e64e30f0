// Node's client `ali-ons` as a load: so many messages, so many of them on their way at a time, and at the end a line of
// JSON that says how many were stored and how many failed.
//
// node load.js <folder of the package> <name server> <topic> <messages> <in flight> <bytes of a body>
'use strict';

const path = require('path');

const [folder, nameServer, topic, ...numbers] = process.argv.slice(2);
const [messages, inFlight, bodyBytes] = numbers.map(Number);
const { Message, Producer } = require(path.resolve(folder, 'node_modules', 'ali-ons'));

const LOGGER = { debug() {}, info() {}, warn: console.error, error: console.error };
const body = Buffer.alloc(bodyBytes, 'x');
let left = messages;
let sent = 0;
let failed = 0;

async function sendUntilNoneIsLeft(producer) {
  while (left > 0) {
    left -= 1;
    try {
      const result = await producer.send(new Message(topic, 'bench', body));
      result.sendStatus === 'SEND_OK' ? sent += 1 : failed += 1;
    } catch (error) {
      failed += 1;
      console.error(error.message);
    }
  }
}

async function main() {
  const producer = new Producer({
    httpclient: { request() { throw new Error('the name server is given: nobody is asked for it'); } },
    nameSrv: nameServer,
    logger: LOGGER,
    producerGroup: 'bench-node',
  });
  producer.on('error', error => console.error(error.message));
  await producer.ready();
  await Promise.all(Array.from({ length: inFlight }, () => sendUntilNoneIsLeft(producer)));
  console.log(JSON.stringify({ sent, failed }));
  process.exit(0);
}

main();
