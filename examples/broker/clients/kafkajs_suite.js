#!/usr/bin/env node
// kafkajs against a broker: kafkajs_suite.js BOOTSTRAP CONTROL [TEXT]
'use strict'
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const suite = require('./suite.js')

const { LATE, bootstrap, becomes, common, demand, fresh, main, numbers, same, scenario, share, sleep } = suite
const { watch, whilePaused, whilePausedFor, withMembers, within } = suite

const kafka = (options = {}) =>
  new Kafka({ clientId: 'suite', brokers: [bootstrap], logLevel: logLevel.NOTHING, requestTimeout: 60000, ...options })

async function withAdmin (body) {
  const admin = kafka({ retry: { retries: 0 } }).admin()
  await admin.connect()
  try {
    return await body(admin)
  } finally {
    await admin.disconnect()
  }
}

async function newTopic (numPartitions = 1, configEntries = []) {
  const topic = fresh('kafkajs')
  const topics = [{ topic, numPartitions, replicationFactor: 3, configEntries }]
  await withAdmin(admin => admin.createTopics({ timeout: 20000, topics }))
  return topic
}

async function withProducer (options, body) {
  const { retry = { retries: 0 }, ...others } = options
  const producer = kafka({ retry }).producer({ allowAutoTopicCreation: false, ...others })
  await producer.connect()
  try {
    return await body(producer)
  } finally {
    await producer.disconnect()
  }
}

function append (topic, values, options = {}, partition = 0, producerOptions = {}) {
  const messages = values.map(value => ({ partition, ...(value.value ? value : { value }) }))
  return withProducer(producerOptions, producer => producer.send({ topic, acks: -1, messages, ...options }))
}

/// A consumer of the whole topic, which is in a group of its own or in the one of the options.
async function reader (topic, options = {}) {
  const consumer = kafka().consumer({ groupId: fresh('reader'), sessionTimeout: 30000, ...options })
  const found = []
  const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      found.push({ partition, offset: Number(message.offset), value: String(message.value) })
    }
  })
  await joined
  const reach = count => becomes(() => found.length >= count, () => `${found.length} of ${count} records`)
  return { consumer, found, reach, values: () => found.map(one => one.value), end: () => consumer.disconnect() }
}

async function refusal (work) {
  try {
    await work()
  } catch (error) {
    // What was tried again and given up has the reason inside.
    return error.type || error.cause?.type || error.errors?.[0]?.type || String(error)
  }
  throw new Error('it was not refused')
}

const read = common({ newTopic, append, reader, waiting: ms => ({ maxWaitTimeInMs: ms }) })

scenario('metadata lists three nodes', async () => {
  const topic = await newTopic(5)
  await withAdmin(async admin => {
    const { brokers } = await admin.describeCluster()
    same(brokers.map(one => one.nodeId).sort(), [1, 2, 3], 'nodes')
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    same(topics[0].partitions.map(one => one.partitionId).sort(), [0, 1, 2, 3, 4], 'partitions')
  })
})

scenario('compressed batches of an idempotent producer are read back', async () => {
  const topic = await newTopic()
  const written = []
  // The others need packages of their own.
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const values = numbers(50, `${'.'.repeat(100)} ${compression} `)
    await append(topic, values, { compression }, 0, { idempotent: true, maxInFlightRequests: 1, retry: { retries: 5 } })
    written.push(...values)
  }
  same(await read(topic, 100), written, 'read')
})

scenario('an empty poll is answered when its wait is over', async () => {
  const topic = await newTopic()
  const { consumer, end } = await reader(topic, { maxWaitTimeInMs: 700 })
  const took = []
  consumer.on(consumer.events.FETCH, ({ payload }) => took.push(payload.duration))
  await becomes(() => took.length > 4, () => `${took.length} polls`)
  await end()
  // This client counts in whole milliseconds, with the clock of the wall.
  took.slice(0, 5).forEach(one => within(one, 699, 700 + LATE, 'an empty poll'))
  return `${Math.min(...took)} to ${Math.max(...took)} of 700 ms`
})

scenario('an append ends a poll that waits', async () => {
  const topic = await newTopic()
  const { reach, values, end } = await reader(topic, { maxWaitTimeInMs: 10000 })
  await sleep(1000)
  const took = []
  await withProducer({}, async producer => {
    for (const value of numbers(5)) {
      const ms = watch()
      await producer.send({ topic, messages: [{ value, partition: 0 }] })
      await reach(took.length + 1)
      took.push(ms())
      await sleep(200)
    }
  })
  // This client waits for its last poll before it ends.
  await end()
  same(values(), numbers(5), 'read')
  within(Math.max(...took), 0, LATE, 'to read a new record')
  return `${Math.min(...took).toFixed(0)} to ${Math.max(...took).toFixed(0)} ms`
})

