-- Append events to the log of a turn, and return those that the caller has not read.
--
-- KEYS[1]  the log
-- ARGV     1 server, 2 epoch, 3 seen, 4 new epoch, 5 expiry (ms), 6 most entries, 7 position of the snapshot or -1,
--          8 snapshot, 9 "1" to return entries, "0" to append only; then for each event its mark and its body
--
-- The log is one list, so that it is evicted and expires as a whole. Its first three elements are
--   the id of the server of the last append (8 bytes), the epoch (8 bytes) and the base (decimal);
--   the marks of the last 1,024 events, 8 bytes each;
--   the snapshot up to the base, empty if the base is 0.
-- The others are the entries after the base: seconds and microseconds (4 bytes each), and the body.

local FIRST, MARK, REMEMBERED = 3, 8, 1024
local key, server, epoch, seen = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local position, snapshot = tonumber(ARGV[7]), ARGV[8]
local header = redis.call('LINDEX', key, 0)
local current, base, length, marks

if header then
  current, base = string.sub(header, 9, 16), tonumber(string.sub(header, 17))
  length = redis.call('LLEN', key) - FIRST
  if string.sub(header, 1, 8) ~= server or (current == epoch and seen > base + length) then
    -- Another server has taken over, or this one was restarted from a file: the last entries may be lost. With another
    -- epoch each caller reads the log again, and appends those of its events that are missing.
    current = ARGV[4]
    redis.call('LSET', key, 0, server .. current .. base)
  end
  marks = redis.call('LINDEX', key, 1)
elseif position >= seen and position >= 0 then
  current, base, length, marks = ARGV[4], position, 0, ''
  redis.call('RPUSH', key, server .. current .. base, marks, snapshot)
  redis.call('PEXPIRE', key, ARGV[5])
elseif seen > 0 or #ARGV == 9 then
  return {''}
else
  current, base, length, marks = ARGV[4], 0, 0, ''
  redis.call('RPUSH', key, server .. current .. base, marks, '')
end

if current == epoch and position > base and position <= base + length then
  -- Drop as many elements from the front as entries end here; the first three of the rest become the new head.
  redis.call('LTRIM', key, position - base, -1)
  length, base = length - (position - base), position
  redis.call('LSET', key, 0, server .. current .. base)
  redis.call('LSET', key, 1, marks)
  redis.call('LSET', key, 2, snapshot)
end

local added = {}
for index = 10, #ARGV, 2 do
  if not string.find(marks, ARGV[index], 1, true) then
    marks = marks .. ARGV[index]
    added[#added + 1] = ARGV[index + 1]
  end
end
if #added > 0 and length + #added <= tonumber(ARGV[6]) then
  local now = redis.call('TIME')
  local time = struct.pack('>I4I4', tonumber(now[1]), tonumber(now[2]))
  for _, body in ipairs(added) do
    redis.call('RPUSH', key, time .. body)
  end
  redis.call('LSET', key, 1, string.sub(marks, -REMEMBERED * MARK))
  redis.call('PEXPIRE', key, ARGV[5])
end

if ARGV[9] == '0' then
  return {current}
end
local known = current == epoch and seen >= base
local from = known and seen or base
return {
  current,
  base,
  not known and base > 0 and redis.call('LINDEX', key, 2) or false,
  redis.call('LRANGE', key, FIRST + from - base, -1),
}
