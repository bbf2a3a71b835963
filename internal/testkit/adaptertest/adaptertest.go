// Package adaptertest is what the tests of all adapters share: participants on a real server, the loss of a lock behind its
// holder's back, and a section that notices when two are in it. Each adapter's tests run its own library for real.
package adaptertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

// Lease is that of [Client]: a loss is told within a third of it.
const Lease = 1500 * time.Millisecond

// stranger is an owner of no client here.
const stranger = "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47"

// Client makes one participant: what is a process elsewhere.
func Client(t *testing.T) *holdfast.Client {
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Lease: Lease})
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// ForExample is a client for an Example, which has no testing.TB: without a server it panics. close is called at the end.
func ForExample() (c *holdfast.Client, close func()) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	c, err := holdfast.New(rdb, nil)
	if err != nil {
		panic(err)
	}
	return c, func() {
		if err := errors.Join(c.Close(context.Background()), rdb.Close()); err != nil {
			panic(err)
		}
	}
}

// Lose gives a lock of package rlock that is held to a stranger, behind its holder's back. The stranger does not give it up.
func Lose(t *testing.T, name string) {
	rdb := redistest.Shared(t).Client(t)
	require.True(t, Taken(t, name), "%s is not held, so nobody can lose it", name)
	pipe := rdb.TxPipeline()
	pipe.Del(t.Context(), name)
	pipe.HSet(t.Context(), name, stranger, 1)
	pipe.PExpire(t.Context(), name, time.Hour)
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	freeAtEnd(t, name)
}

// freeAtEnd lets the test be run again on the same server.
func freeAtEnd(t *testing.T, name string) {
	rdb := redistest.Shared(t).Client(t)
	t.Cleanup(func() { require.NoError(t, rdb.Del(context.Background(), name).Err()) })
}

// GiveBack is the stranger's unlock, which wakes those who wait.
func GiveBack(t *testing.T, name string) {
	RequireStrangers(t, name)
	rdb := redistest.Shared(t).Client(t)
	require.NoError(t, rdb.Del(t.Context(), name).Err())
	require.NoError(t, rdb.Publish(t.Context(), "redisson_lock__channel:{"+name+"}", "0").Err())
}

// passTime lets the time of HoldAtLeast pass: it ends the key that an rlock's Unlock has left, now and at the test's end.
func passTime(t *testing.T, name string) {
	require.NoError(t, redistest.Shared(t).Client(t).Del(t.Context(), name).Err())
	freeAtEnd(t, name)
}

// RequireStrangers demands that the stranger has the lock still: nobody unlocked for it.
func RequireStrangers(t *testing.T, name string) {
	owners, err := redistest.Shared(t).Client(t).HKeys(t.Context(), name).Result()
	require.NoError(t, err)
	require.Equal(t, []string{stranger}, owners)
}

// Taken says whether anybody holds a lock of package rlock.
func Taken(t *testing.T, name string) bool {
	n, err := redistest.Shared(t).Client(t).Exists(t.Context(), name).Result()
	require.NoError(t, err)
	return n > 0
}

// RequireFree demands that the lock is free, or soon will be: a job may be done a moment before its lock is given back.
func RequireFree(t *testing.T, name string) {
	Eventually(t, name+" is free", func() bool { return !Taken(t, name) })
}

// Eventually waits for a condition.
func Eventually(t *testing.T, what string, cond func() bool) {
	require.Eventually(t, cond, patience, 5*time.Millisecond, what)
}

// Receive waits for a value.
func Receive[T any](t *testing.T, what string, c <-chan T) T {
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.Fail(t, "nothing comes: "+what)
		panic("unreachable")
	}
}

// Section is where only one may be at a time. The zero value is empty.
type Section struct {
	mu                 sync.Mutex // guards what follows
	inside, most, runs int
}

// Enter goes in. The function that it returns goes out.
func (s *Section) Enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside++
	s.runs++
	s.most = max(s.most, s.inside)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside--
	}
}

// Runs is how often somebody went in.
func (s *Section) Runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

