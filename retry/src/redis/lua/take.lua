-- Now, how many, how many may be in flight, until when, how many bytes of payload are enough. Returns when the next item is
-- due if none is, whether there may be more, and receipts with payloads.
local now, n, max_in_flight, ends, bytes = unpack(ARGV, 3)
local first = earliest(waiting)
if not first or not has_come(first, now) then
  return { first or '', 0, {} }
end
local room = tonumber(max_in_flight) - redis.call('ZCARD', leased)
if room <= 0 then
  -- Who makes room will say so.
  if redis.call('EXISTS', refused) == 0 then
    redis.call('SET', refused, '')
  end
  return { '', 0, {} }
end
n = math.min(tonumber(n), room)
bytes = tonumber(bytes)
local due = range(waiting, '-', up_to(now), n)
local taken = {}
for _, member in ipairs(due) do
  if bytes <= 0 then
    break
  end
  local item = read(string.sub(member, DIGITS + 1))
  item.attempt = one_more(item.attempt, U32_MAX)
  item.delivery = one_more(item.delivery, DOUBLE_MAX)
  leave(item)
  write(item, 'l', ends)
  local payload = redis.call('HGET', payloads, item.id)
  taken[#taken + 1] = { receipt(item), payload }
  bytes = bytes - #payload
end
publish()
return { '', #taken < #due and 1 or 0, taken }
