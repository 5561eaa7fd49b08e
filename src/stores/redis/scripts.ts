/**
 * What runs inside Redis. The rules of the ledger stay in core: a script swaps strings by their version and keeps the
 * index in step, nothing else. Each answers the server's TIME first.
 *
 * On a cluster every key a script decides by is named in KEYS. That is what makes a slot under way to another node safe: Redis
 * then refuses (TRYAGAIN) or redirects, instead of taking a record that has moved already for one that was never there.
 */
import { createHash } from "node:crypto";

export interface Script {
  readonly text: string;
  readonly sha: string;
}

function script(text: string): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

/** KEYS: where the layout stands. ARGV: ours. Answers the ledger's, which is ours where there was none yet. */
export const LAYOUT = script(`
local time = redis.call('TIME')
local layout = redis.call('GET', KEYS[1])
if not layout then
  layout = ARGV[1]
  redis.call('SET', KEYS[1], layout)
end
return {time[1], time[2], layout}`);

/** KEYS: where the ledger's name is. Answers it; '': there is none. */
export const LEDGER_NAME = script(`
local time = redis.call('TIME')
return {time[1], time[2], redis.call('GET', KEYS[1]) or ''}`);

/** KEYS: the same. ARGV: the name that was read, and the new one. */
export const NAME_LEDGER = script(`
local time = redis.call('TIME')
if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end
return {time[1], time[2]}`);

/** KEYS: indexes. ARGV: the score of marks. Answers the mark of each, without its letter; '': there is none. */
export const MARKS = script(`
local time = redis.call('TIME')
local reply = {time[1], time[2]}
for b = 1, #KEYS do
  local mark = redis.call('ZRANGE', KEYS[b], ARGV[1], ARGV[1], 'BYSCORE')[1]
  reply[b + 2] = mark and string.sub(mark, 2) or ''
end
return reply`);

/** KEYS: indexes. ARGV: the score of marks, the ledger's id. */
export const MARK = script(`
local time = redis.call('TIME')
for b = 1, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[b], ARGV[1], ARGV[1])
  redis.call('ZADD', KEYS[b], ARGV[1], 'z' .. ARGV[2])
end
return {time[1], time[2]}`);

/**
 * Refuses to go on where an index that is asked about has not the mark of the ledger: see stores/redis/identity.ts. A primary that was
 * demoted takes over the data of the new one: that it is a replica now is the answer that helps.
 */
function refuseLost(last: string, id: string): string {
  return `
for b = 1, ${last} do
  if not redis.call('ZSCORE', KEYS[b], 'z' .. ${id}) then
    local info = redis.pcall('INFO', 'replication')
    if type(info) == 'string' and string.find(info, 'role:slave') then return redis.error_reply("READONLY You can't write against a read only replica.") end
    return redis.error_reply('LEDGERLOST ' .. KEYS[b])
  end
end`;
}

/** KEYS: records. */
export const READ = script(`
local time = redis.call('TIME')
return {time[1], time[2], redis.call('MGET', unpack(KEYS))}`);

/**
 * KEYS: the indexes of the buckets concerned; on a cluster also the records, so that it knows of them. ARGV: what the
 * channels are called after ('': the index), a line for each row, the rows themselves one after the other (the version expected, or
 * as many spaces; key; row), the doorbells of due work ('': none), the ledger's id, then what lines refer to. No key comes twice.
 * A line is eight numbers in binary: the bytes of key and row, which index, and which of the last arguments (0: none) is
 * what the index says about the record, its score in 'a', in its state's list and in 'q', and when it expires.
 * Answers a row each: 1, or the row that was in the way (nil: none).
 *
 * Two arguments for a whole batch, cut up here: seven for each row were half of what a batch cost the program. Rows are read
 * by one call and written by one, where none expires: to call the server from a script costs more than what it is asked.
 */
