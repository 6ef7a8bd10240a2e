-- An id, and now.
local item = read(ARGV[3])
if not item or item.state ~= 'd' then
  return 0
end
leave(item)
item.attempt, item.round = 0, one_more(item.round, U32_MAX)
-- No delay, as Rust writes it.
item.delay, item.pushed = '0.000000000', ARGV[4]
write(item, 'w', ARGV[4])
publish()
return 1
