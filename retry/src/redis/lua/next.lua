-- Now. Returns the first time after it, or nothing.
local from = after(ARGV[3])
local due, ends = range(waiting, from, '+', 1)[1], range(leased, from, '+', 1)[1]
if not due or (ends and has_come(ends, due)) then
  due = ends
end
return due and string.sub(due, 1, DIGITS) or ''
