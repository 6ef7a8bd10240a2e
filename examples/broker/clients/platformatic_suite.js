#!/usr/bin/env node
// @platformatic/kafka against a broker: platformatic_suite.js BOOTSTRAP CONTROL [TEXT]
'use strict'
const { Admin, CompressionAlgorithms, ConfigResourceTypes, Consumer, Producer } = require('@platformatic/kafka')
const { stringDeserializers, stringSerializers } = require('@platformatic/kafka')
const suite = require('./suite.js')

const { LATE, bootstrap, becomes, common, demand, fresh, main, numbers, same, scenario, sleep } = suite
const { watch, whilePaused, within } = suite

const options = { clientId: 'suite', bootstrapBrokers: [bootstrap], retries: 0, timeout: 20000 }

async function closing (client, body) {
  try {
    return await body(client)
  } finally {
    await client.close()
  }
}

const withAdmin = body => closing(new Admin(options), body)

async function newTopic (partitions = 1, configs = []) {
  const topic = fresh('platformatic')
  await withAdmin(admin => admin.createTopics({ topics: [topic], partitions, replicas: 3, configs }))
  return topic
}

function append (topic, values, sending = {}, partition = 0, producing = {}) {
  const producer = new Producer({ ...options, serializers: stringSerializers, ...producing })
  const messages = values.map(value => ({ topic, partition, ...(value.value ? value : { value }) }))
  return closing(producer, () => producer.send({ acks: -1, messages, ...sending }))
}

/// A consumer of the whole topic, which is in a group of its own or in the one of the options.
async function reader (topic, { groupId = fresh('reader'), mode = 'earliest', ...consuming } = {}) {
  const times = { sessionTimeout: 30000, rebalanceTimeout: 30000, maxWaitTime: 100, autocommit: false }
  const consumer = new Consumer({ ...options, groupId, deserializers: stringDeserializers, ...times, ...consuming })
  const found = []
  const stream = await consumer.consume({ topics: [topic], mode, fallbackMode: 'earliest' })
  stream.on('data', ({ partition, offset, value }) => found.push({ partition, offset: Number(offset), value }))
  stream.on('error', () => {}) // It is closed while it waits.
  const reach = count => becomes(() => found.length >= count, () => `${found.length} of ${count} records`)
  const end = async () => {
    await stream.close()
    await consumer.close(true)
  }
  return { consumer, found, reach, values: () => found.map(one => one.value), end }
}

/// The name of the broker's error, which stands somewhere inside.
async function refusal (work) {
  try {
    await work()
  } catch (error) {
    const names = one => [one.apiId, ...(one.errors ?? []).flatMap(names), ...(one.cause ? names(one.cause) : [])]
    return names(error).find(Boolean) ?? String(error)
  }
  throw new Error('it was not refused')
}

const read = common({ newTopic, append, reader, waiting: ms => ({ maxWaitTime: ms }) })

scenario('metadata lists three nodes', async () => {
  const topic = await newTopic(5)
  await withAdmin(async admin => {
    const metadata = await admin.metadata({ topics: [topic] })
    same([...metadata.brokers.keys()].sort(), [1, 2, 3], 'nodes')
    same(metadata.topics.get(topic).partitionsCount, 5, 'partitions')
  })
})

scenario('compressed batches of an idempotent producer are read back', async () => {
  const topic = await newTopic()
  const written = []
  for (const compression of [CompressionAlgorithms.NONE, CompressionAlgorithms.GZIP]) {
    const values = numbers(50, `${'.'.repeat(100)} ${compression} `)
    await append(topic, values, { compression }, 0, { idempotent: true })
    written.push(...values)
  }
  same(await read(topic, 100), written, 'read')
})

scenario('an append ends a poll that waits', async () => {
  const topic = await newTopic()
  const { reach, values, end } = await reader(topic, { maxWaitTime: 10000 })
  await sleep(1000)
  const took = []
  for (const value of numbers(5)) {
    const ms = watch()
    await append(topic, [value])
    await reach(took.length + 1)
    took.push(ms())
    await sleep(200)
  }
  await end()
  same(values(), numbers(5), 'read')
  within(Math.max(...took), 0, LATE, 'to read a new record')
  return `${Math.min(...took).toFixed(0)} to ${Math.max(...took).toFixed(0)} ms`
})

