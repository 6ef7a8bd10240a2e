-- Now, whether the receipts must have run out, how many failures are kept; and settlements of seven: id, delivery, pushed, what,
-- and for some a time, a delay and a failure. Returns which of them counted.
local now, is_over, kept = ARGV[3], ARGV[4] == '1', tonumber(ARGV[5])

local function note(id, failure)
  local failures = history(id)
  if #failures >= kept then
    table.remove(failures, 1)
  end
  failures[#failures + 1] = failure
  redis.call('HSET', histories, id, cmsgpack.pack(failures))
end

local function settle(id, delivery, pushed, what, at, delay, failure)
  local item = read(id)
  -- The time of pushing too: after a failover that has lost items, their ids are given to others.
  if not item or item.state ~= 'l' or item.delivery ~= delivery or item.pushed ~= pushed then
    return 0
  end
  if has_come(item.at, now) ~= is_over then
    return 0
  end
  leave(item)
  if what == 'extend' then
    write(item, 'l', at)
    return 1
  end
  if redis.call('DEL', refused) == 1 then
    tell('w', NO_TIME)
  end
  if what == 'done' then
    forget(id)
    return 1
  end
  note(id, failure)
  if what == 'retry' then
    item.delay = delay
    write(item, 'w', at)
  else
    write(item, 'd', NO_TIME)
  end
  return 1
end

local counted = {}
for n = 6, #ARGV, 7 do
  counted[#counted + 1] = settle(unpack(ARGV, n, n + 6))
end
publish()
return counted
