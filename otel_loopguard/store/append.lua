-- Append events to the log of a turn, and return those that the caller has not read.
--
-- KEYS[1]  the log
-- ARGV     1 server, 2 epoch, 3 seen, 4 new epoch, 5 expiry (ms), 6 most entries, 7 position of the snapshot or -1,
--          8 snapshot, 9 "1" to return entries, "0" to append only; then for each event its mark and its body
--
-- The log is one list, so that it is evicted and expires as a whole. Its first element is the id of the server of the
-- last append (8 bytes), the epoch (8), the base (4), and the marks of the last 1,024 events (8 each); its second the
-- snapshot up to the base, empty if the base is 0. The others are the entries after the base: seconds and microseconds
-- (4 bytes each), and the body.

local FIRST, REMEMBERED = 2, 1024 * 8
local key, server, epoch, seen = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local position, snapshot = tonumber(ARGV[7]), ARGV[8]
local head = redis.call('LINDEX', key, 0)
local current, base, length, marks

local function new_head()
  return server .. current .. struct.pack('>I4', base) .. string.sub(marks, -REMEMBERED)
end

if head then
  current, base, marks = string.sub(head, 9, 16), struct.unpack('>I4', head, 17), string.sub(head, 21)
  length = redis.call('LLEN', key) - FIRST
  if string.sub(head, 1, 8) ~= server or (current == epoch and seen > base + length) then
    -- Another server has taken over, or this one was restarted from a file: the last entries may be lost. With another
    -- epoch each caller reads the log again, and appends those of its events that are missing.
    current = ARGV[4]
    redis.call('LSET', key, 0, new_head())
  end
elseif position >= seen and position >= 0 then
  current, base, length, marks = ARGV[4], position, 0, ''
  redis.call('RPUSH', key, new_head(), snapshot)
  redis.call('PEXPIRE', key, ARGV[5])
elseif seen > 0 or #ARGV == 9 then
  return {''}
else
  current, base, length, marks = ARGV[4], 0, 0, ''
  redis.call('RPUSH', key, new_head(), '')
end

if current == epoch and position > base and position <= base + length then
  -- Drop as many elements from the front as entries end here; the first two of the rest become the head and snapshot.
  redis.call('LTRIM', key, position - base, -1)
  length, base = length - (position - base), position
  redis.call('LSET', key, 0, new_head())
  redis.call('LSET', key, 1, snapshot)
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
  redis.call('LSET', key, 0, new_head())
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
  not known and base > 0 and redis.call('LINDEX', key, 1) or false,
  redis.call('LRANGE', key, FIRST + from - base, -1),
}