// Most is how many were inside at once.
func (s *Section) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Linger goes in and stays until others are inside too, or for long enough that they would be if they could, or until ctx ends.
// The longer the stay, the surer does a missing lock show; no assertion depends on it where there is a lock.
func (s *Section) Linger(ctx context.Context, stay time.Duration) {
	defer s.Enter()()
	end := time.NewTimer(stay)
	defer end.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Most() < 2 {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// Inside is how many are inside now.
func (s *Section) Inside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside
}

// Work is a job that goes on until its context ends.
type Work struct {
	began chan struct{}
	ended chan error
}

// NewWork makes one that nobody does yet.
func NewWork() *Work { return &Work{began: make(chan struct{}, 10), ended: make(chan error, 10)} }

// Do does the work. It returns nil, as a job that does not notice what its end means.
func (w *Work) Do(ctx context.Context) error {
	w.began <- struct{}{}
	<-ctx.Done()
	w.ended <- context.Cause(ctx)
	return nil
}

// Begun waits until somebody does it.
func (w *Work) Begun(t *testing.T) { Receive(t, "the job", w.began) }

// Ended waits until the context of who does it has ended, and returns why.
func (w *Work) Ended(t *testing.T) error { return Receive(t, "the end of the job's context", w.ended) }

// Lost waits until somebody does it, has him lose the lock, and demands that he is told.
func (w *Work) Lost(t *testing.T, name string) {
	w.Begun(t)
	Lose(t, name)
	require.ErrorIs(t, w.Ended(t), holdfast.ErrLost)
}

// Unreachable makes a participant whose server is gone.
func Unreachable(t *testing.T) *holdfast.Client {
	srv := redistest.Start(t)
	c, err := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: 50 * time.Millisecond})
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	srv.Kill()
	return c
}

// Journal is a logger of cron packages whose lines a test waits for.
type Journal struct {
	Skipped chan error // what Info said
	Failed  chan error // what Error said
}

// NewJournal makes an empty one.
func NewJournal() *Journal {
	return &Journal{Skipped: make(chan error, 100), Failed: make(chan error, 100)}
}

// Info notes why a run was skipped, and no line that does not say why.
func (j *Journal) Info(_ string, keysAndValues ...any) {
	for _, v := range keysAndValues {
		if err, ok := v.(error); ok {
			Tell(j.Skipped, err)
		}
	}
}

// Error notes an error.
func (j *Journal) Error(err error, _ string, _ ...any) { Tell(j.Failed, err) }

// Tell sends an error to a test, or drops it when nobody asks for so many.
func Tell(c chan<- error, err error) {
	select {
	case c <- err:
	default:
	}
}

// Tick is how often a [Machine] runs its job.
const Tick = 10 * time.Millisecond

// Machine runs a job again and again until the test's end, as one of several machines. With a journal it does so under the lock
// of the test's name, and logs to the journal. stop waits for the end of a run.
type Machine func(t *testing.T, j *Journal, job func(ctx context.Context), opts ...holdfast.Option) (stop func())

// Cron tests the adapter to a package that runs jobs again and again.
func Cron(t *testing.T, machine Machine) {
	t.Run("never two", func(t *testing.T) { neverTwo(t, machine) })
	t.Run("once per period", func(t *testing.T) { oncePerPeriod(t, machine) })
	t.Run("loss", func(t *testing.T) { loss(t, machine) })
}

// neverTwo: while a job outlasts its period, one machine runs it and the others skip it; without the lock several run it.
func neverTwo(t *testing.T, machine Machine) {
	var with, without Section
	j := NewJournal()
	for range 3 {
		machine(t, j, func(ctx context.Context) { with.Linger(ctx, 5*Tick) })
		machine(t, nil, func(ctx context.Context) { without.Linger(ctx, time.Minute) })
	}
	Eventually(t, "the job runs", func() bool { return with.Runs() >= 10 })
	Eventually(t, "without the lock two are at work", func() bool { return without.Most() > 1 })
	require.ErrorIs(t, Receive(t, "a skipped run", j.Skipped), holdfast.ErrNotAcquired)
	require.Equal(t, 1, with.Most())
	require.Empty(t, j.Failed)
}

// oncePerPeriod: the first machine to tick runs a short job, later ones do not; neverTwo shows it without HoldAtLeast.
func oncePerPeriod(t *testing.T, machine Machine) {
	var section Section
	j := NewJournal()
	for range 3 {
		machine(t, j, func(context.Context) { section.Enter()() }, holdfast.HoldAtLeast(time.Hour))
	}
	for period := range 3 {
		if period > 0 {
			passTime(t, t.Name())
		}
		Eventually(t, "it runs in this period", func() bool { return section.Runs() == period+1 })
		for len(j.Skipped) > 0 {
			_ = Receive(t, "an earlier one", j.Skipped)
		}
		for range 10 {
			_ = Receive(t, "a skipped run", j.Skipped)
		}
		require.Equal(t, period+1, section.Runs())
	}
}

// loss: a job with a context is told, the package hears, and the lock of the one who came after it is not freed.
func loss(t *testing.T, machine Machine) {
	j, work := NewJournal(), NewWork()
	stop := machine(t, j, func(ctx context.Context) { _ = work.Do(ctx) })
	work.Lost(t, t.Name())
	require.ErrorIs(t, Receive(t, "the error of the run", j.Failed), holdfast.ErrLost)
	stop()
	RequireStrangers(t, t.Name())
}
