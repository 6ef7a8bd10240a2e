-- Stands before each script. KEYS are the tables; ARGV begins with the channel and with who asks.
local last_id, items, payloads, histories, waiting, leased, dead, refused = unpack(KEYS)
local index = { w = waiting, l = leased, d = dead }

-- Times and ids are twenty digits, so that the members of an index, a time and an id each, lie in order.
local DIGITS = 20
local NO_TIME = string.rep('0', DIGITS)

-- Whether `at` is not after `now`. By halves, which a double holds; `<` of strings goes by the server's locale.
local function has_come(at, now)
  local a, b = tonumber(string.sub(at, 1, 10)), tonumber(string.sub(now, 1, 10))
  if a ~= b then
    return a < b
  end
  return tonumber(string.sub(at, 11, DIGITS)) <= tonumber(string.sub(now, 11, DIGITS))
end

-- The bounds of what is not after a time, and of what is after it: ':' follows '9'.
local function up_to(now)
  return '(' .. now .. ':'
end
local function after(now)
  return '[' .. now .. ':'
end

local function range(key, from, to, n)
  return redis.call('ZRANGE', key, from, to, 'BYLEX', 'LIMIT', 0, n)
end

local function earliest(key)
  local first = redis.call('ZRANGE', key, 0, 0)[1]
  return first and string.sub(first, 1, DIGITS)
end

local function read(id)
  local stored = redis.call('HGET', items, id)
  if not stored then
    return nil
  end
  local item = { id = id }
  item.state, item.at, item.pushed, item.attempt, item.delivery, item.round, item.delay =
    string.match(stored, '^(%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  return item
end

-- A number one higher, and no higher than a limit: for those that a double holds.
local function one_more(number, limit)
  return string.format('%.0f', math.min(tonumber(number) + 1, limit))
end
local U32_MAX = 4294967295
local DOUBLE_MAX = 9007199254740992

-- What others must hear of: for an index the earliest time that has become its first.
local news = {}
local function tell(state, at)
  if not news[state] or not has_come(news[state], at) then
    news[state] = at
  end
end

-- At the end of a script that changes something. Without leave to publish, the step is made all the same.
local function publish()
  for state, at in pairs(news) do
    redis.pcall('PUBLISH', ARGV[1], ARGV[2] .. ' ' .. state .. ' ' .. at)
  end
end

local function write(item, state, at)
  item.state, item.at = state, at
  if state ~= 'd' then
    local first = earliest(index[state])
    if not first or not has_come(first, at) then
      tell(state, at)
    end
  end
  redis.call('ZADD', index[state], 0, at .. item.id)
  redis.call('HSET', items, item.id, table.concat(
    { state, at, item.pushed, item.attempt, item.delivery, item.round, item.delay }, ' '))
end

local function leave(item)
  redis.call('ZREM', index[item.state], item.at .. item.id)
end

local function forget(id)
  redis.call('HDEL', items, id)
  redis.call('HDEL', payloads, id)
  redis.call('HDEL', histories, id)
end

local function receipt(item)
  return { item.id, item.delivery, item.attempt, item.delay, item.round, item.pushed }
end

local function history(id)
  local packed = redis.call('HGET', histories, id)
  return packed and cmsgpack.unpack(packed) or {}
end
