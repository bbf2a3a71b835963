package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// fencedWrite stands for whatever the lock protects: a store that remembers the greatest token it has seen and refuses
// anything older. With SQL it would be UPDATE ... SET value = $1, token = $2 WHERE id = $3 AND token <= $2.
var fencedWrite = redis.NewScript(`
-- KEYS 1 hash   ARGV 1 value, 2 token, 3 time to live in ms   Reply 1 written, 0 refused
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and tonumber(seen) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'token', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`)

// writeFenced reports whether the store took the value.
func writeFenced(ctx context.Context, rdb redis.UniversalClient, key, value string, token uint64) (bool, error) {
	return fencedWrite.Run(ctx, rdb, []string{key}, value, token, leftoverTTL.Milliseconds()).Bool()
}
