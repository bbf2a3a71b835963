package simulation

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// stranger is somebody who does not know of locks, and keeps things of its own under their names for a while.
type stranger struct {
	*World
	rng source
	rdb *redis.Client
}

// strangers is the number of a client that there is none of.
const strangers = 1 << 20

// thing is what a stranger keeps, and what who is refused the lock is told of it.
type thing struct {
	text   string            // a string, if it is one
	fields map[string]string // of a hash
	ttl    time.Duration     // 0: it has none
	says   string
}

// visit has a stranger come and go until the storm ends. It stands beside the server, and nobody disturbs it.
func (w *World) visit(storm context.Context) {
	if w.Strangers == 0 {
		return
	}
	s := &stranger{World: w, rng: newSource(w.Seed, 'x'), rdb: w.direct()}
	for w.sleep(storm, s.rng.random(w.Strangers)) {
		s.stay(storm, s.name(s.rng.Rand), s.any())
	}
	_ = s.rdb.Close()
}

// direct is a client that stands beside the server.
func (w *World) direct() *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return w.server.Dial() },
		DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// any is one of the things that there may be. The owner in some of them is nobody.
func (s *stranger) any() thing {
	owner := s.owner()
	many := make(map[string]string)
	for i := range 20 {
		many["field "+strconv.Itoa(i)] = "1"
	}
	t := []thing{
		{text: "data", says: "WRONGTYPE"},
		{fields: map[string]string{"colour": "1"}, says: `its field "colour" is not a lock owner`},
		{fields: map[string]string{"mode": "1", owner: "1"}, says: "is a lock of another kind"},
		{fields: many, says: "so it is not a lock"},
		{fields: map[string]string{owner: "1"}, says: "its key has no time to live"},
	}[s.rng.IntN(5)]
	if s.rng.IntN(2) == 0 {
		t.ttl = time.Second + s.rng.random(s.Lease/2)
		if _, held := t.fields[owner]; held && len(t.fields) == 1 {
			t.says = "held by " + owner
		}
	}
	return t
}

// owner is one of a process that is not simulated, such as Redisson has.
func (s *stranger) owner() string { return s.client() + ":7" }

func (s *stranger) client() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(s.rng.IntN(256)) //nolint:gosec // small
	}
	return id.String()
}

// put keeps it under a name that is free. Replies 0 if the name is taken.
const put = `
local name, ttl, text, first = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', name) == 1 then return 0 end
if first then
  for i = 3, #ARGV do redis.call('HSET', name, ARGV[i], '1') end
else
  redis.call('SET', name, text)
end
if ttl ~= '0' then redis.call('PEXPIRE', name, ttl) end
return 1`

// stay keeps a thing under a name until it ends by itself, or the stranger takes it away.
func (s *stranger) stay(storm context.Context, name string, t thing) {
	ctx := context.Background()
	s.own(name, true)
	defer s.own(name, false)
	args := []any{t.ttl.Milliseconds(), t.text}
	for _, field := range slices.Sorted(maps.Keys(t.fields)) {
		args = append(args, field)
	}
	switch there, err := s.rdb.Eval(ctx, put, []string{name}, args...).Int(); {
	case err != nil:
		s.problem("simulation", err.Error())
		return
	case there == 0:
		return
	}
	o := history.Op{Client: strangers, Name: name, Kind: history.Foreign, Seen: t.says, Call: s.Now(), Result: history.OK}
	if t.ttl > 0 {
		s.sleep(ctx, t.ttl*9/10)
	} else {
		s.sleep(storm, s.rng.random(s.Lease/2))
	}
	o.Return = s.Now()
	s.skew(nil, "EVAL") // no script may have run for a while
	s.compare(ctx, name, t)
	if t.ttl > 0 {
		s.sleep(ctx, t.ttl/5)
	} else if err := s.rdb.Del(ctx, name).Err(); err != nil {
		s.problem("simulation", err.Error())
	}
	o.Deadline = s.Now() // it may have stood there until now; that it did was seen until it returned
	s.mu.Lock()
	defer s.mu.Unlock()
	s.histories = append(s.histories, []history.Op{o})
}

// compare demands that all is as it was put there.
func (s *stranger) compare(ctx context.Context, name string, t thing) {
	is, err := thing{says: t.says}, error(nil)
	if t.fields == nil {
		is.text, err = s.rdb.Get(ctx, name).Result()
	} else {
		is.fields, err = s.rdb.HGetAll(ctx, name).Result()
	}
	is.ttl = s.rdb.PTTL(ctx, name).Val()
	kept := is.ttl < 0 && t.ttl == 0 || is.ttl > 0 && is.ttl <= t.ttl
	if err != nil || is.text != t.text || !maps.Equal(is.fields, t.fields) || !kept {
		s.problem("foreign", fmt.Sprintf("under %s there is %+v (%v) at %s, and %+v was put there", name, is, err,
			time.Duration(s.Now()), t))
	}
}

// own notes that what is under a name is a stranger's.
func (s *stranger) own(name string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign == nil {
		s.foreign = make(map[string]bool)
	}
	s.foreign[name] = is
}

// isForeign reports whether what is under a name may be a stranger's.
func (w *World) isForeign(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.foreign[name]
}
