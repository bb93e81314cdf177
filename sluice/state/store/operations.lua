-- The operations of a store on shared objects, as server-side functions (FUNCTION LOAD). sluice/state/library.py
-- replaces @PREFIX@ by a name that depends on this text, so that several versions can be loaded side by side, and
-- @CUSTOM@ by the operations of functions.
--
-- Every update is atomic with its duplicate check. KEYS[1] is the object, KEYS[2] its log: a sorted set whose
-- members are the identifiers of applied updates (8 bytes, big-endian: the logical clock) and their results. An
-- update whose identifier is in the log is not applied again; its recorded result is returned (CHC, 3.4.3: the store
-- emulates the update). ARGV[1] is the largest identifier up to which no update will be transmitted again: the log
-- forgets these.
--
-- A reply is a string: '+' and the result, '-' (absent), or '!' (refused).

local MOST = 9007199254740991 -- 2^53 - 1: numbers are doubles here
local ITEMS = 1048576 -- of a list, set or map

-- Every function that changes something, by its name: `logged` performs them, too.
local functions = {}

local function provide(name, apply)
    functions[name] = apply
    redis.register_function('@PREFIX@_' .. name, apply)
end

local function text(number)
    return string.format('%.0f', number)
end

local function value(key)
    return tonumber(redis.call('GET', key) or '0')
end

-- The recorded result of an update; false if it was not applied.
local function recorded(log, id)
    local found = redis.call('ZRANGEBYLEX', log, '[' .. id, '[' .. id .. '\255')[1]
    return found and string.sub(found, 9)
end

-- Identifiers begin with two bytes of the run: those of other runs remain.
local function forget(log, acknowledged)
    redis.call('ZREMRANGEBYLEX', log, '[' .. string.sub(acknowledged, 1, 2), '[' .. acknowledged .. '\255')
end

-- What a commit applies, by the name of the operation: the same functions, without a log.
local direct = {}

-- For how many seconds what an instance among several may need, that takes the place of another one, remains.
local REPLACED = 600

-- Registers an update: apply(key, arguments after the identifier) returns its reply. ends: the log is not removed with
-- the object.
local function update(name, apply, ends)
    direct[name] = apply
    provide(name, function(keys, args)
        local result = recorded(keys[2], args[2])
        if @REPEATED@ and result then
            return result
        end
        result = apply(keys[1], args[3], args[4])
        forget(keys[2], args[1])
        redis.call('ZADD', keys[2], 0, args[2] .. result)
        if ends then
            redis.call('EXPIRE', keys[2], REPLACED)
        else
            redis.call('PERSIST', keys[2])
        end
        return result
    end)
end

-- Registers an operation that only reads. NAME_once records what it has read, for an instance that handles a packet
-- again after a failure (CHC, A.2: it must see the same).
local function read(name, apply, ends)
    update(name .. '_once', apply, ends)
    redis.register_function { function_name = '@PREFIX@_' .. name, callback = function(keys, args)
        return apply(keys[1], args[1])
    end, flags = { 'no-writes' } }
end

local function set(key, number)
    if number > MOST or number < -MOST then
        return '!'
    end
    redis.call('SET', key, text(number))
    return '+' .. text(number)
end

