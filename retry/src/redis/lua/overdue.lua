-- Now, and how many. Returns receipts, and when their time was over.
local overdue = {}
for _, member in ipairs(range(leased, '-', up_to(ARGV[3]), ARGV[4])) do
  local item = read(string.sub(member, DIGITS + 1))
  overdue[#overdue + 1] = { item.at, receipt(item) }
end
return overdue
