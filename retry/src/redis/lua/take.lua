-- Now, how many, how many may be in flight, until when, how many bytes of payload are enough. Returns when the next item is
-- due if there was none left to take, whether it was enough, and receipts with payloads.
local now, n, max_in_flight, ends, bytes = unpack(ARGV, 3)
n, bytes = tonumber(n), tonumber(bytes)
local room = tonumber(max_in_flight) - redis.call('ZCARD', leased)
local due = room > 0 and range(waiting, '-', up_to(now), math.min(n, room)) or {}
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
local is_enough = #taken < #due
local next = ''
if #taken < n and not is_enough then
  -- Nobody looks again by itself.
  local first = earliest(waiting)
  if first and not has_come(first, now) then
    next = first
  elseif first and redis.call('EXISTS', refused) == 0 then
    -- There was no room for it. Who makes some will say so.
    redis.call('SET', refused, '')
  end
end
return { next, is_enough and 1 or 0, taken }