export const WRITE = script(`
local call, sub, unstruct = redis.call, string.sub, struct.unpack
local LIST = {c = 'o', s = 'o', p = 'p', u = 'u', f = 'f'}
local LINE, NONE = 18, string.rep(' ', 16)${refuseLost("(ARGV[1] == '' and 1 or #KEYS)", "ARGV[5]")}
local time = call('TIME')
local reply = {time[1], time[2]}
local lines, bytes, at, n = ARGV[2], ARGV[3], 1, #ARGV[2] / LINE
local names, keys, rows, expecteds = {}, {}, {}, {}
for i = 1, n do
  local keyBytes, rowBytes, b = unstruct('>I2I4I2', lines, (i - 1) * LINE + 1)
  local keyAt = at + 16
  local rowAt = keyAt + keyBytes
  local nextAt = rowAt + rowBytes
  local name = sub(bytes, keyAt, rowAt - 1)
  expecteds[i], names[i], rows[i] = sub(bytes, at, keyAt - 1), name, sub(bytes, rowAt, nextAt - 1)
  keys[i] = KEYS[b] .. ':' .. name
  at = nextAt
end
local olds = call('MGET', unpack(keys))
local sets, s, adds, gone, freed, rings = {}, 0, {}, {}, {}, false
local function take(index, member)
  local list = gone[index]
  if not list then
    list = {}
    gone[index] = list
  end
  list[#list + 1] = member
end
for i = 1, n do
  local key, row, expected, old, won = keys[i], rows[i], expecteds[i], olds[i]
  if old then won = sub(old, 1, 16) == expected else won = expected == NONE end
  if won then
    local b, aboutAt, created, listed, queued, expires = unstruct('>I2I2I2I2I2I2', lines, (i - 1) * LINE + 7)
    local index, name, about = KEYS[b], names[i], ARGV[aboutAt + 5]
    reply[i + 2] = 1
    if expires > 0 then call('SET', key, row, 'PXAT', ARGV[expires + 5])
    else
      sets[s + 1], sets[s + 2] = key, row
      s = s + 2
    end
    local list, was = LIST[sub(row, 17, 17)], old and LIST[sub(old, 17, 17)]
    -- At 0 how many there are: to ask a list for its length costs more than the rest.
    local add = adds[index]
    if not add then
      add = {[0] = 0}
      adds[index] = add
    end
    local a = add[0]
    if created > 0 then
      add[a + 1], add[a + 2] = ARGV[created + 5], 'a' .. name .. about
      a = a + 2
    end
    if list then
      add[a + 1], add[a + 2] = ARGV[listed + 5], list .. name .. about
      a = a + 2
    end
    if was and was ~= list then
      take(index, was .. name .. about)
      if was == 'o' then freed[#freed + 1] = name .. about end
    end
    if queued > 0 then
      if list == 'p' then rings = true end
      add[a + 1], add[a + 2] = ARGV[queued + 5], 'q' .. name .. about
      a = a + 2
    elseif old and sub(old, 18, 18) == 'q' then
      take(index, 'q' .. name .. about)
    end
    add[0] = a
  else
    reply[i + 2] = old
  end
end
if s > 0 then call('MSET', unpack(sets)) end
for index, list in pairs(adds) do
  if list[0] > 0 then call('ZADD', index, unpack(list, 1, list[0])) end
end
for index, list in pairs(gone) do call('ZREM', index, unpack(list)) end
-- Hints only: where they are not allowed, who waits looks by himself. One of a kind for a whole batch.
local function tell(what, message)
  if ARGV[1] ~= '' then redis.pcall('PUBLISH', ARGV[1] .. what, message)
  else redis.pcall('SPUBLISH', KEYS[1] .. what, message) end
end
if #freed > 0 then tell(':settled', table.concat(freed, '\\n')) end
if rings and ARGV[4] ~= '' then tell(':due', ARGV[4]) end
return reply`);

// What an index member says: its key, its scope as JSON or '', its tenant and action as JSON.
const PARTS = `
local function parts(member) return string.match(member, '^.([^\\31]*)\\31([^\\31]*)\\31(.*)$') end`;

/**
 * KEYS: indexes. ARGV: '' or 'REV', how many to look at in each, what is wanted ('': any): how the key begins, the scope as
 * JSON, how the tenant begins, how the action ends; then from, to and offset for each index. Answers for each how many it
 * saw, the last score and how many it saw of that, and the members that are wanted with their scores.
 */
