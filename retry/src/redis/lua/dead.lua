-- After which id or nothing, how many, how many bytes of payload are enough. Returns whether it was enough, and items: id,
-- attempts, payload, history.
local after_id, n, bytes = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local from = after_id == '' and '-' or '(' .. NO_TIME .. after_id
local found = range(dead, from, '+', n)
local letters = {}
for _, member in ipairs(found) do
  if bytes <= 0 then
    break
  end
  local item = read(string.sub(member, DIGITS + 1))
  local payload = redis.call('HGET', payloads, item.id)
  letters[#letters + 1] = { item.id, item.attempt, payload, history(item.id) }
  bytes = bytes - #payload
end
return { #letters < #found and 1 or 0, letters }