scenario("with a paused follower acks=all ends with a timeout of the broker's", async () => {
  const topic = await newTopic()
  await append(topic, ['first'])
  const took = await whilePaused(async () => {
    await append(topic, ['second'], { acks: 1 })
    const ms = watch()
    same(await refusal(() => append(topic, ['late'], {}, 0, { timeout: 1000 })), 'REQUEST_TIMED_OUT', 'error')
    return ms()
  })
  within(took, 1000, 1000 + LATE, 'the timeout')
  await append(topic, ['last'])
  same(await read(topic, 4), ['first', 'second', 'late', 'last'], 'read')
  return `${took.toFixed(0)} of 1000 ms`
})

scenario('topics are created, grow and are deleted', async () => {
  const topic = await newTopic(2)
  await withAdmin(async admin => {
    const again = () => admin.createTopics({ topics: [topic], partitions: 2, replicas: 3 })
    same(await refusal(again), 'TOPIC_ALREADY_EXISTS', 'error')
    await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: [] }] })
    await append(topic, ['new'], {}, 3)
    demand((await admin.listTopics()).includes(topic), 'it is not listed')
    await admin.deleteTopics({ topics: [topic] })
    demand(!(await admin.listTopics()).includes(topic), 'it is still listed')
    const gone = () => admin.deleteTopics({ topics: [topic] })
    same(await refusal(gone), 'UNKNOWN_TOPIC_OR_PARTITION', 'error')
  })
})

scenario('records are deleted when the followers have deleted them', async () => {
  const topic = await newTopic()
  await append(topic, numbers(10))
  await withAdmin(async admin => {
    const deleted = await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 6n }] }] })
    same(Number(deleted[0].partitions[0].lowWatermark), 6, 'low watermark')
  })
  same(await read(topic, 4), ['6', '7', '8', '9'], 'read')
})

scenario('offsets are found at both ends and by time', async () => {
  const topic = await newTopic()
  for (const number of [0, 1, 2, 3, 4]) await append(topic, [{ value: 'x', timestamp: BigInt(1000 + number) }])
  const consumer = new Consumer({ ...options, groupId: fresh('group') })
  await closing(consumer, async () => {
    const found = []
    for (const timestamp of [-2n, -1n, 1003n]) {
      found.push(Number((await consumer.listOffsets({ topics: [topic], timestamp })).get(topic)[0]))
    }
    same(found, [0, 5, 3], 'found')
  })
})

scenario('configs are described', async () => {
  const want = { 'min.insync.replicas': '2', 'retention.bytes': '12345' }
  const topic = await newTopic(1, Object.entries(want).map(([name, value]) => ({ name, value })))
  await withAdmin(async admin => {
    const asked = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: Object.keys(want) }
    const [described] = await admin.describeConfigs({ resources: [asked] })
    same(described.configs.map(one => [one.name, one.value]).sort(), Object.entries(want), 'configs')
  })
})

scenario('a member goes on where its group committed', async () => {
  const topic = await newTopic()
  const groupId = fresh('group')
  await append(topic, numbers(10))
  const { consumer, reach, end } = await reader(topic, { groupId, mode: 'committed' })
  await reach(10)
  await consumer.commit({ offsets: [{ topic, partition: 0, offset: 4n, leaderEpoch: 0 }] })
  await end()
  const again = await reader(topic, { groupId, mode: 'committed' })
  await again.reach(6)
  await again.end()
  same(again.found.map(one => one.offset), [4, 5, 6, 7, 8, 9], 'read')
})

async function member (topic, groupId, session, rebalance) {
  const times = { sessionTimeout: Number(session), rebalanceTimeout: Number(rebalance), heartbeatInterval: 500 }
  const consumer = new Consumer({ ...options, groupId, retries: 5, ...times, maxWaitTime: 300 })
  consumer.on('consumer:group:join', ({ assignments }) => {
    console.log('has', ...(assignments ?? []).flatMap(one => one.partitions))
  })
  consumer.on('consumer:group:rebalance', () => console.log('has'))
  process.on('SIGTERM', () => consumer.close(true).then(() => process.exit(0)))
  const stream = await consumer.consume({ topics: [topic], mode: 'latest' })
  stream.on('data', () => {})
  stream.on('error', error => console.error(error))
}

main(member)
