package fidelity

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// Key is a key that the server must have. Value is nil if there must be no such key. Otherwise it is a
// text, a number, a [Token], [Other] for any text, a [Hash], a []string for a list, [Until] or [Unknown].
type Key struct {
	Name  string
	Value any
	TTL   uint8 // ticks; Some: any
}

// KeyIf is a key that must be there, or must not.
func KeyIf(there bool, name string, value any, ttl uint8) Key {
	if there {
		return Key{name, value, ttl}
	}
	return Key{Name: name}
}

// Some is any time to live but an endless one.
const Some = model.Endless - 1

type (
	// Hash contains fields and their values.
	Hash map[string]any
	// Unknown is a key that may exist or not.
	Unknown struct{}
	// Until is a sorted set whose scores are times of the server, ms. It contains how many ticks are left until each.
	Until map[string]uint8
)

// Names returns the names of keys.
func Names(keys []Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// found is a key at the server.
type found struct {
	kind  string
	value []string // a text; of a list; fields, or members, each with its value behind it
	ttl   uint8
}

// read reads all keys at one moment, in one round trip. It replaces times of the server by what is left until then.
var read = redis.NewScript(`
local time = redis.call('TIME')
local now, all = time[1] * 1000 + math.floor(time[2] / 1000), {}
for i, key in ipairs(KEYS) do
  local kind, value = redis.call('TYPE', key).ok, {}
  if kind == 'string' then value = {redis.call('GET', key)}
  elseif kind == 'hash' then
    value = redis.call('HGETALL', key)
    for j = 2, #value, 2 do
      value[j] = string.gsub(value[j], '^till(%d+)$', function(ms) return string.format('till%.0f', ms - now) end)
    end
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then
    value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for j = 2, #value, 2 do value[j] = string.format('%.0f', value[j] - now) end
  end
  all[i] = {kind, redis.call('PTTL', key), value}
end
return all`)

func (s *Side) read(names []string) (all []found) {
	got, err := read.Run(s.T.Context(), s.RDB, names).Slice()
	require.NoError(s.T, err)
	for _, one := range got {
		of := one.([]any)
		f := found{kind: of[0].(string), ttl: ticksOfMillis(of[1].(int64))}
		for _, v := range of[2].([]any) {
			f.value = append(f.value, v.(string))
		}
		all = append(all, f)
	}
	return all
}

// ticksUntil returns milliseconds in ticks; 0 if they are negative.
func ticksUntil(ms string) uint8 {
	left, _ := strconv.ParseFloat(ms, 64)
	return Ticks(time.Duration(max(left, 0)) * time.Millisecond)
}

func ticksOfMillis(ms int64) uint8 {
	if ms < 0 {
		return Ticks(time.Duration(ms))
	}
	return Ticks(time.Duration(ms) * time.Millisecond)
}

// compare says how the keys at the server, or the last reply, differ from what the model expects; "" if they do not.
func (s *Side) compare(keys ...Key) string {
	if s.names = Names(keys); s.wrong != "" {
		return s.wrong
	}
	for i, f := range s.read(s.names) {
		k := keys[i]
		if !s.has(k.Value, f) {
			s.Differ("%s is %s %v, the model's %v", k.Name, f.kind, f.value, k.Value)
		}
		if k.Value != nil && k.TTL != f.ttl && (k.TTL != Some || f.ttl == model.Endless) {
			s.Differ("%s lives for %d ticks, the model's for %d", k.Name, f.ttl, k.TTL)
		}
	}
	return s.wrong
}

// has reports whether a key has a value.
func (s *Side) has(want any, f found) bool {
	switch want := want.(type) {
	case nil:
		return f.kind == "none"
	case Unknown:
		return true
	case []string:
		return f.kind == "list" && slices.Equal(f.value, want) || f.kind == "none" && len(want) == 0
	case Hash:
		if f.kind != "hash" || len(f.value) != 2*len(want) {
			return false
		}
		for i := 0; i < len(f.value); i += 2 {
			if v, known := want[f.value[i]]; !known || !s.same(v, f.value[i+1]) {
				return false
			}
		}
		return true
	case Until:
		if len(f.value) != 2*len(want) {
			return false
		}
		for i := 0; i < len(f.value); i += 2 {
			if ticks, known := want[f.value[i]]; !known || ticks != ticksUntil(f.value[i+1]) {
				return false
			}
		}
		return true
	}
	return f.kind == "string" && s.same(want, f.value[0])
}

// elapse lets a tick pass for all keys.
var elapse = redis.NewScript(`
local tick = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local left = math.ceil(redis.call('PTTL', key) / tick)
  if left == 1 then redis.call('DEL', key)
  elseif left > 1 then redis.call('PEXPIRE', key, (left - 1) * tick - tick / 2) end
  local kind = redis.call('TYPE', key).ok
  if kind == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -tick, member) end
  elseif kind == 'hash' then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      local till = string.match(redis.call('HGET', key, field), '^till(%d+)$')
      if till then redis.call('HSET', key, field, string.format('till%.0f', till - tick)) end
    end
  end
end`)

// Elapse takes a tick off the times to live of keys, save those whose TTL is Some, and off times in sorted sets and hashes.
func (s *Side) Elapse(keys ...Key) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.TTL == Some })
	err := elapse.Run(s.T.Context(), s.RDB, Names(keys), Tick.Milliseconds()).Err()
	if !errors.Is(err, redis.Nil) {
		require.NoError(s.T, err)
	}
}

// Lose deletes keys.
func (s *Side) Lose(keys ...string) { require.NoError(s.T, s.RDB.Del(s.T.Context(), keys...).Err()) }

// Ahead makes the last token one of an hour later, as if the server's clock was set back; token is the model's for it.
func (s *Side) Ahead(key string, token uint8) {
	last, err := s.RDB.IncrBy(s.T.Context(), key, time.Hour.Microseconds()).Result()
	require.NoError(s.T, err)
	s.SameToken(token, last)
}

// End deletes the keys that were compared, and ends the subscription.
func (s *Side) End() {
	if s.ears != nil {
		require.NoError(s.T, s.ears.Close())
	}
	if len(s.names) > 0 {
		s.Lose(s.names...)
	}
}
