package combine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// apart sends the commands that travel together as they are.
func apart(cmds []redis.Cmder, send func([]redis.Cmder)) { send(cmds) }

// once is a command that go-redis does not repeat, like the commands of the library.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func command(ctx context.Context, args ...any) once { return once{redis.NewCmd(ctx, args...)} }

// spy counts pipelines and their commands, may change a sent pipeline, and holds up commands with "held" until goOn is closed.
type spy struct {
	pipelines, piped atomic.Int64
	stopped, passed  atomic.Int64 // how many commands were held up, and how many of these have ended
	goOn             chan struct{}
	after            func(cmds []redis.Cmder)
}

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if len(args) < 2 || args[1] != "held" {
			return next(ctx, cmd)
		}
		s.stopped.Add(1)
		<-s.goOn
		defer s.passed.Add(1)
		return next(ctx, cmd)
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() != "hello" { // the beginning of a connection
			s.pipelines.Add(1)
			s.piped.Add(int64(len(cmds)))
			if s.after != nil {
				s.after(cmds)
			}
		}
		return err
	}
}

// echoes has many goroutines ask for a text of their own each, and counts the wrong answers.
func echoes(t *testing.T, c *Combiner) (wrong int64) {
	var count atomic.Int64
	leak.Together(64, func(i int) {
		for j := range 100 {
			text := fmt.Sprint(i, ":", j)
			cmd := command(t.Context(), "echo", text)
			if err := c.Process(t.Context(), cmd); err != nil || cmd.Val() != text {
				count.Add(1)
			}
			bad := command(t.Context(), "nosuch"+text)
			var reply redis.Error
			if err := c.Process(t.Context(), bad); !errors.As(err, &reply) || bad.Err() == nil {
				count.Add(1)
			}
		}
	})
	return count.Load()
}

func TestEachGetsItsOwnAnswer(t *testing.T) {
	rdb, seen := redistest.Shared(t).Client(t), &spy{}
	rdb.AddHook(seen)
	require.Zero(t, echoes(t, crowded(rdb)))
	require.NotZero(t, seen.pipelines.Load(), "they did travel together")
}

// The control: the check notices an answer that goes to the wrong goroutine.
func TestEachGetsItsOwnAnswerControl(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	rdb.AddHook(&spy{after: func(cmds []redis.Cmder) {
		if a, b := cmds[0].(once), cmds[len(cmds)-1].(once); a.Err() == nil && b.Err() == nil && a != b {
			v := a.Val()
			a.SetVal(b.Val())
			b.SetVal(v)
		}
	}})
	require.NotZero(t, echoes(t, crowded(rdb)))
}

// crowded is a combiner in which no command overtakes those under way, however slow the machine.
func crowded(rdb *redis.Client) *Combiner {
	c := New(rdb, nil, fewSendings, apart)
	c.patience = time.Hour
	return c
}

func TestOneGoroutineSendsAlone(t *testing.T) {
	rdb, seen := redistest.Shared(t).Client(t), &spy{}
	rdb.AddHook(seen)
	c := New(rdb, nil, fewSendings, apart)
	for range 100 {
		require.NoError(t, c.Process(t.Context(), command(t.Context(), "ping")))
	}
	require.Zero(t, seen.pipelines.Load())
	require.Nil(t, c.timer, "and starts no timer")
}

// busy is a combiner whose sendings are all held up, so that the next commands are gathered.
type busy struct {
	*Combiner
	t      *testing.T
	proxy  *faultproxy.Proxy
	direct *redis.Client
	seen   *spy
	ended  chan string // the names of the commands, as they end
	errs   sync.Map    // of the commands by name
}

// newBusy fills a combiner with commands that are held up until [busy.release].
func newBusy(t *testing.T, patience time.Duration) *busy {
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	// what is held up has not been sent, so only what a proxy swallows meets this limit
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 3 * time.Second })
	b := &busy{New(rdb, nil, fewSendings, apart), t, proxy, srv.Client(t), &spy{goOn: make(chan struct{})},
		make(chan string, 1000), sync.Map{}}
	b.patience = patience
	rdb.AddHook(b.seen)
	t.Cleanup(b.release)
	for range fewSendings {
		b.start(t.Context(), "held")
	}
	b.eventually(func() bool { return b.seen.stopped.Load() == fewSendings })
	return b
}

