// Asks the broker how it is, four times a second, and hands that to those who draw.
import { drawWheel, turnHands } from './wheel.js'
import { NAMES, drawBooks, drawKeys, drawNodes, drawPartitions, drawTiles } from './tables.js'
import { drawTimes } from './times.js'

const EVERY_MS = 250
/** How soon it asks again when no answer came. */
const RETRY_MS = 1000
const PATIENCE_MS = 4000
/** Rates are those of so long. */
const RATE_MS = 2000

const element = (id) => document.getElementById(id)
const calm = matchMedia('(prefers-reduced-motion: reduce)')

/** What came in the last two seconds, the oldest first. */
let pictures = []
let timer
/** Counts the requests: an answer to an earlier one is late. */
let asked = 0
let failures = 0

async function ask () {
  clearTimeout(timer)
  if (document.hidden) return
  const own = ++asked
  const begun = performance.now()
  let next
  try {
    const response = await fetch('stats.json', { signal: AbortSignal.timeout(PATIENCE_MS) })
    if (!response.ok) throw new Error(`the broker answered ${response.status}`)
    const picture = await response.json()
    if (own !== asked) return
    failures = 0
    take(picture)
    // A large broker is asked less often: a third of the time at most goes into it.
    next = Math.max(EVERY_MS, 2 * (performance.now() - begun))
  } catch (error) {
    if (own !== asked) return
    failures += 1
    next = RETRY_MS
    miss(error)
  }
  timer = setTimeout(ask, next)
}

function take (picture) {
  picture.at = performance.now()
  // A broker that was started anew counts from nothing.
  if (pictures.length && picture.uptime_ms < pictures.at(-1).uptime_ms) pictures = []
  pictures.push(picture)
  while (pictures.length > 2 && picture.uptime_ms - pictures[1].uptime_ms >= RATE_MS) pictures.shift()
  say('good', 'live')
  element('trouble').hidden = true
  document.body.classList.remove('stale')
  draw()
}

function miss (error) {
  // One that comes to nothing may be chance.
  if (failures < 2 && pictures.length) return
  say('bad', 'no answer')
  const trouble = element('trouble')
  trouble.hidden = false
  trouble.textContent = `The broker does not answer${pictures.length ? '; these are its last figures' : ''}. Trying again every second.`
  trouble.title = String(error)
  document.body.classList.add('stale')
}

function say (state, text) {
  const link = element('link')
  // Written only when it changes: it is read out.
  if (link.dataset.state === state && link.textContent === text) return
  link.dataset.state = state
  link.textContent = text
}

function draw () {
  const picture = pictures.at(-1)
  const chosen = element('choice').value
  const rate = rates(pictures[0], picture)
  drawTiles(element('tiles'), picture, rate)
  drawBooks(element('books'), picture, rate)
  drawNodes(element('nodes'), picture, command)
  drawPartitions(element('partitions'), picture)
  drawKeys(element('keys'), picture, chosen)
  drawWheel(element('rings'), element('levels'), picture, chosen)
  element('times-of').textContent = chosen ? NAMES[chosen] : 'all purgatories'
  drawTimes(element('lateness'), element('waiting'), picture, chosen)
  if (calm.matches) turnHands(picture, 0)
}

/** A function from two counts to what that is a second. */
function rates (first, last) {
  const seconds = (last.uptime_ms - first.uptime_ms) / 1000
  return (count) => (seconds > 0 ? (count(last) - count(first)) / seconds : 0)
}

/** Gives a command of the control port, and shows what came of it. */
async function command (line) {
  const said = element('said')
  try {
    const response = await fetch('control', { method: 'POST', body: line, signal: AbortSignal.timeout(PATIENCE_MS) })
    const reply = (await response.text()).trim()
    said.textContent = `${line}: ${reply}`
  } catch {
    said.textContent = `${line}: the broker does not answer`
  }
  ask()
}

/** Between two pictures the hands go on. They wait for one that is late. */
function animate () {
  if (pictures.length && !calm.matches) {
    const picture = pictures.at(-1)
    turnHands(picture, Math.min(performance.now() - picture.at, 2 * EVERY_MS))
  }
  requestAnimationFrame(animate)
}

for (const [name, title] of Object.entries(NAMES)) element('choice').add(new Option(title, name))
element('choice').addEventListener('change', () => pictures.length && draw())
for (const button of element('all-nodes').children) {
  button.addEventListener('click', () => command(button.dataset.command))
}
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    clearTimeout(timer)
    asked += 1
    // What happened meanwhile is not a rate of the last seconds.
    pictures = []
    say('', 'paused')
  } else {
    ask()
  }
})
ask()
requestAnimationFrame(animate)
