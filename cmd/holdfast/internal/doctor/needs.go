package doctor

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// attempt is a command that shows whether the user has a permission.
type attempt struct {
	permission string
	args       []any
}

func tries(permission string, args ...any) attempt { return attempt{permission, args} }

// harmless are commands that change nothing: on a name that nobody has there is nothing to change.
func harmless(p *patient) []attempt {
	k := p.probe
	all := []attempt{
		tries("+ping", "ping"), tries("+time", "time"), tries("+info|server", "info", "server"),
		tries("+evalsha", "evalsha", strings.Repeat("0", 40), 1, k), tries("+eval", "eval", "return 1", 1, k),
		tries("+hlen", "hlen", k), tries("+hexists", "hexists", k, "f"), tries("+hgetall", "hgetall", k), tries("+hget",
			"hget", k, "f"),
		tries("+hkeys", "hkeys", k), tries("+hmget", "hmget", k, "f"), tries("+hdel", "hdel", k, "f"),
		tries("+del", "del", k), tries("+get", "get", k), tries("+set", "set", k, "", "px", 1, "xx"), tries("+exists",
			"exists", k),
		tries("+pexpire", "pexpire", k, 1), tries("+pttl", "pttl", k),
		tries("+lindex", "lindex", k, 0), tries("+llen", "llen", k), tries("+lpop", "lpop", k), tries("+lrange", "lrange",
			k, 0, 0),
		tries("+lrem", "lrem", k, 0, "m"), tries("+ltrim", "ltrim", k, 0, 0),
		tries("+zadd", "zadd", k, "xx", 1, "m"), tries("+zcard", "zcard", k), tries("+zcount", "zcount", k, 0, 1),
		tries("+zrange", "zrange", k, 0, 0), tries("+zrangebyscore", "zrangebyscore", k, 0, 1), tries("+zrem", "zrem", k,
			"m"),
		tries("+zremrangebyscore", "zremrangebyscore", k, 0, 1), tries("+zscore", "zscore", k, "m"),
	}
	if sharded(p) {
		return append(all, tries("+spublish", "spublish", k, ""), tries("+pubsub|shardnumsub", "pubsub", "shardnumsub", k),
			tries("+cluster|slots", "cluster", "slots"), tries("+command", "command", "count"), tries("+asking", "asking"))
	}
	all = append(all, tries("+publish", "publish", k, ""), tries("+pubsub|numsub", "pubsub", "numsub", k))
	if p.cluster {
		all = append(all, tries("+cluster|slots", "cluster", "slots"), tries("+command", "command", "count"),
			tries("+asking", "asking"))
	}
	return all
}

// makers are commands of which no form leaves nothing behind.
func makers(p *patient) []attempt {
	k := p.probe
	return []attempt{
		tries("+hset", "hset", k, "f", "v"), tries("+rpush", "rpush", k, "m"), tries("+incrby", "incrby", k, 1),
		tries("+decr", "decr", k),
	}
}

// named is a key or a channel, and the permission for it.
type named struct{ permission, name string }

// probeKeys are the keys of a lock of each kind. The permission has the user's prefix for a name.
func probeKeys(p *patient) []named {
	l, rw, s, e := keys.For(p.probe), keys.ForReadWrite(p.probe), keys.ForPermits(p.probe), ""
	e, announced := keys.Election(p.probe)
	list := []string{
		l.Name, l.Token, l.Channel, l.Queue, l.Deadlines, rw.Channel, rw.Writers, s.Ends, s.Channel, s.Queue, s.Places,
		s.Wants,
		e, announced, keys.ForLatch(p.probe).Call("probe"),
	}
	ping := keys.For(pings + p.probe)
	return append(patterns(p, "~", list), named{"~" + labels + "*", labels + p.probe + "}"},
		named{pingRules[0], ping.Name}, named{pingRules[1], ping.Token}, named{pingRules[2], ping.Channel})
}

// What begins with these has no prefix of the user's: the names of locks that Ping takes, and the keys of labels.
const (
	pings  = "holdfast_ping:"
	labels = "holdfast_client:{"
)

var pingRules = []string{"~" + pings + "*", "~redisson_lock_token:{" + pings + "*", "~redisson_lock__channel:{" + pings + "*",
	"&redisson_lock__channel:{" + pings + "*"}

