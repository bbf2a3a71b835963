package topology

import (
	"slices"
	"strings"
)

// User and Password are what the clients of [Topology.Connect] log in with.
const (
	User     = "holdfast"
	Password = "a-password-for-tests"
)

// Rule is what [User] may do: the commands that the scripts call, those that run scripts and
// subscribe, and what go-redis asks a cluster. It may not read other users, change the
// configuration, or list keys. Keys and channels are not restricted, because tests choose their
// names.
const Rule = "~* &* " +
	"+eval +evalsha +hlen +hexists +hset +hdel +hgetall +get +set +del +pexpire +pttl +time +publish +spublish " +
	"+lindex +llen +lpop +lrange +lrem +ltrim +rpush +zadd +zcard +zcount +zrange +zrem +zscore " +
	"+hget +hkeys +hmget +exists +decr +incrby +zrangebyscore +zremrangebyscore +pubsub|numsub +pubsub|shardnumsub " +
	"+subscribe +unsubscribe +ssubscribe +sunsubscribe +ping +wait " +
	"+cluster|slots +command +asking"

// rule is Rule for a server of this version: Redis 6.0 knows neither rules for channels nor sharded
// pub/sub and refuses what it does not know.
func rule(version string) []string {
	words := append([]string{"on", ">" + Password}, strings.Fields(Rule)...)
	if !strings.HasPrefix(version, "6.") {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"&*", "+spublish", "+ssubscribe", "+sunsubscribe"}, w)
	})
}
