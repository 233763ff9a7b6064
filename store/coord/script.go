package coord

// countScript is [Counter] on the server, in microseconds of the server's clock, so
// that the clocks of instances may differ. It returns zero or the time to wait. If the
// clock went back, as after a failover, it starts a new window.
const countScript = `
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local kept = redis.call('HMGET', KEYS[1], 's', 'n', 'p')
local start, n, past = tonumber(kept[1] or now), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local passed = now - start
if passed < 0 then
  start = now
elseif passed >= 2 * window then
  start, n, past = now, 0, 0
elseif passed >= window then
  start, n, past = start + window, 0, n
end
passed = now - start
if n + past * (window - passed) / window < limit then
  redis.call('HSET', KEYS[1], 's', string.format('%.0f', start), 'n', n + 1, 'p', past)
  redis.call('PEXPIRE', KEYS[1], 2 * window / 1000)
  return 0
end
local wait
if n < limit then
  wait = (1 - (limit - n) / past) * window - passed
else
  wait = window - passed + (1 - limit / n) * window
end
return math.max(1, math.ceil(wait) + 1)
`

// holdScript acquires a lock, or renews that of the same holder.
const holdScript = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`

// releaseScript deletes a lock if the holder still has it.
const releaseScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`
