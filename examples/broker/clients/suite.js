// What the suites in JavaScript share, as suite.py is for those in Python: how scenarios are run, the control port, and
// members of groups. A client is found through NODE_PATH.
'use strict'
const { spawn } = require('child_process')
const net = require('net')
const readline = require('readline')

const [script, bootstrap, control, ...rest] = process.argv.slice(1)
// Milliseconds that an answer may be late at the most, and those that a member may go without a heartbeat.
const LATE = 5000
const SESSION = 6000
// Milliseconds that a scenario may take at the most.
const LIMIT = 90000

const scenarios = []
const scenario = (name, run) => scenarios.push({ name, run })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const watch = () => {
  const begun = performance.now()
  return () => performance.now() - begun
}
let names = 0
const fresh = prefix => `${prefix}-${process.pid}-${Date.now()}-${++names}`

function demand (condition, otherwise) {
  if (!condition) throw new Error(otherwise)
}

function same (got, want, what) {
  demand(JSON.stringify(got) === JSON.stringify(want), `${what}: ${JSON.stringify(got).slice(0, 300)}`)
}

function within (took, low, high, what) {
  demand(took >= low && took <= high, `${what} took ${took.toFixed(1)} ms, not ${low} to ${high}`)
}

/// Waits until the condition holds. Returns how long it took.
async function becomes (condition, what, limit = 40000) {
  const ms = watch()
  while (!condition()) {
    demand(ms() < limit, `${what()} after ${limit} ms`)
    await sleep(5)
  }
  return ms()
}

function obey (command) {
  return new Promise((resolve, reject) => {
    const [host, port] = control.split(':')
    const socket = net.connect(Number(port), host, () => socket.write(`${command}\n`))
    socket.on('error', reject)
    socket.on('data', reply => {
      socket.destroy()
      String(reply).trim() === 'ok' ? resolve() : reject(new Error(`${command} was answered with ${reply}`))
    })
  })
}

async function whilePaused (body) {
  await obey('pause')
  try {
    return await body()
  } finally {
    await obey('resume')
  }
}

/// The followers are resumed after this time, while the body goes on.
async function whilePausedFor (ms, body) {
  await obey('pause')
  const resumed = sleep(ms).then(() => obey('resume'))
  try {
    return await body()
  } finally {
    await resumed
  }
}

const numbers = (count, prefix = '') => Array.from({ length: count }, (_, number) => `${prefix}${number}`)

/// A member in a process of its own, which prints `has 0 1 2` whenever it gets partitions.
class Member {
  constructor (topic, group, session, rebalance) {
    const words = [script, bootstrap, control, '--member', topic, group, session, rebalance]
    this.partitions = []
    this.process = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
    readline.createInterface({ input: this.process.stdout }).on('line', line => {
      this.partitions = line.split(' ').slice(1).filter(Boolean).map(Number)
    })
  }
}

/// Waits until each has some, and all together have all six, none of them twice.
function share (members) {
  const owned = () => members.map(member => member.partitions)
  const all = () => owned().every(one => one.length) && String(owned().flat().sort()) === '0,1,2,3,4,5'
  return becomes(all, () => `the members have ${JSON.stringify(owned())}`)
}

/// So many members of a group on a topic of six partitions.
async function withMembers (topic, count, session, rebalance, body) {
  const group = fresh('group')
  const members = []
  const add = () => members.push(new Member(topic, group, session, rebalance))
  while (members.length < count) add()
  try {
    return await body(members, add)
  } finally {
    members.forEach(member => member.process.kill('SIGKILL'))
  }
}

/// Three members share the topic, one is killed, one leaves.
function groupIsShared (topic) {
  return withMembers(topic, 3, SESSION, 20000, async members => {
    const joined = await share(members)
    members[0].process.kill('SIGKILL')
    const evicted = await share(members.slice(1))
    // It had sent its last heartbeat some time before it was killed.
    within(evicted, SESSION / 2, SESSION + 2 * LATE, 'to evict the killed member')
    members[1].process.kill('SIGTERM')
    const left = await share(members.slice(2))
    within(left, 0, SESSION - 500, 'to go on without the member that has left')
    return `shared after ${joined.toFixed(0)} ms, evicted after ${evicted.toFixed(0)}, left after ${left.toFixed(0)}`
  })
}

