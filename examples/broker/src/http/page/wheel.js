// The wheel as rings of buckets, level 0 innermost. What a bucket holds is shown by how dark it is.
import { format, keep, make, show } from './tables.js'

const SLOTS = 64
/** Rings that are always there: up to four hours with ticks of a millisecond. */
const RINGS = 4
const HUB = 62
const RIM = 196
const GAP = 5
/** This many timers in one bucket are as dark as it gets. */
const DARK = 64
const SVG = 'http://www.w3.org/2000/svg'

/** The broker's purgatories have ticks of a millisecond. */
const TICK_MS = 1

let rings = []

export function drawWheel (svg, table, { engines, all, uptime_ms }, chosen) {
  const { levels, outside } = engines[chosen] ?? all
  const shown = Math.max(RINGS, levels.length)
  if (rings.length !== shown) build(svg, shown)
  const counts = rings.map((_, level) => levels[level] ?? [])
  counts.forEach((slots, level) => {
    rings[level].slot = Math.floor(place(uptime_ms, level))
    rings[level].buckets.forEach((bucket, slot) => {
      const count = slots[slot] ?? 0
      bucket.classList.toggle('full', count > 0)
      if (bucket.dataset.count === String(count)) return
      bucket.dataset.count = count
      bucket.style.fillOpacity = count ? 0.7 + 0.3 * Math.min(1, Math.log2(count) / Math.log2(DARK)) : ''
    })
  })
  const sums = counts.map((slots) => slots.reduce((sum, count) => sum + count, 0))
  const total = sums.reduce((sum, count) => sum + count, outside)
  show(svg.querySelector('.hub'), format(total))
  svg.dataset.total = total
  svg.setAttribute('aria-label', `The wheel, with ${format(total)} timers: ${sums.map((sum, level) => `${sum} on level ${level}`).join(', ')}`)
  drawLevels(table, sums)
}

/** A table that says what the rings are, the outermost first as they are seen from above. */
function drawLevels (table, sums) {
  const row = (level) => {
    const span = TICK_MS * SLOTS ** Number(level)
    const cells = [time(span), time(span * SLOTS)].map((text) => make('td', {}, text))
    return make('tr', {}, make('th', { scope: 'row' }, `level ${level}`), ...cells, make('td', { 'data-figure': `level.${level}` }))
  }
  const rows = keep(table.tBodies[0], sums.map((_, level) => String(level)).reverse(), row)
  rows.forEach((line) => {
    const sum = sums[Number(line.dataset.key)]
    const cell = line.lastElementChild
    cell.dataset.value = sum
    show(cell, format(sum))
    cell.classList.toggle('zero', sum === 0)
  })
}

/** Where the hand of a level stands, in slots. */
const place = (ms, level) => (ms / TICK_MS / SLOTS ** level) % SLOTS

/**
 * Turns the hands to where they stand so many milliseconds after the picture, and empties the buckets that they pass: what was
 * there is over, or has moved inward. The innermost hand is too fast to be seen, and is not drawn.
 */
export function turnHands ({ uptime_ms }, after) {
  rings.forEach((ring, level) => {
    if (!ring.hand) return
    const slots = place(uptime_ms + after, level)
    ring.hand.setAttribute('transform', `rotate(${((360 * slots) / SLOTS).toFixed(2)})`)
    for (; ring.slot !== Math.floor(slots); ring.slot = (ring.slot + 1) % SLOTS) ring.buckets[ring.slot].classList.remove('full')
  })
}

function build (svg, count) {
  svg.replaceChildren()
  const pitch = (RIM - HUB + GAP) / count
  rings = Array.from({ length: count }, (_, level) => {
    const inner = HUB + level * pitch
    const outer = inner + pitch - GAP
    const group = draw(svg, 'g', {})
    const buckets = Array.from({ length: SLOTS }, (_, slot) => {
      const bucket = draw(group, 'path', { class: 'bucket', d: sector(inner, outer, slot), 'data-level': level, 'data-slot': slot })
      bucket.addEventListener('pointerenter', () => tell(bucket.dataset))
      bucket.addEventListener('pointerleave', () => show(document.getElementById('bucket'), ''))
      return bucket
    })
    const hand = level ? draw(group, 'line', { class: 'hand', x1: 0, x2: 0, y1: -inner + 1, y2: -outer - 1 }) : null
    return { buckets, hand, slot: 0 }
  })
  draw(svg, 'text', { class: 'hub', y: 6 })
  draw(svg, 'text', { class: 'hub-note', y: 26 }).textContent = 'timers'
}

function draw (parent, name, attributes) {
  const drawn = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) drawn.setAttribute(key, value)
  return parent.appendChild(drawn)
}

/** A bucket's outline; slot 0 begins at the top, and they follow clockwise. The gap between two is equally wide outside and inside. */
function sector (inner, outer, slot) {
  const point = (radius, edge) => {
    const angle = (2 * Math.PI * (slot + edge)) / SLOTS + (edge ? -1 : 1) * (0.6 / radius)
    return `${(radius * Math.sin(angle)).toFixed(2)} ${(-radius * Math.cos(angle)).toFixed(2)}`
  }
  return `M${point(inner, 0)}L${point(outer, 0)}A${outer} ${outer} 0 0 1 ${point(outer, 1)}L${point(inner, 1)}A${inner} ${inner} 0 0 0 ${point(inner, 0)}Z`
}

function tell ({ level, slot, count }) {
  const span = TICK_MS * SLOTS ** Number(level)
  show(document.getElementById('bucket'), `Level ${level}, bucket ${slot}, ${time(span)} wide: ${format(Number(count))} timers`)
}

/** Milliseconds as a person says them, to two digits or three. */
export function time (ms) {
  const units = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1000, 's'], [1, 'ms'], [0.001, 'µs']]
  const [size, name] = units.find(([size]) => ms >= size) ?? units.at(-1)
  const value = ms / size
  return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(2 + (value >= 10)))} ${name}`
}
