package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane is for what a command is sent.
type lane int

const (
	scanning lane = iota // a pass over the keys
	hearing              // asking for the channels, and looking at those that are waited for
	looking              // at the names of the caller's choice
	lanes
	prompt // what a user waits for: it does not wait for credit, and the next looks pay for it
)

type laneKey struct{}

// In each lane commands wait for that lane's meter. What they cost is spent from it, and from that of
// scanning, which is the meter of the whole: a pass has what the others leave.

// in makes commands under the context count for a lane. Others are not counted.
func in(ctx context.Context, l lane) context.Context { return context.WithValue(ctx, laneKey{}, l) }

// counted are the commands that lanes pay for. What go-redis sends to set up a connection travels under
// the same context, and must not be touched.
var counted = []string{"scan", "evalsha_ro", "evalsha", "eval_ro", "eval", "pubsub", "get"}

// meter bounds what one lane takes of one server's time.
type meter struct {
	share float64       // of the server's time
	burst time.Duration // what is saved up at most, and at the beginning

	mu     sync.Mutex // guards the rest
	credit time.Duration
	at     time.Time // when the credit was counted
}

func newMeter(share float64, burst time.Duration) *meter {
	return &meter{share: share, burst: burst, credit: burst, at: time.Now()}
}

// wait returns when nothing is owed. It takes nothing: what a command costs is known behind it.
func (m *meter) wait(ctx context.Context) error {
	for {
		d := m.owed()
		if d <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// owed is how long it takes until that is so.
func (m *meter) owed() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earn()
	if m.credit >= 0 {
		return 0
	}
	return time.Duration(float64(-m.credit)/m.share) + time.Millisecond
}

func (m *meter) spend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earn()
	m.credit -= d
}

// earn is called with mu held.
func (m *meter) earn() {
	now := time.Now()
	m.credit = min(m.credit+time.Duration(m.share*float64(now.Sub(m.at))), m.burst)
	m.at = now
}

// toll stands before one server: commands of a lane wait there, and pay.
type toll struct {
	rdb    *redis.Client
	meters [lanes]*meter
	gate   *gate
	spent  atomic.Int64 // nanoseconds of the server's time, of all lanes
	scans  atomic.Int64 // SCANs that were answered
}

// Commands are sent as pipelines of one, in which there is room for TIME.
func (t *toll) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := ctx.Value(laneKey{}).(lane); !ok || !slices.Contains(counted, cmd.Name()) {
			return next(ctx, cmd)
		}
		pipe := t.rdb.Pipeline()
		_ = pipe.Process(ctx, cmd)
		if _, err := pipe.Exec(ctx); err != nil && cmd.Err() == nil {
			cmd.SetErr(err) // it was not sent
		}
		return cmd.Err()
	}
}

func (t *toll) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l, ok := ctx.Value(laneKey{}).(lane)
		if !ok || !slices.Contains(counted, cmds[0].Name()) {
			return next(ctx, cmds)
		}
		var err error
		if l < looking { // who looks knows what for
			err = t.gate.wait(ctx)
		}
		switch {
		case l == prompt:
			l = looking
		case err == nil:
			err = t.meters[l].wait(ctx)
		}
		if err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		before, after := redis.NewTimeCmd(ctx, "time"), redis.NewTimeCmd(ctx, "time")
		sent := time.Now()
		err = next(ctx, slices.Concat([]redis.Cmder{before}, cmds, []redis.Cmder{after}))
		took := after.Val().Sub(before.Val())
		if before.Err() != nil || after.Err() != nil || took < 0 { // not permitted, say, or the clock was set
			took = time.Since(sent)
		}
		t.meters[l].spend(took)
		if l != scanning {
			t.meters[scanning].spend(took)
		}
		t.spent.Add(int64(took))
		for _, cmd := range cmds {
			if cmd.Name() == "scan" && cmd.Err() == nil {
				t.scans.Add(1)
			}
		}
		return err
	}
}

func (t *toll) DialHook(next redis.DialHook) redis.DialHook { return next }

// gate can be shut, and nobody passes it meanwhile.
type gate struct {
	mu   sync.Mutex // guards shut
	shut chan struct{}
}

// set shuts it or opens it. nil: it is open.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
