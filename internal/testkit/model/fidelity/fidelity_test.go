package fidelity

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// counter is a model of INCR, whose script says the count and publishes it.
type counter struct {
	*Side
	n    int
	step int // by which the model counts
}

var count = lua.New("count", `
local n = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', KEYS[1] .. ':told', n)
return {1, tostring(n)}`, 1)

func begin(s *Side, off int) History {
	c := &counter{Side: s, step: 1 + off}
	c.Listen(true, s.Name+":told")
	return c
}

func (c *counter) Step() string {
	if c.Few(4) == 0 {
		c.n = 0
		c.Lose(c.Name)
		return "lost"
	}
	c.n += c.step
	c.Run("count", count.Call(c.Name), lua.Done, c.n)
	c.Hear("count", [2]string{c.Name + ":told", strconv.Itoa(c.n)})
	return "count"
}

func (c *counter) Expected() []Key { return []Key{KeyIf(c.n > 0, c.Name, c.n, 255)} }

// TestCompare: a model that is like its script is told from one that is not, and branches are counted.
func TestCompare(t *testing.T) {
	rdb, size := Server(t), Size{Histories: 3, Length: 10}
	seen, how := compare(t, rdb, 7, size, begin, 0)
	require.Empty(t, how)
	require.Equal(t, 30, seen["count"]+seen["lost"])
	require.Empty(t, unmet(seen, []string{"count", "lost"}))
	require.Equal(t, []string{"never"}, unmet(seen, []string{"count", "never"}))
	again, _ := compare(t, rdb, 7, size, begin, 0)
	require.Equal(t, seen, again, "a seed is a history")
	_, how = compare(t, rdb, 7, size, begin, 1)
	require.Contains(t, how, "count said 1, the model int 2")
	require.Empty(t, rdb.Keys(t.Context(), t.Name()+"*").Val(), "nothing is left behind")
}

func side(t *testing.T) *Side { return newSide(t, Server(t), 1, 0) }

// TestKeys: each kind of key is like itself only, and so is its time to live.
func TestKeys(t *testing.T) {
	ctx, rdb := t.Context(), Server(t)
	in := func(ticks time.Duration) time.Duration { return ticks*Tick - Tick/2 }
	until := float64(time.Now().Add(in(2)).UnixMilli())
	name := func(key string) string { return t.Name() + key }
	require.NoError(t, rdb.Set(ctx, name("text"), "a", in(3)).Err())
	require.NoError(t, rdb.HSet(ctx, name("hash"), "b", "c", "d", "till"+strconv.FormatFloat(until, 'f', 0, 64)).Err())
	require.NoError(t, rdb.RPush(ctx, name("list"), "e", "f").Err())
	set := []redis.Z{{Member: "g", Score: until}, {Member: "h", Score: 1}}
	require.NoError(t, rdb.ZAdd(ctx, name("set"), set...).Err())
	require.NoError(t, rdb.Set(ctx, name("token"), "123", 0).Err())

	const ever = 255
	like := []Key{
		{Name: name("none")}, {Name: name("none"), Value: Unknown{}}, {Name: name("text"), Value: "a", TTL: 3},
		{Name: name("text"), Value: Other{}, TTL: Some}, {Name: name("hash"), Value: Hash{"b": "c", "d": Till(2)}, TTL: ever},
		{Name: name("list"), Value: []string{"e", "f"}, TTL: ever}, {Name: name("none"), Value: []string{}},
		{Name: name("set"), Value: Until{"g": 2, "h": 0}, TTL: ever}, {Name: name("token"), Value: Token(9), TTL: ever},
	}
	require.Empty(t, side(t).compare(like...))
	for _, key := range []Key{
		{Name: name("none"), Value: "a"}, {Name: name("text")}, {Name: name("text"), Value: "b", TTL: 3},
		{Name: name("text"), Value: "a", TTL: 2}, {Name: name("list"), Value: Other{}, TTL: ever},
		{Name: name("token"), Value: "123", TTL: Some}, {Name: name("hash"), Value: Hash{"b": "c"}, TTL: ever},
		{Name: name("hash"), Value: Hash{"b": "x", "d": Till(2)}, TTL: ever},
		{Name: name("hash"), Value: Hash{"b": "c", "d": Till(1)}, TTL: ever},
		{Name: name("hash"), Value: Hash{"b": "c", "x": Till(2)}, TTL: ever},
		{Name: name("list"), Value: []string{"f", "e"}, TTL: ever}, {Name: name("set"), Value: Until{"g": 2}, TTL: ever},
		{Name: name("set"), Value: Until{"g": 1, "h": 0}, TTL: ever}, {Name: name("text"), Value: Token(9), TTL: 3},
	} {
		require.NotEmpty(t, side(t).compare(key), "%+v", key)
	}

	s := side(t)
	s.Elapse(like[3])
	require.Empty(t, s.compare(Key{Name: name("text"), Value: "a", TTL: 3}), "Some is left alone")
	s.Elapse(like[2], like[4], like[7])
	require.Empty(t, s.compare(Key{Name: name("text"), Value: "a", TTL: 2},
		Key{Name: name("hash"), Value: Hash{"b": "c", "d": Till(1)}, TTL: ever},
		Key{Name: name("set"), Value: Until{"g": 1, "h": 0}, TTL: ever}))
	s.Elapse(like[2])
	s.Elapse(like[2])
	require.Empty(t, s.compare(Key{Name: name("text")}))
	s.Lose(Names(like)...)
}