export const RANGE = script(`
local call, sub = redis.call, string.sub
local time = call('TIME')
local reply = {time[1], time[2]}
local key, scope, tenant, action = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local any = key == '' and scope == '' and tenant == '' and action == ''${PARTS}
for b = 1, #KEYS do
  local a = b * 3 + 4
  local seen
  if ARGV[1] == 'REV' then
    seen = call('ZRANGE', KEYS[b], ARGV[a], ARGV[a + 1], 'BYSCORE', 'REV', 'LIMIT', ARGV[a + 2], ARGV[2], 'WITHSCORES')
  else
    seen = call('ZRANGE', KEYS[b], ARGV[a], ARGV[a + 1], 'BYSCORE', 'LIMIT', ARGV[a + 2], ARGV[2], 'WITHSCORES')
  end
  local last, tail = seen[#seen] or '', 0
  for i = #seen, 2, -2 do
    if seen[i] ~= last then break end
    tail = tail + 1
  end
  local found = {#seen / 2, last, tail}
  for i = 1, #seen, 2 do
    local fits = any
    if not any then
      local k, s, about = parts(seen[i])
      fits = sub(k, 1, #key) == key and (scope == '' or s == scope)
        and sub(about, 1, #tenant) == tenant and (action == '' or sub(about, -#action) == action)
    end
    if fits then
      found[#found + 1] = seen[i]
      found[#found + 1] = seen[i + 1]
    end
  end
  reply[b + 2] = found
end
return reply`);

/**
 * Queued work that is due, the longest due first over all the indexes given. What is handed out is put aside for a
 * moment, so that two workers never race for one record; who dies meanwhile only delays it by that moment.
 * KEYS: indexes. ARGV: how many, how long to put aside ('': only look), where 'q' begins, how many to look at in each, how
 * the entry's tenant begins ('': any), behind how many entries to begin in each (one text, with commas), the ledger's id, then how its
 * action may end (none: any). Answers for each index how far it looked ('': to its end) as one text with commas, then
 * members and the time they were due.
 */
export const DUE = script(`
local call, sub = redis.call, string.sub${refuseLost("#KEYS", "ARGV[7]")}
local time = call('TIME')
local reply = {time[1], time[2]}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit, aside, base, reach, tenant = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local all = tenant == '' and #ARGV == 7${PARTS}
local function wanted(member)
  if all then return true end
  local _, _, about = parts(member)
  if sub(about, 1, #tenant) ~= tenant then return false end
  if #ARGV == 7 then return true end
  for i = 8, #ARGV do
    if sub(about, -#ARGV[i]) == ARGV[i] then return true end
  end
  return false
end
local function number(score) return string.format('%.0f', score) end
local from, to = number(base), number(base + now)
local lists, at, offsets, ends, ended, first = {}, {}, {}, {}, {}, {}
local function refill(b)
  local list = {}
  while #list == 0 and not ended[b] do
    local part = call('ZRANGE', KEYS[b], from, to, 'BYSCORE', 'LIMIT', offsets[b], 32, 'WITHSCORES')
    for i = 1, #part, 2 do
      if wanted(part[i]) then
        list[#list + 1] = part[i]
        list[#list + 1] = tonumber(part[i + 1])
      end
    end
    offsets[b] = offsets[b] + #part / 2
    ended[b] = #part < 64 and 'all' or offsets[b] >= ends[b]
  end
  lists[b], at[b], first[b] = list, 1, list[2] or math.huge
end
local b = 0
for begin in string.gmatch(ARGV[6], '%d+') do
  b = b + 1
  offsets[b], ends[b] = tonumber(begin), begin + reach
  refill(b)
end
local adds, found = {}, {}
for _ = 1, limit do
  local best, since = 0, math.huge
  for b = 1, #KEYS do
    if first[b] < since then best, since = b, first[b] end
  end
  if best == 0 then break end
  local member = lists[best][at[best]]
  found[#found + 1] = member
  found[#found + 1] = number(since - base)
  adds[best] = adds[best] or {}
  table.insert(adds[best], number(base + now + (aside or 0)))
  table.insert(adds[best], member)
  at[best] = at[best] + 2
  first[best] = lists[best][at[best] + 1]
  if not first[best] then refill(best) end
end
if aside then
  for b, list in pairs(adds) do call('ZADD', KEYS[b], 'XX', unpack(list)) end
end
local looked = {}
for b = 1, #KEYS do
  -- What was put aside stands behind the others now.
  local gone = aside and adds[b] and #adds[b] / 2 or 0
  looked[b] = ended[b] == 'all' and '' or number(offsets[b] - gone)
end
reply[3] = table.concat(looked, ',')
for i = 1, #found do reply[i + 3] = found[i] end
return reply`);