// release lets the commands that are held up go on.
func (b *busy) release() {
	select {
	case <-b.seen.goOn:
	default:
		close(b.seen.goOn)
	}
}

// start sets a key of that name, in a goroutine.
func (b *busy) start(ctx context.Context, name string) {
	cmd := command(ctx, "set", name, "1")
	go func() {
		err := b.Process(ctx, cmd)
		b.errs.Store(name, err)
		b.ended <- name
	}()
}

// gather starts commands and waits until all of them wait.
func (b *busy) gather(ctx context.Context, names ...string) {
	for _, name := range names {
		before := b.gathered()
		b.start(ctx, name)
		b.eventually(func() bool { return b.gathered() == before+1 })
	}
}

func (b *busy) gathered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

func (b *busy) eventually(ok func() bool) {
	require.Eventually(b.t, ok, 30*time.Second, time.Millisecond)
}

// join waits for the end of n commands and returns their names in that order.
func (b *busy) join(n int) (order []string) {
	for range n {
		select {
		case name := <-b.ended:
			order = append(order, name)
		case <-time.After(30 * time.Second):
			require.FailNow(b.t, "commands do not end", "%d of %d did: %v", len(order), n, order)
		}
	}
	return order
}

func (b *busy) err(name string) error {
	err, _ := b.errs.Load(name)
	e, _ := err.(error)
	return e
}

func (b *busy) exists(name string) bool { return b.direct.Exists(b.t.Context(), name).Val() == 1 }

func TestWhatGatheredTravelsTogether(t *testing.T) {
	b := newBusy(t, time.Hour)
	b.gather(t.Context(), "a", "b", "c")
	b.release()
	b.join(fewSendings + 3)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, b.err(name))
		require.True(t, b.exists(name))
	}
	require.Equal(t, int64(1), b.seen.pipelines.Load())
	require.Equal(t, int64(3), b.seen.piped.Load())
}

// TestACutInTheMiddle: a connection breaks in the middle of commands that travel together. A command without an answer has an
// error that leaves open whether it ran, and no command is sent twice.
func TestACutInTheMiddle(t *testing.T) {
	for _, fault := range []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut,
		faultproxy.BlackHole} {
		t.Run(fault.String(), func(t *testing.T) {
			b := newBusy(t, time.Hour)
			b.gather(t.Context(), "a", "b", "c", "d", "e")
			rule := b.proxy.On(faultproxy.Arg(1, "c"), 0, fault)
			b.release()
			b.join(fewSendings + 5)
			for _, name := range []string{"c", "d", "e"} {
				var reply redis.Error
				var unsent *NotSentError
				err := b.err(name)
				require.Error(t, err)
				require.False(t, errors.As(err, &reply) || errors.As(err, &unsent), "%s: %v", name, err)
			}
			// a cut takes back what the server has not read yet
			require.True(t, fault == faultproxy.Cut || b.exists("a") && b.exists("b"))
			require.Equal(t, fault == faultproxy.DropReply, b.exists("c"))
			require.Equal(t, 1, rule.Count(), "sent once")
			require.NoError(t, b.Process(t.Context(), command(t.Context(), "ping")), "and later ones go on")
		})
	}
}

// TestTheStalledAreOvertaken: sendings do not return. Later commands do not wait for their end.
func TestTheStalledAreOvertaken(t *testing.T) {
	b := newBusy(t, patience)
	for i := range 10 {
		b.start(t.Context(), fmt.Sprint("other", i))
	}
	b.join(10)
	require.Zero(t, b.seen.passed.Load())
	b.release()
	b.join(fewSendings)
}

func TestTheStalledAreOvertakenControl(t *testing.T) {
	t.Cleanup(defence.Overtake.Without(t))
	b := newBusy(t, time.Hour)
	b.gather(t.Context(), "other")
	b.mu.Lock()
	b.patience = 0
	b.mu.Unlock()
	b.overtake() // as the timer does
	require.Equal(t, 1, b.gathered(), "without the defence it waits for the end of one")
	b.release()
	b.join(fewSendings + 1)
}

