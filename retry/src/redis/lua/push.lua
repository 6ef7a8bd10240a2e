-- Items of six: payload, pushed, due or nothing, attempt, delay, failure or nothing. Returns their ids.
local ids = {}
for n = 3, #ARGV, 6 do
  redis.call('INCR', last_id)
  -- Read as text: the number may be one that no double holds.
  local id = redis.call('GET', last_id)
  id = string.rep('0', DIGITS - #id) .. id
  redis.call('HSET', payloads, id, ARGV[n])
  if ARGV[n + 5] ~= '' then
    redis.call('HSET', histories, id, cmsgpack.pack({ ARGV[n + 5] }))
  end
  local item = { id = id, pushed = ARGV[n + 1], attempt = ARGV[n + 3], delivery = 0, round = 0, delay = ARGV[n + 4] }
  local due = ARGV[n + 2]
  if due == '' then
    write(item, 'd', NO_TIME)
  else
    write(item, 'w', due)
  end
  ids[#ids + 1] = id
end
publish()
return ids
