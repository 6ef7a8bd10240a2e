#!/usr/bin/env node
// The broker's live page in Chromium: page_suite.js BROKER PYTHON [TEXT]
// It starts the broker itself. playwright-core is found through NODE_PATH. With PAGE_SHOTS=DIRECTORY it leaves pictures there.
'use strict'
const { execFileSync, spawn } = require('child_process')
const net = require('net')
const path = require('path')
const { chromium } = require('playwright-core')

const [program, python, ...rest] = process.argv.slice(2)
// Milliseconds until something shows at the most, and that a scenario may take.
const SOON = 8000
const LIMIT = 30000
// When a follower that is paused leaves the in-sync set: a third of what SOON allows.
const LAG = 1500

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

function demand (condition, otherwise) {
  if (!condition) throw new Error(otherwise)
}

function same (got, want, what) {
  demand(JSON.stringify(got) === JSON.stringify(want), `${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
}

/// Tries again until it does not fail.
async function soon (body) {
  const end = performance.now() + SOON
  for (;;) {
    try {
      return await body()
    } catch (error) {
      if (performance.now() > end) throw error
    }
    await sleep(50)
  }
}

/// A broker, with the addresses that it prints.
class Broker {
  static async start (http = '127.0.0.1:0') {
    const broker = new Broker()
    const options = ['--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--http', http]
    broker.process = spawn(program, ['serve', ...options, '--replica-lag-time-max-ms', String(LAG)])
    let said = ''
    for (const stream of [broker.process.stdout, broker.process.stderr]) stream.on('data', text => { said += text })
    await soon(() => {
      [broker.address, broker.control, broker.url] = ['serving on ', 'control port on ', 'live page on '].map(words => {
        const line = said.split('\n').find(line => line.startsWith(words))
        demand(line && said.endsWith('\n'), `the broker did not start: ${said}`)
        return line.slice(words.length).split(' ')[0]
      })
    })
    return broker
  }

  /// One line to the control port, and its answer.
  tell (command) {
    return new Promise((resolve, reject) => {
      const [host, port] = this.control.split(':')
      let reply = ''
      const socket = net.connect(Number(port), host, () => socket.write(`${command}\n`))
      socket.on('error', reject)
      socket.on('data', data => {
        reply += data
        if (reply.endsWith('\n')) socket.destroy()
      })
      socket.on('close', () => resolve(reply.trim()))
    })
  }

  async stats () {
    return JSON.parse(await this.tell('stats'))
  }

  async stop () {
    const ended = new Promise(resolve => this.process.on('exit', resolve))
    this.process.kill('SIGTERM')
    await ended
  }

  /// Sends a request in the wire format, without waiting for an answer.
  send (apiKey, version, body) {
    const head = Buffer.from([0, apiKey, 0, version, 0, 0, 0, 1, 0, 1, 0x70])
    const length = Buffer.alloc(4)
    length.writeInt32BE(head.length + body.length)
    const [host, port] = this.address.split(':')
    const socket = net.connect(Number(port), host)
    socket.on('error', () => {})
    socket.write(Buffer.concat([length, head, body]))
    return socket
  }
}

const int16 = value => { const bytes = Buffer.alloc(2); bytes.writeInt16BE(value); return bytes }
const int32 = value => { const bytes = Buffer.alloc(4); bytes.writeInt32BE(value); return bytes }
const string = text => Buffer.concat([int16(text.length), Buffer.from(text)])

/// Makes a topic by asking for it.
const createTopic = (broker, topic) => broker.send(3, 4, Buffer.concat([int32(1), string(topic), Buffer.from([1])]))

/// A poll of an empty partition, which waits.
const poll = (broker, topic, waitMs) => broker.send(1, 4, Buffer.concat([
  int32(-1), int32(waitMs), int32(1), int32(1 << 20), Buffer.from([0]),
  int32(1), string(topic), int32(1), int32(0), Buffer.alloc(8), int32(1 << 20)
]))

/// A request to join a group with a protocol "p".
const join = (broker, group) => broker.send(11, 1, Buffer.concat([
  string(group), int32(6000), int32(6000), string(''), string('consumer'), int32(1), string('p'), int32(0)
]))

/// What the page says, by name: the number itself and how it is written.
const figures = page => page.$$eval('[data-figure]', found => Object.fromEntries(
  found.map(one => [one.dataset.figure, [Number(one.dataset.value), one.textContent]])
))

const BOOKS = ['produce', 'fetch', 'delete_records', 'topic', 'rebalance', 'heartbeat', 'idle', 'chores']
const COUNTS = ['pending', 'registered', 'satisfied', 'expired', 'forced', 'cancelled', 'shut_down', 'panicked']

/// The same figures of the control port's.
function namedFigures (stats) {
  const named = { parked: stats.parked, timers: stats.timers, connections: stats.connections, members: stats.members }
  for (const name of BOOKS) for (const count of COUNTS) named[`${name}.${count}`] = stats[name][count]
  for (const one of stats.partitions) {
    for (const end of ['log_start', 'high_watermark', 'log_end']) named[`${one.topic}-${one.partition}.${end}`] = one[end]
  }
  return named
}

/// Whether everything that the page writes can be told from its ground: the least contrast, and where.
const leastContrast = page => page.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = color
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data]
  }
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor)
      if (color[3] === 255) return color
    }
    return [255, 255, 255]
  }
  let least = [21, '']
  for (const element of document.querySelectorAll('body *')) {
    const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
    if (!hasText || !element.checkVisibility() || element.closest('svg, noscript, option')) continue
    const pair = [light(rgba(getComputedStyle(element).color)), light(ground(element))].sort((one, other) => other - one)
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05)
    if (contrast < least[0]) least = [contrast, element.outerHTML.slice(0, 120)]
  }
  return least
})

const scenarios = []
const scenario = (name, run) => scenarios.push({ name, run })

scenario('the figures are those of the control port', async ({ broker, page }) => {
  createTopic(broker, 'orders').end()
  await soon(async () => {
    const [shown, stats] = [await figures(page), await broker.stats()]
    const named = Object.entries(namedFigures(stats))
    demand(stats.partitions.length === 3, 'the topic is not there yet')
    same(named.map(([name]) => [name, shown[name]?.[0]]), named, 'the page says')
    for (const [name, value] of named) same(shown[name][1], value.toLocaleString('en'), `${name} is written`)
  })
})

scenario('the figures for Prometheus are well-formed and the same', async ({ broker }) => {
  await soon(async () => {
    const [input, stats] = [await (await fetch(`${broker.url}metrics`)).text(), await broker.stats()]
    const samples = JSON.parse(execFileSync(python, [path.join(__dirname, 'metrics.py')], { input }))
    const value = (name, labels) => samples.find(([own, has]) => {
      return own === name && Object.entries(labels).every(([key, value]) => has[key] === value)
    })?.[2]
    for (const purgatory of BOOKS) {
      const { pending, registered, ...books } = stats[purgatory]
      same(value('ixion_purgatory_pending', { purgatory }), pending, `${purgatory} pending`)
      same(value('ixion_purgatory_registered_total', { purgatory }), registered, `${purgatory} registered`)
      for (const outcome of COUNTS.slice(2)) {
        same(value('ixion_purgatory_ended_total', { purgatory, outcome }), books[outcome], `${purgatory} ${outcome}`)
      }
    }
    for (const { topic, partition, ...ends } of stats.partitions) {
      const labels = { topic, partition: String(partition) }
      same(value('ixion_partition_high_watermark', labels), ends.high_watermark, 'high watermark')
      same(value('ixion_partition_in_sync_replicas', labels), ends.isr.length, 'in sync')
    }
  })
})

scenario('a poll that waits is counted, and on the wheel, under its key', async ({ broker, page }) => {
  await page.selectOption('#choice', 'fetch')
  const counts = async () => {
    const shown = await figures(page)
    const buckets = await page.$$eval('.bucket', all => all.map(one => Number(one.dataset.count)))
    const levels = Object.keys(shown).filter(name => name.startsWith('level.')).map(name => shown[name][0])
    const total = counts => counts.reduce((sum, count) => sum + count, 0)
    const waiting = shown['key.fetch orders-0, high watermark']?.[0] ?? 0
    return [shown.parked[0], shown['fetch.pending'][0], total(buckets), total(levels), shown.connections[0] - 2, waiting]
  }
  await soon(async () => same(await counts(), [2, 2, 2, 2, 0, 0], 'the followers wait'))
  const polls = [1, 2, 3].map(() => poll(broker, 'orders', 60000))
  await soon(async () => same(await counts(), [5, 5, 5, 5, 3, 3], 'with three polls'))
  demand(await page.locator('.bucket.full').count() > 0, 'no bucket is drawn as full')
  for (const one of polls) one.destroy()
  await soon(async () => same(await counts(), [2, 2, 2, 2, 0, 0], 'when they have hung up'))
  const late = await soon(async () => {
    const shown = await figures(page)
    demand(shown['waiting.count'][0] > 0, 'no wait was measured')
    return shown['lateness.median']
  })
  await page.selectOption('#choice', '')
  return `half of all were at most ${late[1]} late`
})

scenario('a group has any name, and the page shows it', async ({ broker, page }) => {
  await page.selectOption('#choice', 'heartbeat')
  const name = 'a"] \\ \n<b id="bold">\0'
  const member = join(broker, name)
  await soon(async () => {
    const shown = Object.entries(await figures(page)).filter(([figure]) => figure.startsWith(`key.heartbeat ${name}, `))
    same(shown.map(([, value]) => value), [[1, '1']], 'what waits on its member')
  })
  same(await page.locator('#bold').count(), 0, 'elements that it has made')
  member.destroy()
  await page.selectOption('#choice', '')
})

scenario('a follower is paused, leaves the in-sync sets and comes back', async ({ broker, page }) => {
  const node = page.locator('[data-node="2"]')
  const isr = page.locator('[data-figure="orders-0.isr"]')
  await soon(async () => same((await isr.innerText()).split(' ').sort(), ['1', '2', '3'], 'in sync'))
  await page.getByRole('button', { name: 'Pause node 2' }).click()
  await node.getByText('paused').waitFor({ timeout: SOON })
  same((await broker.stats()).paused, [2], 'paused')
  await soon(async () => {
    same(await isr.innerText(), '1 3', 'in sync')
    same((await broker.stats()).partitions.map(one => one.isr), [[1, 3], [1, 3], [1, 3]], 'in sync')
    same((await figures(page)).short[0], 3, 'under-replicated')
  })
  demand((await node.innerText()).includes('0 of 3 partitions in sync'), await node.innerText())
  await page.getByRole('button', { name: 'Resume node 2' }).click()
  await soon(async () => {
    same((await isr.innerText()).split(' ').sort(), ['1', '2', '3'], 'in sync')
    same((await broker.stats()).paused, [], 'paused')
  })
})

scenario('the buttons can be reached and pressed by keyboard', async ({ broker, page }) => {
  const press = async (name, key) => {
    for (let tries = 0; tries < 20; tries++) {
      const reached = await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)
      if (reached === name) return await page.keyboard.press(key)
      await page.keyboard.press('Tab')
    }
    throw new Error(`${name} is not reached`)
  }
  await page.locator('h1').click()
  await press('Pause all', 'Enter')
  await soon(async () => same((await broker.stats()).paused, [2, 3], 'paused'))
  await page.locator('h1').click()
  await press('Resume node 3', 'Space')
  await soon(async () => same((await broker.stats()).paused, [2], 'paused'))
  await page.locator('h1').click()
  await press('Resume all', 'Enter')
  await soon(async () => same((await broker.stats()).paused, [], 'paused'))
  await page.getByText('resume: ok').waitFor({ timeout: SOON })
})

scenario('it fits wide and narrow, light and dark, and can be read', async ({ page }) => {
  const grounds = []
  let least = 21
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme })
    for (const width of [1280, 820, 360]) {
      await page.setViewportSize({ width, height: 900 })
      const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth])
      demand(inner <= outer, `at ${width} it is ${inner} wide`)
      const [contrast, where] = await leastContrast(page)
      demand(contrast >= 4.5, `${colorScheme}, at ${width}: a contrast of ${contrast.toFixed(2)} in ${where}`)
      least = Math.min(least, contrast)
      const directory = process.env.PAGE_SHOTS
      if (directory) await page.screenshot({ path: path.join(directory, `${width}-${colorScheme}.png`), fullPage: true })
    }
    grounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
  }
  demand(grounds[0] !== grounds[1], 'both schemes have the same ground')
  await page.setViewportSize({ width: 1280, height: 900 })
  return `the least contrast is ${least.toFixed(1)}`
})

scenario('the hands turn smoothly, or step where motion is to be reduced', async ({ page }) => {
  const places = (most, ms) => page.evaluate(async ([most, ms]) => {
    const [seen, end] = [new Set(), performance.now() + ms]
    while (seen.size < most && performance.now() < end) {
      await new Promise(resolve => requestAnimationFrame(resolve))
      seen.add(document.querySelector('#rings .hand').getAttribute('transform'))
    }
    return seen.size
  }, [most, ms])
  same(await places(12, 10000), 12, 'places of a hand')
  await page.emulateMedia({ reducedMotion: 'reduce' })
  const steps = await places(12, 1000)
  demand(steps <= 6, `${steps} places in a second`)
  same(await page.$eval('#rings .bucket', one => getComputedStyle(one).transitionDuration), '0s', 'transitions')
  await page.emulateMedia({ reducedMotion: null })
})

scenario('a hidden page asks for nothing', async ({ page }) => {
  let asked = 0
  page.on('request', () => asked++)
  const hide = hidden => page.evaluate(hidden => {
    Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, hidden)
  await hide(true)
  same(await page.locator('#link').innerText(), 'paused', 'it says')
  const before = asked
  await sleep(1000)
  same(asked, before, 'requests')
  await hide(false)
  await soon(async () => same(await page.locator('#link').innerText(), 'live', 'it says'))
})

scenario('nothing was wrong until then, and nothing came from elsewhere', async ({ broker, seen }) => {
  same(seen.wrong, [], 'in the console')
  const hosts = new Set(seen.requests.map(url => new URL(url).host))
  same([...hosts], [new URL(broker.url).host], 'hosts')
})

scenario('it says when the broker is gone, and goes on when it is back', async world => {
  const { broker, page } = world
  await broker.stop()
  await page.getByText('The broker does not answer').waitFor({ timeout: SOON })
  same(await page.locator('#link').innerText(), 'no answer', 'it says')
  world.broker = await Broker.start(new URL(broker.url).host)
  await soon(async () => {
    same(await page.locator('#link').innerText(), 'live', 'it says')
    demand(!await page.locator('#trouble').isVisible(), 'the trouble is over')
    same((await figures(page))['topic.registered'][0], 0, 'what the new broker has registered')
    demand(await page.getByText('There is no topic yet').isVisible(), 'the topics are gone')
  })
})

async function open (world) {
  // What Chromium would otherwise ask of its maker is no business of this test.
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  world.browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args })
  world.page = await world.browser.newPage({ viewport: { width: 1280, height: 900 } })
  world.seen = { wrong: [], requests: [] }
  world.page.on('console', message => world.seen.wrong.push(message.text()))
  world.page.on('pageerror', error => world.seen.wrong.push(String(error)))
  world.page.on('request', request => world.seen.requests.push(request.url()))
  await world.page.goto(world.broker.url)
  await soon(async () => same(await world.page.locator('#link').innerText(), 'live', 'it says'))
}

async function main () {
  const world = { broker: await Broker.start() }
  let passed = 0
  let failed = 0
  try {
    await open(world)
    for (const { name, run } of scenarios.filter(one => one.name.includes(rest.join(' ')))) {
      const tooLong = sleep(LIMIT).then(() => { throw new Error(`not done after ${LIMIT} ms`) })
      tooLong.catch(() => {})
      try {
        const note = await Promise.race([run(world), tooLong])
        passed++
        console.log(`PASS ${name}${note ? `: ${note}` : ''}`)
      } catch (error) {
        failed++
        console.log(`FAIL ${name}: ${error.stack}`)
      }
    }
  } finally {
    await world.browser?.close()
    await world.broker.stop()
  }
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed || !passed ? 1 : 0)
}

main()