// TestWhoLeftIsNotSent: a context ends while its command waits. The command is not sent, and the others are not affected.
func TestWhoLeftIsNotSent(t *testing.T) {
	for left := range 3 {
		names := []string{"first", "second", "third"}
		b := newBusy(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		for i, name := range names {
			if i == left {
				b.gather(ctx, name)
			} else {
				b.gather(t.Context(), name)
			}
		}
		cancel()
		b.release()
		b.join(fewSendings + 3)
		for i, name := range names {
			var unsent *NotSentError
			require.Equal(t, i == left, errors.As(b.err(name), &unsent), name)
			require.Equal(t, i == left, errors.Is(b.err(name), context.Canceled), name)
			require.Equal(t, i != left, b.exists(name), name)
		}
	}
}

// isIdle reports whether nothing is under way.
func (c *Combiner) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sending)+len(c.waiting) == 0
}

// TestTooManyForOnePipeline: commands that do not fit are sent with the next sender.
func TestTooManyForOnePipeline(t *testing.T) {
	const n = 2*maxBatch + 1
	b := newBusy(t, time.Hour)
	for i := range n {
		b.start(t.Context(), fmt.Sprint(i))
	}
	b.eventually(func() bool { return b.gathered() == n })
	b.release()
	b.join(fewSendings + n)
	for i := range n {
		require.NoError(t, b.err(fmt.Sprint(i)))
	}
	require.GreaterOrEqual(t, b.seen.pipelines.Load(), int64(2))
}

// TestAPanicOfAHook: a user's hook panics in the goroutine that sends. The other callers get an error, and later callers go on.
func TestAPanicOfAHook(t *testing.T) {
	b := newBusy(t, time.Hour)
	b.seen.after = func([]redis.Cmder) { panic("hook") }
	go func() {
		defer func() { b.ended <- fmt.Sprint(recover()) }()
		_ = b.Process(t.Context(), command(t.Context(), "set", "leader", "1"))
	}()
	b.eventually(func() bool { return b.gathered() == 1 })
	b.gather(t.Context(), "other")
	b.release()
	require.Contains(t, b.join(fewSendings+2), "hook")
	require.ErrorIs(t, b.err("other"), errAborted)
	require.NoError(t, b.Process(t.Context(), command(t.Context(), "ping")))
}

// TestLimit: the farther the server is, the more sendings may be under way, within bounds.
func TestLimit(t *testing.T) {
	for _, row := range []struct {
		conns int
		quick time.Duration
		want  int
	}{
		{20, 0, fewSendings}, {20, 50 * time.Microsecond, fewSendings}, {20, 1250 * time.Microsecond, 8},
		{20, time.Second, manySendings}, {10, time.Second, 10}, {1, 0, 1}, {0, 0, 1},
	} {
		c := New(nil, nil, row.conns, apart)
		if row.quick > 0 {
			c.noteDuration(row.quick)
		}
		require.Equal(t, row.want, c.limit(), "%+v", row)
	}
	c := New(nil, nil, 20, apart)
	for _, d := range []time.Duration{time.Second, 50 * time.Microsecond, 3 * time.Millisecond} {
		c.noteDuration(d)
	}
	require.Equal(t, fewSendings, c.limit(), "one that was slow does not make the server a far one")
	for range 1000 {
		c.noteDuration(time.Millisecond)
	}
	require.Greater(t, c.limit(), fewSendings, "many do")
}

// TestPatience: a pipeline has time until the last of its callers' deadlines; without limit if one caller has no deadline.
func TestPatience(t *testing.T) {
	from := time.Now()
	who := func(hours int, others ...*call) *call {
		if hours == 0 {
			return &call{ctx: t.Context(), others: others}
		}
		ctx, cancel := context.WithDeadline(t.Context(), from.Add(time.Duration(hours)*time.Hour))
		t.Cleanup(cancel)
		return &call{ctx: ctx, others: others}
	}
	for _, hours := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}, {0, 1, 2}, {1, 0, 2}, {1, 2, 0}} {
		ctx, cancel := who(hours[0], who(hours[1]), who(hours[2])).sharedContext()
		defer cancel()
		last, ends := ctx.Deadline()
		require.Equal(t, !slices.Contains(hours, 0), ends, hours)
		require.True(t, !ends || last.Equal(from.Add(3*time.Hour)), "%v: %v", hours, last)
	}
}
