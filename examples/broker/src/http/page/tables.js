// Numbers: tiles, books, nodes, partitions, keys. An element is made once and then only changed.

/** The purgatories, as in the stats. */
export const NAMES = {
  produce: 'Produce',
  fetch: 'Fetch',
  delete_records: 'Delete records',
  topic: 'Topics',
  rebalance: 'Rebalance',
  heartbeat: 'Heartbeat',
  idle: 'Idle connections',
  chores: 'Lag check'
}

const ENDS = { satisfied: 'satisfied', expired: 'expired', forced: 'forced', cancelled: 'cancelled', shut_down: 'shut down', panicked: 'panicked' }
/** More rows would be no view any more. */
const MOST_PARTITIONS = 50

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const tenths = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 })

export const format = (number) => whole.format(number)
const formatRate = (rate) => (rate >= 100 ? whole : tenths).format(rate)

/** Makes an element with a class, attributes and children. */
export function make (name, attributes = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

/** Shows a text, and touches nothing that stands there already. */
export function show (element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** A number that is named in the page: `data-figure` says what it is, `data-value` is the number itself. */
function figure (root, name, value, text = format(value)) {
  // Compared, not put into a selector: clients choose the names of groups and members.
  const element = [...root.querySelectorAll('[data-figure]')].find((one) => one.dataset.figure === name)
  element.dataset.value = value
  show(element, text)
  return element
}

/** Keeps one child for each key, in order; `build` makes one that is missing. */
export function keep (parent, keys, build) {
  const found = new Map([...parent.children].map((child) => [child.dataset.key, child]))
  keys.forEach((key, at) => {
    let child = found.get(key)
    found.delete(key)
    if (!child) {
      child = build(key)
      child.dataset.key = key
    }
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null)
  })
  for (const gone of found.values()) gone.remove()
  return [...parent.children]
}

export function drawTiles (tiles, { uptime_ms, stats }, rate) {
  const shown = {
    parked: ['requests waiting', stats.parked],
    timers: ['timers on the wheel', stats.timers],
    request_rate: ['requests a second', rate((picture) => picture.stats.requests), formatRate],
    connections: ['connections', stats.connections],
    members: ['group members', stats.members],
    short: ['under-replicated partitions', stats.partitions.filter(isShort).length],
    wake_up_rate: ['wake-ups a second', rate((picture) => picture.stats.wake_ups), formatRate],
    uptime: ['running', Math.floor(uptime_ms / 1000), span]
  }
  keep(tiles, Object.keys(shown), (name) => make('div', {}, make('dt', {}, shown[name][0]), make('dd', { 'data-figure': name })))
  for (const [name, [, value, text = format]] of Object.entries(shown)) figure(tiles, name, value, text(value))
}

/** Seconds as a person says them. */
function span (seconds) {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours) return `${hours} h ${minutes} min`
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

export function drawBooks (table, { stats }, rate) {
  const columns = { pending: 'waiting now', registered: 'registered', ...ENDS }
  if (!table.tHead.rows.length) {
    const heads = Object.values(columns).map((title) => make('th', { scope: 'col' }, title))
    table.tHead.append(make('tr', {}, make('th', { scope: 'col' }, 'purgatory'), ...heads))
  }
  const cell = (name, column) => {
    const total = { 'data-figure': `${name}.${column}` }
    const made = make('td', { 'data-label': columns[column] })
    made.append(make('span', total))
    if (column !== 'pending') made.append(make('small', { 'data-figure': `${name}.${column}.rate` }))
    return made
  }
  const row = (name) =>
    make('tr', {}, make('th', { scope: 'row' }, NAMES[name]), ...Object.keys(columns).map((column) => cell(name, column)))
  for (const line of keep(table.tBodies[0], Object.keys(NAMES), row)) {
    const name = line.dataset.key
    line.classList.toggle('unused', stats[name].registered === 0)
    for (const column of Object.keys(columns)) {
      const value = stats[name][column]
      const total = figure(line, `${name}.${column}`, value)
      if (column !== 'pending') {
        const now = rate((picture) => picture.stats[name][column])
        figure(line, `${name}.${column}.rate`, now, now ? `${formatRate(now)}/s` : '\u00a0')
      }
      const box = total.parentElement
      box.classList.toggle('zero', value === 0)
      box.classList.toggle('now', column === 'pending')
      box.classList.toggle('alarm', column === 'panicked' && value > 0)
    }
  }
}

export function drawNodes (list, { stats }, command) {
  const nodes = stats.nodes.map((address, at) => ({ number: at + 1, address }))
  const row = (key) => {
    const made = make(
      'li',
      { 'data-node': key },
      make('span', { class: 'name' }, `Node ${key}`, make('span', { class: 'pill' })),
      make('span', { class: 'detail' }),
      make('span', { class: 'muted' }, nodes[key - 1].address)
    )
    if (key !== '1') {
      const button = make('button', { type: 'button' })
      button.addEventListener('click', () => command(`${button.dataset.command} ${key}`))
      made.append(button)
    }
    return made
  }
  const rows = keep(list, nodes.map((node) => String(node.number)), row)
  nodes.forEach(({ number }, at) => {
    const state = standing(stats, number)
    const pill = rows[at].querySelector('.pill')
    pill.dataset.state = state.mood
    show(pill, state.name)
    show(rows[at].querySelector('.detail'), state.detail)
    const button = rows[at].querySelector('button')
    if (!button) return
    const isPaused = stats.paused.includes(number)
    button.dataset.command = isPaused ? 'resume' : 'pause'
    show(button, isPaused ? 'Resume' : 'Pause')
    button.setAttribute('aria-label', `${isPaused ? 'Resume' : 'Pause'} node ${number}`)
  })
}

function standing ({ partitions, paused }, number) {
  if (number === 1) return { mood: 'good', name: 'leader', detail: `leads ${count(partitions.length, 'partition')}` }
  const own = partitions.filter((partition) => partition.followers.some((follower) => follower.node === number))
  const inSync = own.filter((partition) => partition.isr.includes(number)).length
  const behind = own.reduce((sum, { log_end, followers }) => {
    return sum + Math.max(0, log_end - followers.find((follower) => follower.node === number).log_end)
  }, 0)
  const detail = own.length ? `${inSync} of ${count(own.length, 'partition')} in sync, ${count(behind, 'record')} behind` : 'no partitions'
  if (paused.includes(number)) return { mood: 'warn', name: 'paused', detail }
  return inSync < own.length ? { mood: 'bad', name: 'out of sync', detail } : { mood: 'good', name: 'in sync', detail }
}

const count = (number, noun) => `${format(number)} ${noun}${number === 1 ? '' : 's'}`

/** Whether a replica is not in sync. */
const isShort = ({ isr, followers }) => isr.length < 1 + followers.length

export function drawPartitions (table, { stats: { partitions } }) {
  const shown = partitions.slice(0, MOST_PARTITIONS)
  const columns = ['log_start', 'high_watermark', 'log_end', 'isr']
  const name = (partition) => `${partition.topic}-${partition.partition}`
  const row = (key) => {
    const cells = columns.map((column) => make('td', { class: column, 'data-figure': `${key}.${column}` }))
    return make('tr', {}, make('th', { scope: 'row', class: 'key' }, key), ...cells)
  }
  const rows = keep(table.tBodies[0], shown.map(name), row)
  shown.forEach((partition, at) => {
    for (const column of columns.slice(0, 3)) figure(rows[at], `${name(partition)}.${column}`, partition[column])
    const isr = figure(rows[at], `${name(partition)}.isr`, partition.isr.join(','), partition.isr.join(' '))
    isr.classList.toggle('alarm', isShort(partition))
  })
  table.hidden = !shown.length
  document.getElementById('no-partitions').hidden = shown.length > 0
  const left = partitions.length - shown.length
  show(document.getElementById('partitions-note'), left ? `the first ${shown.length} of ${format(partitions.length)}` : '')
}

export function drawKeys (table, { engines }, chosen) {
  const names = chosen ? [chosen] : Object.keys(NAMES)
  const keys = names
    .flatMap((name) => engines[name].hottest.map((key) => ({ ...key, name, id: `${name} ${key.key}` })))
    .sort((one, other) => other.waiting - one.waiting || one.id.localeCompare(other.id))
    .slice(0, 10)
  const row = (id) => {
    const bar = make('span', { class: 'meter', 'aria-hidden': 'true' }, make('span'))
    return make('tr', {}, make('td', { class: 'key' }, make('span'), make('small'), bar), make('td', { 'data-figure': `key.${id}` }))
  }
  const rows = keep(table.tBodies[0], keys.map((key) => key.id), row)
  keys.forEach((key, at) => {
    const [text, place, bar] = rows[at].cells[0].children
    show(text, key.key)
    show(place, NAMES[key.name])
    bar.firstChild.style.width = `${(100 * key.waiting) / keys[0].waiting}%`
    figure(rows[at], `key.${key.id}`, key.waiting)
  })
  table.hidden = !keys.length
  document.getElementById('no-keys').hidden = keys.length > 0
}