// TestTokens: tokens are compared one for one, and in their order.
func TestTokens(t *testing.T) {
	s := side(t)
	require.True(t, s.SameToken(3, 300))
	require.True(t, s.SameToken(5, 500))
	require.True(t, s.SameToken(3, 300))
	require.Equal(t, "500", s.Real(5))
	require.Empty(t, s.Real(4))
	require.True(t, s.Splits(3, 400))
	for _, other := range [][2]int64{{3, 301}, {4, 300}, {4, 501}, {6, 400}} {
		o := side(t)
		o.SameToken(3, 300)
		o.SameToken(5, 500)
		require.False(t, o.SameToken(uint8(other[0]), other[1]), "%v", other) //nolint:gosec // few
	}
	require.False(t, s.Splits(3, 600))
}

// TestReplies: each kind of value is like itself only.
func TestReplies(t *testing.T) {
	half := (2*Tick - Tick/2).Milliseconds()
	for want, like := range map[any]any{
		Other{}: "x", Token(0): "0", Token(2): "20", Left(2): half, Left(255): int64(-1), Left(0): int64(-2), "x": "x",
		3: "3",
	} {
		require.True(t, side(t).same(want, like), "%v", want)
	}
	require.True(t, side(t).same(nil, nil))
	for want, unlike := range map[any]any{
		Token(0): "1", Token(2): "x", Left(2): 2 * half, Left(1): "1", "x": "y", 3: int64(4),
	} {
		require.False(t, side(t).same(want, unlike), "%v", want)
	}
	require.False(t, side(t).same(nil, "x"))
}

// TestHear: messages are those since the last time, in order.
func TestHear(t *testing.T) {
	s := side(t)
	defer s.End()
	channel := s.Key("channel")
	s.Listen(true, channel)
	say := func(text string) { require.NoError(t, s.RDB.Publish(t.Context(), channel, text).Err()) }
	say("a")
	say("b")
	s.Hear("both", [2]string{channel, "a"}, [2]string{channel, "b"})
	s.Hear("none")
	s.Listen(false, channel)
	say("c")
	s.Hear("none")
	require.Empty(t, s.wrong)
	s.Hear("missing", [2]string{channel, "c"})
	require.NotEmpty(t, s.wrong)
}