-- Adds to a number on behalf of several updates at once. ARGV[2] has their identifiers; ARGV[3] is the number that
-- each adds, or, if it begins with '=', a comma-separated list of these. An update that was applied before is left
-- out.
provide('add', function(keys, args)
    local key, log, ids, amounts = keys[1], keys[2], args[2], args[3]
    local count, sum, members = #ids / 8, 0, {}
    local each = tonumber(amounts)
    local list = {}
    if not each then
        for amount in string.gmatch(amounts, '[^=,]+') do
            list[#list + 1] = tonumber(amount)
        end
    end
    local first, last = string.sub(ids, 1, 8), string.sub(ids, -8)
    local applied = redis.call('ZRANGEBYLEX', log, '[' .. first, '[' .. last .. '\255')
    local known = {}
    for _, member in ipairs(@REPEATED@ and applied or {}) do
        known[string.sub(member, 1, 8)] = string.sub(member, 9)
    end
    if count == 1 and known[first] then
        return known[first]
    end
    for i = 1, count do
        local id = string.sub(ids, 8 * i - 7, 8 * i)
        if not known[id] then
            sum = sum + (each or list[i])
            members[#members + 1] = 0
            members[#members + 1] = id
        end
    end
    local result = '+' .. text(value(key))
    if #members > 0 then
        result = set(key, value(key) + sum)
        forget(log, args[1])
        if count == 1 then
            members[2] = members[2] .. result
        end
        redis.call('ZADD', log, unpack(members))
    end
    return result
end)

read('read', function(key)
    return '+' .. text(value(key))
end)
update('set', function(key, number)
    return set(key, tonumber(number))
end)
update('minimum', function(key, number)
    local now = redis.call('GET', key)
    number = tonumber(number)
    return set(key, now and math.min(tonumber(now), number) or number)
end)
update('maximum', function(key, number)
    local now = redis.call('GET', key)
    number = tonumber(number)
    return set(key, now and math.max(tonumber(now), number) or number)
end)
update('compare', function(key, expected, number)
    local before = value(key)
    if before == tonumber(expected) and set(key, tonumber(number)) == '!' then
        return '!'
    end
    return '+' .. text(before)
end)

function direct.add(key, number)
    return set(key, value(key) + tonumber(number))
end

-- A struct: its bytes after the identifier of the update that set it, which makes a log unnecessary.
provide('put', function(keys, args)
    local now = redis.call('GETRANGE', keys[1], 0, 7)
    if now < args[2] then
        redis.call('SET', keys[1], args[2] .. args[3])
    end
    return '+0'
end)
read('get', function(key)
    local now = redis.call('GET', key)
    return now and #now > 8 and '+' .. string.sub(now, 9) or '-'
end, true)

function direct.put(key, bytes)
    redis.call('SET', key, bytes)
end

-- A list. What fill appended once is not appended again, although the list is empty meanwhile: the log's key with
-- '/filled'. The result is 1 if it was appended now.
provide('fill', function(keys, args)
    if redis.call('SET', keys[2] .. '/filled', '1', 'NX') then
        local items = {}
        for item = tonumber(args[3]), tonumber(args[4]) do
            items[#items + 1] = text(item)
            if #items == 1000 then
                redis.call('RPUSH', keys[1], unpack(items))
                items = {}
            end
        end
        if #items > 0 then
            redis.call('RPUSH', keys[1], unpack(items))
        end
        return '+1'
    end
    return '+0'
end)
update('push', function(key, item)
    if redis.call('LLEN', key) >= ITEMS then
        return '!'
    end
    redis.call('RPUSH', key, item)
    return '+0'
end)
update('pop', function(key)
    local item = redis.call('LPOP', key)
    return item and '+' .. item or '-'
end)

update('insert', function(key, item)
    if redis.call('SCARD', key) >= ITEMS and redis.call('SISMEMBER', key, item) == 0 then
        return '!'
    end
    return '+' .. redis.call('SADD', key, item)
end)
update('remove', function(key, item)
    return '+' .. redis.call('SREM', key, item)
end)
read('contains', function(key, item)
    return '+' .. redis.call('SISMEMBER', key, item)
end)

local function map_set(key, field, number)
    if number > MOST or number < -MOST then
        return '!'
    end
    if redis.call('HLEN', key) >= ITEMS and redis.call('HEXISTS', key, field) == 0 then
        return '!'
    end
    redis.call('HSET', key, field, text(number))
    return '+' .. text(number)
end
update('map_add', function(key, field, number)
    return map_set(key, field, tonumber(redis.call('HGET', key, field) or '0') + tonumber(number))
end)
read('map_read', function(key, field)
    local now = redis.call('HGET', key, field)
    return now and '+' .. now or '-'
end)
update('map_minimum', function(key, field, number)
    local now = redis.call('HGET', key, field)
    number = tonumber(number)
    return map_set(key, field, now and math.min(tonumber(now), number) or number)
end)
update('map_maximum', function(key, field, number)
    local now = redis.call('HGET', key, field)
    number = tonumber(number)
    return map_set(key, field, now and math.max(tonumber(now), number) or number)
end)
update('map_least', function(key, number)
    local all = redis.call('HGETALL', key)
    local field, least
    for i = 1, #all, 2 do
        local k, v = tonumber(all[i]), tonumber(all[i + 1])
        if not least or v < least or (v == least and k < field) then
            field, least = k, v
        end
    end
    if not field then
        return '-'
    end
    local done = map_set(key, text(field), least + tonumber(number))
    return done == '!' and '!' or '+' .. text(field)
end)

provide('drop', function(keys)
    redis.call('DEL', keys[1], keys[2])
    return '+0'
end)
-- The same by one instance among several, which may handle a packet again. A struct that was set later than the drop
-- remains. For as long as an instance is replaced within, the log of another object remains, and of a struct the
-- identifier of the drop: what was put before, by whichever instance, does not come back.
function direct.drop_struct(key, id)
    redis.call('SET', key, id, 'EX', REPLACED)
end
provide('drop_struct', function(keys, args)
    if redis.call('GETRANGE', keys[1], 0, 7) <= args[2] then
        direct.drop_struct(keys[1], args[2])
    end
    return '+0'
end)
provide('drop_logged', function(keys)
    redis.call('DEL', keys[1])
    redis.call('EXPIRE', keys[2], REPLACED)
    return '+0'
end)
function direct.drop(key)
    redis.call('DEL', key)
    redis.call('EXPIRE', 'sluice-log' .. string.sub(key, 7), REPLACED) -- of one that several instances had used
end

-- No update of this run will be transmitted again.
provide('forget', function(keys, args)
    forget(keys[2], string.sub(args[1], 1, 2) .. string.rep('\255', 6))
    return '+0'
end)

-- Operations of functions: the new value of a number.
local function custom(name, apply)
    update(name, function(key, argument, other)
        return set(key, apply(value(key), tonumber(argument), tonumber(other)))
    end)
end
custom('none', function(now)
    return now
end)
--@CUSTOM@

-- All of an object, as text.
redis.register_function { function_name = '@PREFIX@_load', callback = function(keys)
    local key = keys[1]
    local kind = redis.call('TYPE', key).ok
    local items
    if kind == 'string' then
        return '+' .. redis.call('GET', key)
    elseif kind == 'list' then
        items = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'set' then
        items = redis.call('SMEMBERS', key)
    elseif kind == 'hash' then
        local all = redis.call('HGETALL', key)
        items = {}
        for i = 1, #all, 2 do
            items[#items + 1] = all[i] .. '=' .. all[i + 1]
        end
    else
        return '-'
    end
    items[#items + 1] = ''
    return '+' .. table.concat(items, ',')
end, flags = { 'no-writes' } }

-- Whether this node serves a key.
redis.register_function { function_name = '@PREFIX@_sync', callback = function()
    return '+0'
end, flags = { 'no-writes' } }

-- The updates of a batch of packets, by one instance among several. KEYS[1] has the clock of the last batch that was
-- applied; ARGV[5] others are the owners of what it changes; then there is one for each update. ARGV[1] is the instance's
-- process, ARGV[2] the clock, ARGV[3] that of its commit before, ARGV[4] the bytes of its file of rows; then for each
-- update its name and two arguments. All of it is applied, or nothing: '=' if it was before, '<' if the store does not
-- have the commit before, which another node had acknowledged, '~' if another process owns one of the parts.
provide('commit', function(keys, args)
    local before = tonumber(redis.call('HGET', keys[1], 'clock') or '0')
    if @REPEATED@ and tonumber(args[2]) <= before then
        return '='
    end
    if @SEQUENCE@ and tonumber(args[3]) > before then
        return '<' .. text(before)
    end
    local count = tonumber(args[5])
    local owners = count > 0 and redis.call('MGET', unpack(keys, 2, 1 + count)) or {}
    for i = 2, 1 + count do
        if @OWNERSHIP@ and owners[i - 1] ~= args[1] then
            return '~' .. keys[i]
        end
    end
    for i = 2 + count, #keys do
        local at = 6 + 3 * (i - 2 - count)
        direct[args[at]](keys[i], args[at + 1], args[at + 2])
    end
    redis.call('HSET', keys[1], 'clock', args[2], 'rows', args[4])
    return '+' .. args[2]
end)

-- The timers of the flows of a part of the traffic: a hash, in which a flow without timers has no field.
function direct.timers(key, flow, timers)
    if timers == '' then
        redis.call('HDEL', key, flow)
    else
        redis.call('HSET', key, flow, timers)
    end
end
redis.register_function { function_name = '@PREFIX@_timers_of', callback = function(keys)
    local items = {}
    for _, key in ipairs(keys) do
        local all = redis.call('HGETALL', key)
        for i = 1, #all, 2 do
            items[#items + 1] = all[i] .. '=' .. all[i + 1]
        end
    end
    items[#items + 1] = ''
    return '+' .. table.concat(items, ',')
end, flags = { 'no-writes' } }

-- The owner of a part of the traffic: a process, or `>NUMBER`, the instance that may take it. An instance gives a part up to
-- a certain other one: the part may move on, or back, before that has taken it. KEYS[1] has what a process has done, the
-- others are parts. own takes those that were given up to ARGV[2]; with all of them, version ARGV[3] of the table is
-- recorded. release gives parts up to the instances of ARGV[2], ...; inherit gives those of a process that has ended to
-- another one.
provide('own', function(keys, args)
    local all = '+1'
    for i, owner in ipairs(#keys > 1 and redis.call('MGET', unpack(keys, 2)) or {}) do
        if not owner or owner == '>' .. args[2] then
            redis.call('SET', keys[i + 1], args[1])
        elseif owner ~= args[1] then
            all = '+0'
        end
    end
    if all == '+1' then
        redis.call('HSET', keys[1], 'routes', args[3])
    end
    return all
end)
redis.register_function { function_name = '@PREFIX@_owned', callback = function(keys, args)
    local bits = {}
    for i, owner in ipairs(redis.call('MGET', unpack(keys, 2))) do
        bits[i] = owner == args[1] and '1' or '0'
    end
    return '+' .. table.concat(bits) .. (redis.call('HGET', keys[1], 'routes') or '0')
end, flags = { 'no-writes' } }
provide('release', function(keys, args)
    for i = 2, #keys do
        if redis.call('GET', keys[i]) == args[1] then
            redis.call('SET', keys[i], '>' .. args[i])
        end
    end
    return '+0'
end)
provide('inherit', function(keys, args)
    for i = 1, #keys do
        if redis.call('GET', keys[i]) == args[1] then
            redis.call('SET', keys[i], args[2])
        end
    end
    return '+0'
end)
provide('admit', function(keys, args)
    for i = 1, #keys do
        redis.call('SET', keys[i], args[1])
    end
    return '+0'
end)

-- A call of a process with a write-ahead log (CHC, 3.4.4). KEYS[1] has the number of the last call of each process that
-- was performed (TS), which a checkpoint has with the state. ARGV[1] is the process, ARGV[2] the call's number, ARGV[3]
-- the function, ARGV[4] is 't' for a call for whose result a packet waits. Such a result follows TS: '@',
-- PROCESS=NUMBER,..., and ';'. One that is transmitted again has TS as of the first time. '<': the store lost calls before
-- this one. What a process has done that has ended is no longer needed once another one has inherited: of all of these
-- there is the sum, '+', so that TS is as large as the processes are many, and grows with each call.
redis.register_function('@PREFIX@_logged', function(keys, args)
    local counts, process, number = keys[1], args[1], tonumber(args[2])
    local before = tonumber(redis.call('HGET', counts, process) or '0')
    if @SEQUENCE@ and number > before + 1 then
        return '<' .. text(before)
    end
    local own_keys, own_args = {}, {}
    for i = 2, #keys do
        own_keys[i - 1] = keys[i]
    end
    for i = 5, #args do
        own_args[i - 4] = args[i]
    end
    local result = functions[args[3]](own_keys, own_args)
    if number > before then
        redis.call('HSET', counts, process, args[2])
    end
    if args[4] ~= 't' then
        return result
    end
    local function without_ended()
        if args[3] == 'inherit' and own_args[1] ~= process then
            redis.call('HINCRBY', counts, '+', redis.call('HGET', counts, own_args[1]) or 0)
            redis.call('HDEL', counts, own_args[1], '@' .. own_args[1])
        end
    end
    local first = redis.call('HGET', counts, '@' .. process)
    local place = first and string.find(first, ' ', 1, true)
    if place and string.sub(first, 1, place - 1) == args[2] then
        without_ended()
        return '@' .. string.sub(first, place + 1) .. ';' .. result
    end
    local all, items = redis.call('HGETALL', counts), {}
    for i = 1, #all, 2 do
        if string.sub(all[i], 1, 1) ~= '@' then
            items[#items + 1] = all[i] .. '=' .. all[i + 1]
        end
    end
    items = table.concat(items, ',')
    redis.call('HSET', counts, '@' .. process, args[2] .. ' ' .. items)
    without_ended()
    return '@' .. items .. ';' .. result
end)