/** KEYS: an index, then records. ARGV: their entries. Takes those out of the index whose record is gone; answers how many. */
export const TIDY = script(`
local time = redis.call('TIME')
local gone = 0
for i = 1, #ARGV do
  local entry = ARGV[i]
  if redis.call('EXISTS', KEYS[i + 1]) == 0 then
    gone = gone + redis.call('ZREM', KEYS[1], 'a' .. entry)
    redis.call('ZREM', KEYS[1], 'o' .. entry, 'p' .. entry, 'u' .. entry, 'f' .. entry, 'q' .. entry)
  end
end
return {time[1], time[2], gone}`);

/** KEYS: an index. ARGV: from which rank, to which. Answers members; 'a' has the lowest scores, so its ranks come first. */
export const WALK = script(`
local time = redis.call('TIME')
return {time[1], time[2], redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])}`);

/**
 * KEYS: an index. ARGV: from which rank, to which, how the tenant begins ('': any). Answers how many members it saw, then
 * for each tenant and action and state a text, a count and the oldest dueAt or doubtSince. The records are not named in KEYS: a count taken while a slot
 * moves may miss those under way, and nothing is decided by it.
 */
export const COUNT = script(`
local call, sub = redis.call, string.sub
local time = call('TIME')
local members = call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])
local counts, oldest = {}, {}${PARTS}
for _, member in ipairs(members) do
  if sub(member, 1, 1) == 'a' then
    local key, _, action = parts(member)
    local own = sub(action, 1, #ARGV[3]) == ARGV[3]
    local head = own and call('GETRANGE', KEYS[1] .. ':' .. key, 0, 80) or ''
    if head ~= '' then
      local state = sub(head, 17, 17)
      local about = state .. action
      counts[about] = (counts[about] or 0) + 1
      if state == 'p' or state == 'u' then
        local at = tonumber(string.match(head, state == 'p' and '^{"d":(%d+)' or '^{[^a]*"s":(%d+)', 19))
        if at and (not oldest[about] or at < oldest[about]) then oldest[about] = at end
      end
    end
  end
end
local reply = {time[1], time[2], #members}
for about, count in pairs(counts) do
  reply[#reply + 1] = about
  reply[#reply + 1] = count
  reply[#reply + 1] = oldest[about] and string.format('%.0f', oldest[about]) or ''
end
return reply`);

/**
 * KEYS: an index. ARGV: where 'o' begins, how the tenant begins ('': any), behind how many to begin, how many to look at.
 * Answers how many leases are over, and how many entries it looked at ('': all are counted).
 */
export const LAPSED = script(`
local call, sub = redis.call, string.sub
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local to = string.format('%.0f', ARGV[1] + now)
if ARGV[2] == '' then return {time[1], time[2], call('ZCOUNT', KEYS[1], ARGV[1], to), ''} end${PARTS}
local members = call('ZRANGE', KEYS[1], ARGV[1], to, 'BYSCORE', 'LIMIT', ARGV[3], ARGV[4])
local count = 0
for _, member in ipairs(members) do
  local _, _, about = parts(member)
  if sub(about, 1, #ARGV[2]) == ARGV[2] then count = count + 1 end
end
return {time[1], time[2], count, #members < tonumber(ARGV[4]) and '' or tostring(#members)}`);
