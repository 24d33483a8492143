"""The Lua scripts of the job store and its lock.

Each that writes is idempotent by content: it compares, then writes absolute values, so that a script whose
reply was lost may be sent again. Checks come before any write. Indexes are written before the record: an
index entry without a record is dropped by the next reader, a record without one would never be found.
"""

from __future__ import annotations

from typing import Final

_LIST: Final = """
local function list(index, score, id, expires_at)
  redis.call('ZADD', index, score, id)
  if redis.call('PEXPIRETIME', index) < tonumber(expires_at) then
    redis.call('PEXPIREAT', index, expires_at)
  end
end
"""

_TELL: Final = """
local function tell(stream, kind, id, submitter, title, state)
  redis.call('XADD', stream, 'MAXLEN', '~', 10000, '*', 'kind', kind, 'job', id,
             'submitter', submitter, 'title', title, 'state', state)
  redis.call('EXPIRE', stream, 604800)
end
"""

CREATE: Final = (
    _LIST
    + _TELL
    + """
-- KEYS record, tombstones, jobs, submitter's, unfinished
-- ARGV id, uid, version, doc, sealed key, expires_at (ms), submission, unfinished, record prefix
--      events, submitter, title, state
local id, uid, version, doc, sealed, expires_at = unpack(ARGV, 1, 6)
local stored = redis.call('HMGET', KEYS[1], 'uid', 'version', 'doc')
if stored[1] == uid then return {'done', stored[2], stored[3]} end
if stored[1] then return {'taken'} end
if redis.call('HEXISTS', KEYS[2], uid) == 1 then return {'removed'} end
for _, index in ipairs({KEYS[3], KEYS[4]}) do
  for _, old in ipairs(redis.call('ZRANGE', index, 0, 9)) do
    if redis.call('EXISTS', ARGV[9] .. old) == 0 then redis.call('ZREM', index, old) end
  end
end
list(KEYS[3], ARGV[7], id, expires_at)
list(KEYS[4], ARGV[7], id, expires_at)
if ARGV[8] == '1' then list(KEYS[5], ARGV[7], id, expires_at) end
redis.call('HSET', KEYS[1], 'uid', uid, 'version', version, 'doc', doc, 'key', sealed,
           'expires_at', expires_at)
redis.call('PEXPIREAT', KEYS[1], expires_at)
tell(ARGV[10], 'created', id, unpack(ARGV, 11, 13))
return {'done', version, doc}
"""
)

REPLACE: Final = (
    _LIST
    + _TELL
    + """
-- KEYS record, unfinished, fence
-- ARGV id, uid, expected version, version, doc, submission, unfinished, fence or ''
--      events, submitter, title, state
local id, uid, expected, version, doc, submission = unpack(ARGV, 1, 6)
local stored = redis.call('HMGET', KEYS[1], 'uid', 'version', 'expires_at')
if stored[1] ~= uid then return 'gone' end
if stored[2] == version then return 'done' end
if stored[2] ~= expected then return 'changed' end
if ARGV[8] ~= '' and tonumber(ARGV[8]) < tonumber(redis.call('HGET', KEYS[3], 'n') or '0') then
  return 'fenced'
end
if ARGV[7] == '1' then
  list(KEYS[2], submission, id, stored[3])
else
  redis.call('ZREM', KEYS[2], id)
end
redis.call('HSET', KEYS[1], 'version', version, 'doc', doc)
redis.call('PEXPIREAT', KEYS[1], stored[3])
tell(ARGV[9], 'changed', id, unpack(ARGV, 10, 12))
return 'done'
"""
)

REMOVE: Final = (
    _TELL
    + """
-- KEYS record, tombstones, indexes...
-- ARGV id, uid, expected version, tombstone, events, submitter, title, state
local stored = redis.call('HMGET', KEYS[1], 'uid', 'version')
if stored[1] == ARGV[2] and stored[2] ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
if not stored[1] or stored[1] == ARGV[2] then
  redis.call('DEL', KEYS[1])
  for i = 3, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
  if stored[1] then tell(ARGV[5], 'removed', ARGV[1], unpack(ARGV, 6, 8)) end
end
return 'done'
"""
)

READ: Final = """
-- KEYS last pass  ARGV record prefix, ids...
-- when that was, then version and doc of each; nil where there is none
local found = {redis.call('GET', KEYS[1])}
for i = 2, #ARGV do
  local row = redis.pcall('HMGET', ARGV[1] .. ARGV[i], 'version', 'doc')
  if row.err then
    if not string.find(row.err, 'WRONGTYPE', 1, true) then return row end
    row = {'', false}
  end
  found[#found + 1] = row[1]
  found[#found + 1] = row[2]
end
return found
"""

LOOK: Final = """
-- KEYS last pass, outlooks  ARGV record prefix, then id and known version of each
-- when that was, then version, doc and outlook of each; nil where there is none, no doc of a known version
local found = {redis.call('GET', KEYS[1])}
for i = 2, #ARGV, 2 do
  local record = ARGV[1] .. ARGV[i]
  local version, doc = redis.pcall('HGET', record, 'version'), false
  if type(version) == 'table' then
    if not string.find(version.err, 'WRONGTYPE', 1, true) then return version end
    version = ''
  elseif version == false or version ~= ARGV[i + 1] then
    doc = redis.call('HGET', record, 'doc')
  end
  found[#found + 1] = version
  found[#found + 1] = doc
  found[#found + 1] = redis.call('HGET', KEYS[2], ARGV[i])
end
return found
"""

INDEX: Final = """
-- KEYS unfinished, events: the newest event, then the ids in the index, oldest first
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local found = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(found, 1, newest and newest[1] or '0-0')
return found
"""

FIELDS: Final = """
-- ARGV record prefix, field, ids...
-- that field of each, '' where it cannot be read, nil where there is no record
local found = {}
for i = 3, #ARGV do
  local value = redis.pcall('HGET', ARGV[1] .. ARGV[i], ARGV[2])
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    value = ''
  end
  if not value and redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 1 then value = '' end
  found[#found + 1] = value
end
return found
"""

PASSED: Final = """
-- KEYS last pass  ARGV its moment: a late repeat takes nothing back
if tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[1]) or '0') then
  redis.call('SET', KEYS[1], ARGV[1])
end
return 'done'
"""

DROP: Final = """
-- KEYS indexes...  ARGV record prefix, ids...: takes those whose record has gone out of the indexes
for i = 2, #ARGV do
  if redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 0 then
    for _, index in ipairs(KEYS) do redis.call('ZREM', index, ARGV[i]) end
  end
end
return 'done'
"""

ACQUIRE: Final = """
-- KEYS lock, fence  ARGV token, milliseconds: the holder's fence, 0 when another holds it
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
local newest = redis.call('HMGET', KEYS[2], 'n', 'token')
local n = tonumber(newest[1] or '0')
if newest[2] ~= ARGV[1] then
  n = n + 1
  redis.call('HSET', KEYS[2], 'n', n, 'token', ARGV[1])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return n
"""

RENEW: Final = """
-- KEYS lock  ARGV token, milliseconds
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

RELEASE: Final = """
-- KEYS lock  ARGV token
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""
