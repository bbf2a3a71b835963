package keep

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// replay is one random history, run on the model's server and, by the scripts, on a real one.
type replay struct {
	*testing.T
	rdb           *redis.Client
	rnd           *rand.Rand
	model         state
	m             keeping
	name, channel string
	waiter        *redis.PubSub // B's subscription, or nil
	mailbox       *redis.PubSub // A's, or nil
	mute          bool          // for a control: the model's A is never called
	seen          map[string]int
}

const (
	keepersID = "7d1c5a1e-5a55-4a35-9a55-0d5a55a55a55"
	waitersID = "8d1c5a1e-5a55-4a35-9a55-0d5a55a55a55"
)

func newReplay(t *testing.T, rdb *redis.Client, seed uint64, name string) *replay {
	return &replay{T: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 3)), name: name, //nolint:gosec // for tests
		channel: "redisson_lock__channel:{" + name + "}", m: keeping{lease: 3, block: 1}, seen: map[string]int{}}
}

// TestKeepModelIsLikeTheScripts: every reply, the owner and the calls are the same at every step.
func TestKeepModelIsLikeTheScripts(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(20) {
		r := newReplay(t, rdb, seed+h, t.Name()+strconv.FormatUint(h, 10))
		r.seen = seen
		for range 60 {
			require.Empty(t, r.step())
		}
		r.close()
	}
	t.Log(seen)
	for _, what := range []string{"A asks 1", "A asks 0", "B asks 1", "B asks 0", "passes 1", "passes 0", "passes -1",
		"A releases 1", "A releases -1", "B releases 1", "B releases -1", "a call"} {
		require.Positive(t, seen[what], what)
	}
}

// TestKeepModelUnlikeTheScripts is the control: a model in which nobody is called is told from the
// scripts.
func TestKeepModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for h := range uint64(20) {
		r := newReplay(t, rdb, h, t.Name()+strconv.FormatUint(h, 10))
		r.mute = true
		for range 60 {
			if r.step() != "" {
				r.close()
				return
			}
		}
		r.close()
	}
	t.Error("no difference was found")
}

func (r *replay) close() {
	for _, sub := range []*redis.PubSub{r.waiter, r.mailbox} {
		if sub != nil {
			require.NoError(r, sub.Close())
		}
	}
	require.NoError(r, r.rdb.Del(r.Context(), r.name, r.name+".token").Err())
}

func (r *replay) subscribe(channel string) *redis.PubSub {
	sub := r.rdb.Subscribe(r.Context(), channel)
	_, err := sub.Receive(r.Context())
	require.NoError(r, err)
	return sub
}

// step takes a random step on both sides, and says how they differ.
func (r *replay) step() string {
	owner, field := uint8(1+r.rnd.IntN(2)), ""
	who := "A"
	if field = keepersID + ":k" + strconv.Itoa(int(owner)); r.rnd.IntN(3) == 0 {
		owner, field, who = theirs, waitersID+":h1", "B"
	}
	const lease, life = 1000000, 10000000
	var call lua.Call
	var want answer
	what := who + " asks"
	switch roll := r.rnd.IntN(10); {
	case roll < 4:
		call = lua.Acquire.Call(r.name, r.name+".token", field, lease, life, "0", 1)
		want = r.model.acquire(owner, 3, false, 1)
	case roll < 6 && owner != theirs:
		what = "passes"
		call = lua.Pass.Call(r.name, r.name+".token", r.channel, field, lease, life, "PUBLISH", 1)
		want = r.model.pass(owner, 3, 1, r.waiter != nil)
	case roll < 8:
		what = who + " releases"
		call = lua.Release.Call(r.name, r.channel, field, "PUBLISH")
		want = r.model.release(owner)
	case r.rnd.IntN(2) == 0 && r.waiter == nil:
		r.waiter = r.subscribe(r.channel)
		return ""
	case r.mailbox == nil:
		r.mailbox = r.subscribe(r.channel + ":" + keepersID)
		return ""
	default:
		return ""
	}
	got, err := lua.Run(r.Context(), r.rdb, call)
	require.NoError(r, err)
	r.seen[fmt.Sprintf("%s %d", what, got.Status)]++
	if got.Status != want.status {
		return fmt.Sprintf("%s replied %d, the model %d", what, got.Status, want.status)
	}
	return r.compare(what, want)
}

// compare compares the owner, and whether A was called.
func (r *replay) compare(what string, want answer) string {
	fields, err := r.rdb.HKeys(r.Context(), r.name).Result()
	require.NoError(r, err)
	is := ""
	switch {
	case r.model.owner == theirs:
		is = waitersID + ":h1"
	case r.model.owner != 0:
		is = keepersID + ":k" + strconv.Itoa(int(r.model.owner))
	}
	if is == "" && len(fields) > 0 || is != "" && (len(fields) != 1 || fields[0] != is) {
		return fmt.Sprintf("after %s the owners are %v, the model's is %q", what, fields, is)
	}
	if r.mailbox == nil {
		return ""
	}
	// What was published before an answer came stands before what is published after it.
	require.NoError(r, r.rdb.Publish(r.Context(), r.channel+":"+keepersID, "end").Err())
	called := false
	for {
		msg, err := r.mailbox.ReceiveMessage(r.Context())
		require.NoError(r, err)
		if msg.Payload == "end" {
			break
		}
		called = true
		r.seen["a call"]++
	}
	if called != (want.called && !r.mute) {
		return fmt.Sprintf("by %s A was called: %t", what, called)
	}
	return ""
}
