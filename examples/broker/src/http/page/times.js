// How long things took: bars on a scale that doubles.
import { format, keep, make, show } from './tables.js'
import { time } from './wheel.js'

export function drawTimes (lateness, waiting, { engines, all }, chosen) {
  const engine = engines[chosen] ?? all
  drawOne(lateness, engine.lateness)
  drawOne(waiting, engine.waiting)
}

function drawOne (figure, times) {
  let body = figure.querySelector('.body')
  if (!body) {
    body = make('div', { class: 'body' })
    body.append(
      make('div', { class: 'bars', role: 'img' }),
      make('div', { class: 'axis', 'aria-hidden': 'true' }, make('span'), make('span')),
      make('p', { class: 'marks' }),
      make('p', { class: 'empty muted' }, 'Nothing was measured yet.')
    )
    figure.append(body)
  }
  const [bars, axis, marks, empty] = body.children
  const { count, doublings } = times
  for (const part of [bars, axis, marks]) part.hidden = !count
  empty.hidden = count > 0
  if (!count) return
  const most = Math.max(...doublings.map((column) => column.count))
  keep(bars, doublings.map((column) => String(column.to_ms)), () => make('i')).forEach((bar, at) => {
    const { to_ms, count } = doublings[at]
    // What is there at all can be seen.
    bar.style.height = count ? `${Math.max(3, (100 * count) / most)}%` : '0'
    bar.title = `${time(to_ms / 2)} to ${time(to_ms)}: ${format(count)}`
  })
  show(axis.firstChild, time(doublings[0].to_ms / 2))
  show(axis.lastChild, time(doublings.at(-1).to_ms))
  const named = { median: times.p50_ms, '99 %': times.p99_ms, longest: times.max_ms }
  const figures = keep(marks, [...Object.keys(named), 'count'], (key) => make('span', {}, `${key} `, make('b', { 'data-figure': `${figure.id}.${key}` })))
  for (const [at, [, value]] of Object.entries(named).entries()) show(figures[at].lastChild, time(value))
  show(figures.at(-1).lastChild, format(count))
  figures.at(-1).lastChild.dataset.value = count
  bars.setAttribute('aria-label', Object.entries(named).map(([key, value]) => `${key} ${time(value)}`).join(', '))
}