scenario("with a paused follower acks=all ends with a timeout of the broker's", async () => {
  const topic = await newTopic()
  await append(topic, ['first'])
  const took = await whilePaused(() => withProducer({}, async producer => {
    const send = (value, acks) => producer.send({ topic, acks, timeout: 1000, messages: [{ value, partition: 0 }] })
    await send('second', 1)
    const ms = watch()
    same(await refusal(() => send('late', -1)), 'REQUEST_TIMED_OUT', 'error')
    return ms()
  }))
  within(took, 1000, 1000 + LATE, 'the timeout')
  await append(topic, ['last'])
  same(await read(topic, 4), ['first', 'second', 'late', 'last'], 'read')
  return `${took.toFixed(0)} of 1000 ms`
})

scenario('what timed out and is sent again is kept once', async () => {
  const topic = await newTopic()
  await append(topic, ['first'])
  const options = { idempotent: true, retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 } }
  const took = await whilePausedFor(2500, async () => {
    const ms = watch()
    await append(topic, ['once'], { timeout: 500 }, 0, options)
    return ms()
  })
  within(took, 1500, 2500 + 2 * LATE, 'to append with paused followers')
  await append(topic, ['last'], {}, 0, options)
  same(await read(topic, 3), ['first', 'once', 'last'], 'read')
})

scenario('topics are created, grow and are deleted', async () => {
  const topic = await newTopic(2)
  await withAdmin(async admin => {
    const topics = [{ topic, numPartitions: 2, replicationFactor: 3 }]
    same(await admin.createTopics({ timeout: 20000, topics }), false, 'created twice')
    await admin.createPartitions({ timeout: 20000, topicPartitions: [{ topic, count: 4 }] })
    await append(topic, ['new'], {}, 3)
    const offsets = await admin.fetchTopicOffsets(topic)
    same(offsets.map(one => one.high).sort(), ['0', '0', '0', '1'], 'ends')
    await admin.deleteTopics({ timeout: 20000, topics: [topic] })
    demand(!(await admin.listTopics()).includes(topic), 'it is still listed')
    same(await refusal(() => admin.deleteTopics({ topics: [topic] })), 'UNKNOWN_TOPIC_OR_PARTITION', 'error')
  })
})

scenario('records are deleted when the followers have deleted them', async () => {
  const topic = await newTopic()
  await append(topic, numbers(10))
  await withAdmin(async admin => {
    await admin.fetchTopicOffsets(topic) // Only what it has asked about can this client delete from.
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '6' }] })
    const [{ low, high }] = await admin.fetchTopicOffsets(topic)
    same([low, high], ['6', '10'], 'ends')
  })
  same(await read(topic, 4), ['6', '7', '8', '9'], 'read')
})

scenario('offsets are found at both ends and by time', async () => {
  const topic = await newTopic()
  for (const number of [0, 1, 2, 3, 4]) await append(topic, [{ value: 'x', timestamp: String(1000 + number) }])
  await withAdmin(async admin => {
    const [{ low, high }] = await admin.fetchTopicOffsets(topic)
    same([low, high], ['0', '5'], 'ends')
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, 1003)
    same(offset, '3', 'found')
  })
})

scenario('configs are described', async () => {
  const want = { 'min.insync.replicas': '2', 'retention.bytes': '12345' }
  const topic = await newTopic(1, Object.entries(want).map(([name, value]) => ({ name, value })))
  await withAdmin(async admin => {
    const asked = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: Object.keys(want) }]
    const { resources } = await admin.describeConfigs({ resources: asked, includeSynonyms: false })
    const got = resources[0].configEntries.map(one => [one.configName, one.configValue]).sort()
    same(got, Object.entries(want), 'configs')
  })
})

scenario('a member goes on where its group committed', async () => {
  const topic = await newTopic()
  const groupId = fresh('group')
  await append(topic, numbers(10))
  const { consumer, reach, end } = await reader(topic, { groupId, maxWaitTimeInMs: 200 })
  await reach(10)
  await consumer.commitOffsets([{ topic, partition: 0, offset: '4' }])
  await end()
  const again = await reader(topic, { groupId, maxWaitTimeInMs: 200 })
  await again.reach(6)
  await again.end()
  same(again.found.map(one => one.offset), [4, 5, 6, 7, 8, 9], 'read')
})

scenario('a frozen member is left behind when the time of a rebalance is up', async () =>
  withMembers(await newTopic(6), 2, 60000, 3000, async (members, add) => {
    await share(members)
    members[0].process.kill('SIGSTOP')
    add()
    const took = await share(members.slice(1))
    within(took, 3000, 3000 + 4 * LATE, 'a rebalance of 3000 ms with a frozen member')
    return `after ${took.toFixed(0)} of 3000 ms`
  }))

async function member (topic, groupId, session, rebalance) {
  const times = { sessionTimeout: Number(session), rebalanceTimeout: Number(rebalance), heartbeatInterval: 500 }
  const consumer = kafka().consumer({ groupId, maxWaitTimeInMs: 300, ...times })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    console.log('has', ...(payload.memberAssignment[topic] || []))
  })
  consumer.on(consumer.events.REBALANCING, () => console.log('has'))
  process.on('SIGTERM', () => consumer.disconnect().then(() => process.exit(0)))
  await consumer.connect()
  await consumer.subscribe({ topic })
  await consumer.run({ eachMessage: async () => {} })
}

main(member)
