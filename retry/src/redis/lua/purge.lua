-- An id.
local item = read(ARGV[3])
if not item or item.state ~= 'd' then
  return 0
end
leave(item)
forget(item.id)
return 1