func probeChannels(p *patient) []named {
	_, announced := keys.Election(p.probe)
	return append(patterns(p, "&", []string{
		keys.For(p.probe).Channel, keys.ForReadWrite(p.probe).Channel, keys.ForPermits(p.probe).Channel,
		keys.ForLatch(p.probe).Channel, announced,
	}), named{pingRules[3], keys.For(pings + p.probe).Channel})
}

// patterns makes permissions for the prefix of names that the user asked about.
func patterns(p *patient, sign string, list []string) (all []named) {
	for _, name := range list {
		before, _, _ := strings.Cut(name, p.probe)
		all = append(all, named{sign + before + p.Prefix + "*", name})
	}
	return all
}

// sharded reports whether releases are announced by sharded pub/sub.
func sharded(p *patient) bool {
	return p.cluster && !strings.HasPrefix(p.infos["server"].fields["redis_version"], "6.")
}

func publishWith(p *patient) string {
	if sharded(p) {
		return "spublish"
	}
	return "publish"
}

// need is what a kind of lock, or another thing, needs: docs/security.md, which a test compares.
type need struct {
	kind              string
	essential, useful []string
	without           string // what it means if essentials are refused; empty: this user cannot use that kind
}

const plainKind = "rlock"

func needs(p *patient) []need {
	base := strings.Fields("+evalsha +eval +hlen +hexists +hgetall +hset +del +get +set +pexpire +pttl +time")
	useful := strings.Fields("+hdel +ping +pubsub|numsub")
	tell := "+publish"
	if sharded(p) {
		tell, useful = "+spublish", strings.Fields("+hdel +ping +pubsub|shardnumsub +command +asking")
	}
	base = append(base, tell)
	if p.cluster {
		base = append(base, "+cluster|slots")
	}
	at := func(patterns string) (list []string) {
		for pattern := range strings.FieldsSeq(patterns) {
			list = append(list, pattern+p.Prefix+"*")
		}
		return list
	}
	with := func(more ...[]string) []string { return slices.Concat(append([][]string{base}, more...)...) }
	plain := at("~ ~redisson_lock_token:{ ~redisson_lock__channel:{ &redisson_lock__channel:{")
	fair := slices.Concat(plain, at("~redisson_lock_queue:{ ~redisson_lock_timeout:{"), strings.Fields(
		"+lindex +llen +lpop +lrange +lrem +ltrim +rpush +zadd +zcard +zcount +zrange +zrem +zscore"))
	return []need{
		{plainKind, with(plain), useful, "locks fail, wholly or in part: docs/security.md says what fails without which"},
		{"fairlock", with(fair), useful, ""},
		{"rwlock", with(at("~ ~redisson_lock_token:{ ~{ ~redisson_rwlock:{ ~holdfast_rwlock_writers:{ &redisson_rwlock:{"),
			strings.Fields("+hdel +hget +hkeys +hmget +exists +zadd +zcount +zrange +zrem")), nil, ""},
		{"semaphore", slices.Concat(
			strings.Fields("+evalsha +eval +get +set +incrby +pexpire +pttl +time +hget +hset +hdel +zadd +zcard +zcount"),
			strings.Fields("+zrange +zrangebyscore +zrem +zremrangebyscore +zscore "+tell),
			at("~ ~{ ~redisson_lock_token:{ ~redisson_sc:{ ~holdfast_semaphore_queue:{ ~holdfast_semaphore_places:{"),
			at("~holdfast_semaphore_wants:{ ~holdfast_latch:{ &redisson_sc:{")), nil, ""},
		{"latch", slices.Concat(strings.Fields("+evalsha +eval +decr +get +set +del +pexpire +pttl +time "+tell),
			at("~ ~holdfast_latch:{ &redisson_countdownlatch__channel__{")), nil, ""},
		{"election", with(fair, at("~holdfast_election:{ ~holdfast_election__channel:{ &holdfast_election__channel:{")), nil, ""},
		{"redlock", with(plain, strings.Fields("+hkeys +info|server")), useful, ""},
		{"Client.Ping", with(pingRules), nil, "Ping fails, unless only names are refused, and the client's Options.Prefix makes one that is permitted"},
		{"Options.Label", []string{"+get", "+set", "+del", "~" + labels + "*"}, nil, "errors and screens show the UUIDs of clients, and " +
			"deadlocks over several clients are not found"},
	}
}