/// The scenarios that are the same for each client, by what it makes of these: a topic, an append to it, a reader of it, and
/// the option that lets a reader's polls wait. Returns what reads the first values of a topic.
function common ({ newTopic, append, reader, waiting }) {
  /// The first values of a topic of one partition, and that nothing follows.
  async function read (topic, count) {
    const { found, reach, values, end } = await reader(topic, waiting(100))
    await reach(count)
    await sleep(500)
    await end()
    found.forEach((one, at) => demand(one.offset === found[0].offset + at, `offset ${one.offset} at ${at}`))
    return values()
  }

  scenario('records of acks 0, 1 and all are read back in order', async () => {
    const topic = await newTopic()
    const written = []
    for (const acks of [0, 1, -1]) {
      const values = numbers(100, `${acks} `)
      await append(topic, values, { acks })
      written.push(...values)
    }
    same(await read(topic, 300), written, 'read')
  })

  scenario('a poll waits for min.bytes', async () => {
    const topic = await newTopic()
    const wait = 8000
    const { reach, end } = await reader(topic, { ...waiting(wait), minBytes: 50000 })
    await sleep(500)
    let ms = watch()
    await append(topic, ['small'])
    await reach(1)
    const few = ms()
    // The poll that gets it may have begun some time before.
    within(few, 300, wait + LATE, 'too few bytes')
    ms = watch()
    await append(topic, Array(60).fill('x'.repeat(1000)))
    await reach(61)
    const enough = ms()
    within(enough, 0, LATE, 'enough bytes')
    await end()
    return `few after ${few.toFixed(0)} ms, enough after ${enough.toFixed(0)}`
  })

  scenario('acks=all that waits is answered when the follower is back', async () => {
    const topic = await newTopic()
    await append(topic, ['first'])
    const took = await whilePausedFor(1000, async () => {
      const ms = watch()
      await append(topic, ['second'])
      return ms()
    })
    // The followers were paused some moments before.
    within(took, 500, 1000 + LATE, 'to append with paused followers')
    return `after ${took.toFixed(0)} ms`
  })

  scenario('what followers do not have yet is not read', async () => {
    const topic = await newTopic()
    await append(topic, ['seen'])
    const { reach, values, end } = await reader(topic, waiting(300))
    await whilePaused(async () => {
      await append(topic, ['hidden'], { acks: 1 })
      await reach(1)
      await sleep(1000)
      same(values(), ['seen'], 'read while paused')
    })
    await reach(2)
    await end()
    same(values(), ['seen', 'hidden'], 'read')
  })

  scenario('a group shares its partitions, also when one of three is killed and one leaves', async () =>
    groupIsShared(await newTopic(6)))

  scenario('many clients at once lose nothing', async () => {
    const topic = await newTopic(4)
    await Promise.all(numbers(8).map((_, number) => append(topic, numbers(100), {}, number % 4)))
    const { found, reach, end } = await reader(topic, waiting(100))
    await reach(800)
    await end()
    for (const partition of [0, 1, 2, 3]) {
      const values = found.filter(one => one.partition === partition).map(one => one.value)
      same(values.sort(), [...numbers(100), ...numbers(100)].sort(), `partition ${partition}`)
    }
  })

  return read
}

/// Runs the scenarios; or, if this process is to be a member, `member` with the topic, the group and its timeouts.
async function main (member) {
  if (rest[0] === '--member') return member(...rest.slice(1))
  const only = rest.join(' ')
  let passed = 0
  let failed = 0
  for (const { name, run } of scenarios.filter(one => one.name.includes(only))) {
    const tooLong = sleep(LIMIT).then(() => { throw new Error(`not done after ${LIMIT} ms`) })
    tooLong.catch(() => {})
    try {
      const note = await Promise.race([run(), tooLong])
      passed++
      console.log(`PASS ${name}${note ? `: ${note}` : ''}`)
    } catch (error) {
      failed++
      console.log(`FAIL ${name}: ${error}`)
    }
  }
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed || !passed ? 1 : 0)
}

module.exports = {
  LATE,
  bootstrap,
  becomes,
  common,
  demand,
  fresh,
  main,
  numbers,
  obey,
  same,
  scenario,
  share,
  sleep,
  watch,
  whilePaused,
  whilePausedFor,
  withMembers,
  within
}
